import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.evaluation import CURVE_METRICS, RejectionCurve, accuracy_rejection_curve

NAN = np.nan


@pytest.fixture
def parts():
    """Eight examples from most to least certain, the last two with the same uncertainty."""
    return SimpleNamespace(
        labels=np.array([0, 1, 0, 1, 0, 1, 0, 1]),
        predictions=np.array([0, 1, 0, 1, 1, 1, 0, 0]),
        uncertainty=np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.7]),
        scores=np.array([1.0, 8.0, 2.0, 7.0, 7.0, 9.0, 3.0, 4.0]),
    )


def curve_of(parts, **options):
    return accuracy_rejection_curve(parts.labels, parts.predictions, parts.uncertainty, **options)


def test_the_curve_of_a_small_example_by_hand(parts):
    curve = curve_of(parts, min_anomalies=1)
    np.testing.assert_array_equal(curve.thresholds, [0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    np.testing.assert_array_equal(curve.retained * 8, [8, 6, 5, 4, 3, 2, 1])
    np.testing.assert_array_equal(curve.rejection_rate * 8, [0, 2, 3, 4, 5, 6, 7])
    expected = [np.sqrt(3 / 4 * 3 / 4), np.sqrt(2 / 3), np.sqrt(2 / 3), 1, 1, 1, NAN]
    np.testing.assert_allclose(curve.value, expected)
    weighted = (8 * 0.75 + 6 * np.sqrt(2 / 3) + 5 * np.sqrt(2 / 3) + 4 + 3 + 2) / 28
    assert curve.weighted_average == pytest.approx(weighted)
    assert curve.base == pytest.approx(0.75)
    assert curve.gain == pytest.approx(weighted - 0.75)


def test_a_tie_in_score_between_the_classes_is_half_a_pair(parts):
    curve = curve_of(parts, metric="auroc", scores=parts.scores, min_anomalies=1)
    # At six retained: inliers 1, 2, 7 and anomalies 7, 8, 9; the pair (7, 7) is tied.
    np.testing.assert_allclose(curve.value, [14.5 / 16, 8.5 / 9, 5.5 / 6, 1, 1, 1, NAN])


def test_a_point_needs_three_anomalies_and_one_inlier_unless_told_otherwise(parts):
    assert np.isnan(curve_of(parts).value).tolist() == [False, False, True, True, True, True, True]
    strict = curve_of(parts, min_anomalies=1, min_inliers=3)
    assert np.isnan(strict.value).tolist() == [False, False, False, True, True, True, True]


def test_undefined_points_are_left_out_of_the_weighted_average(parts):
    curve = curve_of(parts)
    assert curve.weighted_average == pytest.approx((8 * 0.75 + 6 * np.sqrt(2 / 3)) / 14)


@pytest.mark.parametrize("metric", CURVE_METRICS)
def test_a_curve_without_any_defined_point_is_nan_throughout(metric, parts):
    curve = curve_of(parts, metric=metric, scores=parts.scores, min_anomalies=5)
    assert np.isnan(curve.value).all()
    assert np.isnan([curve.weighted_average, curve.base, curve.gain, curve.at(0.5)]).all()


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("metric", CURVE_METRICS)
def test_one_class_alone_is_undefined(metric, label, parts):
    parts.labels = np.full(8, label)
    assert np.isnan(curve_of(parts, metric=metric, scores=parts.scores, min_anomalies=1).value).all()


@pytest.mark.parametrize("metric", CURVE_METRICS)
def test_equal_uncertainty_is_one_point_without_gain(metric, parts):
    parts.uncertainty = np.full(8, 0.3)
    curve = curve_of(parts, metric=metric, scores=parts.scores)
    assert curve.thresholds.tolist() == [0.3]
    assert curve.rejection_rate.tolist() == [0]
    assert curve.gain == 0
    assert curve.at(0.9) == curve.base


def test_at_reads_the_last_point_that_does_not_reject_more(parts):
    curve = curve_of(parts, min_anomalies=1)
    # Rejecting one of eight would split the tie of the two least certain: nothing is rejected.
    np.testing.assert_array_equal(curve.at([0, 1 / 8, 0.25, 0.3, 1]), curve.value[[0, 0, 1, 1, 6]])


def test_at_keeps_the_shape_of_the_rates(parts):
    curve = curve_of(parts)
    assert curve.at(0.1).shape == ()
    assert curve.at(np.array([[0.1, 0.2, 0.4]])).shape == (1, 3)


def test_at_finds_the_point_of_a_rate_that_was_rounded_in_arithmetic():
    labels = np.tile([0, 1], 5)
    curve = accuracy_rejection_curve(labels, labels ^ (np.arange(10) == 9), np.arange(10.0))
    assert 1 - 0.9 < 0.1
    assert curve.at(1 - 0.9) == curve.value[1] == 1


@pytest.mark.parametrize("rate", [-0.1, 1.01, NAN])
def test_a_rejection_rate_outside_zero_to_one_is_refused(rate, parts):
    with pytest.raises(ConfigError, match=r"`rejection_rates` must be within \[0, 1\], got"):
        curve_of(parts).at([0.5, rate])


def test_infinite_uncertainty_is_rejected_first(parts):
    parts.uncertainty = np.array([-np.inf, 0, 1, 2, np.inf, 3, 4, np.inf])
    curve = curve_of(parts)
    assert curve.rejection_rate[:2].tolist() == [0, 0.25]
    assert curve.value[1] == 1


def test_boolean_and_integer_labels_give_the_same_curve(parts):
    of_integers = curve_of(parts).value
    parts.labels, parts.predictions = parts.labels.astype(bool), parts.predictions.astype(bool)
    np.testing.assert_array_equal(curve_of(parts).value, of_integers)


def test_the_inputs_are_not_changed(parts):
    before = {name: array.copy() for name, array in vars(parts).items()}
    curve_of(parts, metric="auroc", scores=parts.scores)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(parts, name), array)


def test_auroc_does_not_need_predictions(parts):
    parts.predictions = None
    assert curve_of(parts, metric="auroc", scores=parts.scores).base == 14.5 / 16


def test_a_single_example_is_one_undefined_point():
    curve = accuracy_rejection_curve(np.array([1]), None, np.array([0.5]), metric="auroc", scores=np.array([1.0]))
    assert isinstance(curve, RejectionCurve)
    assert np.isnan(curve.value).tolist() == [True]


def test_a_curve_is_frozen(parts):
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve_of(parts).metric = "f1"


def test_an_unknown_metric_is_refused_with_the_known_ones(parts):
    with pytest.raises(ConfigError, match="one of gss, f1, mcc, balanced_accuracy, auroc, got 'accuracy'"):
        curve_of(parts, metric="accuracy")


def test_a_metric_without_what_it_is_computed_from_is_refused(parts):
    with pytest.raises(ConfigError, match='metric="auroc" needs `scores`'):
        curve_of(parts, metric="auroc")
    parts.predictions = None
    with pytest.raises(ConfigError, match='metric="f1" needs `predictions`'):
        curve_of(parts, metric="f1", scores=parts.scores)


@pytest.mark.parametrize("name", ["min_anomalies", "min_inliers"])
def test_a_class_may_not_be_missing_from_a_defined_point(name, parts):
    with pytest.raises(ConfigError, match=f"`{name}` must be at least 1, got 0"):
        curve_of(parts, **{name: 0})


@pytest.mark.parametrize("name", ["predictions", "uncertainty", "scores"])
def test_arrays_of_different_lengths_are_refused(name, parts):
    setattr(parts, name, getattr(parts, name)[:-1])
    with pytest.raises(ShapeError, match=f"`{name}` has 7"):
        curve_of(parts, scores=parts.scores)


@pytest.mark.parametrize("name", ["uncertainty", "scores"])
def test_nan_is_refused_with_the_name_of_its_array(name, parts):
    getattr(parts, name)[3] = NAN
    with pytest.raises(DataError, match=rf"`{name}`: 1 of 8 values are NaN \(first: index 3\)"):
        curve_of(parts, scores=parts.scores)
