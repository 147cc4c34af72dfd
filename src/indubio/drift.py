r"""Is new data still like the training data? Tests whose chance of ever raising a false alarm is bounded.

Every feature (its value, and its distance from its usual value, which grows when it scatters more), every sensor of a
window (its mean, that mean's distance from usual, its deviation within the window) and the score is a series. Each new
value becomes its rank r among the reference values, in [0, 1] and 1/2 on average as long as nothing has changed. A bet
against that, with stake e in (-2, 2), multiplies its wealth by

    (1 + e (r - 1/2)) / (1 + |e| (c + a/2))        c = sqrt(log(4 / level) / 6 n),  n reference values

c is how far the average rank can be from 1/2 by the luck of the reference (given it, ranks of new values average the n
uniform ranks of the reference values, whose mean is sub-Gaussian with variance 1 / 12 n), and a is the share of the
new examples that may be anomalies without that being drift. So while nothing has changed no bet is expected to gain,
and by Ville's inequality the mixed wealth ever reaches 2 / level with probability at most level / 2; the luck of the
reference takes the other half. The levels of all series add up to alpha.

The mixture is over stakes and over the times to start betting, the k-th with weight 1/log2(k+1) - 1/log2(k+2): a change
after long quiet is found as well as an early one, up to a delay that grows with the logarithm of the time before it.

It holds for new examples that are independent of each other and of the reference. The rank of a score is one minus
its conformal p-value, so there is no score series for a model without calibration scores. With p-values from several
parts of the draws the rank is the mean of ranks that are each 1/2 on average; n is then the size of one part. P-values
count ties against the example, so only rising scores are bet on. Windows that overlap, or a process that wanders
slowly, are not independent: they raise more alarms, and rightly so if the training data did not cover the wandering.
Bins: edges come from every fifth reference row, counts from the others, so that the edges are fixed when the counts are
taken; within a bin the rank is the middle one, which takes nothing from the above.

Ville 1939; Vovk, Gammerman & Shafer 2005 (martingales of ranks); Shafer & Vovk 2019 (testing by betting).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import Field

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.settings import Fraction, Settings

Kind = Literal["value", "scatter", "within", "score"]

STAKES = np.array([s * e for s in (-1, 1) for e in (0.3, 0.8, 1.75)])
EDGES = 15  # 16 bins: ranks lose 1/256 of their variance, and models stay small
EDGE_ROWS = 5  # every fifth reference row
AT_ONCE = 1024  # examples; the history of their wealth is held in memory
MOST_WEALTH = 1e100
WORDS = {"value": "", "scatter": "scatter of ", "within": "deviation within the window of ", "score": ""}


@dataclass(frozen=True, kw_only=True)
class DriftTest(Settings):
    """How strict to be.

    Args:
        alpha: largest probability of ever raising a false alarm, over all features and the score, and over all time.
        anomalies: share of the new examples that may be anomalies without that being drift. It is also how much change
            is let pass: an average rank within half of it of 1/2 never raises an alarm.
    """

    alpha: Fraction = 0.01
    anomalies: Annotated[float, Field(ge=0, lt=1)] = 0.05


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
    def fit(cls, values: Float[np.ndarray, "examples ..."], names: tuple[str, ...]) -> "DriftReference":
        """The series of training examples.

        Args:
            values: rows (N, D) or windows (N, L, K) as they came in; NaN where a value is missing.
            names: of the D features or K sensors.
        """
        with np.errstate(over="ignore"):
            centre = _column_medians(_levels(values)[::EDGE_ROWS])
        edges, counts = _histograms(_series(values, centre))
        return cls(features=names, windows=values.ndim == 3, centre=centre, edges=edges, counts=counts)

    def with_scores(self, examples: int) -> "DriftReference":
        """The same with a series of scores, whose p-values are made from so many calibration scores at least."""
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
        """What of it each series is."""
        kinds: tuple[Kind, ...] = ("value", "scatter", "within") if self.windows else ("value", "scatter")
        score: tuple[Kind, ...] = ("score",) if self.has_score else ()
        return (*(kind for kind in kinds for _ in self.features), *score)

    def ranks(
        self, values: Float[np.ndarray, "examples ..."], p_value: Float[np.ndarray, " examples"]
    ) -> Float[np.ndarray, "examples series"]:
        """Rank of every new value among the reference, 0 to 1; NaN where it is missing."""
        if values.shape[-1] != len(self.features) or (values.ndim == 3) != self.windows:
            kind = "windows" if self.windows else "rows"
            raise ShapeError(f"the drift reference is of {kind} of {len(self.features)}, got the shape {values.shape}.")
        series = _series(values, self.centre)
        total = self.counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            middle = (np.cumsum(self.counts, axis=1) - self.counts / 2) / total
        found = [
            rank[np.searchsorted(edges, one, side="right")]
            for one, edges, rank in zip(series.T, self.edges, middle, strict=True)
        ]
        ranks = np.where(np.isnan(series), np.nan, np.stack(found, axis=1))
        return np.concatenate([ranks, 1 - p_value[:, None]], axis=1) if self.has_score else ranks


@dataclass(frozen=True, kw_only=True)
class SeriesDrift:
    """What is known of one series.

    Args:
        name: the feature, sensor or "score".
        kind: its value, its scatter, its deviation within a window, or the score.
        alarm: whether there was enough evidence of a change, at any time.
        since: the example at which there was, counted from 0; None without an alarm.
        evidence: the largest wealth so far, relative to what an alarm needs: 1 and more is an alarm.
        rank: mean rank of the new values among the reference values, 0.5 where nothing has changed; None without any.
    """

    name: str
    kind: Kind
    alarm: bool
    since: int | None
    evidence: float
    rank: float | None

    def __str__(self) -> str:
        rank = "" if self.rank is None else f" ({'higher' if self.rank > 0.5 else 'lower'}, mean rank {self.rank:.2f})"
        return f"{WORDS[self.kind]}{self.name}{rank}"


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Whether new data is like the training data.

    Args:
        examples: how many were seen.
        test: what was asked for.
        series: what is known of each, in the order of the reference.
        scores_tested: whether the score was tested too.
    """

    examples: int
    test: DriftTest
    series: tuple[SeriesDrift, ...]
    scores_tested: bool

    @property
    def alarm(self) -> bool:
        """Whether any series has changed."""
        return any(one.alarm for one in self.series)

    @property
    def changed(self) -> tuple[SeriesDrift, ...]:
        """The series that have changed, those whose rank moved most first."""
        return tuple(sorted((one for one in self.series if one.alarm), key=lambda one: -abs((one.rank or 0.5) - 0.5)))

    @property
    def promise(self) -> str:
        """What an alarm, and none, is worth."""
        told = (
            f"P(any false alarm, ever) <= {self.test.alpha:g}, for independent examples of which at most "
            f"{100 * self.test.anomalies:g} % are anomalies"
        )
        if self.scores_tested:
            return told
        return f"{told}; features only: the model keeps no scores of examples it was not trained on"

    def __str__(self) -> str:
        if not self.alarm:
            return f"no drift found in {self.examples} examples ({self.promise})"
        first = min(one.since for one in self.changed if one.since is not None)
        named = "; ".join(map(str, self.changed[:5]))
        more = f" and {len(self.changed) - 5} more" if len(self.changed) > 5 else ""
        return f"DRIFT since example {first} of {self.examples}: {named}{more} ({self.promise})"

    def to_plain(self) -> dict[str, Any]:
        """As plain data for JSON."""
        changed = [
            {"name": one.name, "kind": one.kind, "since": one.since, "mean_rank": one.rank} for one in self.changed
        ]
        return {"alarm": self.alarm, "examples": self.examples, "changed": changed, "promise": self.promise}


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftMonitor:
    """The tests, and what they have seen so far; `updated` gives the next one and leaves this as it is.

    Args:
        test: how strict.
        reference: of the model.
        seen: how many examples.
        wealth: of the bets that were started, by stake.
        largest: the largest wealth of each series at any time, over all stakes and what waits.
        since: the example of each alarm, -1 without one.
        rank_sum: of all ranks.
        rank_count: how many ranks; missing values have none.
    """

    test: DriftTest
    reference: DriftReference
    seen: int
    wealth: Float[np.ndarray, "series stakes"]
    largest: Float[np.ndarray, " series"]
    since: Int[np.ndarray, " series"]
    rank_sum: Float[np.ndarray, " series"]
    rank_count: Int[np.ndarray, " series"]

    @classmethod
    def fresh(cls, reference: DriftReference, test: DriftTest | None = None) -> "DriftMonitor":
        """A monitor that has seen nothing."""
        series = len(reference.names)
        return cls(
            test=test or DriftTest(),
            reference=reference,
            seen=0,
            wealth=np.zeros((series, len(STAKES))),
            largest=np.ones(series),
            since=np.full(series, -1),
            rank_sum=np.zeros(series),
            rank_count=np.zeros(series, dtype=np.int64),
        )

    def updated(self, values: Float[np.ndarray, "examples ..."], p_value: Float[np.ndarray, " examples"]) -> Self:
        """After some more examples, in their order; in how many batches they come makes no difference.

        Args:
            values: as they came in, NaN where a value is missing.
            p_value: of their scores; NaN where there is none.
        """
        ranks = self.reference.ranks(values, p_value)
        monitor = self
        for start in range(0, len(ranks), AT_ONCE):
            monitor = monitor._after(ranks[start : start + AT_ONCE])
        return monitor

    def drift(self) -> Drift:
        """What is known by now."""
        evidence = self.largest / self._needed
        known = self.rank_count > 0
        rank = np.divide(self.rank_sum, self.rank_count, out=np.zeros(len(known)), where=known)
        series = tuple(
            SeriesDrift(
                name=name,
                kind=kind,
                alarm=bool(self.since[place] >= 0),
                since=int(self.since[place]) if self.since[place] >= 0 else None,
                evidence=float(evidence[place]),
                rank=float(rank[place]) if known[place] else None,
            )
            for place, (name, kind) in enumerate(zip(self.reference.names, self.reference.kinds, strict=True))
        )
        return Drift(examples=self.seen, test=self.test, series=series, scores_tested=self.reference.has_score)

    def to_plain(self) -> dict[str, Any]:
        """What was seen so far, as plain data for JSON; the reference stays with the model."""
        told = {"alpha": self.test.alpha, "anomalies": self.test.anomalies, "seen": self.seen}
        return told | {name: getattr(self, name).tolist() for name in _STATE}

    @classmethod
    def resumed(cls, reference: DriftReference, plain: Mapping[str, Any]) -> "DriftMonitor":
        """The monitor that `to_plain` described, of a model with this reference."""
        try:
            fresh = cls.fresh(reference, DriftTest(alpha=plain["alpha"], anomalies=plain["anomalies"]))
            state = {name: np.asarray(plain[name], dtype=getattr(fresh, name).dtype) for name in _STATE}
            seen = int(plain["seen"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"this is no state of a drift monitor: {error!r}.") from None
        if any(state[name].shape != getattr(fresh, name).shape for name in _STATE) or seen < 0:
            raise ConfigError("this state of a drift monitor is of another model. Start a new one.")
        return replace(fresh, seen=seen, **state)  # type: ignore[arg-type]

    @property
    def _levels(self) -> Float[np.ndarray, " series"]:
        """Each series' part of alpha: half for the score, the rest in equal parts for the others."""
        score = np.array([kind == "score" for kind in self.reference.kinds])
        others, share = int(np.count_nonzero(~score)), 0.5 if score.any() else 1.0
        return np.asarray(self.test.alpha * np.where(score, 0.5, share / max(others, 1)))

    @property
    def _needed(self) -> Float[np.ndarray, " series"]:
        return np.asarray(2 / self._levels)

    def _after(self, rank: Float[np.ndarray, "block series"]) -> Self:
        time = self.seen + 1 + np.arange(len(rank))
        bets, wealth = self._bets(rank), self.wealth
        for bet, weight in zip(bets, _waiting(time - 1) - _waiting(time), strict=True):
            # Every bet that was started is made again, and one more starts. Past an alarm more wealth says no more.
            wealth = np.minimum((wealth + weight) * bet, MOST_WEALTH)
            bet[:] = wealth  # keeps the history without another array
        mixed = bets.mean(axis=2) + _waiting(time)[:, None]
        alarm = mixed >= self._needed
        new = alarm.any(axis=0) & (self.since < 0)
        there = ~np.isnan(rank)
        return replace(
            self,
            seen=self.seen + len(rank),
            wealth=wealth,
            largest=np.maximum(self.largest, mixed.max(axis=0)),
            since=np.where(new, self.seen + alarm.argmax(axis=0), self.since),
            rank_sum=self.rank_sum + np.nansum(rank, axis=0),
            rank_count=self.rank_count + there.sum(axis=0),
        )

    def _bets(self, rank: Float[np.ndarray, "block series"]) -> Float[np.ndarray, "block series stakes"]:
        slack = np.sqrt(np.log(4 / self._levels) / (6 * np.maximum(self.reference.sizes, 1))) + self.test.anomalies / 2
        stakes = np.tile(STAKES, (rank.shape[1], 1))
        if self.reference.has_score:
            stakes[-1] = np.abs(STAKES)
        off = np.nan_to_num(rank - 0.5)
        bets = (1 + stakes * off[..., None]) / (1 + np.abs(stakes) * slack[:, None])
        bets[np.isnan(rank)] = 1.0  # nothing is bet on what is missing
        return np.asarray(bets)


_STATE = ("wealth", "largest", "since", "rank_sum", "rank_count")


def _waiting(time: Int[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
    """What is still kept for bets that start after this example, counted from 1; all of it before the first."""
    return np.asarray(1 / np.log2(time + 2))


def _levels(values: Float[np.ndarray, "examples ..."]) -> Float[np.ndarray, "examples features"]:
    """Values of rows; means over time of windows."""
    return values if values.ndim == 2 else _over_time(np.nanmean, values)


def _series(
    values: Float[np.ndarray, "examples ..."], centre: Float[np.ndarray, " features"]
) -> Float[np.ndarray, "examples series"]:
    with np.errstate(over="ignore", invalid="ignore"):  # values near the end of the float range are simply far away
        level = _levels(values)
        parts = [level, np.abs(level - centre)]
        if values.ndim == 3:
            parts.append(_over_time(np.nanstd, values))
    return np.concatenate(parts, axis=1)


def _over_time(
    function: Any, values: Float[np.ndarray, "windows steps sensors"]
) -> Float[np.ndarray, "windows sensors"]:
    empty: Bool[np.ndarray, "windows sensors"] = np.isnan(values).all(axis=1)
    return np.where(empty, np.nan, function(np.where(empty[:, None], 0.0, values), axis=1))


def _column_medians(values: Float[np.ndarray, "examples features"]) -> Float[np.ndarray, " features"]:
    known = [column[~np.isnan(column)] for column in values.T]
    return np.array([np.median(column) if len(column) else 0.0 for column in known])


def _histograms(
    series: Float[np.ndarray, "examples series"],
) -> tuple[Float[np.ndarray, "series edges"], Int[np.ndarray, "series bins"]]:
    edges = np.empty((series.shape[1], EDGES))
    counts = np.empty((series.shape[1], EDGES + 1), dtype=np.int32)
    for place, one in enumerate(series.T):
        known = one[~np.isnan(one)]
        first = np.zeros(len(known), dtype=bool)
        first[::EDGE_ROWS] = True
        edges[place] = np.quantile(known[first], np.linspace(0, 1, EDGES), method="lower") if len(known) else 0.0
        counts[place] = np.bincount(np.searchsorted(edges[place], known[~first], side="right"), minlength=EDGES + 1)
    return edges, counts
