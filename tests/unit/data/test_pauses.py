"""Windows over missing rows: they are told of, and with `longest_gap` there are none."""

import numpy as np
import pytest

from indubio import Detector
from indubio.chain.points import point_scores
from indubio.data import Windowing, array_windows, longest_pauses
from indubio.errors import DataError

LOST = np.delete(np.arange(500.0), np.s_[90:490])  # once a second, 400 rows are not there


def recording(times=LOST):
    return np.random.default_rng(0).normal(size=(len(times), 2)), np.asarray(times)


def test_a_window_that_goes_on_over_a_pause_is_counted_and_noted():
    values, times = recording(np.concatenate([np.arange(1000.0), 1000.0 + LOST]))
    windows = array_windows(values, Windowing(length=20), times=times)
    assert (windows.report.over_pauses, windows.report.longest_pause) == (1, 401.0)
    assert "1 window goes on over a pause, the longest of 401 s: with `longest_gap`" in str(windows.report)
    found = Detector().fit(windows.select(np.arange(50))).assess(windows)
    assert [place for place, note in enumerate(found.notes) if "pause: 401 s" in note] == [54]


@pytest.mark.parametrize("gaps", ["error", "hold", "linear"])
def test_after_a_pause_longer_than_the_longest_gap_windows_begin_anew(gaps):
    values, times = recording()
    windows = array_windows(values, Windowing(length=20, step=5, gaps=gaps, longest_gap=2.0), times=times)
    starts = [*range(0, 71, 5)]  # the ten samples after the pause fill no window
    np.testing.assert_array_equal(windows.values, np.stack([values[start : start + 20] for start in starts]))
    assert (windows.report.pauses, windows.report.over_pauses, windows.report.left_over) == (1, 0, 10)


def test_a_stretch_after_a_pause_begins_with_its_first_sample_whatever_the_step():
    times = np.concatenate([np.arange(33.0), 1000 + np.arange(45.0)])
    values, _ = recording(times)
    windows = array_windows(values, Windowing(length=10, step=15, longest_gap=1.0), times=times)
    assert windows.first.tolist() == [0, 15, 33, 48, 63]
    np.testing.assert_array_equal(windows.values[2], values[33:43])
    points = point_scores(windows, np.arange(5.0), step=15)
    np.testing.assert_array_equal(points["time"], times[points["sample"].to_numpy()])
    assert points["sample"].to_pylist()[20] == 33


def test_points_over_a_pause_have_the_times_of_their_samples():
    values, times = recording()
    windows = array_windows(values, Windowing(length=20), times=times)
    np.testing.assert_array_equal(point_scores(windows, np.zeros(5), step=20)["time"], times)


def test_a_recording_of_pauses_alone_names_the_setting():
    values, _ = recording()
    with pytest.raises(DataError, match=r"99 times two rows are more than 2 s apart. Take a larger `longest_gap`"):
        array_windows(values[:100], Windowing(length=20, longest_gap=2.0), times=np.arange(100.0) * 10)


def test_a_pause_is_far_longer_than_the_usual_step():
    steps = {
        "regular": np.ones(60),
        "a few rows lost": np.where(np.arange(60) % 20 == 0, 4.0, 1.0),
        "one long": np.where(np.arange(60) == 30, 11.0, 1.0),
        "two long": np.where(np.arange(60) % 40 == 0, 400.0, 1.0),
        "whole seconds of a fast recording, one long": np.where(
            np.arange(60) == 30, 50.0, np.where(np.arange(60) % 10 == 0, 1.0, 0.0)
        ),
    }
    found = {name: longest_pauses(np.cumsum(one)[None], 1.0)[0] for name, one in steps.items()}
    assert list(found.values()) == [0, 0, 11, 400, 50]


@pytest.mark.parametrize("spread", ["exponential", "lognormal"])
def test_events_at_irregular_times_have_no_pauses(spread):
    random = np.random.default_rng(0)
    steps = random.exponential(size=(500, 99)) if spread == "exponential" else random.lognormal(0, 1.5, size=(500, 99))
    assert np.count_nonzero(longest_pauses(np.cumsum(steps, axis=1), 1.0)) <= 5
