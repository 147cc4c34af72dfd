"""The paper's way: every draw is trained on all rows and calibrated on the same rows.

CDF_m is fitted on nll_m of the rows that draw m has seen        paper, section 3.2 (i)

Nothing is lost for training, and nothing is promised: the scores are too low, so more new good examples look anomalous
than the probability says, and there is no valid p-value.
"""

from dataclasses import dataclass

import numpy as np

from indubio.calibration.calibration import Calibration, Fold, Groups, Plan
from indubio.calibration.dependence import INDEPENDENT, Dependence


@dataclass(frozen=True, kw_only=True)
class TrainScores(Calibration):
    """Calibrate on the training rows, as the paper does.

    Examples:
        >>> plan = TrainScores().plan(examples=20, draws=10, seed=0)
        >>> [(fold.draws, len(fold.trained), len(fold.calibrated)) for fold in plan.folds], plan.unseen
        ([(10, 20, 20)], False)
    """

    def plan(  # all are called alike
        self,
        examples: int,
        draws: int,
        seed: int,  # noqa: ARG002
        groups: Groups | None = None,  # noqa: ARG002
        dependence: Dependence = INDEPENDENT,  # noqa: ARG002
    ) -> Plan:
        """One fold: all draws, all rows, twice."""
        rows = np.arange(examples)
        return Plan(folds=(Fold(draws=draws, trained=rows, calibrated=rows),), unseen=False)
