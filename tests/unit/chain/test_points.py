"""Scores of time steps, from the windows that cover them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.chain import PointGatherer
from indubio.chain.points import point_scores
from indubio.data import Windowing, array_windows
from indubio.errors import ConfigError, DataError, ShapeError


def expected(lengths, length, step, scores) -> list[tuple[int, int, float, int]]:
    """A plain loop: group, sample, mean score and number of windows."""
    each = iter(scores)
    found = []
    for group, count in enumerate(lengths):
        covered: dict[int, list[float]] = {}
        for start in range(0, count - length + 1, step):
            score = next(each)
            for offset in range(length):
                value = score if np.ndim(score) == 0 else score[offset]
                covered.setdefault(start + offset, []).append(float(value))
        found += [(group, sample, np.mean(values), len(values)) for sample, values in sorted(covered.items())]
    return found


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.integers(1, 8),
    st.integers(1, 10),
    st.integers(1, 5),
    st.booleans(),
)
def test_a_point_has_the_mean_of_the_windows_that_cover_it(lengths, length, step, at_once, apart):
    lengths = [*lengths, length]
    windows = array_windows([np.zeros((count, 1)) for count in lengths], Windowing(length=length, step=step))
    random = np.random.default_rng(0)
    scores = random.normal(size=(len(windows), length) if apart else len(windows))
    wanted = expected(lengths, length, step, scores)

    whole = point_scores(windows, scores, step=step)
    assert whole.select(["group", "sample", "windows"]).to_pylist() == [
        {"group": group, "sample": sample, "windows": count} for group, sample, _, count in wanted
    ]
    np.testing.assert_allclose(whole["score"], [score for _, _, score, _ in wanted], atol=1e-12)

    gatherer, parts = PointGatherer(length, step), []
    for start in range(0, len(windows), at_once):
        some = windows.select(np.arange(start, min(start + at_once, len(windows))))
        parts += gatherer.add(some, scores[start : start + at_once])
    assert pa.concat_tables([*parts, *gatherer.rest()]).combine_chunks().equals(whole)  # to the bit


def test_times_are_those_of_the_samples():
    times = np.array("2026-01-01", dtype="datetime64[ns]") + np.arange(20) * np.timedelta64(250, "ms")
    windows = array_windows(np.zeros((20, 1)), Windowing(length=6, step=3), times=times)
    found = point_scores(windows, np.arange(len(windows), dtype=float), step=3)
    np.testing.assert_array_equal(found["time"].to_numpy(), times[found["sample"].to_numpy()])
    seconds = array_windows(np.zeros((20, 1)), Windowing(length=6, step=3), times=np.arange(20) * 0.25)
    np.testing.assert_allclose(point_scores(seconds, np.zeros(len(seconds)), step=3)["time"], np.arange(18) * 0.25)


def test_a_change_is_found_where_it_happens():
    """Windows of 20 overlap by 19: the highest points are those where all windows have changed."""
    windows = array_windows((np.arange(100)[:, None] >= 60).astype(float), Windowing(length=20, step=1))
    score = windows.values.mean(axis=(1, 2))
    points = point_scores(windows, score, step=1)["score"].to_numpy()
    assert points[:41].max() == 0
    assert (np.diff(points[41:80]) > 0).all()
    own = point_scores(windows, windows.values[:, :, 0], step=1)["score"].to_numpy()
    np.testing.assert_array_equal(own, np.arange(100) >= 60)


def test_what_does_not_fit_is_refused():
    windows = array_windows(np.zeros((20, 1)), Windowing(length=6, step=3))
    with pytest.raises(ShapeError, match="5 windows, or of each of their 6 time steps"):
        point_scores(windows, np.zeros(4), step=3)
    with pytest.raises(ConfigError, match="`step`"):
        point_scores(windows, np.zeros(5), step=0)
    with pytest.raises(DataError, match="2 samples apart: pass the `step`"):
        point_scores(windows, np.zeros(5), step=2)
