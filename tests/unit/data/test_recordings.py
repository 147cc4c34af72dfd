"""Recordings from files and frames: layouts, resampling, streaming, and what is refused."""

import math
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indubio.data import Long, Wide, Windowing, Windows, read_windows, stream_windows
from indubio.errors import ConfigError, DataError
from indubio.io import csv_files, parquet_files, sources
from tests.reference.plain_resampling import cut, resampled

LONG = Long(time="time", tag="tag", value="value")


def write(table, path):
    """A table as CSV or Parquet, by the name of the file."""
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False, row_group_size=7)
    return path


def wide(rows=40, start=0, group=None):
    random = np.random.default_rng(start)
    table = {"time": start + np.arange(rows) / 10, "p": random.normal(size=rows), "q": random.normal(size=rows)}
    return pd.DataFrame(table if group is None else {"part": group, **table})


def long(events):
    """Events (time, tag, value[, quality]) as a frame."""
    return pd.DataFrame(events, columns=["time", "tag", "value", "quality"][: len(events[0])])


def same(left, right):
    np.testing.assert_array_equal(left.values, right.values)
    assert left.origin.equals(right.origin)
    assert left.report == right.report
    assert (left.sensors, left.rate) == (right.sensors, right.rate)
    np.testing.assert_array_equal(left.first, right.first)
    np.testing.assert_array_equal(left.times, right.times)


# What can be read


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_a_file_becomes_windows_with_their_origin(name, tmp_path):
    frame = wide()
    found = read_windows(write(frame, tmp_path / name), Wide(time="time"), Windowing(length=8))
    np.testing.assert_array_equal(found.values.reshape(40, 2), frame[["p", "q"]])
    assert found.sensors == ("p", "q")
    first = {"file": name, "group": None, "start": 0.0, "end": 0.7}
    assert found.origin.to_pylist()[0] == first


@pytest.mark.parametrize(
    "given_as",
    [
        lambda frame: frame,
        lambda frame: frame.set_index("time"),
        lambda frame: frame.set_index(np.arange(40) + 7),
        pl.from_pandas,
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    ],
    ids=["pandas", "pandas, time as index", "pandas, any index", "polars", "arrow"],
)
def test_tables_in_memory_are_read_like_files(given_as, tmp_path):
    frame = wide()
    layout, windowing = Wide(time="time"), Windowing(length=8)
    found = read_windows(given_as(frame), layout, windowing)
    from_file = read_windows(write(frame, tmp_path / "run.parquet"), layout, windowing)
    np.testing.assert_array_equal(found.values, from_file.values)
    assert found.origin["file"].null_count == 5


def test_only_the_sensors_asked_for_are_taken_in_their_order():
    found = read_windows(wide(), Wide(sensors=("q", "p")), Windowing(length=40))
    np.testing.assert_array_equal(found.values[0], wide()[["q", "p"]])
    assert found.origin.to_pylist() == [{"file": None, "group": None, "start": 0, "end": 39}]


def test_all_columns_with_numbers_are_sensors_and_switches_count_as_numbers():
    frame = wide().assign(on=[True, False] * 20, operator="Ann", count=np.arange(40, dtype=np.int32))
    found = read_windows(frame, Wide(time="time"), Windowing(length=40))
    assert found.sensors == ("p", "q", "on", "count")
    assert found.values[0, :3, 2].tolist() == [1, 0, 1]


def test_a_switch_in_a_csv_file_is_a_sensor(tmp_path):
    frame = wide().assign(on=[True, False] * 20)
    found = read_windows(write(frame, tmp_path / "run.csv"), Wide(time="time"), Windowing(length=40))
    assert found.values[0, :3, 2].tolist() == [1, 0, 1]


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path):
    for number in (10, 2, 1):
        write(wide(start=number), tmp_path / f"run{number}.csv")
    (tmp_path / "notes.txt").write_text("not a recording")
    found = read_windows(tmp_path, Wide(time="time"), Windowing(length=40))
    assert found.origin["file"].to_pylist() == ["run1.csv", "run2.csv", "run10.csv"]
    assert found.origin["start"].to_pylist() == [1, 2, 10]


