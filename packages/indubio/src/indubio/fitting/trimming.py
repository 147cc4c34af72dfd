r"""Trimming: training rows that lie outside of the bulk are left out, and the draws are trained without them.

    strangeness(x_i) = |x_i - its k-th neighbour|^2,   k a tenth of the rows

A detector cannot judge its own training rows by near rows: ten bad ones that are alike are usual to each other. The
distance to so far a neighbour is a view of the whole: rows are strange unless a tenth of all lies around them. Values
are scaled by quantiles meanwhile and cut at ten of these units: bad rows cannot stretch the scale that they are judged
by. Of more than 2,000 rows neighbours are looked for among a random 2,000.

The share is left out whether or not anything is bad: good rows at the rim are few, and what is learned without them
hardly differs (docs/contamination.md). It is done within each fold of the draws, so the rows that calibrate a fold have
no say in what it is trained on, but in the scaling, and p-values promise what they did.

The rows that calibrate hold bad ones too. With `reference="keep"` they all stay. A share e of bad rows can only raise a
p-value's count, so good examples have P(p <= a) <= a / (1 - e); but bad rows that score high make anomalies look usual.
With "drop" the highest m of n are left out, and P(p <= a) <= a + m / (n + 1), whatever they were.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from indubio.calibration import Plan
from indubio.judging import mean_nll
from indubio.numerics import product
from indubio.settings import Fraction, Settings

TRIMMED = 10  # marks the random stream of the neighbours; 7 is the split's, 8 that of the parts, 9 a stream's order
FARTHEST = 10.0  # units that values are cut at while rows are judged
AROUND = 0.1  # of the rows: so many lie around a row that is usual
NEIGHBOURS = 2000  # that a row's are looked for among
ROWS_AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class Trimming(Settings):
    """Leave training rows out that look like anomalies.

    Args:
        share: of the training rows that is left out: about twice the share that may be bad.
        reference: what happens to the highest scores among the rows that calibrate: "keep" leaves none out, so false
            alarms keep their rate; "drop" leaves as large a share of them out, so more anomalies are found, and there
            are more false alarms. See docs/contamination.md for what each promises.

    Examples:
        >>> import numpy as np
        >>> from indubio import Detector
        >>> rows = np.random.default_rng(0).normal(size=(100, 3))
        >>> rows[:5] *= 20
        >>> detector = Detector(trimming=Trimming()).fit(rows)
        >>> bool(detector.assess(rows[:5]).prediction.all())
        True
    """

    share: Fraction = 0.1
    reference: Literal["drop", "keep"] = "keep"

    def trained(self, plan: Plan, rows: Float[np.ndarray, "rows values"], examples: int, seed: int) -> Plan:
        """The plan with the strangest rows of every fold left out of its training.

        Args:
            plan: of the detector.
            rows: all rows, scaled so that bad ones do not stretch the scale.
            examples: rows that may be left out; those after them were confirmed by a person.
            seed: of the neighbours.
        """
        folds = []
        for fold in plan.folds:
            doubtful = fold.trained[fold.trained < examples]
            worst = doubtful[_highest(strangeness(rows[doubtful], seed), round(self.share * len(doubtful)))]
            folds.append(replace(fold, trained=np.setdiff1d(fold.trained, worst)))
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
        count = round(self.share * len(own[0]))
        folds = [
            replace(fold, calibrated=np.delete(fold.calibrated, _highest(scores, count)))
            for fold, scores in zip(plan.folds, own, strict=True)
        ]
        return replace(plan, folds=tuple(folds), dropped=count * len(folds))


def strangeness(rows: Float[np.ndarray, "rows values"], seed: int) -> Float[np.ndarray, " rows"]:
    """The squared distance of every row to the neighbour up to which a tenth of all rows lies.

    Args:
        rows: scaled.
        seed: of the rows among which neighbours are looked for, where there are many.

    Examples:
        Nine alike rows are strange among a hundred others, however near they are to each other.

        >>> rows = np.concatenate([np.random.default_rng(0).normal(size=(100, 2)), np.full((9, 2), 8.0)])
        >>> sorted(np.argsort(strangeness(rows, seed=0))[-9:].tolist()) == list(range(100, 109))
        True
    """
    values = np.ascontiguousarray(rows, dtype=np.float64)
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(TRIMMED,)))
    chosen = np.sort(random.permutation(len(values))[:NEIGHBOURS])
    others = values[chosen]
    squares, place = np.cumsum(others * others, axis=1)[:, -1], min(len(others) - 1, round(AROUND * len(others)))
    columns, found = np.ascontiguousarray(others.T), np.empty(len(values))
    for start in range(0, len(values), ROWS_AT_ONCE):
        block = values[start : start + ROWS_AT_ONCE]
        apart = np.cumsum(block * block, axis=1)[:, -1:] + squares - 2 * product(block, columns)
        found[start : start + ROWS_AT_ONCE] = np.partition(apart, place, axis=1)[:, place]
    return np.maximum(found, 0.0)


def _highest(scores: Float[np.ndarray, " rows"], count: int) -> Int[np.ndarray, " highest"]:
    """Places of the highest scores."""
    return np.argsort(scores, kind="stable")[len(scores) - count :]


def held_out_scores(plan: Plan, nll: Float[np.ndarray, "draws rows"]) -> list[Float[np.ndarray, " calibrated"]]:
    """Of each fold, the mean scores of its calibration rows by its own draws."""
    return [mean_nll(nll[draws][:, fold.calibrated]) for draws, fold in plan.slices()]
