"""Everything the evaluation knows about one set of predictions, in one call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indubio.evaluation.argument_checks import Binary, Values, checked_binary
from indubio.evaluation.metrics import METRICS, Confusion, auroc, error_detection_auroc
from indubio.evaluation.rejection import RejectionCurve, accuracy_rejection_curve
from indubio.evaluation.risk_coverage import area_under_risk_coverage


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """How good the predictions are, and how well the uncertainty knows which of them are wrong.

    Args:
        examples: how many examples there are.
        anomalies: how many of them are anomalies.
        metrics: gss, f1, mcc, balanced_accuracy (and auroc with scores) of all examples, nothing rejected.
        gss: the accuracy-rejection curve of GSS; it has `weighted_average`, `base` and `gain`.
        auroc: the accuracy-rejection curve of AUROC; None without scores.
        gss_at: GSS when at most this share is rejected, by rejection rate.
        aurc: the area under the risk-coverage curve, low is good.
        error_detection_auroc: P(an error is more uncertain than a correct prediction).
    """

    examples: int
    anomalies: int
    metrics: Mapping[str, float]
    gss: RejectionCurve
    auroc: RejectionCurve | None
    gss_at: Mapping[float, float]
    aurc: float
    error_detection_auroc: float

    def to_dict(self) -> dict[str, int | float]:
        """One flat row of plain numbers, for a table or a file; what is undefined is NaN."""
        row: dict[str, int | float] = {"examples": self.examples, "anomalies": self.anomalies, **self.metrics}
        for curve in (self.gss, self.auroc):
            if curve is not None:
                row[f"{curve.metric}_w"] = curve.weighted_average
                row[f"{curve.metric}_base"] = curve.base
                row[f"{curve.metric}_gain"] = curve.gain
        row |= {f"gss_at_{100 * rate:g}": value for rate, value in self.gss_at.items()}
        return row | {"aurc": self.aurc, "error_detection_auroc": self.error_detection_auroc}


def evaluate(
    labels: Binary,
    predictions: Binary,
    uncertainty: Values,
    *,
    scores: Values | None = None,
    rejection_rates: Sequence[float] = (0.1, 0.2, 0.4),
    min_anomalies: int = 3,
    min_inliers: int = 1,
) -> Evaluation:
    """Evaluate hard predictions and their uncertainty, of any detector.

    `metrics` are of all examples as they are; Base, W and Gain follow the rule for undefined points of
    `accuracy_rejection_curve`, so with fewer than `min_anomalies` anomalies they are NaN.

    Args:
        labels: 1 for an anomaly.
        predictions: 1 for what is called an anomaly.
        uncertainty: high means unsure; only its order matters.
        scores: high means anomalous; adds AUROC.
        rejection_rates: where to read off GSS, each the largest share that may be rejected.
        min_anomalies: fewest retained anomalies of a defined point.
        min_inliers: fewest retained inliers of a defined point.

    Examples:
        Two of eight predictions are wrong, and they are the most uncertain ones: without them nothing is wrong.

        >>> labels      = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> predictions = [0, 0, 0, 1, 1, 1, 1, 0]
        >>> uncertainty = [0.1, 0.2, 0.1, 0.9, 0.3, 0.1, 0.2, 0.8]
        >>> found = evaluate(labels, predictions, uncertainty, rejection_rates=(0.25,))
        >>> found.metrics["gss"], found.gss_at[0.25], found.error_detection_auroc
        (0.75, 1.0, 1.0)
    """

    def curve(metric: str) -> RejectionCurve:
        return accuracy_rejection_curve(
            labels,
            predictions,
            uncertainty,
            metric=metric,
            scores=scores,
            min_anomalies=min_anomalies,
            min_inliers=min_inliers,
        )

    gss_curve = curve("gss")
    counts = Confusion.of(labels, predictions)
    metrics = {name: metric(counts).item() for name, metric in METRICS.items()}
    if scores is not None:
        metrics["auroc"] = auroc(labels, scores)
    gss_values = gss_curve.at(rejection_rates)
    actual = checked_binary("labels", labels)
    return Evaluation(
        examples=actual.size,
        anomalies=int(actual.sum()),
        metrics=metrics,
        gss=gss_curve,
        auroc=None if scores is None else curve("auroc"),
        gss_at=dict(zip(map(float, rejection_rates), gss_values.tolist(), strict=True)),
        aurc=area_under_risk_coverage(labels, predictions, uncertainty),
        error_detection_auroc=error_detection_auroc(labels, predictions, uncertainty),
    )
