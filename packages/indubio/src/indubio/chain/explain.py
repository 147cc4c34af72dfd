r"""Which features, sensors and time steps, or pixels, made the score.

    nll(x) - typical = sum_d E_m[nll_m,d(x) - typical_m,d] / D

over D values: features, time steps x sensors, or pixels x channels.

The typical training row is the mean over the training rows, value by value and draw by draw: `typical_m,d` is the mean
NLL that draw m gives value d of a training row, and was kept by `fit`. Each addend is the contribution of one value, in
units of the score: what this value adds to the score beyond what it usually does. They add up to the difference
between the example's score and the typical one exactly; a negative contribution speaks for a normal example.

The spread is the standard deviation over the draws of that addend: a large one says that the draws disagree on it. The
spread of a sum (a sensor over all time, a category over its one-hot columns) is taken over the draws of the sum, not
from the spreads of its parts, which move together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int, Shaped

from indubio.errors import ConfigError

COLUMNS = ("contribution: ", "spread: ")  # how columns begin that say what features add


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The score of every example, in parts.

    Args:
        value: mean over the draws, in units of the score; the parts of an example add up to what its score has beyond
            the typical one.
        spread: standard deviation over the draws; 0 for a single draw.
    """

    value: Float[np.ndarray, "examples ..."]
    spread: Float[np.ndarray, "examples ..."]

    @property
    def size(self) -> Float[np.ndarray, "examples ..."]:
        """The sum of all parts' sizes, for each example."""
        inner = tuple(range(1, self.value.ndim))
        return np.asarray(np.abs(self.value).sum(axis=inner, keepdims=True))

    @property
    def share(self) -> Float[np.ndarray, "examples ..."]:
        """Each part relative to the sum of all parts' sizes; negative for what speaks for a normal example.

        The sizes of an example's shares add up to 1; all are 0 where every part is.
        """
        return _relative(self.value, self.size)

    @property
    def doubt(self) -> Float[np.ndarray, "examples ..."]:
        """The spread of each part, relative to the same sum as the share."""
        return _relative(self.spread, self.size)

    def taken(self, places: Int[np.ndarray, " chosen"]) -> Self:
        """The parts of some examples."""
        return replace(self, value=self.value[places], spread=self.spread[places])