def test_a_folder_of_mixed_kinds_needs_a_pattern(tmp_path):
    write(wide(), tmp_path / "a.csv")
    write(wide(), tmp_path / "b.parquet")
    windowing = Windowing(length=40)
    with pytest.raises(DataError, match=r"holds \.csv and \.parquet files. Choose with a pattern"):
        read_windows(tmp_path, Wide(time="time"), windowing)
    assert read_windows(f"{tmp_path}/*.csv", Wide(time="time"), windowing).origin["file"].to_pylist() == ["a.csv"]
    assert len(read_windows(tmp_path / "*", Wide(time="time"), windowing)) == 2


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    paths = []
    for folder in ("mon", "tue"):
        (tmp_path / folder).mkdir()
        paths.append(write(wide(), tmp_path / folder / "run.csv"))
    found = read_windows(paths, Wide(time="time"), Windowing(length=40))
    assert found.origin["file"].to_pylist() == [str(path) for path in paths]


def test_windows_never_cross_groups_and_groups_may_go_on_in_the_next_file(tmp_path):
    first = pd.concat([wide(10, 0, "007"), wide(6, 10, "008")])
    second = pd.concat([wide(6, 20, "008"), wide(3, 30, "009")])
    paths = [write(first, tmp_path / "1.csv"), write(second, tmp_path / "2.csv")]
    found = read_windows(paths, Wide(time="time", group="part"), Windowing(length=4))
    assert found.origin["group"].to_pylist() == ["007"] * 2 + ["008"] * 3
    assert found.origin["file"].to_pylist() == ["1.csv"] * 4 + ["2.csv"]
    np.testing.assert_array_equal(found.values[3, :, 0], [*first.p[14:], *second.p[:2]])
    assert found.report.left_over == 2
    assert [(short.file, short.group, short.samples) for short in found.report.short] == [("2.csv", "009", 3)]


def test_without_a_group_column_each_file_is_a_group(tmp_path):
    paths = [write(wide(6), tmp_path / f"{number}.csv") for number in (1, 2)]
    found = read_windows(paths, Wide(time="time"), Windowing(length=4))
    assert found.origin["file"].to_pylist() == ["1.csv", "2.csv"]
    assert found.report.left_over == 4


def test_group_ids_of_a_parquet_file_keep_their_type(tmp_path):
    path = write(wide(group=np.repeat([3, 5], 20)), tmp_path / "run.parquet")
    found = read_windows(path, Wide(time="time", group="part"), Windowing(length=20))
    assert found.origin["group"].to_pylist() == [3, 5]


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        (["2024-03-01T06:00:00", "2024-03-01T06:00:01.5"], pd.Timestamp("2024-03-01T06:00:01.5")),
        (["2024-03-01 06:00:00+01:00", "2024-03-01 06:00:01+01:00"], pd.Timestamp("2024-03-01T05:00:01", tz="UTC")),
        (["2024-03-01", "2024-03-02"], pd.Timestamp("2024-03-02")),
        (["3", "4.25"], 4.25),
    ],
)
@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_times_may_be_text(name, spelled, expected, tmp_path):
    path = write({"time": spelled, "p": [1.0, 2.0]}, tmp_path / name)
    found = read_windows(path, Wide(time="time"), Windowing(length=2))
    assert found.origin["end"][0].as_py() == expected


def test_whole_seconds_may_be_followed_by_fractions_in_a_later_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 64)
    stamps = [f"2024-03-01 06:00:0{second}" for second in range(8)] + ["2024-03-01 06:00:08.125"]
    path = write({"time": stamps, "p": [*range(8), 8.5]}, tmp_path / "run.csv")
    found = read_windows(path, Wide(time="time"), Windowing(length=9))
    assert found.origin["end"][0].as_py() == pd.Timestamp("2024-03-01 06:00:08.125")
    assert found.values[0, -1, 0] == 8.5


@pytest.mark.parametrize(
    ("spelled", "time_format", "expected"),
    [
        ("01.03.2024 18:00:01", "%d.%m.%Y %H:%M:%S", "2024-03-01T18:00:01"),
        ("03/01/2024 06:00:01 PM", "%m/%d/%Y %I:%M:%S %p", "2024-03-01T18:00:01"),
        ("01.03.2024 18:00:01,5", "%d.%m.%Y %H:%M:%S,%f", "2024-03-01T18:00:01.5"),
        ("20240301-180001.123456789", "%Y%m%d-%H%M%S.%f", "2024-03-01T18:00:01.123456789"),
        ("01.03.2024 18:00:01", "%d.%m.%Y %H:%M:%S,%f", "2024-03-01T18:00:01"),
    ],
)
@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_times_may_be_in_a_format_of_the_vendor(name, spelled, time_format, expected, tmp_path):
    path = write({"time": [spelled] * 2, "p": [1.0, 2.0]}, tmp_path / name)
    found = read_windows(path, Wide(time="time", time_format=time_format), Windowing(length=2))
    assert found.origin["end"][0].value == pd.Timestamp(expected).value


