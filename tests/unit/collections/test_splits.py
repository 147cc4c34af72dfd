"""Inliers into train and test, with and without exact duplicates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.errors import ConfigError
from indubio_lab.collections import TaskSplit, count_repeated, count_shared
from indubio_lab.collections.splits import train_test

NONE = np.empty((0, 1))


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, None]


@given(st.integers(1, 3000), st.integers(1, 99))
def test_the_train_size_is_the_floor_of_the_share(inliers, percent):
    assert TaskSplit(train_share=percent / 100).train_size(inliers) == inliers * percent // 100


@pytest.mark.parametrize("duplicates", ["as_is", "one_side"])
@given(values=st.lists(st.integers(0, 5), min_size=2, max_size=40), seed=st.integers(0, 9))
def test_train_and_test_are_the_inliers_and_nothing_else(duplicates, values, seed):
    split = TaskSplit(train_share=0.7, seed=seed, duplicates=duplicates)
    train, test = train_test(column(*values), NONE, split)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test]), axis=0), column(*sorted(values)))
    assert len(train) <= split.train_size(len(values))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(0, 9))
def test_one_side_never_shares_a_row(values, seed):
    split = TaskSplit(train_share=0.5, seed=seed, duplicates="one_side")
    assert count_shared(*train_test(column(*values), NONE, split)) == 0


def test_one_side_puts_rows_equal_to_an_anomaly_into_test():
    split = TaskSplit(train_share=0.7, duplicates="one_side")
    anomalies = column(1, 2)
    train, test = train_test(column(*range(20)), anomalies, split)
    assert count_shared(train, anomalies) == 0
    assert {1.0, 2.0} <= set(test.ravel())
    assert len(train) == 14


def test_as_is_shuffles_and_may_part_equal_rows():
    train, test = train_test(np.zeros((10, 3)), NONE, TaskSplit(train_share=0.7))
    assert count_shared(train, test) == 3


def test_equal_windows_are_found_as_well_as_equal_rows_and_zero_has_no_sign():
    windows = np.arange(24, dtype=np.float64).reshape(2, 4, 3)
    again = np.concatenate([windows, np.where(windows == 0, -0.0, windows)])
    assert count_repeated(again) == 2
    assert count_shared(windows, again) == 4


@pytest.mark.parametrize("wrong", [{"train_share": 0.0}, {"train_share": 1.0}, {"seed": -1}, {"duplicates": "none"}])
def test_a_wrong_setting_is_refused_by_name(wrong):
    with pytest.raises(ConfigError, match=f"`{next(iter(wrong))}` must be"):
        TaskSplit(**({"train_share": 0.7} | wrong))
