"""DriftMonitor: the bets against "nothing has changed", and what they have won so far."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from indubio.drift.betting import wealth_over_time
from indubio.drift.finding import Drift, DriftTest, SeriesDrift
from indubio.drift.reference import DriftReference
from indubio.errors import ConfigError

STAKES = np.array([s * e for s in (-1, 1) for e in (0.3, 0.8, 1.75)])
AT_ONCE = 1024  # examples; the history of their wealth is held in memory


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftMonitor:
    """The tests, and what they have seen so far; `updated` gives the next one and leaves this as it is.

    Args:
        test: how strict.
        reference: of the model.
        seen: how many examples were tested.
        left_out: how many more came and were not tested, as known anomalies are not.
        wealth: of the bets that were started, by stake.
        largest: the largest wealth of each series at any time, over all stakes and what waits.
        since: the example of each alarm, counted from 0 among all that came; -1 without one.
        rank_sum: of all ranks.
        rank_count: how many ranks; missing values have none.
    """

    test: DriftTest
    reference: DriftReference
    seen: int
    left_out: int
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
            left_out=0,
            wealth=np.zeros((series, len(STAKES))),
            largest=np.ones(series),
            since=np.full(series, -1),
            rank_sum=np.zeros(series),
            rank_count=np.zeros(series, dtype=np.int64),
        )

    def updated(
        self,
        values: Float[np.ndarray, "examples ..."],
        p_value: Float[np.ndarray, " examples"],
        leave_out: Bool[np.ndarray, " examples"] | None = None,
    ) -> Self:
        """After some more examples, in their order; in how many batches they come makes no difference.

        Args:
            values: as they came in, NaN where a value is missing.
            p_value: of their scores; NaN where there is none.
            leave_out: which of them are not tested, only counted; None tests all.
        """
        tested = np.arange(len(values)) if leave_out is None else np.flatnonzero(~leave_out)
        if not len(tested):
            return replace(self, left_out=self.left_out + len(values))
        ranks = self.reference.ranks(values[tested], p_value[tested])
        places = self.seen + self.left_out + tested
        monitor = self
        for start in range(0, len(ranks), AT_ONCE):
            monitor = monitor._after(ranks[start : start + AT_ONCE], places[start : start + AT_ONCE])
        return replace(monitor, left_out=self.left_out + len(values) - len(tested))

    def drift(self) -> Drift:
        """Which series have changed so far, and the evidence for each."""
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
        return Drift(
            examples=self.seen + self.left_out,
            left_out=self.left_out,
            test=self.test,
            series=series,
            scores_tested=self.reference.has_score,
        )

    def to_plain(self) -> dict[str, Any]:
        """What was seen so far, as plain data for JSON; the reference stays with the model."""
        told = {"alpha": self.test.alpha, "anomalies": self.test.anomalies}
        told |= {"seen": self.seen, "left_out": self.left_out}
        return told | {name: getattr(self, name).tolist() for name in _STATE}

    @classmethod
    def resumed(cls, reference: DriftReference, plain: Mapping[str, Any]) -> "DriftMonitor":
        """The monitor that `to_plain` described, of a model with this reference."""
        try:
            fresh = cls.fresh(reference, DriftTest(alpha=plain["alpha"], anomalies=plain["anomalies"]))
            state = {name: np.asarray(plain[name], dtype=getattr(fresh, name).dtype) for name in _STATE}
            seen, left_out = int(plain["seen"]), int(plain["left_out"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"this is no state of a drift monitor: {error!r}.") from None
        if any(state[name].shape != getattr(fresh, name).shape for name in _STATE) or min(seen, left_out) < 0:
            raise ConfigError("this state of a drift monitor is of another model. Start a new one.")
        return replace(fresh, seen=seen, left_out=left_out, **state)  # type: ignore[arg-type]

    @property
    def _levels(self) -> Float[np.ndarray, " series"]:
        """Each series' part of alpha: half for the score, the rest in equal parts for the others."""
        score = np.array([kind == "score" for kind in self.reference.kinds])
        others, share = int(np.count_nonzero(~score)), 0.5 if score.any() else 1.0
        return np.asarray(self.test.alpha * np.where(score, 0.5, share / max(others, 1)))

    @property
    def _needed(self) -> Float[np.ndarray, " series"]:
        return np.asarray(2 / self._levels)

    def _after(self, rank: Float[np.ndarray, "block series"], place: Int[np.ndarray, " block"]) -> Self:
        time = self.seen + 1 + np.arange(len(rank))
        weights = _waiting(time - 1) - _waiting(time)
        mixed, wealth = wealth_over_time(self.wealth.T, rank - 0.5, *self._stakes, weights)
        mixed += _waiting(time)[:, None]
        largest = mixed.max(axis=0)
        new = (largest >= self._needed) & (self.since < 0)
        there = ~np.isnan(rank)
        return replace(
            self,
            seen=self.seen + len(rank),
            wealth=wealth.T,
            largest=np.maximum(self.largest, largest),
            since=np.where(new, place[(mixed >= self._needed).argmax(axis=0)], self.since),
            rank_sum=self.rank_sum + np.where(there, rank, 0.0).sum(axis=0),
            rank_count=self.rank_count + there.sum(axis=0),
        )

    @property
    def _stakes(self) -> tuple[Float[np.ndarray, "stakes series"], Float[np.ndarray, "stakes series"]]:
        """Every stake, and what its bet is divided by; of the score only higher is bet on."""
        slack = np.sqrt(np.log(4 / self._levels) / (6 * np.maximum(self.reference.sizes, 1))) + self.test.anomalies / 2
        stakes = np.tile(STAKES[:, None], len(slack))
        if self.reference.has_score:
            stakes[:, -1] = np.abs(STAKES)
        return stakes, 1 + np.abs(stakes) * slack


_STATE = ("wealth", "largest", "since", "rank_sum", "rank_count")


def _waiting(time: Int[np.ndarray, " examples"]) -> Float[np.ndarray, " examples"]:
    """What is still kept for bets that start after this example, counted from 1; all of it before the first."""
    return np.asarray(1 / np.log2(time + 2))
