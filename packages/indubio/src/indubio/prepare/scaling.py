"""Scalings, fitted on the training rows only: what makes columns of different units comparable.

    MinMax    (x - smallest) / (largest - smallest)      paper, appendix B
    ZScore    (x - mean) / standard deviation
    Robust    (x - median) / (upper quantile - lower quantile)

Each feature of a table has its own numbers; a sensor of a window has the same for all its time steps, and a channel of
an image for all its pixels, so that the shape of the signal or picture stays. The range is kept whatever the scaling:
what lies outside it is told by it.

Sums are added up row by row, and squares within the range, so that a fit has the same bits on every machine and no
value is too large for it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float
from pydantic import Field

from indubio.errors import ConfigError, DataError
from indubio.settings import Settings

FAR = 1e6  # units of the scaling; beyond this a value is simply far away, and its square still fits a float32


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """What is known of the values of each feature or sensor; missing values (NaN) are passed over.

    Args:
        count: how many there are.
        smallest: of them; NaN where there is none.
        largest: of them.
        mean: of them; 0 where there is none.
        deviation: root of their mean squared distance to the mean.
    """

    count: Float[np.ndarray, " features"]
    smallest: Float[np.ndarray, " features"]
    largest: Float[np.ndarray, " features"]
    mean: Float[np.ndarray, " features"]
    deviation: Float[np.ndarray, " features"]

    @classmethod
    def of(cls, rows: Float[np.ndarray, "examples ..."]) -> "ColumnSummary":
        """The summary of rows (N, D), windows (N, L, K) or images (N, H, W, C)."""
        values = rows.reshape(-1, rows.shape[-1])
        smallest = np.fmin.reduce(values, axis=0, initial=np.nan)
        largest = np.fmax.reduce(values, axis=0, initial=np.nan)
        present = ~np.isnan(values)
        count = np.count_nonzero(present, axis=0).astype(np.float64)
        start, span = np.where(count > 0, smallest, 0.0), np.where(count > 0, _span(smallest, largest), 1.0)
        unit = np.where(present, (values - start) / span, 0.0)
        known = np.maximum(count, 1.0)
        mean = _total(unit) / known
        apart = np.where(present, unit - mean, 0.0)
        deviation = np.sqrt(_total(apart * apart) / known)
        return cls(count, smallest, largest, start + span * mean, span * deviation)

    def joined(self, other: "ColumnSummary") -> "ColumnSummary":
        """Of both together (Chan, Golub & LeVeque 1983), without squares that could overflow."""
        total = np.maximum(self.count + other.count, 1.0)
        ours, theirs = self.count / total, other.count / total
        with np.errstate(over="ignore"):  # a range that no float64 holds is refused when it is scaled by
            apart = other.mean - self.mean
        largest = np.maximum(np.maximum(self.deviation, other.deviation), np.abs(apart))
        unit = np.where(largest > 0, largest, 1.0)
        squares = (
            ours * (self.deviation / unit) ** 2
            + theirs * (other.deviation / unit) ** 2
            + ours * theirs * (apart / unit) ** 2
        )
        return ColumnSummary(
            self.count + other.count,
            np.fmin(self.smallest, other.smallest),
            np.fmax(self.largest, other.largest),
            self.mean + theirs * apart,
            unit * np.sqrt(squares),
        )


def _total(values: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, " features"]:
    """Sums over the rows, one row after the other: numpy's own sum takes an order that suits the processor."""
    return np.cumsum(values, axis=0)[-1] if len(values) else np.zeros(values.shape[1])


def _span(
    smallest: Float[np.ndarray, " features"], largest: Float[np.ndarray, " features"]
) -> Float[np.ndarray, " features"]:
    """Largest - smallest; 1 for a constant feature."""
    with np.errstate(over="ignore"):
        span = largest - smallest
    if np.isinf(span).any():
        raise DataError(
            f"the values of column {int(np.argmax(np.isinf(span)))} span more than a float64 can hold "
            f"(from {np.nanmin(smallest):.3g} to {np.nanmax(largest):.3g}). Remove the extreme values or take "
            "logarithms."
        )
    return np.where(alike(smallest, largest), 1.0, span)


