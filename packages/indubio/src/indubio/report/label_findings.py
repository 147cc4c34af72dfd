"""What the labels say: how good the predictions are, and what referral buys."""

from collections.abc import Mapping
from dataclasses import dataclass

from indubio.evaluation import (
    Confusion,
    RejectionCurve,
    VerdictErrors,
    accuracy_rejection_curve,
    auroc,
    error_detection_auroc,
)
from indubio.judging import ON_DEMAND, UNCERTAINTIES
from indubio.report.subject import Subject
from indubio.texts import marked

ORDER = (
    *(marked("total"), marked("epistemic"), marked("aleatoric")),
    *(marked("exceed"), marked("var_nll"), marked("disagreement")),
)
assert set(ORDER) == {*UNCERTAINTIES, *ON_DEMAND}


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Everything that needs labels.

    Args:
        anomalies: how many examples the labels call anomalies.
        before: errors when every verdict is accepted.
        after: errors among the verdicts that are not referred.
        sensitivity: share of the anomalies that is found, nothing referred.
        specificity: share of the normal examples that is left in peace.
        auroc: of the score.
        curves: accuracy-rejection curve of GSS, by uncertainty.
        error_detection: P(an error is more uncertain than a right prediction), by uncertainty.
    """

    anomalies: int
    before: VerdictErrors
    after: VerdictErrors
    sensitivity: float
    specificity: float
    auroc: float
    curves: Mapping[str, RejectionCurve]
    error_detection: Mapping[str, float]


def quality(subject: Subject) -> Quality | None:
    """What the labels say; None without labels."""
    labels, found = subject.labels, subject.found
    if labels is None:
        return None
    counts = Confusion.of(labels, found.prediction)
    uncertainties = {name: u for name in ORDER if (u := getattr(found, name)) is not None}
    return Quality(
        anomalies=int(labels.sum()),
        before=VerdictErrors.of(labels, found.prediction),
        after=VerdictErrors.of(labels, found.prediction, ~subject.referred),
        sensitivity=counts.sensitivity.item(),
        specificity=counts.specificity.item(),
        auroc=auroc(labels, found.nll),
        curves={name: accuracy_rejection_curve(labels, found.prediction, u) for name, u in uncertainties.items()},
        error_detection={name: error_detection_auroc(labels, found.prediction, u) for name, u in uncertainties.items()},
    )
