r"""ExCeeD: refer where another training set would likely have changed the prediction (Perini et al. 2020).

    q = (1 + n F(x)) / (2 + n)                       F: share of the reference scores up to that of x
    P(anomaly) = P(Binomial(n, q) > n - n gamma)     gamma: contamination, the expected share of anomalies
    confidence = P(anomaly) if x is called an anomaly, else 1 - P(anomaly)

For comparison with the literature. It knows nothing of the draws: only where the score lies among the reference scores.
`RejEx` in `rejex.py` refers by the same P(anomaly), with a constant threshold that needs no choice.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import bdtr, bdtrc

from indubio.decision.referral import Evidence, Labelled, Referral, Uncertainties
from indubio.errors import DataError
from indubio.settings import Fraction, Share


@dataclass(frozen=True, kw_only=True)
class Exceed(Referral):
    """Refer what ExCeeD is not confident of.

    Args:
        contamination: gamma, the share of anomalies that is expected.
        confidence: least confidence of an accepted verdict.

    Examples:
        Of 100 reference examples, 50, 85, 90 and 100 score at most as high. With a share of anomalies of 0.1 the one
        at 90 could as well have come out the other way.

        >>> import numpy as np
        >>> from indubio.decision import Evidence
        >>> from indubio.judging import quantify
        >>> p = np.array([[0.1, 0.4, 0.6, 0.9]])
        >>> sure = quantify(p, p, largest_reference_nll=1.0, reference_examples=100)
        >>> found = Evidence(uncertainty=sure, prediction=p[0] >= 0.5, below=np.array([50, 85, 90, 100]), reference=100)
        >>> rule = Exceed(contamination=0.1)
        >>> rule.refers(found, rule.fit(sure))
        array([False, False,  True, False])
    """

    NEEDS_RANKS: ClassVar[bool] = True

    contamination: Fraction = 0.1
    confidence: Share = 0.9

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """Nothing is learned: what is in more doubt than 1 - confidence is referred."""
        return 1 - float(self.confidence)

    def doubt(self, found: Evidence) -> Float[np.ndarray, " examples"]:
        """1 - confidence, for each prediction."""
        anomaly, inlier = stabilities(found, self.contamination)
        return np.where(found.prediction, inlier, anomaly)


def stabilities(
    found: Evidence, contamination: float
) -> tuple[Float[np.ndarray, " examples"], Float[np.ndarray, " examples"]]:
    """P(anomaly) and 1 - P(anomaly), each with all its digits.

    P(anomaly) is the share of training sets like this one under which the example is among the anomalies.
    """
    if found.below is None:
        raise DataError("this referral rule compares with the scores of the reference examples: give `below`.")
    n = found.reference
    q = (1 + found.below) / (2 + n)
    fewest = n - int(n * contamination)
    return np.asarray(bdtrc(fewest, n, q)), np.asarray(bdtr(fewest, n, q))
