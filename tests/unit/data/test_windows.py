"""Windows of arrays: cutting, gaps in rows, the report, and the type itself."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.data import Windowing, Windows, array_windows
from indubio.errors import ConfigError, DataError, ShapeError
from tests.reference.plain_resampling import cut

NAN = np.nan


def column(*values):
    return np.array(values, dtype=float)[:, None]


def filled(values, times=None, **settings):
    """One window over the whole array, as a flat list."""
    found = array_windows(values, Windowing(length=len(values), **settings), times=times)
    return found.values[0, :, 0].tolist(), found.report


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(1, 12), st.none() | st.integers(1, 15))
def test_every_window_is_a_plain_slice_of_its_group(lengths, length, step):
    if max(lengths) < length:
        lengths = [*lengths, length]
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(count, 2)) for count in lengths]
    found = array_windows(arrays, Windowing(length=length, step=step))

    expected = [cut(array.tolist(), length, step or length) for array in arrays]
    np.testing.assert_array_equal(found.values, [window for windows in expected for window in windows])
    for values, origin in zip(found.values, found.origin.to_pylist(), strict=True):
        np.testing.assert_array_equal(values, arrays[origin["group"]][origin["start"] : origin["end"] + 1])
    short = {group.group: group.samples for group in found.report.short}
    assert short == {number: count for number, count in enumerate(lengths) if count < length}
    used = [(len(windows) - 1) * (step or length) + length for windows in expected if windows]
    assert found.report.left_over == sum(count for count in lengths if count >= length) - sum(used)
    assert found.report.groups == len(lengths)


def test_windows_do_not_overlap_unless_a_step_is_given():
    values = np.arange(10.0)[:, None]
    assert array_windows(values, Windowing(length=4)).values[:, 0, 0].tolist() == [0, 4]
    assert array_windows(values, Windowing(length=4, step=3)).values[:, 0, 0].tolist() == [0, 3, 6]


def test_samples_between_windows_far_apart_are_passed_over():
    found = array_windows(np.arange(11.0)[:, None], Windowing(length=2, step=4))
    assert found.values[:, :, 0].tolist() == [[0, 1], [4, 5], [8, 9]]
    assert found.report.left_over == 1


def test_a_missing_value_is_refused_by_default_with_its_place():
    with pytest.raises(DataError, match=r'the table: row 2 has no usable value of "flow". .*gaps="hold"'):
        array_windows(column(1, 2, NAN), Windowing(length=3), sensors=["flow"])


def test_missing_values_may_be_left():
    values, report = filled(column(1, NAN, 3), gaps="leave")
    np.testing.assert_equal(values, [1, NAN, 3])
    assert report.missing == {"0": 1}


def test_held_values_are_counted_and_none_comes_before_the_first():
    values, report = filled(column(NAN, 1, NAN, NAN, 4, NAN), gaps="hold")
    np.testing.assert_equal(values, [NAN, 1, 1, 1, 4, 4])
    assert (report.held, report.missing, report.interpolated) == ({"0": 3}, {"0": 1}, {"0": 0})


def test_a_value_is_held_only_as_long_as_allowed():
    times = np.array([0.0, 1, 2, 3, 4, 5])
    values, report = filled(column(1, NAN, NAN, NAN, 5, NAN), times, gaps="hold", longest_gap=2.0)
    np.testing.assert_equal(values, [1, 1, 1, NAN, 5, 5])
    assert (report.held, report.missing) == ({"0": 3}, {"0": 1})


def test_a_line_follows_the_time_not_the_row():
    values, report = filled(column(0, NAN, 10), np.array([0.0, 1, 10]), gaps="linear")
    assert values == [0, 1, 10]
    assert report.interpolated == {"0": 1}


def test_a_gap_too_long_for_a_line_stays_missing_as_a_whole():
    values, report = filled(column(0, NAN, NAN, 3, NAN, 5), np.arange(6.0), gaps="linear", longest_gap=2.0)
    np.testing.assert_equal(values, [0, NAN, NAN, 3, 4, 5])
    assert (report.interpolated, report.missing) == ({"0": 1}, {"0": 2})


def test_a_line_without_a_next_value_holds_the_last():
    values, report = filled(column(0, 1, NAN, NAN), gaps="linear")
    assert values == [0, 1, 1, 1]
    assert (report.held, report.interpolated) == ({"0": 2}, {"0": 0})


@pytest.mark.parametrize("limit", [1, 2, 3, None])
def test_holding_is_the_forward_fill_of_pandas(limit):
    random = np.random.default_rng(1)
    rows = np.where(random.random((60, 3)) < 0.6, NAN, random.normal(size=(60, 3)))
    found = array_windows(
        rows,
        Windowing(length=60, gaps="hold", longest_gap=None if limit is None else float(limit)),
        times=np.arange(60.0),
    )
    np.testing.assert_array_equal(found.values[0], pd.DataFrame(rows).ffill(limit=limit))


def test_lines_are_the_interpolation_of_pandas():
    random = np.random.default_rng(2)
    rows = np.where(random.random((60, 3)) < 0.6, NAN, random.normal(size=(60, 3)))
    times = np.cumsum(random.random(60))
    found = array_windows(rows, Windowing(length=60, gaps="linear"), times=times)
    expected = pd.DataFrame(rows, index=times).interpolate(method="index")
    np.testing.assert_allclose(found.values[0], expected)


def test_infinite_values_count_as_bad_and_are_never_used():
    values, report = filled(column(1, np.inf, -np.inf, 4), gaps="hold")
    assert values == [1, 1, 1, 4]
    assert report.bad == {"0": 2}


def test_rows_with_equal_times_stay_samples_of_their_own():
    values, _ = filled(column(0, NAN, 2, NAN, 4), np.array([0.0, 0, 0, 1, 1]), gaps="linear")
    assert values == [0, 0, 2, 4, 4]


def test_time_stamps_go_to_the_origin_as_they_are():
    times = np.datetime64("2024-03-01T06:00:00", "ms") + np.arange(4) * np.timedelta64(250, "ms")
    found = array_windows(np.zeros((4, 1)), Windowing(length=2), times=times)
    assert found.origin["start"].to_numpy().astype("datetime64[ms]").tolist() == times[[0, 2]].tolist()
    assert found.origin["end"].to_numpy().astype("datetime64[ms]").tolist() == times[[1, 3]].tolist()


def test_short_groups_may_be_an_error():
    with pytest.raises(DataError, match=r"group 1 \(2 samples\): shorter than one window of 3 samples"):
        array_windows([np.zeros((5, 1)), np.zeros((2, 1))], Windowing(length=3, short="error"))


def test_nothing_long_enough_tells_the_longest():
    with pytest.raises(DataError, match=r"one window of 9 samples. The longest of 2 is group 1 \(5 samples\)"):
        array_windows([np.zeros((3, 1)), np.zeros((5, 1))], Windowing(length=9))


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        (np.zeros(5), {}, r"give arrays \(samples, sensors\)"),
        ([np.zeros((5, 1)), np.zeros((5, 2))], {}, r"same sensors, got \(5, 1\), \(5, 2\)"),
        ([np.zeros((5, 1)), np.zeros((0, 1))], {}, "array 1 has no samples"),
        (np.zeros((5, 1)), {"sensors": ["a", "b"]}, "2 sensor names for arrays of 1 sensors"),
        (np.zeros((5, 1)), {"times": np.zeros(4)}, "every sample needs its time"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays, settings, message):
    with pytest.raises(DataError, match=message):
        array_windows(arrays, Windowing(length=2), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 0}, "`length` must be at least 1, got 0"),
        ({"length": 5, "step": 0}, "`step` must be at least 1"),
        ({"length": 5, "rate": 0.0}, "`rate` must be greater than 0"),
        ({"length": 5, "gaps": "drop"}, "`gaps` must be one of 'error', 'leave', 'hold' or 'linear', got 'drop'"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Windowing(**settings)


@pytest.mark.parametrize("settings", [{"rate": 2.0}, {"longest_gap": 2.0}])
def test_what_is_in_seconds_needs_times(settings):
    with pytest.raises(ConfigError, match="need a time column"):
        array_windows(np.zeros((5, 1)), Windowing(length=2, **settings))


@pytest.fixture
def six():
    return array_windows(np.arange(24.0).reshape(12, 2), Windowing(length=2), sensors=["p", "q"])


def test_windows_can_be_chosen_by_mask_and_by_number(six):
    by_mask = six.select(np.array([True, False, False, False, False, True]))
    by_number = six.select([0, -1])
    for chosen in (by_mask, by_number):
        assert len(chosen) == 2
        np.testing.assert_array_equal(chosen.values, six.values[[0, 5]])
        assert chosen.origin["start"].to_pylist() == [0, 10]
        assert chosen.report == six.report
    assert len(six.select([])) == 0


def test_a_mask_of_another_length_is_refused(six):
    with pytest.raises(ShapeError, match="one value for each of the 6 windows"):
        six.select(np.array([True, False]))


def test_parts_can_be_put_together_again(six):
    whole = Windows.joined([six, six])
    assert len(whole) == 12
    assert whole.origin.num_rows == 12
    assert whole.report.groups == 2


def test_windows_of_different_sensors_cannot_be_put_together(six):
    other = array_windows(np.zeros((4, 2)), Windowing(length=2))
    with pytest.raises(ShapeError, match="different sensors"):
        Windows.joined([six, other])
    with pytest.raises(DataError, match="no examples to join"):
        Windows.joined([])


def test_windows_know_whether_values_are_missing(six):
    assert not six.has_missing
    assert array_windows(column(1, NAN), Windowing(length=2, gaps="leave")).has_missing


def test_the_report_reads_as_a_sentence():
    arrays = [column(1, NAN, 3, 4), column(1), column(2)]
    found = array_windows(arrays, Windowing(length=3, gaps="hold"), sensors=["flow"])
    assert str(found.report) == (
        "3 groups; 2 too short: group 1 (1 samples); group 2 (1 samples); "
        "1 samples left over at the end of groups; held: flow 1"
    )
    assert repr(found).startswith("Windows(1 windows of 3 samples, 1 sensors: 3 groups")
