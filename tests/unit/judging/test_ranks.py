"""Places among sorted scores: what numpy's plain search gives, whatever the scores and values are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.judging.conversions.ranks import MANY, places

RANDOM = np.random.default_rng(0)
SCORES = {
    "like a likelihood's": RANDOM.chisquare(15, 750).astype(np.float32),
    "with a heavy tail": np.exp(4 * RANDOM.normal(size=3000)),
    "negative": -RANDOM.gamma(2.0, 5.0, size=500),
    "few values, many times": RANDOM.integers(0, 4, 900).astype(float),
    "all the same": np.full(70, 0.25),
    "a single one": np.array([3.0]),
    "the ends of the float range": np.array([-1.7e308, 0.0, 5e-324, 1e-300, 1.7e308]),
    "an infinite one": np.array([0.0, 1.0, np.inf]),
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", SCORES)
def test_places_are_those_of_the_plain_search(name, side):
    scores = np.sort(SCORES[name])
    values = np.concatenate(
        [
            RANDOM.choice(scores, 40_000).astype(np.float64),  # ties
            np.nextafter(scores.astype(np.float64), np.inf),
            RANDOM.uniform(-5, 40, 5000),
            [np.inf, -np.inf, 0.0, -0.0],
        ]
    )
    np.testing.assert_array_equal(places(scores, values, side), np.searchsorted(scores, values, side=side))


def test_missing_values_come_last_as_numpy_has_it():
    values = np.where(np.arange(2 * MANY) % 3 == 0, np.nan, 0.5)
    np.testing.assert_array_equal(places(np.array([0.0, 1.0]), values, "right"), np.where(np.isnan(values), 2, 1))


@given(
    st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=40),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=40),
    st.sampled_from(["left", "right"]),
)
def test_places_of_any_numbers(scores, values, side):
    known = np.sort(np.array(scores, dtype=np.float32))
    many = np.resize(np.array([*values, *scores]), MANY)
    np.testing.assert_array_equal(places(known, many, side), np.searchsorted(known, many, side=side))
