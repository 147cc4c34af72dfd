r"""Shapes: how strongly a sensor of a window follows small patterns, narrow and wide ones.

    y_t = (3 sum_{j in S} x_{t + j d} - sum_{j=0}^{8} x_{t + j d}) / sqrt(18),    S three of the nine places

A pattern has weights 2 and -1 and adds up to 0 (Dempster, Schmidt & Webb 2021, MiniRocket), so that levels play no
part; d makes it wide. Of every y there are the energy, the skewness and the spikiness (kurtosis), the first and the
last as logarithms. Nothing is drawn at random and nothing is learned: these are sums of samples, and so is what they
are made of.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby

import numpy as np
from jaxtyping import Float

from indubio.prepare.series import Series, folded_mean, log_of

PLACES = 9
TRIPLES = tuple(combinations(range(PLACES), 3))  # 84 patterns
STRIDE = 37  # from one pattern to the next in this order: few patterns are all kinds of them
SCALE = 18**-0.5  # one over the norm of a pattern
FEWEST = 4  # patterns of a sensor, however many sensors share them
NARROWEST = 16  # samples of a window that has shapes
VALUES_AT_ONCE = 2**16  # they stay in the cache
WORDS = ("energy", "skewness", "spikiness")


@dataclass(frozen=True)
class Pattern:
    """Where it is high, and how many samples its places are apart.

    Args:
        apart: d.
        high: the three places.
    """

    apart: int
    high: tuple[int, ...]

    @property
    def reach(self) -> int:
        """From its first sample to its last."""
        return (PLACES - 1) * self.apart


@dataclass(frozen=True)
class Shapes:
    """The patterns of every sensor of windows.

    Args:
        length: samples of a window.
        patterns: of all sensors together, about.
        sensors: how many share them.
    """

    length: int
    patterns: int
    sensors: int

    @cached_property
    def chosen(self) -> tuple[Pattern, ...]:
        """The patterns of one sensor, the narrow ones first."""
        if not self.patterns or self.length < NARROWEST:
            return ()
        count = max(FEWEST, self.patterns // self.sensors)
        widths = ((self.length - 1) // (PLACES - 1)).bit_length()
        places = range(count)
        return tuple(
            Pattern(2 ** (place * widths // count), TRIPLES[place * STRIDE % len(TRIPLES)]) for place in places
        )

    def names(self, rate: float | None) -> list[str]:
        """Names of the features of a sensor, such as "shape 3 (0.02 s): energy".

        Args:
            rate: samples per second, where it is known.
        """
        spans = [
            f"{one.reach + 1} samples" if rate is None else f"{(one.reach + 1) / rate:.3g} s" for one in self.chosen
        ]
        return [f"shape {place} ({span}): {word}" for place, span in enumerate(spans, 1) for word in WORDS]

    def features(
        self, moved: Series, floor: Float[np.ndarray, " sensors"]
    ) -> Float[np.ndarray, "features block sensors"]:
        """The features of series (block, sensors, length) less their means.

        Args:
            moved: the series.
            floor: of each sensor, added to its energies.
        """
        if not self.chosen:
            return np.empty((0, *moved.shape[:2]))
        size = max(1, VALUES_AT_ONCE // (self.length * self.sensors))
        blocks = [self._moments(moved[start : start + size]) for start in range(0, len(moved), size)]
        second, third, fourth = np.concatenate(blocks, axis=2)
        energy = second + floor
        logs = log_of(np.stack([energy, (fourth + 3 * (floor * floor)) / (energy * energy)]))
        features = np.stack([0.5 * logs[0], third / (energy * np.sqrt(energy)), logs[1]], axis=1)
        return np.asarray(features.reshape(-1, *features.shape[2:]))

    def _moments(self, moved: Series) -> Float[np.ndarray, "three patterns block sensors"]:
        """Mean square, cube and fourth power of y, along every pattern."""
        found = []
        for apart, patterns in groupby(self.chosen, key=lambda pattern: pattern.apart):
            count = self.length - (PLACES - 1) * apart
            shifted = [moved[..., place * apart : place * apart + count] for place in range(PLACES)]
            whole = shifted[0] + shifted[1]
            for other in shifted[2:]:
                whole += other
            whole *= SCALE
            for pattern in patterns:
                first, second, third = (shifted[place] for place in pattern.high)
                powers = np.empty((3, *whole.shape))
                followed = np.add(first, second, out=powers[1])
                followed += third
                followed *= 3 * SCALE
                followed -= whole
                square = np.multiply(followed, followed, out=powers[0])
                np.multiply(square, square, out=powers[2])
                followed *= square
                found.append(folded_mean(powers))
        return np.stack(found, axis=1)
