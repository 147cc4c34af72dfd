"""Frozen and saturated sensors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.errors import ShapeError
from indubio.prepare import fit_quality
from indubio.prepare.quality import frozen, quality_flags, saturated

NAMES = ("pressure", "flow", "valve")


@pytest.fixture
def training():
    """Noise in pressure and flow; the valve is a switch that seldom moves."""
    values = np.random.default_rng(0).normal(size=(200, 20, 3))
    values[:, :, 2] = np.arange(200)[:, None] % 2
    return values


@pytest.fixture
def limits(training):
    return fit_quality(training)


def flagged(values, limits):
    return quality_flags(values, limits, NAMES).tolist()


def test_the_limits_are_the_training_range(training, limits):
    np.testing.assert_array_equal(limits.smallest, training.min(axis=(0, 1)))
    np.testing.assert_array_equal(limits.largest, training.max(axis=(0, 1)))
    np.testing.assert_array_equal(limits.frozen_share, [0, 0, 1])
    np.testing.assert_array_equal(limits.saturated_share, [0, 0, 1])


def test_good_windows_get_no_flag(training, limits):
    assert set(flagged(training, limits)) == {""}


def test_a_frozen_sensor_is_named(training, limits):
    values = training[:3].copy()
    values[1, :, 0] = 0.25
    assert flagged(values, limits) == ["", "frozen: pressure", ""]


def test_a_sensor_at_its_limit_for_most_of_a_window_is_named(training, limits):
    values = training[:3].copy()
    values[0, :11, 1] = limits.largest[1]
    values[1, :10, 1] = limits.largest[1]  # half is not most
    values[2, :11, 1] = limits.smallest[1] - 1
    assert flagged(values, limits) == ["saturated: flow", "", "saturated: flow"]


def test_a_signal_that_moves_beyond_the_training_range_is_elsewhere_and_not_saturated(training, limits):
    values = training[:2].copy()
    values[0, :, 0] -= 20
    values[1, :, 0] += 20
    assert flagged(values, limits) == ["", ""]
    values[0, :, 0] = np.arange(20) // 15 - 32  # in whole steps, mostly at one of them
    values[1, 8:, 0], values[1, :8, 0] = 21.5, training[1, :8, 0]  # cut off
    assert flagged(values, limits) == ["", "saturated: pressure"]


def test_several_reasons_are_joined(training, limits):
    values = training[:1].copy()
    values[0, :, :2] = [0.0, limits.largest[1]]
    assert flagged(values, limits) == ["frozen: pressure, flow; saturated: flow"]


def test_a_sensor_that_often_stood_still_in_training_is_never_flagged_for_it(training):
    for windows, expected in ((2, "frozen: pressure"), (3, "")):  # of 200: 1 % and a little more
        values = training.copy()
        values[:windows, :, 0] = 0.0
        stuck = training[:1].copy()
        stuck[0, :, 0] = 0.1
        assert flagged(stuck, fit_quality(values)) == [expected]


def test_missing_values_are_passed_over(training, limits):
    values = training[:4].copy()
    values[0, 3:, 0] = np.nan
    values[1, :, 0] = np.nan
    values[2, :, 0] = [0.5, 0.5, *[np.nan] * 18]
    values[3, :, 1] = [limits.largest[1], 0.0, limits.largest[1], *[np.nan] * 17]
    assert flagged(values, limits) == ["", "", "frozen: pressure", "saturated: flow"]


def test_a_sensor_without_any_training_value_is_never_saturated(training):
    training[:, :, 0] = np.nan
    assert flagged(np.random.default_rng(1).normal(size=(2, 20, 3)), fit_quality(training)) == ["", ""]


def test_a_window_of_one_sample_cannot_be_frozen():
    assert not frozen(np.zeros((3, 1, 2))).any()


def test_other_sensors_than_in_training_are_refused(limits):
    with pytest.raises(ShapeError, match="limits are of 3 sensors, but the windows have 2"):
        quality_flags(np.zeros((1, 5, 2)), limits, ("a", "b"))


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=6, max_size=6), min_size=1, max_size=8))
def test_flags_agree_with_a_plain_loop(windows):
    values = np.array(windows)[:, :, None]
    limits = np.array([0.0]), np.array([2.0])
    for row, stuck, limited in zip(windows, frozen(values)[:, 0], saturated(values, *limits)[:, 0], strict=True):
        there = [value for value in row if value == value]
        assert stuck == (len(there) > 1 and len(set(there)) == 1)
        assert limited == any(there.count(end) > len(there) / 2 for end in (0.0, 2.0))


def plainly_frozen(series):
    there = series[~np.isnan(series)]
    return len(there) > 1 and bool((there == there[0]).all())


def plainly_saturated(series, smallest, largest):
    there = series[~np.isnan(series)]
    if not len(there) or np.isnan(smallest):
        return False
    low, high = there.min(), there.max()
    below = low <= smallest and (there == low).mean() > 0.5 and (high >= smallest or low == high)
    above = high >= largest and (there == high).mean() > 0.5 and (low <= largest or low == high)
    return bool(below or above)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 0.95]))
def test_flags_are_those_of_a_plain_loop(seed, gaps):
    random = np.random.default_rng(seed)
    values = random.integers(-2, 3, size=(6, 5, 2)).astype(float) * random.choice([0.0, 1.0], size=(6, 1, 2))
    values[random.random(values.shape) < gaps] = np.nan
    smallest, largest = np.array([-1.0, np.nan]), np.array([1.0, np.nan])
    series = values.transpose(0, 2, 1)
    assert frozen(values).tolist() == [[plainly_frozen(one) for one in window] for window in series]
    ranges = list(zip(smallest, largest, strict=True))
    assert saturated(values, smallest, largest).tolist() == [
        [plainly_saturated(one, *ends) for one, ends in zip(window, ranges, strict=True)] for window in series
    ]
