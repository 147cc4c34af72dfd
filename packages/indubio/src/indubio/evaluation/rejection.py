r"""The accuracy-rejection curve: how good the predictions are that an uncertainty lets through.

    W = sum_i (100 - r_i) value_i / sum_i (100 - r_i),   Base = value at r = 0,   Gain = W - Base     paper, ARC section

r_i is the share rejected, in percent, at the i-th threshold; the thresholds are all unique uncertainties, so a tie
is never split. A skilful uncertainty has Gain > 0. Reference: Nadeem, Zucker and Hanczar (2009).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from indubio.errors import ConfigError
from indubio.evaluation.argument_checks import (
    Binary,
    Values,
    check_at_least_one,
    check_same_length,
    checked_binary,
    checked_values,
)
from indubio.evaluation.certainty import certainty_order
from indubio.evaluation.metrics import METRICS, Confusion
from indubio.evaluation.ordered_pairs import prefix_auroc

CURVE_METRICS = (*METRICS, "auroc")

Rates: TypeAlias = float | Sequence[float] | Float[np.ndarray, "*rates"]

# A rate from arithmetic, such as 1 - 0.9, must still find its point. Points are 1 / examples apart, far more.
RATE_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class RejectionCurve:
    """A metric of the retained examples at every threshold, from nothing rejected to most rejected.

    Args:
        metric: the name of the metric.
        thresholds: the unique uncertainties, descending; examples at or below one are retained.
        rejection_rate: the share of the examples rejected, in [0, 1].
        retained: the share retained.
        value: the metric of the retained examples; NaN where too few of a class are left.
    """

    metric: str
    thresholds: Float[np.ndarray, " points"]
    rejection_rate: Float[np.ndarray, " points"]
    retained: Float[np.ndarray, " points"]
    value: Float[np.ndarray, " points"]

    @property
    def weighted_average(self) -> float:
        """W: the mean of the defined values, weighted by the share retained; NaN if none is defined."""
        defined = ~np.isnan(self.value)
        if not defined.any():
            return float("nan")
        return float(np.average(self.value[defined], weights=self.retained[defined]))

    @property
    def base(self) -> float:
        """The value with nothing rejected."""
        return float(self.value[0])

    @property
    def gain(self) -> float:
        """W - Base: what the uncertainty adds on average; negative if it rejects the wrong examples."""
        return self.weighted_average - self.base

    def at(self, rejection_rates: Rates) -> NDArray[np.float64]:
        """The value when at most this share is rejected, in the shape of the rates.

        It is the value of the last point that does not reject more: ties may leave it far below the share
        asked for. NaN where that point is undefined.
        """
        rates = np.asarray(rejection_rates, dtype=np.float64)
        allowed = (rates >= 0) & (rates <= 1)
        if not np.all(allowed):
            raise ConfigError(f"`rejection_rates` must be within [0, 1], got {rates[~allowed].flat[0]}.")
        point = np.searchsorted(self.rejection_rate, rates + RATE_TOLERANCE, side="right") - 1
        return np.asarray(self.value[point])


def accuracy_rejection_curve(
    labels: Binary,
    predictions: Binary | None,
    uncertainty: Values,
    *,
    metric: str = "gss",
    scores: Values | None = None,
    min_anomalies: int = 3,
    min_inliers: int = 1,
) -> RejectionCurve:
    """The metric of the examples with uncertainty <= t, for every unique uncertainty t.

    A point is undefined (NaN in the curve, left out of W) when fewer than `min_anomalies` anomalies or fewer than
    `min_inliers` inliers are retained: without both classes there is no GSS or AUROC, and on one or two anomalies
    it is noise. The paper does not say so; its authors' scripts kept points with 3 anomalies or more. The rule
    holds for Base too.

    Args:
        labels: 1 for an anomaly.
        predictions: 1 for what is called an anomaly; not used by AUROC, and then may be None.
        uncertainty: high means unsure; only its order matters.
        metric: gss, f1, mcc, balanced_accuracy or auroc.
        scores: high means anomalous; needed by AUROC, not used by the others.
        min_anomalies: fewest retained anomalies of a defined point.
        min_inliers: fewest retained inliers of a defined point.

    Examples:
        >>> labels      = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> predictions = [0, 0, 0, 1, 1, 1, 1, 0]
        >>> uncertainty = [0.1, 0.2, 0.1, 0.9, 0.3, 0.1, 0.2, 0.8]
        >>> curve = accuracy_rejection_curve(labels, predictions, uncertainty)
        >>> curve.rejection_rate
        array([0.   , 0.125, 0.25 , 0.375, 0.625])
        >>> curve.value.round(2)
        array([0.75, 0.87, 1.  ,  nan,  nan])
        >>> round(curve.base, 2), round(curve.weighted_average, 2), round(curve.gain, 2)
        (0.75, 0.86, 0.11)
    """
    if metric not in CURVE_METRICS:
        raise ConfigError(f"`metric` must be one of {', '.join(CURVE_METRICS)}, got {metric!r}.")
    check_at_least_one(min_anomalies=min_anomalies, min_inliers=min_inliers)
    actual, unsure = checked_binary("labels", labels), checked_values("uncertainty", uncertainty)
    predicted = None if predictions is None else checked_binary("predictions", predictions)
    anomaly_scores = None if scores is None else checked_values("scores", scores)
    check_same_length(labels=actual, predictions=predicted, uncertainty=unsure, scores=anomaly_scores)

    order, ascending = certainty_order(unsure)
    kept = np.ascontiguousarray(ascending[::-1])
    value = (
        _auroc_of_kept(actual, anomaly_scores, order, kept)
        if metric == "auroc"
        else _metric_of_kept(metric, actual, predicted, order, kept)
    )
    anomalies = np.cumsum(actual[order])[kept - 1]
    value[(anomalies < min_anomalies) | (kept - anomalies < min_inliers)] = np.nan
    return RejectionCurve(
        metric=metric,
        thresholds=unsure[order][kept - 1],
        # Counted, not 1 - retained, which would miss 0.1 by a rounding error.
        rejection_rate=(actual.size - kept) / actual.size,
        retained=kept / actual.size,
        value=value,
    )


def _metric_of_kept(
    metric: str,
    labels: Bool[np.ndarray, " examples"],
    predictions: Bool[np.ndarray, " examples"] | None,
    order: Int[NDArray[np.intp], " examples"],
    kept: Int[NDArray[np.intp], " points"],
) -> Float[np.ndarray, " points"]:
    if predictions is None:
        raise ConfigError(f'metric="{metric}" needs `predictions`; only "auroc" works without.')
    return METRICS[metric](Confusion.cumulative(labels[order], predictions[order]).at(kept - 1))


def _auroc_of_kept(
    labels: Bool[np.ndarray, " examples"],
    scores: Float[np.ndarray, " examples"] | None,
    order: Int[NDArray[np.intp], " examples"],
    kept: Int[NDArray[np.intp], " points"],
) -> Float[np.ndarray, " points"]:
    if scores is None:
        raise ConfigError('metric="auroc" needs `scores`, where high means anomalous.')
    return prefix_auroc(labels[order], scores[order])[kept - 1]