@dataclass(frozen=True, kw_only=True, eq=False)
class Top:
    """The largest contributions of every example, the largest first.

    Args:
        names: of the features or sensors.
        values: in units of the score.
        shares: as `Parts.share`.
        doubts: as `Parts.doubt`: how far the draws disagree on each, in the same units.
    """

    names: Shaped[np.ndarray, "examples k"]
    values: Float[np.ndarray, "examples k"]
    shares: Float[np.ndarray, "examples k"]
    doubts: Float[np.ndarray, "examples k"]

    def texts(self) -> list[str]:
        """One line per example: "pressure 62 % (±4), flow 20 % (±11)"; what does not raise the score is left out."""
        rows = zip(self.names, self.shares, self.doubts, strict=True)
        return [
            ", ".join(
                f"{name} {100 * share:.0f} % (±{100 * doubt:.0f})"
                for name, share, doubt in zip(*row, strict=True)
                if share > 0
            )
            for row in rows
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions:
    """What made the score of every example.

    Args:
        places: which of the assessed examples these are, ascending.
        names: of the columns of a table, the sensors of windows or the channels of images.
        value_names: of the last axis of `values`: categories as "colour=red", otherwise the same.
        typical: score of the typical training row, which the contributions are added to.
        values: every single value: (N, D) for tables, (N, L, K) for windows, (N, H, W, C) for images.
        features: (N, columns), each category over its one-hot columns; for windows (N, K), each sensor over all time;
            for images (N, C), each channel over all pixels.
        steps: (N, L), each time step over all sensors, for windows that are scored as they are; else None.
        sensor_names: of the sensors, where the features are those of spectra.
        sensors: (N, K), each sensor over all its features, for spectra only.
        pixels: (N, H, W), each pixel over all channels: the heat map of an image; None for all else.
    """

    places: Int[np.ndarray, " examples"]
    names: tuple[str, ...]
    value_names: tuple[str, ...]
    typical: float
    values: Parts
    features: Parts
    steps: Parts | None
    sensor_names: tuple[str, ...] = ()
    sensors: Parts | None = None
    pixels: Parts | None = None

    def __len__(self) -> int:
        return len(self.values.value)

    @property
    def score(self) -> Float[np.ndarray, " examples"]:
        """Score of every example: the typical one and all contributions."""
        return np.asarray(self.typical + self.features.value.sum(axis=1))

    @property
    def by_sensor(self) -> Self:
        """Contributions of sensors in place of their features; unchanged where there are no such features."""
        if self.sensors is None:
            return self
        return replace(self, names=self.sensor_names, features=self.sensors)

    def top(self, k: int = 3) -> Top:
        """The k features or sensors that contribute most to each example's score.

        Args:
            k: how many; all, where there are fewer.
        """
        if k < 1:
            raise ConfigError(f"`k` must be at least 1, got {k}.")
        order = np.argsort(-self.features.value, axis=1, kind="stable")[:, :k]
        size = self.features.size
        values, spreads = (
            np.take_along_axis(part, order, axis=1) for part in (self.features.value, self.features.spread)
        )
        return Top(
            names=np.array(self.names, dtype=object)[order],
            values=values,
            shares=_relative(values, size),
            doubts=_relative(spreads, size),
        )

    @classmethod
    def joined(cls, blocks: "Sequence[Contributions]") -> "Contributions":
        """Blocks of examples as one."""
        first = blocks[0]
        if len(blocks) == 1:
            return first
        values = _joined_parts([block.values for block in blocks])
        same = first.features is first.values
        steps = [block.steps for block in blocks if block.steps is not None]
        sensors = [block.sensors for block in blocks if block.sensors is not None]
        pixels = [block.pixels for block in blocks if block.pixels is not None]
        return replace(
            first,
            places=np.concatenate([block.places for block in blocks]),
            values=values,
            features=values if same else _joined_parts([block.features for block in blocks]),
            steps=_joined_parts(steps) if steps else None,
            sensors=_joined_parts(sensors) if sensors else None,
            pixels=_joined_parts(pixels) if pixels else None,
        )

    def columns(self, examples: int) -> dict[str, Float[np.ndarray, " examples"]]:
        """What every feature adds to the score, and its spread, by name, for so many examples: NaN where none is."""
        found = {}
        for word, part in zip(COLUMNS, (self.features.value, self.features.spread), strict=True):
            for name, values in zip(self.names, part.T, strict=True):
                column = found[f"{word}{name}"] = np.full(examples, np.nan)
                column[self.places] = values
        return found

    def of(self, places: Int[np.ndarray, " chosen"]) -> Self:
        """Those of some of the assessed examples, which are counted anew."""
        if not len(self):
            return self
        row = np.minimum(np.searchsorted(self.places, places), len(self) - 1)
        there = self.places[row] == places
        return replace(self.taken(row[there]), places=np.flatnonzero(there))

    def taken(self, places: Int[np.ndarray, " chosen"]) -> Self:
        """Some of them, by where they are here."""
        steps = None if self.steps is None else self.steps.taken(places)
        sensors = None if self.sensors is None else self.sensors.taken(places)
        pixels = None if self.pixels is None else self.pixels.taken(places)
        return replace(
            self,
            places=self.places[places],
            values=self.values.taken(places),
            features=self.features.taken(places),
            steps=steps,
            sensors=sensors,
            pixels=pixels,
        )

    def to_plain(self, example: int = 0, k: int | None = None) -> dict[str, Any]:
        """One example as plain data for JSON: score, typical score, and contributions, the largest first.

        Args:
            example: which.
            k: so many features or sensors; None gives all. Time steps and pixels are always all there, in order.
        """
        one = self.taken(np.array([example]))
        order = np.argsort(-one.features.value[0], kind="stable")[:k]
        parts = (one.features.value[0], one.features.spread[0], one.features.share[0])
        names = ("contribution", "spread", "share")
        plain: dict[str, Any] = {
            "score": float(one.score[0]),
            "typical": self.typical,
            "features": [
                {"name": self.names[place]}
                | {name: float(part[place]) for name, part in zip(names, parts, strict=True)}
                for place in order
            ],
        }
        if one.sensors is not None:
            shares = one.sensors.share[0].tolist()
            told = zip(
                self.sensor_names, one.sensors.value[0].tolist(), one.sensors.spread[0].tolist(), shares, strict=True
            )
            each = [dict(zip(("name", *names), sensor, strict=True)) for sensor in told]
            plain["sensors"] = sorted(each, key=lambda sensor: -sensor["contribution"])
        if one.steps is not None:
            plain["steps"] = {"contribution": one.steps.value[0].tolist(), "spread": one.steps.spread[0].tolist()}
        if one.pixels is not None:
            plain["pixels"] = {"contribution": one.pixels.value[0].tolist(), "spread": one.pixels.spread[0].tolist()}
        return plain


def _joined_parts(blocks: Sequence[Parts]) -> Parts:
    return Parts(
        value=np.concatenate([block.value for block in blocks]),
        spread=np.concatenate([block.spread for block in blocks]),
    )


def _relative(
    part: Float[np.ndarray, "examples ..."], whole: Float[np.ndarray, "examples ..."]
) -> Float[np.ndarray, "examples ..."]:
    return np.asarray(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0))
