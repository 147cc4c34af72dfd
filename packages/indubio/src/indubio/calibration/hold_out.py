"""A share of the rows is kept out of training, and calibrates all draws.

P(p-value <= a) <= a        split conformal prediction: Vovk et al. 2005; for anomalies: Bates et al. 2023

Exact for new examples that are exchangeable with the rows kept out, whatever the network is. The price is that share of
the training rows.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from indubio.calibration.calibration import Calibration, Groups, Plan, folds_of, shuffled, strata
from indubio.calibration.dependence import INDEPENDENT, Dependence
from indubio.errors import ConfigError
from indubio.settings import Fraction

STRETCHES = 5


@dataclass(frozen=True, kw_only=True)
class HoldOut(Calibration):
    """Keep a share of the rows out of training, to calibrate on.

    Args:
        share: of the rows that is kept out.
        rows: which: "random" ones, or the "last" ones. Take the last where neighbours are alike, as windows that
            overlap are: a random window's neighbours would have been trained on, and it would look too good. Or
            "stretches" of rows that follow each other, evenly spread, which see more of what there is than the last.

    Examples:
        Of 20 rows the last 5 are kept for the scores of all 10 draws to be compared with.

        >>> (fold,) = HoldOut(share=0.25, rows="last").plan(examples=20, draws=10, seed=0).folds
        >>> fold.draws, len(fold.trained), fold.calibrated.tolist()
        (10, 15, [15, 16, 17, 18, 19])
    """

    share: Fraction = 0.25
    rows: Literal["random", "last", "stretches"] = "random"

    def plan(
        self,
        examples: int,
        draws: int,
        seed: int,
        groups: Groups | None = None,
        dependence: Dependence = INDEPENDENT,
    ) -> Plan:
        """One fold: all draws, trained on what is left."""
        in_order = self.rows != "random"
        order = np.arange(examples) if in_order else shuffled(examples, seed)
        held = dependence.divided(strata(order, groups), [self.places], in_order=in_order)
        kept, near = (np.concatenate(parts) for parts in zip(*held, strict=True))
        if len(kept) < 1 or len(kept) >= examples:
            raise ConfigError(
                f"a share of {self.share} of {examples} rows is {len(kept)}, and holding out needs rows on both sides. "
                'Give more rows, or calibrate with CrossFit() ("cross") or TrainScores() ("train").'
            )
        folds = folds_of([(kept, near)], examples, [draws], dependence)
        return Plan(folds=folds, unseen=True, in_stretches=in_order and dependence.in_stretches)

    def places(self, examples: int) -> list[tuple[int, int]]:
        """From where to where the held-out ones of so many reach, in the order in which they are divided."""
        if self.rows != "stretches":
            return [(examples - round(self.share * examples), examples)]
        ends = np.arange(1, STRETCHES + 1) * examples // STRETCHES
        size = int(self.share * examples) // STRETCHES
        return [(int(end) - size, int(end)) for end in ends]
