"""Identities of the curve, on whatever arrays hypothesis can think of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.evaluation import (
    CURVE_METRICS,
    METRICS,
    accuracy_rejection_curve,
    area_under_risk_coverage,
    auroc,
    error_detection_auroc,
)

# Few levels of uncertainty and score, so that ties are the rule.
EXAMPLE = st.tuples(st.booleans(), st.booleans(), st.integers(-4, 4), st.integers(0, 5))
EXAMPLES = st.lists(EXAMPLE, min_size=1, max_size=60).map(lambda rows: np.array(rows, dtype=int))
METRIC = st.sampled_from(CURVE_METRICS)

TRANSFORMS = {
    "exponential": np.exp,
    "cube": lambda u: u**3,
    "shift and stretch": lambda u: 1e6 * u - 17,
    "near float's end": lambda u: u * 4e307,
}


def curve_of(rows, metric, *, min_anomalies=1):
    labels, predictions, uncertainty, scores = rows.T
    return accuracy_rejection_curve(
        labels, predictions, uncertainty * 1.0, metric=metric, scores=scores * 1.0, min_anomalies=min_anomalies
    )


def area_of(rows):
    labels, predictions, uncertainty, _ = rows.T
    return area_under_risk_coverage(labels, predictions, uncertainty * 1.0)


@given(EXAMPLES, METRIC, st.integers(1, 4))
def test_the_weighted_average_lies_within_the_defined_values(rows, metric, min_anomalies):
    curve = curve_of(rows, metric, min_anomalies=min_anomalies)
    defined = curve.value[~np.isnan(curve.value)]
    if defined.size:
        assert defined.min() - 1e-12 <= curve.weighted_average <= defined.max() + 1e-12
    else:
        assert np.isnan(curve.weighted_average)


@given(EXAMPLES, METRIC)
def test_a_curve_goes_from_nothing_rejected_to_most_rejected(rows, metric):
    curve = curve_of(rows, metric)
    assert curve.rejection_rate[0] == 0
    assert curve.rejection_rate[-1] < 1
    assert (np.diff(curve.rejection_rate) > 0).all()
    assert (np.diff(curve.thresholds) < 0).all()
    np.testing.assert_allclose(curve.rejection_rate + curve.retained, 1)
    np.testing.assert_array_equal(curve.at(curve.rejection_rate), curve.value)


@given(EXAMPLES, st.sampled_from(sorted(METRICS)), st.integers(1, 4))
def test_an_uncertainty_that_rejects_every_error_first_never_loses(rows, metric, min_anomalies):
    labels, predictions, uncertainty, _ = rows.T
    perfect = uncertainty + 100.0 * (labels != predictions)
    curve = accuracy_rejection_curve(labels, predictions, perfect, metric=metric, min_anomalies=min_anomalies)
    assert np.isnan(curve.gain) or curve.gain >= -1e-12


@given(EXAMPLES, METRIC, st.randoms(use_true_random=False))
def test_the_order_of_the_examples_does_not_matter(rows, metric, random):
    shuffled = rows[random.sample(range(len(rows)), len(rows))]
    before, after = curve_of(rows, metric), curve_of(shuffled, metric)
    np.testing.assert_array_equal(before.thresholds, after.thresholds)
    np.testing.assert_array_equal(before.rejection_rate, after.rejection_rate)
    np.testing.assert_array_equal(before.value, after.value)
    assert area_of(rows) == area_of(shuffled)


@given(EXAMPLES, METRIC, st.sampled_from(sorted(TRANSFORMS)))
def test_only_the_order_of_the_uncertainty_matters(rows, metric, transform):
    labels, predictions, uncertainty, scores = rows.T
    with np.errstate(all="raise"):
        other = TRANSFORMS[transform](uncertainty * 1.0)
    curve = curve_of(rows, metric)
    same = accuracy_rejection_curve(labels, predictions, other, metric=metric, scores=scores * 1.0, min_anomalies=1)
    np.testing.assert_array_equal(curve.rejection_rate, same.rejection_rate)
    np.testing.assert_array_equal(curve.value, same.value)
    assert area_under_risk_coverage(labels, predictions, other) == area_of(rows)


@given(EXAMPLES)
def test_turning_the_scores_around_turns_auroc_around(rows):
    labels, predictions, uncertainty, scores = rows.T
    forward = curve_of(rows, "auroc").value
    backward = accuracy_rejection_curve(
        labels, predictions, uncertainty * 1.0, metric="auroc", scores=-1.0 * scores, min_anomalies=1
    ).value
    np.testing.assert_allclose(forward, 1 - backward, atol=1e-12)
    np.testing.assert_allclose(forward[0], auroc(labels, scores * 1.0), atol=1e-12)


@given(EXAMPLES)
def test_a_perfect_order_of_errors_has_the_smallest_area_and_the_largest_auroc(rows):
    labels, predictions, uncertainty, _ = rows.T
    wrong = labels != predictions
    best = area_under_risk_coverage(labels, predictions, wrong * 1.0)
    assert best <= area_under_risk_coverage(labels, predictions, uncertainty * 1.0) + 1e-12
    if 0 < wrong.sum() < wrong.size:
        assert error_detection_auroc(labels, predictions, wrong * 1.0) == pytest.approx(1)
