"""What the labels say: how good the predictions are, and what referral buys."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from indubio.evaluation import RejectionCurve, accuracy_rejection_curve, auroc, error_detection_auroc
from indubio.evaluation.metrics import Confusion
from indubio.report.subject import Subject
from indubio.uncertainty import ON_DEMAND, UNCERTAINTIES

ORDER = ("total", "epistemic", "aleatoric", "exceed", "var_nll", "disagreement")
assert set(ORDER) == {*UNCERTAINTIES, *ON_DEMAND}


@dataclass(frozen=True, kw_only=True)
class Errors:
    """How wrong some verdicts are.

    Args:
        verdicts: how many there are.
        missed: anomalies that pass as normal.
        false_alarms: normal examples that are called anomalies.
    """

    verdicts: int
    missed: int
    false_alarms: int

    @property
    def wrong(self) -> int:
        """Missed anomalies and false alarms together."""
        return self.missed + self.false_alarms

    @property
    def share(self) -> float:
        """The share of the verdicts that is wrong; NaN where there are none."""
        return self.wrong / self.verdicts if self.verdicts else float("nan")


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
    before: Errors
    after: Errors
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
        before=_errors(labels, found.prediction, np.ones(len(labels), dtype=bool)),
        after=_errors(labels, found.prediction, ~subject.referred),
        sensitivity=counts.sensitivity.item(),
        specificity=counts.specificity.item(),
        auroc=auroc(labels, found.nll),
        curves={name: accuracy_rejection_curve(labels, found.prediction, u) for name, u in uncertainties.items()},
        error_detection={name: error_detection_auroc(labels, found.prediction, u) for name, u in uncertainties.items()},
    )


def _errors(
    labels: Bool[np.ndarray, " examples"],
    predictions: Bool[np.ndarray, " examples"],
    accepted: Bool[np.ndarray, " examples"],
) -> Errors:
    return Errors(
        verdicts=int(np.count_nonzero(accepted)),
        missed=int(np.count_nonzero(accepted & labels & ~predictions)),
        false_alarms=int(np.count_nonzero(accepted & ~labels & predictions)),
    )