def test_times_in_another_format_than_said_are_named(tmp_path):
    path = write({"time": ["01.03.2024", "2024-03-02"], "p": [1.0, 2.0]}, tmp_path / "run.csv")
    layout = Wide(time="time", time_format="%d.%m.%Y")
    refused(path, layout, r"run.csv: line 3, column \"time\": '2024-03-02' is not a time like \"%d.%m.%Y\"")
    refused(wide(), layout, "holds double, not text. Leave `time_format` out")
    with pytest.raises(ConfigError, match="time_format"):
        Wide(time="time", time_format="%f seconds")


def test_times_of_day_and_durations_count_as_seconds():
    table = pa.table({"time": pa.array([1500, 3500], pa.duration("ms")), "p": [1.0, 2.0]})
    assert read_windows(table, Wide(time="time"), Windowing(length=2)).origin["end"][0].as_py() == 3.5
    table = pa.table({"time": pa.array([60, 61], pa.time32("s")), "p": [1.0, 2.0]})
    assert read_windows(table, Wide(time="time"), Windowing(length=2)).origin["end"][0].as_py() == 61


# Resampling


def test_a_long_recording_is_read_off_from_the_latest_first_stamp():
    events = [(0.0, "a", 1.0), (0.5, "b", 10.0), (1.0, "a", 2.0), (2.6, "b", 20.0), (3.0, "a", 3.0)]
    found = read_windows(long(events), LONG, Windowing(length=3, rate=1.0, gaps="hold"))
    assert found.sensors == ("a", "b")
    assert found.values[0].tolist() == [[1, 10], [2, 10], [2, 10]]
    assert found.origin.to_pylist() == [{"file": None, "group": None, "start": 0.5, "end": 2.5}]
    assert found.rate == 1.0
    assert found.report.held == {"a": 1, "b": 2}


def test_bad_values_are_never_used_and_counted():
    events = [(0.0, "a", 1.0, "Good"), (1.0, "a", 99.0, "Bad"), (2.0, "a", 3.0, "GOOD"), (3.0, "a", 4.0, None)]
    layout = LONG.replaced(quality="quality")
    held = read_windows(long(events), layout, Windowing(length=4, rate=1.0, gaps="hold"))
    assert held.values[0, :, 0].tolist() == [1, 1, 3, 3]
    assert held.report.bad == {"a": 2}
    left = read_windows(long(events), layout, Windowing(length=4, rate=1.0, gaps="hold", longest_gap=0.5))
    np.testing.assert_equal(left.values[0, :, 0], [1, np.nan, 3, np.nan])
    assert left.report.missing == {"a": 2}


@pytest.mark.parametrize(
    ("good", "expected"), [(("good", 192), [1, 1, 1]), ((0,), [np.nan, 2, 2]), ((192, 216), [1, 1, 3])]
)
@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_qualities_may_be_numbers(name, good, expected, tmp_path):
    events = [(0.0, "a", 1.0, 192), (1.0, "a", 2.0, 0), (2.0, "a", 3.0, 216)]
    path = write(long(events), tmp_path / name)
    layout = LONG.replaced(quality="quality", good=good)
    found = read_windows(path, layout, Windowing(length=3, rate=1.0, gaps="hold"))
    np.testing.assert_equal(found.values[0, :, 0], expected)


def test_a_recording_in_which_nothing_is_good_is_taken_for_a_misunderstanding():
    events = [(float(t), "a", 1.0, 0) for t in range(5)]
    layout, windowing = LONG.replaced(quality="quality"), Windowing(length=3, rate=1.0, gaps="hold")
    refused(long(events), layout, r"column \"quality\" holds 0, and only 'good', 192 count as good", windowing)
    assert len(read_windows(long(events), layout.replaced(good=(0,)), windowing)) == 1


def test_text_is_no_problem_where_the_quality_is_bad_or_the_tag_not_asked_for(tmp_path):
    events = [(0, "a", "1.5", "good"), (1, "a", "No Data", "bad"), (1, "mode", "AUTO", "good"), (2, "a", "2.5", "good")]
    path = write(long(events), tmp_path / "run.csv")
    layout = LONG.replaced(quality="quality", sensors=("a",))
    found = read_windows(path, layout, Windowing(length=3, rate=1.0, gaps="hold"))
    assert found.values[0, :, 0].tolist() == [1.5, 1.5, 2.5]
    with pytest.raises(DataError, match=r"run.csv: line 4, column \"value\": 'AUTO' is not a number"):
        read_windows(path, layout.replaced(sensors=None), Windowing(length=3, rate=1.0, gaps="hold"))


