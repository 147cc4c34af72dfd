r"""Trimming: training rows that look like anomalies are left out, and the draws are trained again without them.

    fold of the draws   its training rows are halved; each half is scored by draws trained on the other
                        the worst are dropped, and the fold's draws are trained on the rest

A row is judged by draws that have not seen it: a network that was trained on an anomaly gives it a low score. It is
done within each fold, so the rows that calibrate a fold have no say in what it is trained on, and p-values promise what
they did. Values are scaled by quantiles meanwhile and cut at ten of these units, and the output is linear: bad rows
cannot stretch the scale that they are judged by, nor pull the networks far.

How many, without labels. The median q50 and the upper quartile q75 of the scores, on a logarithmic scale where all are
positive, are those of a normal distribution, by which of n rows are expected beyond s

    E(s) = n (1 - Phi(0.674 (s - q50) / (q75 - q50)))

The k highest are dropped, k being the largest for which E is at most a fifth of k (Benjamini & Hochberg 1995): four of
five are more than such a tail explains. Scores that end earlier lose none, those of heavier tails some good rows.
On sets without any bad row that was some 5 % (docs/contamination.md).

The rows that calibrate hold bad ones too. With `reference="keep"` they all stay. A share e of bad rows can only raise a
p-value's count, so good examples have P(p <= a) <= a / (1 - e); but bad rows that score high make anomalies look usual.
With "drop" the highest m of n are left out by the same rule, and P(p <= a) <= a + m / (n + 1), whatever they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from indubio.calibration import Fold, Plan
from indubio.errors import DataError
from indubio.settings import Fraction, Settings
from indubio.uncertainty import mean_nll

TRIMMED = 10  # marks the random streams of the halves; 7 is the split's, 8 that of the parts, 9 the order of a stream
FARTHEST = 10.0  # units that values are cut at while rows are judged
EXPLAINED = 0.2  # of what is dropped, at most this share would be there in a tail without bad rows


@dataclass(frozen=True, kw_only=True)
class Trimming(Settings):
    """Leave training rows out that look like anomalies.

    Args:
        share: of the training rows that is left out; None chooses it by the tail of their scores, often none.
        reference: what happens to the highest scores among the rows that calibrate: "drop" leaves as large a share of
            them out, "keep" none. See docs/contamination.md for what each promises.

    Examples:
        >>> import numpy as np
        >>> from indubio import Detector
        >>> rows = np.random.default_rng(0).normal(size=(100, 3))
        >>> rows[:5] *= 20
        >>> detector = Detector(trimming=Trimming()).fit(rows)
        >>> bool(detector.assess(rows[:5]).prediction.all())
        True
    """

    share: Fraction | None = None
    reference: Literal["drop", "keep"] = "drop"

    def halves(self, plan: Plan, examples: int, seed: int) -> Plan:
        """Two folds for each of a plan's: the rows of one half of its training rows are scored by the other's.

        Args:
            plan: of the detector.
            examples: rows that may be dropped; those after them were confirmed by a person.
            seed: of the halving.
        """
        folds = []
        for place, fold in enumerate(plan.folds):
            doubtful, sure = fold.trained[fold.trained < examples], fold.trained[fold.trained >= examples]
            if len(doubtful) < 2:
                raise DataError(f"trimming needs at least 2 training rows to halve, got {len(doubtful)}.")
            random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(TRIMMED, place)))
            one, other = np.array_split(random.permutation(doubtful), 2)
            for trained, scored in ((one, other), (other, one)):
                rows = np.concatenate([np.sort(trained), sure])
                folds.append(Fold(draws=max(1, fold.draws // 2), trained=rows, calibrated=np.sort(scored)))
        return Plan(folds=tuple(folds), unseen=True)

    def trained(self, plan: Plan, halves: Plan, nll: Float[np.ndarray, "draws rows"]) -> Plan:
        """The plan with the worst rows of every fold left out of its training.

        Args:
            plan: of the detector.
            halves: what `halves` made of it.
            nll: scores of all rows under the draws of the halves.
        """
        scores = held_out_scores(halves, nll)
        pairs = range(0, len(scores), 2)
        rows = [np.concatenate([half.calibrated for half in halves.folds[place : place + 2]]) for place in pairs]
        own = [np.concatenate(scores[place : place + 2]) for place in pairs]
        worst = _highest(own, max(self._counts(own)))  # a good row more costs less than a bad one
        folds = [
            replace(fold, trained=np.setdiff1d(fold.trained, judged[places]))
            for fold, judged, places in zip(plan.folds, rows, worst, strict=True)
        ]
        return replace(plan, folds=tuple(folds))

    def calibrated(self, plan: Plan, nll: Float[np.ndarray, "draws rows"]) -> Plan:
        """The plan with the highest scores left out of every fold's calibration: as many in each.

        Args:
            plan: that the draws were trained by.
            nll: scores of all rows under them.
        """
        if self.reference == "keep":
            return plan
        own = held_out_scores(plan, nll)
        counts = self._counts(own)
        worst = _highest(own, -(-sum(counts) // len(counts)))
        folds = [
            replace(fold, calibrated=np.delete(fold.calibrated, places))
            for fold, places in zip(plan.folds, worst, strict=True)
        ]
        return replace(plan, folds=tuple(folds), dropped=sum(map(len, worst)))

    def _counts(self, scores: Sequence[Float[np.ndarray, " rows"]]) -> list[int]:
        """How many rows of each fold look like anomalies."""
        return [surplus(own) if self.share is None else round(self.share * len(own)) for own in scores]


def _highest(scores: Sequence[Float[np.ndarray, " rows"]], count: int) -> list[Int[np.ndarray, " highest"]]:
    """Places of the highest scores of each fold: as many in each, for all folds must have as many rows."""
    return [np.argsort(own, kind="stable")[len(own) - count :] for own in scores]


def surplus(scores: Float[np.ndarray, " rows"]) -> int:
    """How many of the highest scores are more than the tail of the others explains."""
    known = np.sort(scores.astype(np.float64))
    if known[0] > 0:
        known = np.log(known)
    middle, upper = np.quantile(known, (0.5, 0.75))
    if not upper > middle:
        return 0
    descending, count = known[::-1], len(known)
    expected = count * ndtr(-ndtri(0.75) * (descending - middle) / (upper - middle))
    enough = np.flatnonzero((expected <= EXPLAINED * np.arange(1, count + 1)) & (descending > upper))
    return int(enough[-1]) + 1 if len(enough) else 0


def held_out_scores(plan: Plan, nll: Float[np.ndarray, "draws rows"]) -> list[Float[np.ndarray, " calibrated"]]:
    """Of each fold, the mean scores of its calibration rows by its own draws."""
    return [mean_nll(nll[draws][:, fold.calibrated]) for draws, fold in plan.slices()]
