"""A share of the rows is kept out of training, and calibrates all draws.

P(p-value <= a) <= a        split conformal prediction: Vovk et al. 2005; for anomalies: Bates et al. 2023

Exact for new examples that are exchangeable with the rows kept out, whatever the network is. The price is that share of
the training rows.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from indubio.calibration.calibration import Calibration, Fold, Groups, Plan, shuffled, strata
from indubio.errors import ConfigError
from indubio.settings import Fraction


@dataclass(frozen=True, kw_only=True)
class HoldOut(Calibration):
    """Keep a share of the rows out of training, to calibrate on.

    Args:
        share: of the rows that is kept out.
        rows: which: "random" ones, or the "last" ones. Take the last where neighbours are alike, as windows that
            overlap are: a random window's neighbours would have been trained on, and it would look too good.

    Examples:
        Of 20 rows the last 5 are kept for the scores of all 10 draws to be compared with.

        >>> (fold,) = HoldOut(share=0.25, rows="last").plan(examples=20, draws=10, seed=0).folds
        >>> fold.draws, len(fold.trained), fold.calibrated.tolist()
        (10, 15, [15, 16, 17, 18, 19])
    """

    share: Fraction = 0.25
    rows: Literal["random", "last"] = "random"

    def plan(self, examples: int, draws: int, seed: int, groups: Groups | None = None) -> Plan:
        """One fold: all draws, trained on what is left."""
        order = shuffled(examples, seed) if self.rows == "random" else np.arange(examples)
        kept = [rows[len(rows) - round(self.share * len(rows)) :] for rows in strata(order, groups)]
        calibrated = np.sort(np.concatenate(kept))
        held = len(calibrated)
        if held < 1 or held >= examples:
            raise ConfigError(
                f"a share of {self.share} of {examples} rows is {held}, and holding out needs rows on both sides. "
                'Give more rows, or calibrate with CrossFit() ("cross") or TrainScores() ("train").'
            )
        trained = np.setdiff1d(np.arange(examples), calibrated)
        return Plan(folds=(Fold(draws=draws, trained=trained, calibrated=calibrated),), unseen=True)
