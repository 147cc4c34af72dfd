"""Min-max scaling to [0, 1], fitted on the training rows only (paper, appendix B).

Each feature of a table has its own range; a sensor of a window has one range for all its time steps, so that the
shape of the signal stays.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from indubio.errors import DataError
from indubio.settings import Settings

FAR = 1e6  # training ranges; beyond this a value is simply far away, and its square still fits a float32


@dataclass(frozen=True, kw_only=True)
class MinMax(Settings):
    """Map the range of the training rows to [0, 1].

    Args:
        clip: cut new values at 0 and 1, as the authors did. That hides how far out a value is, so it is off by default.
    """

    clip: bool = False

    def fit(self, rows: Float[np.ndarray, "examples ..."]) -> "FittedMinMax":
        """Learn the ranges; missing values (NaN) are passed over."""
        axes = (0,) if rows.ndim == 2 else (0, 1)
        return self.of_range(np.nanmin(rows, axis=axes), np.nanmax(rows, axis=axes))

    def of_range(
        self, smallest: Float[np.ndarray, " features"], largest: Float[np.ndarray, " features"]
    ) -> "FittedMinMax":
        """The scaling of rows whose smallest and largest values are known."""
        with np.errstate(over="ignore"):
            span = largest - smallest
        if not np.isfinite(span).all():
            raise DataError(
                f"the values of column {int(np.argmin(np.isfinite(span)))} span more than a float64 can hold "
                f"(from {smallest.min():.3g} to {largest.max():.3g}). Remove the extreme values or take logarithms."
            )
        # A spread of the size of rounding errors is no spread: dividing by it would blow noise up to signal.
        rounding = 16 * np.finfo(np.float64).eps * np.maximum(np.abs(smallest), np.abs(largest))
        return FittedMinMax(smallest, np.where(span <= rounding, 1.0, span), self.clip)


@dataclass(frozen=True, eq=False)
class FittedMinMax:
    """The ranges of the training rows.

    Args:
        smallest: per feature or sensor.
        span: largest - smallest; 1 for a constant feature, which therefore maps to 0 and keeps its own unit.
        clip: whether new values are cut at 0 and 1.
    """

    smallest: Float[np.ndarray, " features"]
    span: Float[np.ndarray, " features"]
    clip: bool

    def scaled(self, rows: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """The rows in units of the training ranges, as float32.

        Values more than a million ranges away count as exactly that far: they are anomalous beyond doubt, and a
        larger number would overflow the score.
        """
        with np.errstate(over="ignore"):
            unit = np.asarray(rows - self.smallest)
            unit /= self.span  # in place, as below: a copy of many rows costs as much as the division
        low, high = (0.0, 1.0) if self.clip else (-FAR, FAR)
        return np.asarray(np.clip(unit, low, high, out=unit), dtype=np.float32)

    def outside(self, rows: Float[np.ndarray, "examples ..."], margin: float) -> Bool[np.ndarray, "examples features"]:
        """Which features or sensors of each example have a value further outside than this many training ranges."""
        with np.errstate(over="ignore", invalid="ignore"):
            unit = (rows - self.smallest) / self.span
        far = (unit < -margin) | (unit > 1 + margin)  # NaN, a missing value, is neither
        return np.asarray(far if far.ndim == 2 else far.any(axis=1))
