r"""How good hard predictions are, from the four counts of a confusion matrix; and how good an order is.

    GSS               sqrt(sensitivity * specificity)                                  paper, ARC section
    balanced accuracy (sensitivity + specificity) / 2
    F1                2 TP / (2 TP + FP + FN)
    MCC               (TP TN - FP FN) / sqrt((TP + FP) (TP + FN) (TN + FP) (TN + FN))
    AUROC             P(score of an anomaly > score of an inlier), ties one half

One rule for what cannot be computed: it is NaN, never a made-up 0 or 1. The one exception is MCC when all
predictions are equal: it is 0 there by its usual convention, because such predictions tell nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Num
from numpy.typing import NDArray

from indubio.evaluation.argument_checks import Binary, Values, check_same_length, checked_binary, checked_values

Points: TypeAlias = Float[NDArray[np.float64], "*points"]
"""One number per point of a curve."""

Counts: TypeAlias = Num[np.ndarray, "*points"]


@dataclass(frozen=True, eq=False)
class Confusion:
    """Confusion matrices, one per point of a curve; anomalies are the positives.

    The counts are kept as float64: integers would overflow in the products of MCC.

    Args:
        tp: anomalies called anomalies.
        fp: inliers called anomalies.
        tn: inliers called inliers.
        fn: anomalies called inliers.

    Examples:
        >>> counts = Confusion.of(labels=[0, 0, 0, 1, 1], predictions=[0, 0, 1, 1, 0])
        >>> counts.sensitivity.item(), round(counts.specificity.item(), 2)
        (0.5, 0.67)
        >>> {name: round(metric(counts).item(), 2) for name, metric in METRICS.items()}
        {'gss': 0.58, 'f1': 0.5, 'mcc': 0.17, 'balanced_accuracy': 0.58}
    """

    tp: Counts
    fp: Counts
    tn: Counts
    fn: Counts

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, np.asarray(getattr(self, field.name), dtype=np.float64))

    @classmethod
    def of(cls, labels: Binary, predictions: Binary) -> "Confusion":
        """The counts of all examples, as a single point."""
        actual = checked_binary("labels", labels)
        predicted = checked_binary("predictions", predictions)
        check_same_length(labels=actual, predictions=predicted)
        return cls(*(np.array([cell.sum()], dtype=np.float64) for cell in _cells(actual, predicted)))

    @classmethod
    def cumulative(
        cls, labels: Bool[np.ndarray, " examples"], predictions: Bool[np.ndarray, " examples"]
    ) -> "Confusion":
        """The counts of the first k examples, for every k from 1 to all of them."""
        return cls(*(np.cumsum(cell, dtype=np.float64) for cell in _cells(labels, predictions)))

    def at(self, points: np.ndarray) -> "Confusion":
        """The counts at some of the points."""
        return Confusion(self.tp[points], self.fp[points], self.tn[points], self.fn[points])

    @property
    def anomalies(self) -> Points:
        """TP + FN: how many examples are anomalies, whatever they are called."""
        return np.asarray(self.tp + self.fn)

    @property
    def inliers(self) -> Points:
        """TN + FP: how many examples are inliers, whatever they are called."""
        return np.asarray(self.tn + self.fp)

    @property
    def sensitivity(self) -> Points:
        """TP / (TP + FN): the share of the anomalies that is found."""
        return ratio(self.tp, self.anomalies)

    @property
    def specificity(self) -> Points:
        """TN / (TN + FP): the share of the inliers that is not called anomalous."""
        return ratio(self.tn, self.inliers)


def gss(counts: Confusion) -> Points:
    """The geometric mean of sensitivity and specificity; NaN without anomalies or without inliers."""
    return np.sqrt(counts.sensitivity * counts.specificity)


def f1(counts: Confusion) -> Points:
    """The harmonic mean of precision and sensitivity; NaN when nothing is an anomaly or called one."""
    return ratio(2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn)


def mcc(counts: Confusion) -> Points:
    """Matthews' correlation of labels and predictions; 0 if all predictions are equal, NaN if all labels are."""
    called_anomalies, called_inliers = counts.tp + counts.fp, counts.tn + counts.fn
    spread = np.sqrt(called_anomalies * called_inliers * counts.anomalies * counts.inliers)
    correlation = ratio(counts.tp * counts.tn - counts.fp * counts.fn, spread)
    both_classes = counts.anomalies * counts.inliers > 0
    return np.where(both_classes & (spread == 0), 0.0, correlation)


