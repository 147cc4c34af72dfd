r"""RejEx: ExCeeD with a constant threshold (Perini & Davis 2023).

    stability = |1 - 2 P(anomaly)|,   refer if stability <= 1 - 2 exp(-T)

Nothing is fitted and no label is needed. With their T = 32 only predictions that would hardly ever flip are accepted.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from indubio.decision.exceed import stabilities
from indubio.decision.referral import Evidence, Labelled, Referral, Uncertainties
from indubio.settings import Fraction, Positive


@dataclass(frozen=True, kw_only=True)
class RejEx(Referral):
    """Refer what lies near the decision boundary of ExCeeD.

    Args:
        contamination: gamma, the share of anomalies that is expected.
        tolerance: T; the larger, the more is referred.

    Examples:
        Of 100 reference examples, 50, 85, 90 and 100 score at most as high. Only what is far below the share of
        anomalies expected is left to the detector.

        >>> import numpy as np
        >>> from indubio.decision import Evidence
        >>> from indubio.judging import quantify
        >>> p = np.array([[0.1, 0.4, 0.6, 0.9]])
        >>> sure = quantify(p, p, largest_reference_nll=1.0, reference_examples=100)
        >>> found = Evidence(uncertainty=sure, prediction=p[0] >= 0.5, below=np.array([50, 85, 90, 100]), reference=100)
        >>> rule = RejEx(contamination=0.1)
        >>> rule.refers(found, rule.fit(sure))
        array([False,  True,  True,  True])
    """

    NEEDS_RANKS: ClassVar[bool] = True

    contamination: Fraction = 0.1
    tolerance: Positive = 32.0

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """Just below exp(-T): what is exactly there is referred too."""
        return float(np.nextafter(np.exp(-self.tolerance), -1.0))

    def doubt(self, found: Evidence) -> Float[np.ndarray, " examples"]:
        """min(P, 1 - P) = (1 - stability) / 2, which keeps its digits where the stability rounds to 1."""
        return np.asarray(np.minimum(*stabilities(found, self.contamination)))
