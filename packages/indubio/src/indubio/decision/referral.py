"""Referral: the settings of a rule that says which verdicts go to a person, and what a rule gets to see.

REFER if doubt(x) > threshold: a rule says what doubt is and how the threshold is found. All that it learns is that
one number, so a rule can be changed without training again.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from indubio.decision.verdict import checked_values
from indubio.errors import ConfigError
from indubio.judging import LARGEST_TOTAL, ON_DEMAND, Uncertainty, UncertaintyName
from indubio.settings import Settings, Share
from indubio.texts import _, gettext, written

EVEN = 0.5  # the probability from which on an anomaly is the more probable
Uncertainties = Mapping[str, Shaped[np.ndarray, " examples"]] | Uncertainty


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What is known of the examples to decide on.

    Args:
        uncertainty: their mean probabilities and uncertainties.
        prediction: True for what would be called an anomaly.
        below: how many reference examples score at most as high, for a rule that needs ranks; else None.
        reference: how many reference examples there are.
        day: the calendar day of each example; None where it is not known.
    """

    uncertainty: Uncertainty
    prediction: Bool[np.ndarray, " examples"]
    below: Int[np.ndarray, " examples"] | None
    reference: int
    day: Shaped[np.ndarray, " examples"] | None = None

    def __len__(self) -> int:
        return len(self.prediction)


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """Examples with known labels, for rules that need them.

    Args:
        evidence: what the detector says of them.
        wrong: where its prediction differs from the label.
    """

    evidence: Evidence
    wrong: Bool[np.ndarray, " examples"]


@dataclass(frozen=True, kw_only=True)
class Referral(Settings, ABC):
    """Which verdicts are referred.

    Args:
        by: the uncertainty that decides; for a rule that goes by something else, the one to show beside the verdict.
    """

    NEEDS_LABELS: ClassVar[bool] = False
    NEEDS_RANKS: ClassVar[bool] = False  # whether it looks at `Evidence.below`
    OVER_BATCH: ClassVar[bool] = False  # whether a verdict depends on what else is assessed with it

    by: UncertaintyName = "total"

    @abstractmethod
    def fit(self, reference: Uncertainties, labelled: Labelled | None = None) -> float:
        """The threshold: what is in more doubt than this is referred.

        Args:
            reference: uncertainties of good examples, by name.
            labelled: examples with labels, for a rule that needs them.
        """

    def doubt(self, found: Evidence) -> Float[np.ndarray, " examples"]:
        """What the threshold is compared with."""
        return uncertainty_values(found.uncertainty, self.by)

    def refers(self, found: Evidence, threshold: float) -> Bool[np.ndarray, " examples"]:
        """Which verdicts are referred for their doubt."""
        if np.isnan(threshold):
            raise ConfigError("the referral threshold must be a number, got NaN.")
        return np.asarray(self.doubt(found) > threshold)

    @property
    def by_threshold(self) -> bool:
        """Whether it compares nothing but the uncertainty `by` with its threshold."""
        return self.inlier_share == 1 and type(self).refers is Referral.refers

    @property
    def inlier_share(self) -> float | None:
        """What the uncertainty `by` of a probable inlier counts, an anomaly's being 1; None where doubt is another."""
        return 1.0 if type(self).doubt is Referral.doubt else None

    def in_words(self, threshold: float) -> str | None:
        """What is referred, as a phrase; None for a rule that compares something else than an uncertainty."""
        share = self.inlier_share
        if share is None or self.OVER_BATCH:
            return None
        if threshold < 0:
            return _("everything")
        if share == 1:
            return _("{by} uncertainty above {limit}", by=gettext(self.by), limit=written(f"{threshold:.4g}"))
        highest = LARGEST_TOTAL if self.by in ("total", "epistemic", "aleatoric") else np.inf
        of_alarms = _(
            "{by} uncertainty of an alarm above {limit}", by=gettext(self.by), limit=written(f"{threshold:.4g}")
        )
        if not share or threshold / share >= highest:
            return of_alarms
        return _("{of_alarms}, of others above {limit}", of_alarms=of_alarms, limit=written(f"{threshold / share:.4g}"))

    @property
    def takes_labels(self) -> bool:
        """Whether it learns from labels, if it gets them."""
        return self.NEEDS_LABELS

    @property
    def fewest(self) -> int:
        """Labelled examples without which it cannot be fitted, where it learns from them."""
        return 1

    def anomaly_threshold(self, given: float) -> float:
        """From which probability on an example is an anomaly; a rule may know better than what is given."""
        return given

    def at_prevalence(self, share: float) -> "Referral":  # noqa: ARG002 - for a rule that needs it
        """This rule with the share of anomalies put in, where it needs one and none is given."""
        return self


@dataclass(frozen=True, kw_only=True)
class LimitedReviews(Referral, ABC):
    """Reviewers have time for some examples only: weak alarms come before weak inliers.

    Most errors of a verdict with few false alarms are false alarms, as long as anomalies are rare: all good examples
    just above the threshold are errors, and only the anomalies just below it are. Measured in docs/verdicts.md.

    Args:
        inlier_weight: what the uncertainty of an example counts whose probability is below 1/2; of the others it counts
            1. With 1 both count alike; with 0 only alarms are reviewed.
    """

    inlier_weight: Share = 0.5

    def doubt(self, found: Evidence | Uncertainties) -> Float[np.ndarray, " examples"]:
        """The uncertainty `by`, less of it for probable inliers."""
        known = found.uncertainty if isinstance(found, Evidence) else found
        values = uncertainty_values(known, self.by)
        if self.inlier_weight == 1:
            return values
        return np.where(uncertainty_values(known, "probability") >= EVEN, values, self.inlier_weight * values)

    @property
    def inlier_share(self) -> float:
        """How much the uncertainty of a probable inlier counts, beside that of an alarm."""
        return self.inlier_weight


def uncertainty_values(
    uncertainties: Uncertainties, by: UncertaintyName | Literal["probability"]
) -> Float[np.ndarray, " examples"]:
    """The values of one uncertainty, looked up by name."""
    given = vars(uncertainties) if isinstance(uncertainties, Uncertainty) else uncertainties
    values = given.get(by)
    if values is None and by in ON_DEMAND:
        raise ConfigError(
            "`by` is {by!r}, which is computed only where it is asked for, and was not for these examples. Fit with "
            "this rule, or pass good examples to `refer_by`.",
            by=by,
        )
    if values is None:
        raise ConfigError("`by` must name one of the uncertainties {known}, got {by!r}.", known=sorted(given), by=by)
    return checked_values(values, by)