def alike(low: Float[np.ndarray, " features"], high: Float[np.ndarray, " features"]) -> Bool[np.ndarray, " features"]:
    """Whether a spread is of the size of rounding errors: dividing by it would blow noise up to signal."""
    rounding = 16 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
    return np.asarray(high - low <= rounding)


@dataclass(frozen=True, kw_only=True)
class Scaling(Settings, ABC):
    """How values are made comparable."""

    @property
    def unit_interval(self) -> bool:
        """Whether training values come to lie within [0, 1], as a sigmoid gives them."""
        return False

    @property
    def bounded(self) -> bool:
        """Whether all values do, new ones too."""
        return False

    @property
    def by_range(self) -> bool:
        """Whether a few extreme training values change what all others become."""
        return True

    def fit(self, rows: Float[np.ndarray, "examples ..."]) -> "FittedScaling":
        """Learn from the training rows; missing values (NaN) are passed over."""
        return self.of_summary(ColumnSummary.of(rows), rows)

    @abstractmethod
    def of_summary(self, known: ColumnSummary, sample: Float[np.ndarray, "sampled ..."]) -> "FittedScaling":
        """The scaling of rows that are not all at hand.

        Args:
            known: of all of them.
            sample: some of them, for what a summary does not tell.
        """


@dataclass(frozen=True, kw_only=True)
class MinMax(Scaling):
    """Map the range of the training rows to [0, 1].

    Args:
        clip: cut new values at 0 and 1, as the authors did. That hides how far out a value is, so it is off by default.
    """

    clip: bool = False

    @property
    def unit_interval(self) -> bool:
        """Whether all values of training rows lie in [0, 1]: here always."""
        return True

    @property
    def bounded(self) -> bool:
        """Whether new values are bounded too: only where they are clipped."""
        return self.clip

    def of_summary(self, known: ColumnSummary, sample: Float[np.ndarray, "sampled ..."]) -> "FittedScaling":
        """The scaling by the smallest and largest values."""
        del sample
        return FittedScaling(known.smallest, _span(known.smallest, known.largest), self.clip)


@dataclass(frozen=True, kw_only=True)
class ZScore(Scaling):
    """Standard deviations from the mean of the training rows. The output must be linear: `last_activation="none"`.

    Examples:
        >>> import numpy as np
        >>> rows = np.array([[1.0], [3.0]])
        >>> ZScore().fit(rows).scaled(np.array([[2.0], [5.0]])).ravel().tolist()
        [0.0, 3.0]
    """

    def of_summary(self, known: ColumnSummary, sample: Float[np.ndarray, "sampled ..."]) -> "FittedScaling":
        """The scaling by the mean and the deviation."""
        del sample
        span, constant = _span(known.smallest, known.largest), alike(known.smallest, known.largest)
        return FittedScaling(known.smallest, span, center=known.mean, unit=np.where(constant, 1.0, known.deviation))


@dataclass(frozen=True, kw_only=True)
class Robust(Scaling):
    """Inter-quantile ranges from the median: a few extreme training values change nothing.

    A feature with more than half of its values alike has no such range, and its whole range takes the place.

    Args:
        quantiles: the lower and the upper one, between which the unit lies.

    Examples:
        >>> import numpy as np
        >>> rows = np.array([[0.0], [1.0], [2.0], [3.0], [1000.0]])
        >>> Robust().fit(rows).scaled(np.array([[2.0], [4.0]])).ravel().tolist()
        [0.0, 1.0]
    """

    quantiles: tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=0, le=1)]] = (0.25, 0.75)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.quantiles[0] < self.quantiles[1]:
            raise ConfigError(
                "`quantiles` must be a lower and a higher one, got {quantiles}.", quantiles=self.quantiles
            )

    @property
    def by_range(self) -> bool:
        """Quantiles do not mind them."""
        return False

    def of_summary(self, known: ColumnSummary, sample: Float[np.ndarray, "sampled ..."]) -> "FittedScaling":
        """The scaling by quantiles of the sample."""
        values, (lower, upper) = sample.reshape(-1, sample.shape[-1]), self.quantiles
        low, middle, high = np.nanquantile(values, (lower, 0.5, upper), axis=0)
        span = _span(known.smallest, known.largest)
        return FittedScaling(known.smallest, span, center=middle, unit=np.where(alike(low, high), span, high - low))


