"""The protocol: who is learned from, who is judged, and that nobody is both."""

import numpy as np
import pytest

from indubio.errors import DataError
from indubio_lab.benchmark import OneClass
from indubio_lab.collections import LabelledTable


def table(inliers: int, anomalies: int) -> LabelledTable:
    rows = np.arange(float(inliers + anomalies))[:, None]
    return LabelledTable(rows=rows, anomalous=rows[:, 0] >= inliers, names=("x0",))


@pytest.mark.parametrize(
    ("inliers", "anomalies", "train", "test_inliers", "test_anomalies"),
    [
        (101, 7, 50, 51, 7),  # half, rounded down, and everything else
        (4000, 100, 2000, 2000, 100),
        (6000, 500, 2000, 4000, 500),  # at most 2,000, the rest is judged
        (10_000, 2000, 2000, 4000, 1000),  # 8,000 + 2,000 thinned to 5,000 with the same share
        (60_000, 2, 2000, 4999, 1),  # an anomaly stays
    ],
)
def test_the_sizes_follow_the_rule(inliers, anomalies, train, test_inliers, test_anomalies):
    found = OneClass().parted(table(inliers, anomalies), seed=0)
    assert len(found.train) == train
    assert (~found.anomalous).sum() == test_inliers
    assert found.anomalous.sum() == test_anomalies


def test_training_rows_are_good_and_never_judged():
    found = OneClass().parted(table(300, 30), seed=3)
    assert (found.train < 300).all()
    assert not set(found.train[:, 0]) & set(found.test[:, 0])
    np.testing.assert_array_equal(found.anomalous, found.test[:, 0] >= 300)


def test_the_seed_makes_the_split():
    first, same, other = (OneClass().parted(table(300, 30), seed=seed).train for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_missing_values_become_the_median_of_the_training_rows():
    rows = np.random.default_rng(0).normal(size=(120, 2))
    rows[::7, 1] = np.nan
    found = OneClass().parted(LabelledTable(rows=rows, anomalous=np.arange(120) >= 100, names=("a", "b")), seed=0)
    known = {row[0]: row[1] for row in rows}
    median = np.median([known[a] for a in found.train[:, 0] if not np.isnan(known[a])])
    for a, b in np.concatenate([found.train, found.test]):
        assert b == (median if np.isnan(known[a]) else known[a])


@pytest.mark.parametrize(("inliers", "anomalies"), [(12, 5), (100, 0)])
def test_too_little_to_learn_from_or_to_find_is_refused(inliers, anomalies):
    with pytest.raises(DataError, match="10 good rows to learn from and an anomaly to find"):
        OneClass().parted(table(inliers, anomalies), seed=0)


def test_a_column_without_any_value_is_refused():
    rows = np.random.default_rng(0).normal(size=(60, 2))
    rows[:, 1] = np.nan
    with pytest.raises(DataError, match="column 2 has no value"):
        OneClass().parted(LabelledTable(rows=rows, anomalous=np.arange(60) >= 50, names=("a", "b")), seed=0)