def test_jitter_is_no_gap_but_a_lost_sample_is():
    jitter = long([(t, "a", t) for t in (0.0, 0.96, 2.04, 3.0)])
    assert len(read_windows(jitter, LONG, Windowing(length=4, rate=1.0))) == 1
    lost = long([(t, "a", t) for t in (0.0, 1.0, 3.0, 4.0)])
    found = read_windows(lost, LONG, Windowing(length=5, rate=1.0, gaps="leave"))
    np.testing.assert_equal(found.values[0, :, 0], [0, 1, np.nan, 3, 4])
    message = r'the table has a gap at 2: no two good values of "a" around it are within 1.5 s.*gaps="hold"'
    refused(lost, LONG, message, Windowing(length=5, rate=1.0))
    assert len(read_windows(lost, LONG, Windowing(length=5, rate=1.0, longest_gap=2.0))) == 1


def test_rounded_stamps_do_not_shift_the_samples():
    times = 0.1 + np.arange(1000) / 10  # 0.8 - 0.1 is more than 0.7 to a computer
    frame = pd.DataFrame({"time": times, "p": np.arange(1000.0)})
    found = read_windows(frame, Wide(time="time"), Windowing(length=1000, rate=10.0))
    np.testing.assert_array_equal(found.values[0, :, 0], np.arange(1000.0))
    assert found.report.held == {"p": 0}


def test_time_stamps_are_kept_to_the_nanosecond():
    start = pd.Timestamp("2024-03-01T06:00:00.123456789")
    frame = pd.DataFrame({"time": pd.date_range(start, periods=9, freq="125ms"), "p": np.arange(9.0)})
    found = read_windows(frame, Wide(time="time"), Windowing(length=2, rate=4.0))
    assert found.origin["start"][1].value == (start + pd.Timedelta("500ms")).value
    assert found.values[1, :, 0].tolist() == [4, 6]


def test_of_values_with_one_stamp_the_last_counts():
    events = long([(0.0, "a", 1.0), (0.0, "a", 2.0), (2.0, "a", 8.0), (2.0, "a", 4.0), (3.0, "a", 4.0)])
    held = read_windows(events, LONG, Windowing(length=4, rate=1.0, gaps="hold"))
    assert held.values[0, :, 0].tolist() == [2, 2, 4, 4]
    drawn = read_windows(events, LONG, Windowing(length=4, rate=1.0, gaps="linear"))
    assert drawn.values[0, :, 0].tolist() == [2, 3, 4, 4]


def test_a_group_without_one_of_the_tags_is_refused_or_has_it_missing():
    events = pd.concat(
        [
            long([(0.0, "a", 1.0), (0.0, "b", 2.0), (1.0, "a", 3.0), (1.0, "b", 4.0)]).assign(part="x"),
            long([(0.0, "a", 1.0), (1.0, "a", 2.0)]).assign(part="y"),
        ]
    )
    layout = LONG.replaced(group="part")
    with pytest.raises(DataError, match='group y has no value at all of "b"'):
        read_windows(events, layout, Windowing(length=2, rate=1.0))
    found = read_windows(events, layout, Windowing(length=2, rate=1.0, gaps="hold"))
    np.testing.assert_equal(found.values[1], [[1, np.nan], [2, np.nan]])
    assert found.report.missing == {"a": 0, "b": 2}


def test_a_group_with_none_of_the_tags_is_too_short():
    events = pd.concat([long([(t, "a", t), (t, "b", t)]).assign(part=tag) for t in (0.0, 1.0) for tag in ("x",)])
    other = long([(0.0, "b", 1.0)]).assign(part="y")
    layout = LONG.replaced(group="part", sensors=("a",))
    found = read_windows(pd.concat([events, other]), layout, Windowing(length=2, rate=1.0))
    assert [(short.group, short.samples) for short in found.report.short] == [("y", 0)]


def test_an_export_tag_by_tag_is_sorted_on_request():
    events = [(t, tag, t * (1 if tag == "a" else 10)) for tag in ("a", "b") for t in (0.0, 1.0, 2.0)]
    windowing = Windowing(length=3, rate=1.0)
    with pytest.raises(DataError, match=r"the table: row 3: the time goes backwards.*ordered=False"):
        read_windows(long(events), LONG, windowing)
    found = read_windows(long(events), LONG.replaced(ordered=False), windowing)
    assert found.values[0].tolist() == [[0, 0], [1, 10], [2, 20]]


