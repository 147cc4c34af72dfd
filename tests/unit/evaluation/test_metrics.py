import numpy as np
import pytest

from indubio.errors import DataError, ShapeError
from indubio.evaluation import METRICS, Confusion, auroc, error_detection_auroc


def test_metrics_of_a_small_confusion_matrix_by_hand():
    # 4 anomalies, 3 found; 8 inliers, 2 false alarms
    counts = Confusion(tp=np.array([3.0]), fp=np.array([2.0]), tn=np.array([6.0]), fn=np.array([1.0]))
    assert METRICS["gss"](counts).item() == pytest.approx(np.sqrt(0.75 * 0.75))
    assert METRICS["balanced_accuracy"](counts).item() == pytest.approx(0.75)
    assert METRICS["f1"](counts).item() == pytest.approx(6 / 9)
    assert METRICS["mcc"](counts).item() == pytest.approx((18 - 2) / np.sqrt(5 * 4 * 8 * 7))


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_of_many_counts_is_the_metric_of_each(metric):
    cells = np.random.default_rng(0).integers(0, 9, size=(4, 50)).astype(float)
    together = METRICS[metric](Confusion(*cells))
    one_by_one = [METRICS[metric](Confusion(*cells[:, [point]])).item() for point in range(50)]
    np.testing.assert_array_equal(together, one_by_one)


@pytest.mark.parametrize("metric", ["gss", "balanced_accuracy", "mcc"])
@pytest.mark.parametrize("label", [0, 1])
def test_a_metric_of_both_classes_is_undefined_when_one_is_missing(metric, label):
    counts = Confusion.of(np.full(4, label), np.array([0, 1, 1, 0]))
    assert np.isnan(METRICS[metric](counts).item())


def test_f1_is_undefined_only_without_any_true_or_called_anomaly():
    assert np.isnan(METRICS["f1"](Confusion.of(np.zeros(3, int), np.zeros(3, int))).item())
    assert METRICS["f1"](Confusion.of(np.zeros(3, int), np.ones(3, int))).item() == 0


@pytest.mark.parametrize("prediction", [0, 1])
def test_constant_predictions_have_no_correlation_and_no_gss(prediction):
    counts = Confusion.of(np.array([0, 0, 1, 1]), np.full(4, prediction))
    assert METRICS["mcc"](counts).item() == 0
    assert METRICS["gss"](counts).item() == 0


def test_mcc_does_not_overflow_on_large_counts_of_small_integers():
    counts = Confusion(*np.full((4, 1), 2_000_000_000, dtype=np.int32))
    assert METRICS["mcc"](counts).item() == 0
    counts = Confusion(*np.array([[2_000_000_000], [0], [2_000_000_000], [0]], dtype=np.int32))
    assert METRICS["mcc"](counts).item() == pytest.approx(1)


def test_auroc_counts_a_tie_one_half():
    assert auroc(np.array([0, 1, 1]), np.array([1.0, 1.0, 2.0])) == 0.75


def test_auroc_of_one_class_is_undefined():
    assert np.isnan(auroc(np.ones(3, int), np.arange(3.0)))


def test_infinite_scores_have_their_place_in_the_order():
    assert auroc(np.array([0, 0, 1, 1]), np.array([-np.inf, 0.0, 1.0, np.inf])) == 1


def test_error_detection_is_perfect_when_the_errors_are_the_most_uncertain():
    labels, predictions = np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0])
    assert error_detection_auroc(labels, predictions, np.array([0.1, 0.2, 0.8, 0.9])) == 1
    assert error_detection_auroc(labels, predictions, np.array([0.9, 0.8, 0.2, 0.1])) == 0
    assert error_detection_auroc(labels, predictions, np.ones(4)) == 0.5


def test_error_detection_is_undefined_when_all_are_right_or_all_are_wrong():
    labels = np.array([0, 1, 0])
    assert np.isnan(error_detection_auroc(labels, labels, np.arange(3.0)))
    assert np.isnan(error_detection_auroc(labels, 1 - labels, np.arange(3.0)))


@pytest.mark.parametrize("dtype", [bool, int, np.uint8, float])
def test_labels_may_be_booleans_or_numbers(dtype):
    assert auroc(np.array([0, 1, 0, 1], dtype=dtype), np.array([0.0, 2.0, 1.0, 3.0])) == 1


@pytest.mark.parametrize(
    ("labels", "scores", "error", "message"),
    [
        ([0, 1, 2], [1.0, 2.0, 3.0], DataError, r"`labels` must be 0 \(inlier\) or 1 \(anomaly\), got 2 at index 2"),
        ([1, -1], [1.0, 2.0], DataError, "make it `labels == -1`"),
        ([0, np.nan], [1.0, 2.0], DataError, "got nan at index 1"),
        ([0, 1, 1], [1.0, np.nan, np.nan], DataError, r"`scores`: 2 of 3 values are NaN \(first: index 1\)"),
        ([0, 1], [1.0, 2.0, 3.0], ShapeError, "`labels` has 2, `scores` has 3"),
        ([], [], DataError, "`labels` is empty"),
        ([[0, 1]], [1.0, 2.0], ShapeError, r"`labels` must have one dimension.* got shape \(1, 2\)"),
        (["0", "1"], [1.0, 2.0], DataError, "`labels` must be numbers"),
        ([0, 1], ["1", "2"], DataError, "`scores` must be numbers"),
    ],
)
def test_an_array_that_cannot_be_used_is_refused_with_its_name_and_the_rule(labels, scores, error, message):
    with pytest.raises(error, match=message):
        auroc(np.array(labels), np.array(scores))


def test_predictions_are_checked_like_labels():
    with pytest.raises(DataError, match="`predictions` must be 0"):
        error_detection_auroc(np.array([0, 1]), np.array([0, 3]), np.array([0.0, 1.0]))
    with pytest.raises(ShapeError, match="`predictions` has 3"):
        Confusion.of(np.array([0, 1]), np.array([0, 1, 1]))


def test_the_table_of_metrics_cannot_be_changed():
    with pytest.raises(TypeError):
        METRICS["gss"] = METRICS["f1"]
