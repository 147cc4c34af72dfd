"""DriftReference: what the training data was, series by series, as histograms that new values are ranked in.

Edges come from a random fifth of the reference rows, counts from the others: they are fixed when the counts are taken.
At random, since rows often come in turns: every fifth of a machine with five stations would be of one station.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from indubio.calibration import shuffled
from indubio.errors import DataError, ShapeError

Kind = Literal["value", "scatter", "within", "score"]

EDGES = 15  # 16 bins: ranks lose 1/256 of their variance, and models stay small
EDGE_ROWS = 5  # one of so many reference rows
EDGES_OF_DRIFT = 11  # marks the random stream of their choice; 0 to 10 have others
AT_ONCE = 1024  # examples; what is in between stays in the cache


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftReference:
    """What the series were in the training data, as histograms.

    Args:
        features: names of the features or sensors.
        windows: whether the examples are windows.
        score_examples: how many calibration scores a p-value is made from, at least; 0 where there are no p-values.
        centre: usual value of each feature or sensor mean, for its distance from it.
        edges: of the bins, ascending.
        counts: reference values per bin.
    """

    features: tuple[str, ...]
    windows: bool
    centre: Float[np.ndarray, " features"]
    edges: Float[np.ndarray, "series edges"]
    counts: Int[np.ndarray, "series bins"]
    score_examples: int = 0

    def __post_init__(self) -> None:
        series = len(self.features) * (3 if self.windows else 2)
        if self.score_examples < 0:
            raise ShapeError("a drift reference cannot have fewer than 0 scores.")
        if not (len(self.edges) == len(self.counts) == series > 0 and len(self.centre) == len(self.features)):
            raise ShapeError(f"a drift reference of {len(self.features)} features needs {series} series.")
        if self.counts.shape[1] != self.edges.shape[1] + 1 or (self.counts < 0).any():
            raise ShapeError("a drift reference needs one count more than edges, none negative.")
        if np.isnan(self.edges).any() or (self.edges[:, 1:] < self.edges[:, :-1]).any():
            raise DataError("the edges of a drift reference must ascend.")

    @classmethod
    def fit(
        cls, values: Float[np.ndarray, "examples ..."], names: tuple[str, ...], *, seed: int = 0
    ) -> "DriftReference":
        """The series of training examples.

        Args:
            values: rows (N, D), windows (N, L, K) or images (N, H, W, C) as they came in; NaN where a value is missing.
            names: of the features, sensors or channels.
            seed: of the choice of rows that the edges come from.
        """
        order = shuffled(len(values), seed, EDGES_OF_DRIFT)
        with np.errstate(over="ignore"):
            centre = _column_medians(_levels(values[order[: -(-len(order) // EDGE_ROWS)]]))
        edges, counts = _histograms(_series(values, centre)[order])
        return cls(features=names, windows=values.ndim > 2, centre=centre, edges=edges, counts=counts)

    def with_scores(self, examples: int) -> "DriftReference":
        """This reference with a series of scores, whose p-values are made from so many scores at least."""
        return replace(self, score_examples=examples)

    @property
    def has_score(self) -> bool:
        """Whether there is a series of scores, the last."""
        return self.score_examples > 0

    @property
    def sizes(self) -> Int[np.ndarray, " series"]:
        """Reference values of each series."""
        score = [self.score_examples] if self.has_score else []
        return np.concatenate([self.counts.sum(axis=1), np.array(score, dtype=np.int64)])

    @property
    def names(self) -> tuple[str, ...]:
        """The feature or sensor of each series; "score" for the score."""
        kinds = 3 if self.windows else 2
        return (*self.features * kinds, *(["score"] if self.has_score else []))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What each series follows: values, their scatter, the spread within windows, or scores."""
        kinds: tuple[Kind, ...] = ("value", "scatter", "within") if self.windows else ("value", "scatter")
        score: tuple[Kind, ...] = ("score",) if self.has_score else ()
        return (*(kind for kind in kinds for _ in self.features), *score)

    def ranks(
        self, values: Float[np.ndarray, "examples ..."], p_value: Float[np.ndarray, " examples"]
    ) -> Float[np.ndarray, "examples series"]:
        """Rank of every new value among the reference, 0 to 1; NaN where it is missing."""
        if values.shape[-1] != len(self.features) or (values.ndim > 2) != self.windows:
            kind = "windows" if self.windows else "rows"
            raise ShapeError(f"the drift reference is of {kind} of {len(self.features)}, got the shape {values.shape}.")
        total = self.counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            middle = (np.cumsum(self.counts, axis=1) - self.counts / 2) / total
        ranks = np.empty((len(values), len(self.names)))
        for start in range(0, len(values), AT_ONCE):
            block = slice(start, start + AT_ONCE)
            ranks[block, : len(self.edges)] = self._ranked(_series(values[block], self.centre), middle)
        if self.has_score:
            ranks[:, -1] = 1 - p_value
        return ranks

    def _ranked(
        self, series: Float[np.ndarray, "block series"], middle: Float[np.ndarray, "series bins"]
    ) -> Float[np.ndarray, "block series"]:
        bins = np.zeros(series.shape, dtype=np.int8)
        for edge in self.edges.T:  # all series at once: cheaper than a search in each, for so few edges
            bins += series >= edge
        rank: np.ndarray = middle.take(bins + np.arange(len(middle)) * middle.shape[1])
        rank[np.isnan(series)] = np.nan
        return rank


def _levels(values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples features"]:
    """Values of rows; means over the time of windows, or the pixels of images."""
    return values if values.ndim == 2 else _over_each(np.nanmean, values)


def _series(
    values: Float[np.ndarray, "examples ..."], centre: Float[np.ndarray, " features"]
) -> Float[np.ndarray, "examples series"]:
    with np.errstate(over="ignore", invalid="ignore"):  # values near the end of the float range are simply far away
        level = _levels(values)
        parts = [level, np.abs(level - centre)]
        if values.ndim > 2:
            parts.append(_over_each(np.nanstd, values))
    return np.concatenate(parts, axis=1)


def _over_each(function: Any, values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples sensors"]:
    """Of all values that a sensor has in a window, or a channel in an image."""
    values = values.reshape(len(values), -1, values.shape[-1])
    empty: Bool[np.ndarray, "examples sensors"] = np.isnan(values).all(axis=1)
    return np.where(empty, np.nan, function(np.where(empty[:, None], 0.0, values), axis=1))


def _column_medians(values: Float[np.ndarray, "examples features"]) -> Float[np.ndarray, " features"]:
    known = [column[~np.isnan(column)] for column in values.T]
    return np.array([np.median(column) if len(column) else 0.0 for column in known])


def _histograms(
    series: Float[np.ndarray, "examples series"],
) -> tuple[Float[np.ndarray, "series edges"], Int[np.ndarray, "series bins"]]:
    """Edges from the first known values of each series, counts from the others; rows must be in random order."""
    edges = np.empty((series.shape[1], EDGES))
    counts = np.empty((series.shape[1], EDGES + 1), dtype=np.int32)
    for place, one in enumerate(series.T):
        known = one[~np.isnan(one)]
        first, others = np.split(known, [-(-len(known) // EDGE_ROWS)])
        edges[place] = np.quantile(first, np.linspace(0, 1, EDGES), method="lower") if len(known) else 0.0
        counts[place] = np.bincount(np.searchsorted(edges[place], others, side="right"), minlength=EDGES + 1)
    return edges, counts
