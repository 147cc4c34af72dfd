"""Uncertainties: identities, ranges, and what happens at the edges."""

import statistics
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.special import softmax

from indubio.errors import ConfigError, DataError, ShapeError
from indubio.judging import (
    DISPLAY_FACTOR,
    ON_DEMAND,
    TIE_TOLERANCE,
    UNCERTAINTIES,
    Uncertainty,
    UncertaintyName,
    exceed,
    quantify,
    uncertainty,
    var_nll,
)
from indubio.judging.uncertainty import BLOCK
from indubio.numerics.linear_algebra import FEW

SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=12)
PROBABILITIES = arrays(np.float64, SHAPES, elements=st.floats(0, 1))
MEANS = arrays(np.float64, array_shapes(max_dims=1, max_side=20), elements=st.floats(0, 1))
SCORES = arrays(np.float64, SHAPES, elements=st.floats(-1e6, 1e6))


def assert_within(values, low, high):
    assert (values >= low).all()
    assert (values <= high).all()


def test_the_list_names_every_uncertainty_there_is():
    assert get_args(UncertaintyName) == (*UNCERTAINTIES, *ON_DEMAND)
    assert set(Uncertainty.__dataclass_fields__) == {*UNCERTAINTIES, *ON_DEMAND, "probability"}
    for name in get_args(UncertaintyName):
        assert callable(getattr(uncertainty, name))


@given(PROBABILITIES)
def test_the_total_is_the_sum_of_its_parts_and_the_variance_of_the_mean_coin(p):
    mean = uncertainty.anomaly_probability(p)
    total = uncertainty.total(p)
    np.testing.assert_allclose(total, uncertainty.aleatoric(p) + uncertainty.epistemic(p), rtol=0, atol=1e-15)
    np.testing.assert_allclose(total, mean * (1 - mean), rtol=0, atol=1e-15)