def balanced_accuracy(counts: Confusion) -> Points:
    """The mean of sensitivity and specificity; NaN without anomalies or without inliers."""
    return (counts.sensitivity + counts.specificity) / 2


def cost_per_example(
    labels: Binary, predictions: Binary, referred: Binary, *, missed_anomaly: float, false_alarm: float, review: float
) -> float:
    """What verdicts have cost, an example.

    Args:
        labels: 1 for an anomaly.
        predictions: likewise.
        referred: 1 for what a person looked at, whatever the prediction.
        missed_anomaly: cost of an anomaly that was accepted as an inlier.
        false_alarm: cost of an inlier that was called an anomaly.
        review: cost of a person looking at an example.

    Examples:
        >>> costs = {"missed_anomaly": 10.0, "false_alarm": 1.0, "review": 0.5}
        >>> cost_per_example([0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 1], **costs)  # an alarm, a miss and a review
        2.875
    """
    actual, called = checked_binary("labels", labels), checked_binary("predictions", predictions)
    asked = checked_binary("referred", referred)
    check_same_length(labels=actual, predictions=called, referred=asked)
    missed, alarms = (actual & ~called & ~asked).mean(), (~actual & called & ~asked).mean()
    return float(missed_anomaly * missed + false_alarm * alarms + review * asked.mean())


METRICS: Mapping[str, Callable[[Confusion], Points]] = MappingProxyType(
    {"gss": gss, "f1": f1, "mcc": mcc, "balanced_accuracy": balanced_accuracy}
)


def auroc(labels: Binary, scores: Values) -> float:
    """P(score of an anomaly > score of an inlier), ties one half; NaN when all examples are of one class.

    Examples:
        Five of the six pairs of an anomaly and an inlier are in the right order, and the sixth ties.

        >>> round(auroc([0, 0, 0, 1, 1], [0.1, 0.2, 0.3, 0.3, 0.9]), 3)
        0.917
    """
    actual, values = checked_binary("labels", labels), checked_values("scores", scores)
    check_same_length(labels=actual, scores=values)
    return _share_in_order(actual, values)


def error_detection_auroc(labels: Binary, predictions: Binary, uncertainty: Values) -> float:
    """P(an error is more uncertain than a correct prediction), ties one half.

    1 is an uncertainty that names every error first, 0.5 one that knows nothing of them. NaN when all predictions
    are right or all are wrong: there is then nothing to tell apart.

    Examples:
        >>> labels      = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> predictions = [0, 0, 0, 1, 1, 1, 1, 0]
        >>> uncertainty = [0.1, 0.2, 0.1, 0.9, 0.3, 0.1, 0.2, 0.8]
        >>> error_detection_auroc(labels, predictions, uncertainty)
        1.0
    """
    actual = checked_binary("labels", labels)
    predicted = checked_binary("predictions", predictions)
    values = checked_values("uncertainty", uncertainty)
    check_same_length(labels=actual, predictions=predicted, uncertainty=values)
    return _share_in_order(actual != predicted, values)


def _share_in_order(positive: Bool[np.ndarray, " examples"], scores: Float[np.ndarray, " examples"]) -> float:
    high, low = scores[positive], np.sort(scores[~positive])
    if not high.size or not low.size:
        return float("nan")
    high.sort()  # Neighbouring lookups then share the cache: several times faster on a million examples.
    below, not_above = np.searchsorted(low, high, side="left"), np.searchsorted(low, high, side="right")
    return float((below.sum() + not_above.sum()) / (2 * high.size * low.size))


def _cells(
    labels: Bool[np.ndarray, " examples"], predictions: Bool[np.ndarray, " examples"]
) -> tuple[Bool[np.ndarray, " examples"], ...]:
    return labels & predictions, ~labels & predictions, ~labels & ~predictions, labels & ~predictions


def ratio(part: Points, whole: Points) -> Points:
    """Part / whole; NaN where the whole is 0."""
    share = np.full(np.shape(whole), np.nan)
    np.divide(part, whole, out=share, where=whole > 0)
    return share
