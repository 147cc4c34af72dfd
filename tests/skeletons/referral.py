r"""Refer what lies near the anomaly threshold of 1/2, on either side of it.

doubt(x) = 1/2 - |p - 1/2|,   refer if doubt(x) > 1/2 - margin

All that a rule learns is its threshold, so it can be changed without training again. What it may look at is in
`Evidence`; what it learns the threshold from are the uncertainties of good examples, and labelled examples if
`NEEDS_LABELS` says so.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float
from pydantic import Field

from indubio.decision import Evidence, Labelled, Referral, Uncertainties


@dataclass(frozen=True, kw_only=True)
class Margin(Referral):
    """Refer what is at most so far from the anomaly threshold.

    Args:
        margin: largest distance of the mean probability from 1/2 that is referred.
    """

    margin: Annotated[float, Field(gt=0, le=0.5)] = 0.1

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:
        """Known beforehand: nothing is learned from the reference examples."""
        return 0.5 - self.margin

    def doubt(self, found: Evidence) -> Float[np.ndarray, " examples"]:
        """1/2 at the threshold, 0 for a probability of 0 or 1. Without this method doubt is the uncertainty `by`."""
        return 0.5 - abs(found.uncertainty.probability - 0.5)
