"""The evaluation against scikit-learn's metrics in a plain loop over the thresholds."""

import warnings

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from indubio.evaluation import (
    CURVE_METRICS,
    METRICS,
    Confusion,
    accuracy_rejection_curve,
    area_under_risk_coverage,
    auroc,
    error_detection_auroc,
)


def gss_of(labels, predictions):
    sensitivity = sklearn_metrics.recall_score(labels, predictions, pos_label=1)
    specificity = sklearn_metrics.recall_score(labels, predictions, pos_label=0)
    return np.sqrt(sensitivity * specificity)


REFERENCE = {
    "gss": gss_of,
    "f1": sklearn_metrics.f1_score,
    "mcc": sklearn_metrics.matthews_corrcoef,
    "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
}


def looped_curve(labels, predictions, uncertainty, scores, *, metric, min_anomalies, min_inliers):
    rejected, values = [], []
    for threshold in np.unique(uncertainty)[::-1]:
        retained = uncertainty <= threshold
        kept = labels[retained]
        rejected.append(np.mean(~retained))
        if kept.sum() < min_anomalies or (kept == 0).sum() < min_inliers:
            values.append(np.nan)
        elif metric == "auroc":
            values.append(sklearn_metrics.roc_auc_score(kept, scores[retained]))
        else:
            values.append(REFERENCE[metric](kept, predictions[retained]))
    return np.array(rejected), np.array(values)


def examples(seed, *, count, decimals):
    """Labels, predictions, uncertainty, scores; rounding to few decimals makes ties."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) < count / 4).astype(int)
    scores = (random.normal(size=count) + labels).round(decimals)
    predictions = (scores > 0.7).astype(int)
    uncertainty = random.random(count).round(decimals)
    return labels, predictions, uncertainty, scores


@pytest.mark.parametrize("metric", CURVE_METRICS)
@pytest.mark.parametrize("decimals", [0, 1, 12], ids=lambda decimals: f"{decimals}-decimals")
@pytest.mark.parametrize("count", [24, 65])
@pytest.mark.parametrize(("min_anomalies", "min_inliers"), [(3, 1), (5, 4)])
def test_the_curve_is_the_plain_loop_over_thresholds(metric, decimals, count, min_anomalies, min_inliers):
    labels, predictions, uncertainty, scores = examples(count + decimals, count=count, decimals=decimals)
    rule = {"min_anomalies": min_anomalies, "min_inliers": min_inliers}

    curve = accuracy_rejection_curve(labels, predictions, uncertainty, metric=metric, scores=scores, **rule)
    rejected, values = looped_curve(labels, predictions, uncertainty, scores, metric=metric, **rule)

    np.testing.assert_array_equal(curve.thresholds, np.unique(uncertainty)[::-1])
    np.testing.assert_allclose(curve.rejection_rate, rejected, atol=1e-12)
    np.testing.assert_allclose(curve.value, values, atol=1e-12)
    defined = ~np.isnan(values)
    weights = 100 - 100 * rejected[defined]
    assert curve.weighted_average == pytest.approx(np.sum(weights * values[defined]) / np.sum(weights))


@pytest.mark.parametrize("count", range(2, 40))
def test_auroc_of_every_prefix_is_right_at_every_length(count):
    labels, _, uncertainty, scores = examples(count, count=count, decimals=1)
    curve = accuracy_rejection_curve(labels, None, uncertainty, metric="auroc", scores=scores, min_anomalies=1)
    _, values = looped_curve(labels, None, uncertainty, scores, metric="auroc", min_anomalies=1, min_inliers=1)
    np.testing.assert_allclose(curve.value, values, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_of_counts_is_scikit_learns_wherever_both_classes_are_there(metric):
    random = np.random.default_rng(4)
    for cells in random.integers(0, 3, size=(200, 4)):
        labels, predictions = np.repeat([1, 0, 0, 1], cells), np.repeat([1, 1, 0, 0], cells)
        if len(set(labels)) == 2:
            value = METRICS[metric](Confusion.of(labels, predictions)).item()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scikit-learn warns of constant predictions
                assert value == pytest.approx(REFERENCE[metric](labels, predictions), abs=1e-12)


@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_auroc_and_error_detection_are_scikit_learns(decimals):
    labels, predictions, uncertainty, scores = examples(5, count=300, decimals=decimals)
    assert auroc(labels, scores) == pytest.approx(sklearn_metrics.roc_auc_score(labels, scores))
    expected = sklearn_metrics.roc_auc_score(labels != predictions, uncertainty)
    assert error_detection_auroc(labels, predictions, uncertainty) == pytest.approx(expected)


def test_ties_in_risk_coverage_are_the_mean_over_random_orders():
    labels, predictions, uncertainty, _ = examples(6, count=40, decimals=1)
    random = np.random.default_rng(7)
    areas = []
    for _ in range(4000):
        order = np.lexsort((random.random(labels.size), uncertainty))
        errors = np.cumsum(labels[order] != predictions[order])
        areas.append(np.mean(errors / np.arange(1, labels.size + 1)))
    # The standard error of the mean is below 0.001; the tolerance is five of them.
    assert np.std(areas) / np.sqrt(len(areas)) < 0.001
    assert area_under_risk_coverage(labels, predictions, uncertainty) == pytest.approx(np.mean(areas), abs=0.005)
