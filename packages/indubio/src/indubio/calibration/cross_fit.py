"""K folds: each part of the draws is trained without one fold, and calibrated on it.

    part k of the draws:  trained on all rows but fold k,  CDF_m fitted on nll_m of fold k

So every draw has a CDF of its own from rows it has not seen, as the paper's method needs, every row calibrates, and no
network is trained only to be thrown away: the M draws that calibrate are the M draws that score. (Training once more on
all rows would be the other way; its scores are of other networks than those that were calibrated.)

A new example is compared with the rows of fold k by the draws of part k alone, and the counts are added up:

    p = (1 + sum_k #{i in fold k: s_k(i) >= s_k(x)}) / (n + 1),   s_k: mean NLL over part k

This is the cross-conformal p-value (Vovk 2015), whose intervals are those of CV+ and, with bootstraps in place of
folds, of jackknife+-after-bootstrap (Barber et al. 2021; Kim et al. 2020). What is proven is

    P(p <= a) <= 2a + 2 (1 - a) (K - 1) / (n + K)

For within fold k alone p_k = (1 + its count) / (n/K + 1) has P(p_k <= a) <= a, and twice a mean of such p-values is one
again, however they depend on each other (Vovk & Wang 2020): P(mean <= t) <= 2t. The counts above add up to
p = ((n + K) mean - (K - 1)) / (n + 1), so p <= a where the mean is at most t = (a (n + 1) + K - 1) / (n + K), and 2t is
the bound. It is Barber et al. 2021, theorem 4, at levels of p. With n = 100 and K = 5 it is 0.17 for a = 0.05, and
nears 0.10 for many rows; what is found is near a, nearly always. The scaling to the training range is one for all draws
and has seen all rows, which the theorem does not cover.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from indubio.calibration.calibration import Calibration, Groups, Plan, folds_of, shuffled, strata
from indubio.calibration.dependence import INDEPENDENT, Dependence
from indubio.errors import ConfigError
from indubio.settings import AtLeastTwo

FEWEST_RUNS = 3  # that are held out whole; of two, each draw would know but one


@dataclass(frozen=True, kw_only=True)
class CrossFit(Calibration):
    """Train each part of the draws without one fold of the rows, and calibrate it on that fold.

    Args:
        folds: K; with fewer draws or rows, as many folds as there are of these.
        rows: what a fold is: "random" rows, or a stretch of rows that follow each other, "in order". Take these where
            neighbours are alike, as windows of a recording are: a random window's neighbours would have been trained
            on, and it would look too good. Without a calibration of your own that is chosen where it is so, see
            `dependence`.

    Examples:
        Five times two draws are trained on 16 of the 20 rows and compared with the other 4.

        >>> plan = CrossFit(folds=5).plan(examples=20, draws=10, seed=0)
        >>> [(fold.draws, len(fold.trained), len(fold.calibrated)) for fold in plan.folds]
        [(2, 16, 4), (2, 16, 4), (2, 16, 4), (2, 16, 4), (2, 16, 4)]
    """

    folds: AtLeastTwo = 5
    rows: Literal["random", "in order"] = "random"

    def plan(
        self,
        examples: int,
        draws: int,
        seed: int,
        groups: Groups | None = None,
        dependence: Dependence = INDEPENDENT,
    ) -> Plan:
        """K folds; the N mod K rows (of each group) that are left over are trained on by all and calibrate none.

        Fewer folds where neighbours are held out together and there are fewer runs.
        """
        count = min(self.folds, draws, examples)
        if count < 2:
            raise ConfigError(
                f"cross-fitting needs at least two draws and two rows, got {draws} and {examples}: a draw cannot be "
                'calibrated on rows it was trained on. Calibrate with HoldOut() ("holdout") or TrainScores() ("train").'
            )
        in_order = self.rows == "in order"
        order = np.arange(examples) if in_order else shuffled(examples, seed)
        ways = [partial(_equal, folds=fewer) for fewer in range(count, min(count, FEWEST_RUNS) - 1, -1)]
        held = dependence.divided(strata(order, groups), ways, in_order=in_order)
        shares = [draws // len(held) + (place < draws % len(held)) for place in range(len(held))]
        folds = folds_of(held, examples, shares, dependence)
        return Plan(folds=folds, unseen=True, in_stretches=in_order and dependence.in_stretches)


def _equal(examples: int, folds: int) -> list[tuple[int, int]]:
    """From where to where each fold reaches."""
    size = examples // folds
    return [(place * size, (place + 1) * size) for place in range(folds)]