def test_rows_out_of_order_are_sorted_on_request():
    frame = pd.concat([wide(group="x"), wide(group="y")])
    shuffled = frame.sample(frac=1, random_state=0)
    layout, windowing = Wide(time="time", group="part", ordered=False), Windowing(length=40)
    expected = dict(zip("xy", read_windows(frame, layout, windowing).values, strict=True))
    found = read_windows(shuffled, layout, windowing)
    for group, values in zip(found.origin["group"].to_pylist(), found.values, strict=True):
        np.testing.assert_array_equal(values, expected[group])


event = st.tuples(st.integers(0, 60), st.sampled_from([0, 1]), st.none() | st.integers(-5, 5))


@given(
    st.lists(event, min_size=1, max_size=40),
    st.sampled_from(["leave", "hold", "linear"]),
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.sampled_from([0.3, 1.1, 2.6, math.inf]),
)
def test_resampling_agrees_with_a_plain_loop(events, gaps, rate, longest):
    events = sorted([(0, 0, 1), (0, 1, 2), *events], key=lambda item: item[0])
    unique = {(t, sensor): value for t, sensor, value in events if value is not None}
    events = [(t / 8, s, None if value is None else unique[t, s]) for t, s, value in events]
    expected = resampled(events, 2, rate=rate, gaps=gaps, longest=longest)
    frame = long([(t, "ab"[sensor], math.nan if value is None else value) for t, sensor, value in events])
    limit = longest if longest < math.inf else 1000.0 if gaps == "leave" else None
    found = read_windows(frame, LONG, Windowing(length=1, rate=rate, gaps=gaps, longest_gap=limit))
    np.testing.assert_allclose(found.values[:, 0], expected, atol=1e-12)


@given(
    st.integers(2, 30),
    st.sampled_from(["leave", "hold", "linear"]),
    st.sampled_from([0.5, 0.9, 3.0]),
    st.integers(0, 2**32 - 1),
)
def test_resampling_a_wide_recording_agrees_with_a_plain_loop(rows, gaps, rate, seed):
    random = np.random.default_rng(seed)
    times = np.cumsum(random.choice([0.25, 0.5, 1.75], size=rows))
    values = np.where(random.random((rows, 2)) < 0.3, np.nan, random.normal(size=(rows, 2)))
    events = [
        (t, k, None if np.isnan(row[k]) else row[k]) for t, row in zip(times, values, strict=True) for k in (0, 1)
    ]
    expected = cut(resampled(events, 2, rate=rate, gaps=gaps, longest=1.3), 2, 1)
    if not expected:
        return
    frame = pd.DataFrame({"time": times, "p": values[:, 0], "q": values[:, 1]})
    found = read_windows(frame, Wide(time="time"), Windowing(length=2, step=1, rate=rate, gaps=gaps, longest_gap=1.3))
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


# Streaming

