r"""Refer where a review costs less than what the verdict is expected to cost.

    accept as inlier    q * missed_anomaly
    accept as anomaly   (1 - q) * false_alarm
    refer               review                          Chow 1970, with unequal costs

    q / (1 - q) = p / (1 - p) * prevalence / (1 - prevalence)

The cheapest of the three is chosen for each example, so the rule also says from which probability p on an example is an
anomaly. q is how probable an anomaly is among examples like this one: a mean probability p weighs an anomaly against a
good example as if both were equally common, and the prevalence says how common anomalies are. The rule is the cheapest
as far as p is right in that; judge the costs on labelled data before you rely on them.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from indubio.decision.referral import Evidence, Labelled, Referral, Uncertainties
from indubio.settings import Fraction, Positive


@dataclass(frozen=True, kw_only=True)
class Cost(Referral):
    """Choose the verdict that is expected to cost least, for each example.

    Args:
        missed_anomaly: cost of an anomaly that is accepted as an inlier.
        false_alarm: cost of an inlier that is called an anomaly.
        review: cost of a person looking at an example.
        prevalence: share of anomalies among the examples that come. None stands for one half until labels tell it:
            those of examples as they come, given to `refer_by`, or those that `learn` is given; the new detector's rule
            has the number. Anomalies are mostly far rarer than one half, and much is then called or referred in vain.

    Examples:
        A missed anomaly costs ten times a false alarm, so an example is called an anomaly early: from 1/11 on. The
        first two are referred: a review costs less than either verdict is expected to cost.

        >>> import numpy as np
        >>> from indubio.decision import Evidence
        >>> from indubio.judging import quantify
        >>> p = np.array([[0.1, 0.4, 0.6, 0.9]])
        >>> sure = quantify(p, p, largest_reference_nll=1.0, reference_examples=100)
        >>> found = Evidence(uncertainty=sure, prediction=p[0] >= 0.5, below=None, reference=100)
        >>> rule = Cost(missed_anomaly=100, false_alarm=10, review=5)
        >>> round(rule.anomaly_threshold(0.5), 2)
        0.09
        >>> rule.refers(found, rule.fit(sure))
        array([ True,  True, False, False])

        Where one in a hundred is an anomaly, all of these are inliers, and only the last is worth a review.

        >>> rare = Cost(missed_anomaly=100, false_alarm=10, review=5, prevalence=0.01)
        >>> round(rare.anomaly_threshold(0.5), 2)
        0.91
        >>> rare.refers(found, rare.fit(sure))
        array([False, False, False,  True])
    """

    missed_anomaly: Positive
    false_alarm: Positive
    review: Positive
    prevalence: Fraction | None = None

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:  # noqa: ARG002 - as every rule
        """The cost of a review: a verdict that is expected to cost more is referred."""
        return float(self.review)

    def doubt(self, found: Evidence) -> Float[np.ndarray, " examples"]:
        """What the cheaper of the two verdicts is expected to cost."""
        p = found.uncertainty.probability
        if self.prevalence is not None:
            anomalous, good = p * self.prevalence, (1 - p) * (1 - self.prevalence)
            p = anomalous / (anomalous + good)
        return np.minimum(p * self.missed_anomaly, (1 - p) * self.false_alarm)

    def anomaly_threshold(self, given: float) -> float:  # noqa: ARG002 - the costs decide
        """Where both verdicts are expected to cost the same."""
        common = 0.5 if self.prevalence is None else self.prevalence
        alarm, missed = self.false_alarm * (1 - common), self.missed_anomaly * common
        return alarm / (alarm + missed)

    @property
    def takes_labels(self) -> bool:
        """Whether labels are of use: for the prevalence, where it is not given."""
        return self.prevalence is None

    def at_prevalence(self, share: float) -> "Cost":
        """This rule with the prevalence put in, where none is given."""
        return self.replaced(prevalence=share) if self.prevalence is None else self
