r"""Denoising: a network is given noisy rows in training, and must give back the clean ones.

    x~ = x + s f e,   e ~ N(0, 1) for every value,   s = scale, or log-uniform in [scale, highest] for each row and step

It cannot then get by with a copy of its input, and learns where the training rows are (Vincent et al. 2008; Alain &
Bengio 2014: the reconstruction of a small noise points towards where rows are denser). Held-out losses and scores are
without noise.

`by_kurtosis` gives a feature with tails heavier than a normal's less noise, f = sqrt(3 / max(kurtosis, 3)): its
standard deviation is made by few values, and noise in proportion to it drowns all others. So it is with categories that
are rare, and with columns that are nearly always the same: a column that is 1 in a share q of rows has a kurtosis of
about 1 / q. A constant feature gets none. Sensors have one factor for all time steps.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from indubio.errors import ConfigError
from indubio.networks.engine.objectives import Corruption
from indubio.networks.training.rows import TrainingRows, stretches
from indubio.settings import Positive, Settings

NORMAL = 3.0  # a normal's kurtosis
ROUNDING = 1e-9  # what is no spread, relative to the values, which are in single precision


@dataclass(frozen=True, kw_only=True)
class Denoising(Settings):
    """Normal noise on what the networks are given in training.

    Args:
        scale: standard deviation of the noise, in units of the scaled data: training ranges, or standard deviations.
        highest: draw the scale of every row log-uniformly between `scale` and this, anew in every step.
        by_kurtosis: less noise for features with heavy tails, by the training rows, or the first stretch of a stream.

    Examples:
        >>> from indubio.networks import Denoising, Training
        >>> Training(denoising=Denoising(scale=0.1, highest=1.0)).denoising.highest
        1.0
    """

    scale: Positive = 0.1
    highest: Positive | None = None
    by_kurtosis: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest is not None and self.highest < self.scale:
            raise ConfigError(
                "`highest` must be at least `scale`, {scale}, got {highest}.", scale=self.scale, highest=self.highest
            )

    def corruption(self, rows: TrainingRows, batch: int) -> Corruption:
        """What an engine does to these rows.

        Args:
            rows: the training rows.
            batch: rows per step.
        """
        factors = None
        if self.by_kurtosis:
            first = next(stretches(rows, 0, batch))
            factors = np.ascontiguousarray(np.broadcast_to(tail_factors(first), first.shape[1:]))
        return Corruption(lowest=self.scale, highest=self.highest or self.scale, factors=factors)


def tail_factors(rows: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, " features"]:
    """sqrt(3 / kurtosis) of each feature or sensor, at most 1; 0 where it is constant. Sums go row by row."""
    values = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
    apart = values - np.cumsum(values, axis=0)[-1] / len(values)
    largest = np.abs(apart).max(axis=0)
    spread = largest > ROUNDING * np.abs(values).max(axis=0)
    squares = np.where(spread, apart / np.where(spread, largest, 1.0), 0.0) ** 2
    second, fourth = (np.cumsum(power, axis=0)[-1] / len(values) for power in (squares, squares**2))
    least = NORMAL * second**2  # of the fourth moment, where the factor is 1
    return np.asarray(np.sqrt(least / np.maximum(np.maximum(fourth, least), np.finfo(np.float64).tiny)))