WINDOWINGS = {
    "rows": Windowing(length=4, step=3, gaps="leave"),
    "rows apart": Windowing(length=3, step=5, gaps="leave"),
    "rows between pauses": Windowing(length=3, step=5, gaps="leave", longest_gap=0.35),
    "rows held": Windowing(length=4, gaps="hold", longest_gap=0.35),
    "rows on lines": Windowing(length=4, step=2, gaps="linear"),
    "rows on short lines": Windowing(length=4, step=2, gaps="linear", longest_gap=0.35),
    "resampled, held": Windowing(length=4, step=3, rate=7.0, gaps="hold"),
    "resampled, left": Windowing(length=4, rate=7.0, gaps="leave"),
    "resampled, on lines": Windowing(length=4, step=1, rate=7.0, gaps="linear"),
    "resampled, on short lines": Windowing(length=4, step=1, rate=7.0, gaps="linear", longest_gap=0.35),
}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    """Many groups of all lengths over three files, with gaps, infinite values and equal stamps; wide and long."""
    random = np.random.default_rng(3)
    lengths = [1, 30, 2, 3, 17, 4, 5, 90, 1, 12, 8, 40]
    rows = sum(lengths)
    time = np.concatenate([np.cumsum(random.choice([0.0, 0.1, 0.1, 0.1, 0.5], size=count)) for count in lengths])
    values = np.where(random.random((rows, 2)) < 0.3, np.nan, random.normal(size=(rows, 2)))
    values[random.random((rows, 2)) < 0.02] = np.inf
    group = np.repeat([f"part {number}" for number in range(len(lengths))], lengths)
    frame = pd.DataFrame({"part": group, "time": time, "p": values[:, 0], "q": values[:, 1]})
    melted = frame.reset_index().melt(["index", "part", "time"], ["p", "q"], "tag", "value")
    melted = melted.sort_values(["index", "tag"]).drop(columns="index").dropna()
    melted["quality"] = np.where(random.random(len(melted)) < 0.2, "bad", "good")
    folder = tmp_path_factory.mktemp("spoilt")
    for name, table in (("wide", frame), ("long", melted)):
        (folder / name).mkdir()
        for number, part in enumerate(np.array_split(np.arange(len(table)), 3)):
            for kind in ("csv", "parquet"):
                write(table.iloc[part], folder / name / f"run{number}.{kind}")
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("layout", "windowing"),
    [("wide", name) for name in WINDOWINGS] + [("long", name) for name in WINDOWINGS if name.startswith("res")],
)
def test_a_stream_is_the_same_whatever_the_size_of_its_parts(layout, windowing, kind, spoilt, monkeypatch):
    layouts = {
        "wide": Wide(time="time", group="part"),
        "long": Long(time="time", tag="tag", value="value", quality="quality", group="part"),
    }
    arguments = (f"{spoilt}/{layout}/*.{kind}", layouts[layout], WINDOWINGS[windowing])
    whole = read_windows(*arguments)
    assert whole.report.groups == 12
    assert whole.report.short
    assert sum(whole.report.bad.values()) > 0
    for rows, block, at_once in ((1, 80, 1), (3, 100, 5), (11, 250, 1000), (10_000, 10_000, 3)):
        monkeypatch.setattr(parquet_files, "ROWS_AT_ONCE", rows)
        monkeypatch.setattr(csv_files, "CSV_BLOCK", block)
        parts = list(stream_windows(*arguments, windows_at_once=at_once))
        assert {len(part) for part in parts[:-1]} <= {at_once}
        assert 1 <= len(parts[-1]) <= at_once
        same(Windows.joined(parts), whole)


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(1, 7),
    st.sampled_from(["leave", "hold", "linear"]),
    st.sampled_from([None, 3.0]),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_streams_of_any_recording_add_up(lengths, length, step, gaps, rate, rows, at_once, seed):
    random = np.random.default_rng(seed)
    lengths = [*lengths, 2 * length]
    count = sum(lengths)
    time = np.concatenate([np.arange(number) / 3 for number in lengths])
    values = np.where(random.random(count) < 0.3, np.nan, random.normal(size=count))
    table = pa.table({"part": np.repeat(np.arange(len(lengths)), lengths), "time": time, "p": values})
    arguments = (table, Wide(time="time", group="part"), Windowing(length=length, step=step, gaps=gaps, rate=rate))
    whole = read_windows(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "ROWS_AT_ONCE", rows)
        same(Windows.joined(list(stream_windows(*arguments, windows_at_once=at_once))), whole)


def test_a_stream_gives_windows_before_it_has_read_everything(monkeypatch):
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", 10)
    frame = wide(1000)
    frame.loc[999, "time"] = 0
    stream = stream_windows(frame, Wide(time="time"), Windowing(length=5), windows_at_once=4)
    assert len(next(stream)) == 4
    with pytest.raises(DataError, match="row 999: the time goes backwards"):
        list(stream)


@pytest.mark.parametrize("row_group", [50_000, 1_000_000])
def test_a_stream_keeps_little_of_its_file_in_memory(row_group, tmp_path):
    random = np.random.default_rng(0)
    table = pa.table({f"s{number}": random.normal(size=1_000_000) for number in range(4)})
    parquet.write_table(table, tmp_path / "run.parquet", row_group_size=row_group)
    del table
    before, kept = pa.total_allocated_bytes(), []
    for part in stream_windows(tmp_path / "run.parquet", Wide(), Windowing(length=50), windows_at_once=200):
        kept.append(pa.total_allocated_bytes() - before)
        assert part.values.nbytes == 200 * 50 * 4 * 8
    assert max(kept) < 16e6  # of 32 MB


def test_a_long_gap_takes_no_memory_at_once():
    frame = pd.DataFrame({"time": [0.0, 2e6], "p": [1.0, 2.0]})
    tracemalloc.start()
    for part in stream_windows(frame, Wide(time="time"), Windowing(length=100, rate=1.0, gaps="hold")):
        assert part.values[0, 0, 0] == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6  # the samples alone would be 16 MB