@dataclass(frozen=True, eq=False)
class FittedScaling:
    """The ranges of the training rows, and what values are scaled by.

    Args:
        smallest: per feature or sensor.
        span: largest - smallest; 1 for a constant feature, which therefore maps to 0 and keeps its own unit.
        clip: whether new values are cut at 0 and 1.
        center: what maps to 0; None for `smallest`.
        unit: what has the length 1; None for `span`.
    """

    smallest: Float[np.ndarray, " features"]
    span: Float[np.ndarray, " features"]
    clip: bool = False
    center: Float[np.ndarray, " features"] | None = None
    unit: Float[np.ndarray, " features"] | None = None

    @property
    def start(self) -> Float[np.ndarray, " features"]:
        """The value of each feature that maps to 0."""
        return self.smallest if self.center is None else self.center

    @property
    def step(self) -> Float[np.ndarray, " features"]:
        """The range of each feature that maps to the length 1."""
        return self.span if self.unit is None else self.unit

    @property
    def bounds(self) -> tuple[float, float]:
        """What scaled values are cut at."""
        return (0.0, 1.0) if self.clip else (-FAR, FAR)

    def scaled(self, rows: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """The rows in units of the scaling, as float32.

        Values more than a million units away count as exactly that far: they are anomalous beyond doubt, and a
        larger number would overflow the score.
        """
        with np.errstate(over="ignore"):
            unit = np.asarray(rows - self.start)
            unit /= self.step  # in place, as below: a copy of many rows costs as much as the division
        return np.asarray(np.clip(unit, *self.bounds, out=unit), dtype=np.float32)

    def unscaled(self, values: Float[np.ndarray, "*shape features"]) -> Float[np.ndarray, "*shape features"]:
        """Scaled values in the units of the data."""
        return np.asarray(values.astype(np.float64) * self.step + self.start)

    @property
    def to_range(self) -> tuple[Float[np.ndarray, " features"], Float[np.ndarray, " features"]] | None:
        """Factor and shift that turn scaled values into units of the training range; None where they are in these."""
        if self.center is None or self.unit is None:
            return None
        return self.unit / self.span, (self.center - self.smallest) / self.span

    def in_ranges(self, scaled: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples ..."]:
        """Scaled values in units of the training range: 0 is its smallest value, 1 its largest."""
        if self.to_range is None:
            return scaled
        factor, shift = self.to_range
        return np.asarray(scaled.astype(np.float64) * factor + shift)

    def outside(self, rows: Float[np.ndarray, "examples ..."], margin: float) -> Bool[np.ndarray, "examples features"]:
        """Which features or sensors of each example have a value further outside than this many training ranges."""
        with np.errstate(over="ignore", invalid="ignore"):
            unit = (rows - self.smallest) / self.span
        far = (unit < -margin) | (unit > 1 + margin)  # NaN, a missing value, is neither
        return anywhere(far)


def anywhere(flags: Bool[np.ndarray, "examples ..."]) -> Bool[np.ndarray, "examples features"]:
    """Which features, sensors or channels of an example are flagged, at any time or pixel."""
    return np.asarray(flags.any(axis=tuple(range(1, flags.ndim - 1))))
