"""Which rows train the draws, and which rows their scores are compared with.

    rows (N)  ->  Plan: per fold, the rows to train on and the rows to calibrate on

A network scores the rows it was trained on better than new ones. A probability or p-value made from such scores
promises too much; `TrainScores` does that, as the paper does, and the others keep the two apart. `CALIBRATIONS` names
every way; the command line, configuration files and contract tests read it.
"""

from indubio.calibration.calibration import SPLIT, Calibration, Fold, Plan, shuffled, strata, thinned
from indubio.calibration.cross_fit import CrossFit
from indubio.calibration.dependence import INDEPENDENT, Dependence
from indubio.calibration.hold_out import HoldOut
from indubio.calibration.train_scores import TrainScores

CALIBRATIONS: dict[str, type[Calibration]] = {
    "train": TrainScores,
    "holdout": HoldOut,
    "cross": CrossFit,
}

__all__ = [
    "CALIBRATIONS",
    "INDEPENDENT",
    "SPLIT",
    "Calibration",
    "CrossFit",
    "Dependence",
    "Fold",
    "HoldOut",
    "Plan",
    "TrainScores",
    "shuffled",
    "strata",
    "thinned",
]