def test_overlapping_windows_take_memory_only_when_they_are_given_out():
    samples = 200_000  # windows of 10,000 at every sample: 16 GB at once
    frame = pa.table({"p": np.arange(float(samples))})
    stream = stream_windows(frame, Wide(), Windowing(length=10_000, step=1), windows_at_once=10)
    assert next(stream).values[9, 0, 0] == 9


# What is refused


def refused(source, layout, message, windowing=None):
    with pytest.raises(DataError, match=message):
        read_windows(source, layout, windowing or Windowing(length=2))


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_missing_columns_are_listed_with_those_that_are_there(name, tmp_path):
    path = write(wide(), tmp_path / name)
    layout = Wide(time="when", sensors=("p", "r"), group="part")
    refused(path, layout, r'run\.\w+: no column "part", "when", "r"; there are "time", "p", "q"\.')
    refused(path, Wide(time="when"), 'no column "when"')
    refused(path, LONG, 'no column "tag"', Windowing(length=2, rate=1.0))


def test_a_later_file_needs_the_same_sensors(tmp_path):
    first = write(wide(), tmp_path / "1.csv")
    refused([first, write(wide().drop(columns="q"), tmp_path / "2.csv")], Wide(time="time"), r'2.csv: no column "q"')
    extra = write(wide().assign(r=1.0), tmp_path / "3.csv")
    refused([first, extra], Wide(time="time"), r'3.csv: has "r", which .*1.csv has not')
    assert len(read_windows([first, extra], Wide(time="time", sensors=("p",)), Windowing(length=40))) == 2


def test_text_in_a_sensor_column_is_named_with_its_line(tmp_path):
    frame = wide().astype({"q": object})
    frame.loc[5, "q"] = "Bad"
    path = write(frame, tmp_path / "run.csv")
    refused(path, Wide(time="time", sensors=("p", "q")), r"run.csv: line 7, column \"q\": 'Bad' is not a number")
    refused(path, Wide(time="time"), r"run.csv: line 7: column \"q\" holds 'Bad' among numbers")
    table = frame.assign(q=frame.q.astype(str))
    refused(table, Wide(time="time", sensors=("q",)), r"the table: row 5, column \"q\": 'Bad' is not a number")
    refused(wide().assign(d=pd.Timestamp("2024-01-01")), Wide(sensors=("d",)), 'column "d" holds timestamp.* not num')


def test_text_far_down_a_csv_file_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 200)
    frame = wide(300).astype({"q": object})
    frame.loc[280, "q"] = "Bad"
    refused(write(frame, tmp_path / "run.csv"), Wide(time="time"), r"run.csv: line 282, column \"q\": 'Bad'")


