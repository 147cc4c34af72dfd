"""Conformal p-values: the formula, its promise, groups, and selection at a false-discovery rate."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.judging import TIE_TOLERANCE, Conformal, Reference, alarms, fewest_selected, select_anomalies

ONE_PART = np.zeros(3, dtype=int)  # three draws


def reference(scores, **known) -> Reference:
    return Reference.of(np.atleast_2d(np.asarray(scores, float)), **{"part": ONE_PART, "unseen": True} | known)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0, 100))
def test_a_p_value_is_the_rank_among_the_calibration_scores(scores, new):
    p, _ = reference(scores).p_values(np.array([[new]]))
    at_least = sum(score * (1 + TIE_TOLERANCE) >= new for score in scores)
    assert p == pytest.approx((1 + at_least) / (len(scores) + 1))


def test_ties_count_as_at_least_as_high():
    known = reference([1.0, 2.0, 3.0])
    p, smallest = known.p_values(np.array([[3.0, 3.0 * (1 + 1e-7), 3.1, np.inf]]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0.25, 0.25])
    np.testing.assert_array_equal(smallest, 0.25)


def test_good_examples_raise_at_most_their_share_of_alarms():
    # 2000 calibration sets of 99: the rate among exchangeable scores is exactly the level where 100 a is whole.
    random = np.random.default_rng(0)
    p = np.array([reference(random.gamma(2, size=99)).p_values(random.gamma(2, size=(1, 20)))[0] for _ in range(2000)])
    for level in (0.01, 0.05, 0.1, 0.5):
        error = np.sqrt(level / 2000)  # the 20 examples of one set are not independent
        assert abs(np.mean(p <= level) - level) < 4 * error


def test_each_part_is_compared_by_its_own_draws():
    known = reference([[1.0, 2.0], [10.0, 20.0]], part=np.array([0, 0, 1]))
    nll = np.array([[1.0], [2.0], [15.0]])  # parts: 1.5 and 15
    means = known.part_means(nll)
    np.testing.assert_allclose(means, [[1.5], [15.0]])
    assert known.p_values(means)[0][0] == pytest.approx((1 + 1 + 1) / 5)
    assert known.below(means)[0] == 2


def test_the_mean_scores_of_parts_do_not_depend_on_how_many_examples_come_together():
    known = reference([[1.0], [2.0], [3.0]], part=np.array([2, 0, 0, 1, 0, 2, 1]))
    nll = np.random.default_rng(0).gamma(2, size=(7, 200)).astype(np.float32)
    one_by_one = np.concatenate([known.part_means(nll[:, [place]]) for place in range(200)], axis=1)
    np.testing.assert_array_equal(one_by_one, known.part_means(nll))
    expected = [nll[known.part == part].astype(np.float64).mean(axis=0) for part in range(3)]
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-12)


def test_scores_that_were_trained_on_give_no_p_value_and_say_so():
    seen = reference([1.0, 2.0], unseen=False)
    found = Conformal.of(seen, np.array([[1.5]]))
    assert np.isnan(found.p_value).all()
    assert np.isnan(found.smallest).all()
    assert "no p-value" in seen.promise
    with pytest.raises(DataError, match="1 of 1 examples have no p-value"):
        alarms(found.p_value, 0.05)
    with pytest.raises(DataError, match="no p-value"):
        select_anomalies(found.p_value)


@pytest.mark.parametrize(("folds", "rows"), [(5, 20), (5, 100), (5, 2000), (2, 100), (10, 10)])
def test_cross_fitted_scores_promise_the_bound_that_is_proven(folds, rows):
    known = reference(np.zeros((folds, rows // folds)), part=np.arange(folds))
    proven = min(1.0, 2 * 0.05 + 2 * 0.95 * (folds - 1) / (rows + folds))
    said = float(re.search(r"a bound, of ([0-9.]+) for a = 0.05", known.promise).group(1))
    assert known.bound(0.05) == pytest.approx(proven)
    assert proven <= said < proven + 0.001


def test_more_rows_lower_the_bound_and_higher_levels_raise_it():
    bounds = [
        [reference(np.zeros((5, size)), part=np.arange(5)).bound(level) for size in (1, 4, 20, 100, 10_000)]
        for level in (0.01, 0.05, 0.2)
    ]
    assert (np.diff(bounds, axis=1) <= 0).all()
    assert (np.diff(bounds, axis=0) >= 0).all()
    np.testing.assert_allclose(np.array(bounds)[:, -1], [0.02, 0.1, 0.4], atol=2e-4)
    assert np.max(bounds) <= 1


def test_without_folds_the_bound_is_the_level_and_without_p_values_there_is_none():
    assert reference([1.0, 2.0]).bound(0.05) == 0.05
    assert np.isnan(reference([1.0, 2.0], unseen=False).bound(0.05))


def test_folds_that_depend_on_each_other_can_break_the_level_and_not_the_bound():
    # Ranks of a good example in two folds that add up to the same: each is uniform, and low ones come together.
    size, level, random = 9, 0.2, np.random.default_rng(0)
    known = reference(np.tile(np.arange(1.0, size + 1), (2, 1)), part=np.arange(2))
    together = 2  # at least so many of the folds' scores are as high, over both, wherever that can be
    first = random.integers(0, size + 1, 20_000)
    second = np.where(first <= together, together - first, first)
    p, _ = known.p_values(np.stack([size + 0.5 - first, size + 0.5 - second]))
    assert np.bincount(second, minlength=size + 1) == pytest.approx(2000, rel=0.1)  # still uniform
    assert np.mean(p <= level) > level
    assert np.mean(p <= level) <= known.bound(level)


def test_groups_are_compared_with_their_own():
    groups = np.array([["a", "a", "a", "b"]])
    known = reference([1.0, 2.0, 3.0, 10.0], groups=groups)
    new, names = np.array([[2.5, 2.5, 2.5]]), np.array(["a", "b", "c"], dtype=object)
    found = Conformal.of(known, new, names)
    np.testing.assert_allclose(found.p_value, [0.5, 1.0, np.nan])
    np.testing.assert_allclose(found.smallest, [0.25, 0.5, np.nan])
    assert list(known.notes(names)) == ["", "", "no p-value: nothing was calibrated for group c"]
    np.testing.assert_allclose(found.pooled[0], [3 / 5] * 3)  # among all: 3 and 10 are as high
    assert found.pooled[1] == 1 / 5


def test_within_a_group_the_promise_holds_where_it_fails_without_groups():
    # Machine b scores higher by nature: compared with both, its good parts look anomalous.
    random = np.random.default_rng(0)
    scores, names = random.gamma(2, size=1000), np.repeat(["a", "b"], [900, 100])
    scores[names == "b"] += 5
    new = random.gamma(2, size=(1, 4000)) + 5
    assert np.mean(reference(scores).p_values(new)[0] <= 0.1) > 0.8
    by_group, _ = reference(scores, groups=names[None]).p_values(new, np.full(4000, "b"))
    assert np.mean(by_group <= 0.1) < 0.1 + 4 * np.sqrt(0.1 * 0.9 / 100)  # four standard errors of 100 examples


def test_an_example_without_its_group_is_refused():
    known = reference([1.0, 2.0], groups=np.array([["a", "b"]]))
    with pytest.raises(DataError, match="calibrated by group"):
        known.p_values(np.array([[1.5]]))
    with pytest.raises(ShapeError, match="one name per example"):
        known.p_values(np.array([[1.5]]), np.array(["a", "b"]))


def test_a_level_that_the_calibration_set_is_too_small_for_is_refused():
    known = reference(np.arange(50.0))
    p, smallest = known.p_values(np.array([[100.0]]))
    assert alarms(p, 0.02, smallest).all()
    with pytest.raises(ConfigError, match=r"rate of 0.01 needs at least 99 calibration examples: with 50"):
        alarms(p, 0.01, smallest)
    with pytest.raises(ConfigError, match="cannot be reached"):
        select_anomalies(p, 0.01, smallest_p=smallest)


def test_selection_is_that_of_benjamini_and_hochberg():
    p = np.array([0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216])
    order = np.sort(p)
    passing = [k for k in range(1, 11) if order[k - 1] <= 0.1 * k / 10]
    np.testing.assert_array_equal(select_anomalies(p, 0.1), p <= order[max(passing) - 1])
    assert not select_anomalies(np.full(5, 0.5), 0.1).any()
    assert select_anomalies(np.empty(0), 0.1).shape == (0,)


def test_the_share_of_false_selections_stays_below_the_rate():
    # 500 batches of 90 good examples and 10 anomalies, each with its own 199 calibration scores.
    random, false = np.random.default_rng(0), []
    for _ in range(500):
        known = reference(random.normal(size=199))
        new = np.concatenate([random.normal(size=90), random.normal(5, size=10)])
        chosen = select_anomalies(known.p_values(new[None])[0], 0.1)
        false.append(chosen[:90].sum() / max(1, chosen.sum()))
    assert np.mean(false) <= 0.1  # the procedure controls 90 % of the rate here, and 500 batches err by about 0.005
    assert np.mean(false) > 0.05


def test_it_is_said_how_many_must_stand_out_before_any_is_selected():
    assert fewest_selected(100, 0.1, 1 / 51) == 20
    p = np.concatenate([np.full(19, 1 / 51), np.linspace(0.5, 1, 81)])
    assert not select_anomalies(p, 0.1).any()
    p[19] = 1 / 51
    assert select_anomalies(p, 0.1).sum() == 20


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, np.nan])
def test_levels_that_are_no_rates_are_refused(level):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        alarms(np.array([0.5]), level)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        select_anomalies(np.array([0.5]), level)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scores": np.array([[2.0, 1.0]])},
        {"scores": np.array([[1.0, np.nan]])},
        {"scores": np.empty((1, 0))},
        {"part": np.array([1])},
        {"groups": ("a",)},
        {"groups": ("a",), "group": np.array([[0, 1]])},
    ],
)
def test_a_reference_that_cannot_be_is_refused(wrong):
    fine = {"scores": np.array([[1.0, 2.0]]), "part": np.array([0]), "unseen": True}
    Reference(**fine)
    with pytest.raises((DataError, ShapeError)):
        Reference(**fine | wrong)
