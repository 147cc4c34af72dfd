import numpy as np
import pytest

from indubio.errors import DataError, ShapeError
from indubio.evaluation import area_under_risk_coverage


def test_the_area_of_a_small_example_by_hand():
    labels, predictions = np.array([0, 1, 0, 1]), np.array([0, 0, 0, 0])
    area = area_under_risk_coverage(labels, predictions, np.array([0.1, 0.2, 0.3, 0.4]))
    assert area == pytest.approx((0 / 1 + 1 / 2 + 1 / 3 + 2 / 4) / 4)


def test_a_tie_is_the_mean_of_its_two_orders():
    labels, predictions = np.array([0, 1, 0]), np.array([0, 0, 0])
    error_first, error_last = (1 / 1 + 1 / 2 + 1 / 3) / 3, (0 / 1 + 1 / 2 + 1 / 3) / 3
    area = area_under_risk_coverage(labels, predictions, np.array([0.2, 0.2, 0.5]))
    assert area == pytest.approx((error_first + error_last) / 2)


@pytest.mark.parametrize("wrong", [0, 1, 3, 5])
def test_constant_uncertainty_has_the_plain_error_rate(wrong):
    labels = np.zeros(5, dtype=int)
    predictions = (np.arange(5) < wrong).astype(int)
    assert area_under_risk_coverage(labels, predictions, np.ones(5)) == pytest.approx(wrong / 5)


def test_one_class_is_enough():
    assert area_under_risk_coverage(np.ones(3, int), np.ones(3, int), np.arange(3.0)) == 0


def test_unusable_arrays_are_refused():
    labels = np.array([0, 1])
    with pytest.raises(ShapeError, match="`uncertainty` has 1"):
        area_under_risk_coverage(labels, labels, np.array([0.5]))
    with pytest.raises(DataError, match="`uncertainty`: 1 of 2 values are NaN"):
        area_under_risk_coverage(labels, labels, np.array([0.5, np.nan]))
    with pytest.raises(DataError, match="`predictions` is empty"):
        area_under_risk_coverage(labels, np.array([], dtype=int), np.array([0.5, 0.6]))
