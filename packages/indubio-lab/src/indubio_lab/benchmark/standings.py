"""Who stands where: means over the sets, average ranks, and tests of one detector against the others.

A number of a set is the mean over its seeds; sets count alike. Ranks and tests are over the sets on which all that are
ranked have a number. Two leagues, because a plain detector has no uncertainty:

    detection      ours and the plain peers: AUROC, AUPR, cost
    uncertainty    ours and the refits of the peers: W, Gain, errors, false alarms
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from indubio.evaluation import average_ranks, holm, signed_rank_p
from indubio_lab.benchmark.benchmark_store import BenchmarkRecord
from indubio_lab.benchmark.contender import Contender
from indubio_lab.benchmark.measures import NOMINAL

SetName = tuple[str, str]  # collection and set
NOISE = 2.0  # standard deviations
LOW_IS_GOOD = ("error", "error_accepted", "certain_wrong", "log_loss", "fit_seconds", "score_seconds", "model_bytes")
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class PairTest:
    """One detector against another, set by set.

    Args:
        other: by name.
        measure: of which.
        difference: mean over the sets of the chosen one's minus the other's.
        won: sets on which the chosen one is better.
        lost: sets on which the other is.
        sets: in all.
        p: Wilcoxon's signed rank test, two-sided, corrected by Holm over the others.
    """

    other: str
    measure: str
    difference: float
    won: int
    lost: int
    sets: int
    p: float

    @property
    def verdict(self) -> str:
        """Whether the difference is significant, and which way, in words."""
        if not self.p < SIGNIFICANT:
            return "not significant"
        better = (self.difference > 0) != (self.measure in LOW_IS_GOOD)
        return f"significantly {'better' if better else 'worse'}"


@dataclass(frozen=True)
class Standings:
    """The records of a benchmark, to be asked for means, ranks and tests.

    Args:
        contenders: who took part, by name.
        records: cells that are done.
    """

    contenders: Mapping[str, Contender]
    records: tuple[BenchmarkRecord, ...]

    @classmethod
    def of(cls, contenders: Iterable[Contender], records: Iterable[BenchmarkRecord]) -> "Standings":
        """The standings of these detectors, by their records."""
        return cls({one.name: one for one in contenders}, tuple(records))

    @property
    def sets(self) -> list[SetName]:
        """All sets with a record, in their order."""
        return list(dict.fromkeys((record.collection, record.task) for record in self.records))

    def league(self, name: str) -> list[str]:
        """The detectors of "detection" or "uncertainty" that have a record."""
        other = "plain" if name == "detection" else "refits"
        there = {record.detector for record in self.records if record.outcome.measures is not None}
        return [one.name for one in self.contenders.values() if one.form in ("own", other) and one.name in there]

    def by_set(self, detector: str, measure: str) -> dict[SetName, float]:
        """The mean over the seeds for every set where it is defined."""
        values: dict[SetName, list[float]] = defaultdict(list)
        for record in self.records:
            if record.detector == detector and record.outcome.measures is not None:
                value = getattr(record.outcome.measures, measure)
                if np.isfinite(value):
                    values[record.collection, record.task].append(value)
        return {name: float(np.mean(of_set)) for name, of_set in values.items()}

    def mean(self, detector: str, measure: str) -> float:
        """Over the sets; NaN if none has it."""
        found = list(self.by_set(detector, measure).values())
        return float(np.mean(found)) if found else float("nan")

    def median(self, detector: str, measure: str) -> float:
        """Over the sets; NaN if none has it."""
        found = list(self.by_set(detector, measure).values())
        return float(np.median(found)) if found else float("nan")

    def cost(self, detector: str) -> float:
        """Processor seconds of a fit and the scoring after it, mean over the sets."""
        return self.mean(detector, "fit_seconds") + self.mean(detector, "score_seconds")

    def table(
        self, detectors: Sequence[str], measure: str
    ) -> tuple[list[str], list[SetName], Float[np.ndarray, "sets detectors"]]:
        """Values by set of those detectors that ran on every set, and the sets on which all of these have one."""
        ran = {name: self._ran(name) for name in detectors}
        whole = [name for name in detectors if ran[name] == set(self.sets)]
        found = {name: self.by_set(name, measure) for name in whole}
        whole = [name for name in whole if found[name]]
        common = [one for one in self.sets if all(one in found[name] for name in whole)] if whole else []
        return whole, common, np.array([[found[name][one] for name in whole] for one in common])

    def ranks(self, detectors: Sequence[str], measure: str) -> dict[str, float]:
        """Average ranks of those that ran on every set; none where there is nothing to rank."""
        whole, common, values = self.table(detectors, measure)
        if len(whole) < 2 or not common:
            return {}
        ranked = average_ranks(values, high_is_good=measure not in LOW_IS_GOOD)
        return dict(zip(whole, (float(rank) for rank in ranked), strict=True))

    def tests(self, chosen: str, others: Sequence[str], measure: str) -> list[PairTest]:
        """The chosen one against each other, on the sets that both have; Holm over the others."""
        ours = self.by_set(chosen, measure)
        found = []
        for other in others:
            theirs = self.by_set(other, measure)
            differences = [ours[one] - theirs[one] for one in ours if one in theirs]
            if other == chosen or not differences:
                continue
            up, down = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
            won, lost = (down, up) if measure in LOW_IS_GOOD else (up, down)
            mean = float(np.mean(differences))
            found.append(PairTest(other, measure, mean, won, lost, len(differences), signed_rank_p(differences)))
        corrected = holm([one.p for one in found])
        return [
            PairTest(one.other, one.measure, one.difference, one.won, one.lost, one.sets, p)
            for one, p in zip(found, corrected, strict=True)
        ]

    def within_noise(self, detector: str, of: Literal["p-value", "verdict"]) -> tuple[int, int]:
        """Cells whose false alarms are as many as they should be, and all cells that say how many.

        Of p-values these are 5 %, of verdicts the rate that was asked for. Noise is that of a share of the test
        inliers, and of the calibration by at most the training rows: two standard deviations,
        sqrt(rate (1 - rate) (1 / inliers + 1 / train)).
        """
        within = total = 0
        for record in self.records:
            outcome = record.outcome
            if record.detector != detector or outcome.measures is None:
                continue
            share, rate = outcome.measures.false_alarms_p, NOMINAL
            if of == "verdict":
                share, rate = outcome.measures.false_alarms, outcome.measures.rate
            if np.isfinite(share) and np.isfinite(rate) and outcome.inliers:
                noise = NOISE * np.sqrt(rate * (1 - rate) * (1 / outcome.inliers + 1 / outcome.train))
                within, total = within + (abs(share - rate) <= noise), total + 1
        return within, total

    def better_when_sure(self, detector: str) -> tuple[int, int]:
        """Sets on which the accepted verdicts are wrong less often than all, and all sets with errors."""
        every, accepted = self.by_set(detector, "error"), self.by_set(detector, "error_accepted")
        both = [name for name in every if name in accepted and every[name] > 0]
        return sum(accepted[name] < every[name] for name in both), len(both)

    def _ran(self, detector: str) -> set[SetName]:
        return {
            (record.collection, record.task)
            for record in self.records
            if record.detector == detector and record.outcome.measures is not None
        }
