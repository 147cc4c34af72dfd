"""Several machines in one recording: with a group column they are taken apart, without one they are refused."""

import numpy as np
import pandas as pd
import pytest

from indubio.data import Long, Wide, Windowing, Windows, read_windows, stream_windows
from indubio.errors import DataError

CUT = Windowing(length=8, step=4)


def machines(names=("A", "B"), rows=60, offset=0.0):
    """Rows of machines in turn, in order of time; `offset` is the time between two machines."""
    random = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"time": np.arange(rows) + offset * place, "machine": name, "x": random.normal(size=rows)})
        for place, name in enumerate(names)
    ]
    return pd.concat(frames).sort_values(["time"], kind="stable", ignore_index=True)


@pytest.mark.parametrize("windowing", [CUT, Windowing(length=4, rate=0.5, gaps="hold")], ids=["rows", "resampled"])
@pytest.mark.parametrize("blocks", [1, 7], ids=["row by row", "in blocks"])
def test_groups_that_take_turns_give_the_windows_of_the_sorted_recording(windowing, blocks):
    frame = machines(("A", "B", "C"))
    frame = frame.iloc[np.argsort(frame["time"] // blocks, kind="stable")].sort_values(
        ["machine"], kind="stable", key=lambda names: frame["time"] // blocks
    )
    layout = Wide(time="time", group="machine")
    apart = read_windows(frame.sort_values(["machine", "time"]), layout, windowing)
    found = read_windows(frame, layout, windowing)
    np.testing.assert_array_equal(found.values, apart.values)
    assert found.origin.equals(apart.origin)
    parts = Windows.joined(list(stream_windows(frame, layout, windowing, windows_at_once=3)))
    np.testing.assert_array_equal(parts.values, apart.values)


def test_groups_may_take_turns_over_files(tmp_path):
    frame = machines()
    (tmp_path / "runs").mkdir()
    for place, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_csv(tmp_path / "runs" / f"{place}.csv", index=False)
    layout = Wide(time="time", group="machine")
    apart = read_windows(frame.sort_values(["machine", "time"]), layout, CUT)
    np.testing.assert_array_equal(read_windows(tmp_path / "runs", layout, CUT).values, apart.values)


@pytest.mark.parametrize(
    ("frame", "layout"),
    [
        (machines(), Wide(time="time")),  # one stamp for both
        (machines(offset=0.5), Wide(time="time")),  # in turn, each with its own stamps
        (machines(), Wide()),  # no times at all
        (machines((1, 2)), Wide(time="time")),  # named by numbers
        (machines().melt(["time", "machine"], var_name="tag"), Long(time="time", tag="tag", value="value")),
    ],
    ids=["same stamps", "own stamps", "no times", "numbers", "long"],
)
def test_machines_that_take_turns_are_refused_with_the_column_to_name(frame, layout):
    windowing = Windowing(length=8, rate=1.0) if isinstance(layout, Long) else CUT
    with pytest.raises(DataError, match=r'column "machine" begins with "(A|1)".*say `group="machine"`'):
        read_windows(frame, layout, windowing)


def test_one_machine_is_not_mistaken_for_several():
    frame = machines(("A",), rows=200)
    frame["mode"] = np.where(np.arange(200) // 20 % 2, "run", "idle")  # changes, but seldom
    frame["counter"] = np.arange(200) % 10  # takes turns, but is a number and no stamp comes twice
    frame["remark"] = [f"note {row}" for row in range(200)]  # other in every row: no machine
    assert len(read_windows(frame, Wide(time="time"), CUT)) == 49
    turns = machines()
    assert read_windows(turns, Wide(ids=("machine",)), CUT).sensors == ("time", "x")  # said to be no machine
