"""Frames with categories and times are taken as the commands take such columns."""

import numpy as np
import pandas as pd
import pytest

from indubio import Detector
from indubio.errors import DataError, ShapeError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=100),
        "colour": pd.Categorical(RNG.choice(["red", "green"], 100)),
        "b": RNG.normal(size=100),
        "when": pd.date_range("2024-01-01", periods=100, freq="min"),
    }
)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector().fit(FRAME)


def test_categories_are_learned_and_times_passed_on(detector):
    assert detector.schema_.names == ("a", "colour", "b")
    found = detector.assess(FRAME[:7])
    assert found.passed.column("when").to_pylist() == list(FRAME["when"][:7])


def test_polars_frames_are_taken_alike(detector):
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(FRAME)
    np.testing.assert_array_equal(Detector().fit(frame).nll(frame), detector.nll(FRAME))


def test_new_categories_are_referred_and_texts_are_known_by_their_column(detector):
    new = FRAME[:2].assign(colour=["red", "blue"])
    assert detector.assess(new).notes.tolist() == ["", "unseen: colour=blue"]


def test_columns_are_matched_by_name_and_none_may_lack(detector):
    other = FRAME[:5][["when", "b", "colour", "a"]]
    np.testing.assert_array_equal(detector.nll(other), detector.nll(FRAME[:5]))
    with pytest.raises(ShapeError, match='missing: "b"'):
        detector.assess(FRAME[:5].drop(columns="b"))


def test_texts_that_nobody_called_categories_are_refused_with_the_way_out():
    with pytest.raises(DataError, match="categorical"):
        Detector().fit(FRAME.assign(note="x" + FRAME["a"].astype(str)))
