"""Labels and passed columns of windows: what a window has of its samples, and what training leaves out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from indubio import Detector
from indubio.data import (
    ExampleStream,
    Long,
    Reading,
    Wide,
    Windowing,
    Windows,
    read_windows,
    reading_for,
    stream_windows,
)
from indubio.errors import ConfigError, DataError

WIDE = Wide(time="time", group="cycle", ids=("part", "cycle"), label="fault")


def recording(rows=60, seed=0):
    """Two cycles; rows 10-12 and 45 are faults. Parts change within a cycle."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"cycle": np.arange(rows) * 2 // rows, "time": np.arange(rows) / 10.0})
    frame["part"] = [f"{row // 7:03}" for row in range(rows)]
    frame["p"], frame["q"] = random.normal(size=(2, rows))
    frame["fault"] = 0
    frame.loc[[10, 11, 12, 45], "fault"] = 1
    return frame


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_window_has_the_label_of_any_sample_and_passes_on_its_first_row(tmp_path, ending):
    frame = recording()
    path = tmp_path / f"run.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    found = read_windows(path, WIDE, Windowing(length=8, step=4))
    starts = [first + 4 * k for first in (0, 30) for k in range(6)]
    shares = [frame["fault"][start : start + 8].mean() for start in starts]
    assert found.sensors == ("p", "q")
    np.testing.assert_allclose(found.bad_share, shares)
    assert found.labels.tolist() == [share > 0 for share in shares]
    assert found.passed.column_names == ["part", "cycle"]
    assert found.passed["part"].to_pylist() == frame["part"][starts].tolist()
    assert found.beside.column_names == ["file", "group", "start", "end", "part", "cycle"]


@pytest.mark.parametrize("gaps", ["leave", "linear", "hold"])
@pytest.mark.parametrize("at_once", [1, 3])
def test_a_stream_has_the_same_labels_and_columns(gaps, at_once):
    frame = recording()
    frame.loc[[3, 20, 33], "p"] = np.nan
    windowing = Windowing(length=8, step=3, gaps=gaps)
    whole = read_windows(frame, WIDE, windowing)
    parts = Windows.joined(list(stream_windows(frame, WIDE, windowing, windows_at_once=at_once)))
    np.testing.assert_array_equal(parts.bad_share, whole.bad_share)
    assert parts.passed.equals(whole.passed.combine_chunks())


def test_a_label_between_two_samples_is_not_lost_by_resampling():
    """Rows at 10 Hz are read off at 2 Hz: one bad row in five is enough, and the latest row gives the part."""
    frame = recording(rows=100)
    frame["fault"], frame["cycle"] = 0, 0
    frame.loc[23, "fault"] = 1  # at 2.3 s, between the samples at 2.0 s and 2.5 s
    found = read_windows(frame, WIDE, Windowing(length=4, rate=2.0))
    at = np.arange(4 * len(found)) / 2.0
    rows = np.searchsorted(frame["time"], at + 1e-6, side="right") - 1
    bad = [frame["fault"][(rows[i - 1] + 1 if i else rows[i]) : rows[i] + 1].any() for i in range(len(rows))]
    assert sum(bad) == 1
    np.testing.assert_allclose(found.bad_share, np.reshape(bad, (-1, 4)).mean(axis=1))
    assert found.passed["part"].to_pylist() == frame["part"][rows[::4]].tolist()
    parts = list(stream_windows(frame, WIDE, Windowing(length=4, rate=2.0), windows_at_once=1))
    np.testing.assert_array_equal(Windows.joined(parts).bad_share, found.bad_share)


def test_a_long_recording_has_labels_and_columns():
    frame = recording()[["time", "part", "p", "q", "fault"]]
    long = frame.melt(["time", "part", "fault"], var_name="tag").sort_values("time", kind="stable")
    layout = Long(time="time", tag="tag", value="value", ids=("part",), label="fault")
    found = read_windows(long, layout, Windowing(length=10, rate=10.0))
    np.testing.assert_allclose(found.bad_share, frame["fault"].to_numpy().reshape(6, 10).mean(axis=1))
    assert found.passed["part"].to_pylist() == frame["part"][::10].tolist()


def test_training_leaves_out_windows_with_bad_samples_and_says_how_many():
    windows = read_windows(recording(), WIDE, Windowing(length=10))
    assert windows.labels.tolist() == [False, True, False, False, True, False]
    good = windows.inliers()
    assert len(good) == len(good.passed) == len(good.bad_share) == 4
    assert "2 windows left out that hold samples labelled as anomalies" in repr(good)
    with pytest.raises(DataError, match=r"2 windows with samples labelled as anomalies.*windows\.inliers\(\)"):
        Detector().fit(windows)


def test_a_stream_of_examples_leaves_them_out_and_counts_them():
    reading = Reading(layout=WIDE, windowing=Windowing(length=10))
    stream = ExampleStream(recording(), reading)
    assert stream.outline.examples == len(stream.read()) == 4
    assert stream.outline.report.labelled == stream.read().report.labelled == 2


def test_labels_that_mean_anomaly_can_be_named():
    frame = recording()
    frame["fault"] = np.where(frame["fault"] == 1, "worn", "fine")
    with pytest.raises(DataError, match=r'label column "fault" must hold 0 and 1, but has "fine", "worn"'):
        read_windows(frame, WIDE, Windowing(length=10))
    named = replace(WIDE, anomaly_values=("worn",))
    assert read_windows(frame, named, Windowing(length=10)).labels.sum() == 2


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of few rows
def test_new_recordings_may_have_more_columns_but_not_fewer():
    kept = Reading(layout=WIDE, windowing=Windowing(length=10))  # as it is stored: sensors are not named
    detector = Detector().fit(ExampleStream(recording(), kept).read())
    more = recording(seed=1).assign(temperature=1.0, remark="none")
    reading = reading_for(kept, detector.schema_, more, ())
    assert detector.assess(reading.read(more)).passed.column_names[-2:] == ["part", "cycle"]
    unlabelled = more.drop(columns="fault")
    assert reading_for(kept, detector.schema_, unlabelled, ()).read(unlabelled).labels is None
    with pytest.raises(DataError, match='no column "q"'):
        reading_for(kept, detector.schema_, more, ()).read(more.drop(columns="q"))
    passed = reading_for(kept, detector.schema_, more, ("remark", "p", "fault")).read(more)
    assert passed.passed.column_names == ["part", "cycle", "remark", "p"]
    assert passed.labels.sum() == 2


def test_a_passed_column_cannot_take_the_name_of_what_every_window_has():
    with pytest.raises(ConfigError, match='"start" cannot be passed through'):
        Wide(ids=("start",))
    assert Wide(group="group", ids=("group",)).ids == ("group",)