def test_a_broken_csv_file_is_named_with_its_line(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("time,p\n0,1\n1\n2,3\n")
    refused(path, Wide(time="time"), "run.csv: line 3: Expected 2 columns, got 1")
    path.write_text("")
    refused(path, Wide(time="time"), "run.csv: the file is empty")
    path.write_text("time,p,p\n0,1,2\n1,2,3\n")
    refused(path, Wide(time="time", sensors=("p",)), 'more than one column is called "p"')


def test_a_file_that_is_not_parquet_is_refused(tmp_path):
    path = tmp_path / "run.parquet"
    path.write_text("time,p\n0,1\n")
    refused(path, Wide(time="time"), "run.parquet: not a Parquet file")


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = tmp_path / "run.parquet"
    parquet.write_table(pa.table({"p": np.random.default_rng(0).normal(size=10_000)}), path)
    content = bytearray(path.read_bytes())
    content[4:60_000] = b"\xff" * (60_000 - 4)
    path.write_bytes(content)
    refused(path, Wide(), "run.parquet: the file is damaged")


def test_files_without_rows_are_refused_or_reported(tmp_path):
    empty = write(wide(0), tmp_path / "empty.parquet")
    refused(empty, Wide(time="time", sensors=("p",)), r"empty.parquet \(0 samples\): there are no rows")
    path = tmp_path / "empty.csv"
    path.write_text("time,p,q\n")
    refused(path, Wide(time="time"), "there are no rows")
    refused(path, Long(time="time", tag="p", value="q"), "names no sensor", Windowing(length=2, rate=1.0))
    full = write(wide(), tmp_path / "full.csv")
    for ordered in (True, False):
        found = read_windows([path, full, empty], Wide(time="time", ordered=ordered), Windowing(length=40))
        assert [short.file for short in found.report.short] == ["empty.csv", "empty.parquet"]


def test_unknown_files_and_sources_are_refused(tmp_path):
    (tmp_path / "run.docx").write_text("")
    refused(tmp_path / "run.docx", Wide(), r"unknown file type '\.docx'\. Known are \.csv, ")
    refused(tmp_path / "gone.csv", Wide(), "gone.csv: no such file or folder")
    refused(tmp_path, Wide(), r"holds no recordings \(\.csv, ")
    refused(f"{tmp_path}/*.csv", Wide(), "no file matches")
    refused(7, Wide(), "cannot read int as a recording")
    refused(pd.DataFrame({"operator": ["Ann"]}), Wide(), 'no column holds numbers; there are "operator"')


def test_rows_out_of_order_are_named(tmp_path):
    frame = wide(20)
    frame.loc[7, "time"] = 0.1
    refused(write(frame, tmp_path / "run.csv"), Wide(time="time"), "run.csv: line 9: the time goes backwards")


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2024-03-01T06:00:00", "yesterday"], r"run.csv: line 3, column \"time\": 'yesterday' is not a time"),
        (["yesterday", "today"], r"run.csv: line 2, column \"time\": 'yesterday' is not a time"),
        (["2024-03-01T06:00:00", None], 'run.csv: line 3: column "time" has no time'),
        ([0.0, None], 'run.csv: line 3: column "time" has no time'),
        ([0.0, np.inf], 'run.csv: line 3: column "time" has no time'),
        (["true", "false"], 'column "time"'),
    ],
)
def test_times_that_are_none_are_named(times, message, tmp_path):
    refused(write({"time": times, "p": [1.0, 2.0]}, tmp_path / "run.csv"), Wide(time="time"), message)


def test_a_time_that_cannot_be_parsed_far_down_a_csv_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 200)
    times = [str(stamp) for stamp in pd.date_range("2024-03-01", periods=50, freq="s")]
    times[40] = "lunch"
    path = write({"time": times, "p": np.zeros(50)}, tmp_path / "run.csv")
    refused(path, Wide(time="time"), r"run.csv: line 42, column \"time\": 'lunch' is not a time")


def test_seconds_and_time_stamps_do_not_mix(tmp_path):
    first = write(wide(), tmp_path / "1.csv")
    second = write(wide().assign(time="2024-03-01"), tmp_path / "2.csv")
    refused([first, second], Wide(time="time"), r'2.csv: line 2: column "time" holds timestamp.* began with double')


def test_rows_without_group_or_tag_are_named():
    frame = wide(4, 0, ["x", "x", None, "y"])
    refused(frame, Wide(time="time", group="part"), 'the table: row 2: column "part" has no group id')
    events = long([(0.0, "a", 1.0), (1.0, None, 1.0)])
    refused(events, LONG, 'the table: row 1: column "tag" names no sensor', Windowing(length=2, rate=1.0))


def test_groups_of_another_type_in_a_later_file_are_refused(tmp_path):
    first = write(wide(group=1), tmp_path / "1.parquet")
    second = write(wide(group="x"), tmp_path / "2.parquet")
    refused([first, second], Wide(time="time", group="part"), r'2.parquet: row 0: column "part" holds string.* int64')


def test_tags_that_never_come_are_refused():
    events = long([(0.0, "a10", 1.0), (0.0, "a9", 1.0)])
    layout = LONG.replaced(sensors=("a9", "b"))
    refused(events, layout, 'no tag "b" in column "tag"; there are "a9", "a10"', Windowing(length=1, rate=1.0))


def test_a_long_recording_needs_a_rate():
    with pytest.raises(ConfigError, match="`rate` must be set for a long recording"):
        read_windows(long([(0.0, "a", 1.0)]), LONG, Windowing(length=1))


def test_what_is_wrong_with_the_request_is_said_at_once():
    with pytest.raises(ConfigError, match="`windows_at_once` must be an integer of at least 1, got 0"):
        stream_windows(wide(), Wide(time="time"), Windowing(length=1), windows_at_once=0)
    with pytest.raises(DataError, match="no column"):
        stream_windows(wide(), Wide(time="when"), Windowing(length=1))
    with pytest.raises(ConfigError, match="'p' is named more than once"):
        Wide(time="p", sensors=("p", "q"))
    with pytest.raises(ConfigError, match="`sensors`"):
        Wide(sensors=())