@given(PROBABILITIES)
def test_each_part_is_what_its_definition_says(p):
    np.testing.assert_allclose(uncertainty.anomaly_probability(p), p.mean(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_allclose(uncertainty.epistemic(p), p.var(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_allclose(uncertainty.aleatoric(p), (p * (1 - p)).mean(axis=0), rtol=0, atol=1e-15)


@given(PROBABILITIES)
def test_all_parts_stay_within_their_ranges(p):
    assert_within(uncertainty.anomaly_probability(p), 0, 1)
    assert_within(uncertainty.epistemic(p), 0, 0.25 + 1e-15)
    assert_within(uncertainty.aleatoric(p), 0, 0.25)
    assert_within(DISPLAY_FACTOR * uncertainty.total(p), 0, 1)


def test_rounding_never_carries_the_displayed_total_past_one():
    # Draws whose mean is one half: the exact total is 1/4, and the rounded sum of the parts can be above it.
    p = np.random.default_rng(0).uniform(size=(3, 10_000))
    p = p - p.mean(axis=0) + 0.5
    p = p[:, ((p >= 0) & (p <= 1)).all(axis=0)]
    assert_within(DISPLAY_FACTOR * uncertainty.total(p), 1 - 1e-14, 1)


@given(arrays(np.float64, (1, 9), elements=st.floats(0, 1)))
def test_a_single_draw_knows_nothing_of_epistemic_uncertainty(p):
    np.testing.assert_array_equal(uncertainty.epistemic(p), 0)
    np.testing.assert_array_equal(uncertainty.total(p), uncertainty.aleatoric(p))


@given(st.floats(0, 1), st.integers(1, 100))
def test_draws_that_agree_have_no_epistemic_uncertainty_at_all(p, draws):
    assert uncertainty.epistemic(np.full((draws, 1), p))[0] == 0


def test_draws_that_are_certain_but_contradict_each_other_are_all_epistemic():
    p = np.array([[0.0], [1.0]])
    assert uncertainty.epistemic(p)[0] == 0.25
    assert uncertainty.aleatoric(p)[0] == 0


def test_draws_that_agree_on_a_coin_toss_are_all_aleatoric():
    p = np.full((5, 1), 0.5)
    assert uncertainty.epistemic(p)[0] == 0
    assert uncertainty.aleatoric(p)[0] == 0.25
    assert DISPLAY_FACTOR * uncertainty.total(p)[0] == 1


@given(SCORES)
def test_the_variance_of_the_scores_is_that_of_exact_arithmetic(nll):
    exact = [statistics.pvariance(map(float, column)) for column in nll.T]
    np.testing.assert_allclose(var_nll(nll), exact, rtol=1e-9, atol=1e-12)


def test_the_variance_of_the_scores_survives_a_large_common_part():
    nll = np.array([[1e9], [1e9 + 1], [1e9 + 2]])
    assert var_nll(nll)[0] == pytest.approx(2 / 3, rel=1e-12)


def test_scores_in_single_precision_are_added_in_double():
    nll = np.random.default_rng(0).gamma(2.0, size=(100, 50)).astype(np.float32)
    np.testing.assert_array_equal(var_nll(nll), var_nll(nll.astype(np.float64)))


def test_an_infinite_score_has_infinite_variance_and_leaves_the_others_alone():
    nll = np.array([[1.0, np.inf, np.inf], [3.0, 2.0, np.inf]])
    np.testing.assert_array_equal(var_nll(nll), [1.0, np.inf, np.inf])


@given(MEANS, st.integers(1, 10_000_000))
def test_u_exceed_is_a_probability_on_both_sides(p, training_examples):
    below = exceed(p, np.zeros_like(p), 1.0, training_examples)
    above = exceed(p, np.full_like(p, 2.0), 1.0, training_examples)
    assert_within(below, 0, 1)
    assert_within(above, 0, 1)
    np.testing.assert_allclose(below + above, 1.0, atol=1e-15)


def test_a_score_that_ties_with_the_largest_training_score_is_not_below_it():
    largest = 0.8
    scores = largest * np.array([1 - 2 * TIE_TOLERANCE, 1 - TIE_TOLERANCE / 2, 1.0, 1 + TIE_TOLERANCE / 2])
    found = exceed(np.full(4, 0.9), scores, largest, 2)
    np.testing.assert_allclose(found, [0.81, 0.19, 0.19, 0.19], rtol=1e-12)


def test_u_exceed_at_certain_probabilities_is_certain():
    p = np.array([0.0, 1.0, 0.0, 1.0])
    scores = np.array([0.0, 0.0, 2.0, 2.0])
    np.testing.assert_array_equal(exceed(p, scores, 1.0, 5_000_000), [0.0, 1.0, 1.0, 0.0])


def test_u_exceed_without_training_examples_is_refused():
    with pytest.raises(ConfigError, match="`reference_examples` must be at least 1, got 0"):
        exceed(np.array([0.5]), np.array([0.5]), 1.0, 0)
    with pytest.raises(DataError, match="largest_reference_nll"):
        exceed(np.array([0.5]), np.array([0.5]), np.nan, 10)


@pytest.fixture
def p():
    return np.random.default_rng(1).uniform(size=(23, 40))


@pytest.fixture
def nll():
    return np.random.default_rng(2).gamma(2.0, size=(23, 40))


def test_quantify_gives_what_the_functions_give(p, nll):
    found = quantify(p, nll, 2.0, 1000)
    np.testing.assert_array_equal(found.probability, uncertainty.anomaly_probability(p))
    for name in ("epistemic", "aleatoric", "total"):
        np.testing.assert_array_equal(getattr(found, name), getattr(uncertainty, name)(p))
    np.testing.assert_array_equal(found.var_nll, var_nll(nll))
    expected = exceed(found.probability, nll.mean(axis=0), 2.0, 1000)
    np.testing.assert_allclose(found.exceed, expected, rtol=1e-12)


def test_the_result_of_an_example_does_not_depend_on_the_batch_or_the_memory_layout(p, nll):
    together = quantify(p, nll, 2.0, 1000)
    one_by_one = [quantify(p[:, [row]], nll[:, [row]], 2.0, 1000) for row in range(p.shape[1])]
    otherwise_laid_out = quantify(np.asfortranarray(p), np.asfortranarray(nll), 2.0, 1000)
    for name in ("probability", *UNCERTAINTIES):
        expected = getattr(together, name)
        np.testing.assert_array_equal(np.concatenate([getattr(one, name) for one in one_by_one]), expected)
        np.testing.assert_array_equal(getattr(otherwise_laid_out, name), expected)


def test_an_example_among_thousands_has_to_the_bit_what_it_has_alone():
    random = np.random.default_rng(0)
    p, nll = random.random((10, BLOCK + FEW + 1)), random.random((10, BLOCK + FEW + 1), dtype=np.float32)
    together = quantify(p, nll, 0.9, 100)
    for place in (0, FEW, BLOCK - 1, BLOCK, BLOCK + FEW):
        alone = quantify(p[:, [place]], nll[:, [place]], 0.9, 100)
        for name in (*UNCERTAINTIES, "probability"):
            assert getattr(together, name)[place] == getattr(alone, name)[0]


def test_an_infinite_score_is_quantified_without_a_missing_value(p, nll):
    p[:, 0], nll[:, 0] = 1.0, np.inf
    found = quantify(p, nll, 2.0, 1000)
    assert found.exceed[0] == 0
    for name in UNCERTAINTIES:
        assert not np.isnan(getattr(found, name)).any()


def test_no_examples_have_no_uncertainty():
    found = quantify(np.empty((4, 0)), np.empty((4, 0)), 2.0, 1000)
    for name in UNCERTAINTIES:
        assert getattr(found, name).shape == (0,)


def test_probabilities_and_scores_of_different_examples_are_refused(p, nll):
    with pytest.raises(ShapeError, match=r"\(23, 40\) and \(23, 39\)"):
        quantify(p, nll[:, 1:], 2.0, 1000)
    with pytest.raises(ShapeError, match="draws, examples"):
        quantify(p[:0], nll[:0], 2.0, 1000)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_what_is_not_a_probability_is_refused(p, nll, bad):
    p[3, 4] = bad
    with pytest.raises(DataError, match=r"within \[0, 1\]"):
        quantify(p, nll, 2.0, 1000)


def test_what_the_conversion_does_not_know_is_epistemic_and_the_total_stays():
    random = np.random.default_rng(0)
    p, nll, variance = random.uniform(size=(4, 50)), random.gamma(2.0, size=(4, 50)), random.uniform(0, 0.2, (4, 50))
    plain, told = quantify(p, nll, 2.0, 1000), quantify(p, nll, 2.0, 1000, variance)
    np.testing.assert_allclose(told.total, plain.total, rtol=1e-12)
    assert (told.epistemic > plain.epistemic).all()
    assert (told.aleatoric >= 0).all()
    # By hand: draws of draws, whose log-odds are normal around those of each draw.
    log_odds = np.log(p / (1 - p))[..., None] + np.sqrt(variance)[..., None] * random.normal(size=(4, 50, 20_000))
    drawn = 1 / (1 + np.exp(-log_odds))
    spread = drawn.mean(axis=2).var(axis=0) + drawn.var(axis=2).mean(axis=0)
    np.testing.assert_allclose(told.epistemic, spread, rtol=0.12, atol=1e-4)


# ----- disagreement


def plain_disagreement(nll: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """By the formula, with scipy's softmax."""
    weights = softmax(-nll / temperature, axis=0)
    return 1 - 1 / (weights**2).sum(axis=0) / len(nll)


@given(SCORES, st.floats(1e-3, 1e3))
def test_disagreement_is_one_minus_the_effective_share_of_the_draws(nll, temperature):
    found = uncertainty.disagreement(nll, temperature)
    np.testing.assert_allclose(found, plain_disagreement(nll, temperature), rtol=0, atol=1e-9)
    assert_within(found, 0, 1 - 1 / len(nll) + 1e-15)


@given(arrays(np.float64, SHAPES, elements=st.integers(-1000, 1000)), st.integers(-1000, 1000))
def test_disagreement_does_not_change_when_all_scores_move_together(nll, by):
    np.testing.assert_array_equal(uncertainty.disagreement(nll + by), uncertainty.disagreement(nll))


def test_draws_that_agree_have_no_disagreement_and_one_that_dominates_all_that_there_can_be():
    nll = np.array([[3.0, 0.0, np.inf, 1.0], [3.0, 1e6, np.inf, np.inf], [3.0, 1e4, np.inf, np.inf]])
    np.testing.assert_array_equal(uncertainty.disagreement(nll), [0, 1 - 1 / 3, 0, 1 - 1 / 3])
    np.testing.assert_array_equal(uncertainty.disagreement(nll[:1]), [0, 0, 0, 0])


def test_where_scores_differ_by_little_disagreement_is_their_variance():
    nll = np.random.default_rng(0).normal(size=(20, 50), scale=1e-4)
    np.testing.assert_allclose(uncertainty.disagreement(nll), nll.var(axis=0), rtol=1e-2)
    np.testing.assert_allclose(uncertainty.disagreement(nll, 0.1), 100 * nll.var(axis=0), rtol=1e-2)


def test_disagreement_has_the_same_bits_whatever_is_assessed_beside():
    nll = np.random.default_rng(0).exponential(size=(7, 2 * BLOCK + 5)).astype(np.float32)
    whole = uncertainty.disagreement(nll)
    for cut in (1, 7, FEW + 1, BLOCK):
        np.testing.assert_array_equal(uncertainty.disagreement(nll[:, 3 : 3 + cut]), whole[3 : 3 + cut])


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.inf, np.nan])
def test_a_temperature_that_is_none_is_refused(temperature):
    with pytest.raises(ConfigError, match="`temperature` must be positive"):
        uncertainty.disagreement(np.zeros((2, 2)), temperature)
