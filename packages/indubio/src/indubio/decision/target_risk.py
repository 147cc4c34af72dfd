r"""Accept as many verdicts as can be, so that at most a share alpha of those accepted is wrong, with confidence.

    P( error rate among the accepted > alpha ) <= delta

over labelled sets like the one it is fitted on. Thresholds t are tried from strict to lax; at each, the hypothesis
"the error rate among what is at most t uncertain exceeds alpha" is tested by the exact binomial p-value
P(Binomial(accepted, alpha) <= wrong), and the last threshold before the first that cannot be rejected at delta is
taken. A fixed order needs no correction for trying many (fixed-sequence testing; learn then test, Angelopoulos et al.
2021; the bound itself: Geifman & El-Yaniv 2017).

The order must not look at the labelled set: the thresholds are quantiles of the reference examples, and the first is
where about three times the fewest examples are expected that could pass with no error at all.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.special import bdtr

from indubio.decision.referral import Labelled, Referral, Uncertainties, uncertainty_values
from indubio.errors import ConfigError, DataError
from indubio.settings import Fraction
from indubio.texts import english

STEPS = 50  # thresholds that are tried, at most
ROOM = 3.0  # expected examples at the first threshold, relative to the fewest that could pass


@dataclass(frozen=True, kw_only=True)
class TargetRisk(Referral):
    """The largest acceptance whose error rate is at most alpha, with confidence 1 - delta.

    Needs labelled examples, inliers and anomalies as they come: `detector.refer_by(TargetRisk(alpha=0.05), X, y)`.

    Args:
        alpha: largest error rate among the accepted.
        delta: probability of a labelled set that misleads.

    Examples:
        At most 5 % errors with 90 % confidence: even without a single error, that takes 45 accepted examples.

        >>> TargetRisk(alpha=0.05, delta=0.1).fewest
        45

        Here 200 labelled examples are given, of which the 20 most uncertain have a wrong verdict.

        >>> import numpy as np
        >>> from indubio.decision import Evidence, Labelled
        >>> from indubio.judging import quantify
        >>> p = np.linspace(0.5, 1.0, 200)[None]
        >>> sure = quantify(p, p, largest_reference_nll=1.0, reference_examples=100)
        >>> evidence = Evidence(uncertainty=sure, prediction=p[0] >= 0.5, below=None, reference=100)
        >>> labelled = Labelled(evidence=evidence, wrong=p[0] < 0.55)
        >>> threshold = TargetRisk(alpha=0.05).fit(sure, labelled)
        >>> accepted = sure.total <= threshold
        >>> bool(accepted.mean() > 0.9), bool(labelled.wrong[accepted].mean() < 0.05)
        (True, True)
    """

    NEEDS_LABELS: ClassVar[bool] = True

    alpha: Fraction
    delta: Fraction = 0.1

    @property
    def fewest(self) -> int:
        """Accepted examples that are needed even if none is wrong: (1 - alpha)^n <= delta."""
        return int(np.ceil(np.log(self.delta) / np.log1p(-self.alpha)))

    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:
        """The laxest threshold that passes together with all stricter ones."""
        if labelled is None:
            raise ConfigError(
                "TargetRisk needs labelled examples: fit with another rule, then call "
                "`detector.refer_by(TargetRisk(...), X, y)` with inliers and anomalies."
            )
        values = uncertainty_values(labelled.evidence.uncertainty, self.by)
        if len(values) < self.fewest:
            raise DataError(
                english(
                    "an error rate of at most {alpha:g} with confidence {confidence:g} needs at least {fewest:d} "
                    "labelled examples, got {got:d}.",
                    alpha=self.alpha,
                    confidence=1 - self.delta,
                    fewest=self.fewest,
                    got=len(values),
                )
            )
        passed, first = None, None
        for threshold in self.candidates(uncertainty_values(reference, self.by), len(values)):
            accepted = values <= threshold
            total, wrong = int(accepted.sum()), int(labelled.wrong[accepted].sum())
            first = first or (total, wrong)
            if total == 0 or bdtr(wrong, total, self.alpha) > self.delta:
                break
            passed = float(threshold)
        if passed is None:
            assert first is not None
            raise DataError(
                english(
                    "no verdict can be accepted: of the {certain:d} most certain labelled examples {wrong:d} are "
                    "wrong, too many for an error rate of at most {alpha:g} with confidence {confidence:g}. Raise "
                    "`alpha` or `delta`, or give more labelled examples.",
                    certain=first[0],
                    wrong=first[1],
                    alpha=self.alpha,
                    confidence=1 - self.delta,
                )
            )
        return passed

    def candidates(self, reference: Float[np.ndarray, " reference"], examples: int) -> Float[np.ndarray, " steps"]:
        """Thresholds from strict to lax, the last of which accepts everything.

        Args:
            reference: uncertainties of the reference examples.
            examples: how many labelled examples there are.
        """
        start = min(1.0, ROOM * self.fewest / examples)
        levels = np.linspace(start, 1.0, STEPS)
        return np.append(np.unique(np.quantile(reference, levels)), np.inf)
