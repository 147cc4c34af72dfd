r"""Refer where a review costs less than what the verdict is expected to cost.

    accept as inlier    p * missed_anomaly
    accept as anomaly   (1 - p) * false_alarm
    refer               review                          Chow 1970, with unequal costs

The cheapest of the three is chosen for each example, so the rule also says from which probability on an example is an
anomaly: false_alarm / (false_alarm + missed_anomaly). It is optimal as far as the mean probability p is the share of
anomalies among examples like this one. It is a CDF of scores, which is near that only when anomalies are about as
common as the conversion makes them look: judge the costs on labelled data before you rely on them.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from indubio.decision.referral import Evidence, Labelled, Referral, Uncertainties
from indubio.settings import Positive


@dataclass(frozen=True, kw_only=True)
class Cost(Referral):
    """Choose the verdict that is expected to cost least, for each example.

    Args:
        missed_anomaly: cost of an anomaly that is accepted as an inlier.
        false_alarm: cost of an inlier that is called an anomaly.
        review: cost of a person looking at an example.

    Example:
        A missed anomaly costs ten times a false alarm, so an example is called an anomaly early: from 1/11 on. The
        first two are referred: a review costs less than either verdict is expected to cost.

        >>> import numpy as np
        >>> from indubio.decision import Evidence
        >>> from indubio.uncertainty import quantify
        >>> p = np.array([[0.1, 0.4, 0.6, 0.9]])
        >>> sure = quantify(p, p, largest_reference_nll=1.0, reference_examples=100)
        >>> found = Evidence(uncertainty=sure, prediction=p[0] >= 0.5, below=None, reference=100)
        >>> rule = Cost(missed_anomaly=100, false_alarm=10, review=5)
        >>> round(rule.anomaly_threshold(0.5), 2)
        0.09
        >>> rule.refers(found, rule.fit(sure))
        array([ True,  True, False, False])
    """

    missed_anomaly: Positive
    false_alarm: Positive
    review: Positive

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """The cost of a review: a verdict that is expected to cost more is referred."""
        return float(self.review)

    def doubt(self, found: Evidence) -> Float[np.ndarray, " examples"]:
        """What the cheaper of the two verdicts is expected to cost."""
        p = found.uncertainty.probability
        return np.minimum(p * self.missed_anomaly, (1 - p) * self.false_alarm)

    def anomaly_threshold(self, given: float) -> float:  # noqa: ARG002 - the costs decide
        """Where both verdicts are expected to cost the same."""
        return self.false_alarm / (self.false_alarm + self.missed_anomaly)
