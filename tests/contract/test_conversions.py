"""What every conversion promises, in each of its settings."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import indubio.judging
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.judging import (
    CDF_CONVERSIONS,
    CONVERSIONS,
    SUREST_ODDS,
    TIE_TOLERANCE,
    Ecdf,
    FittedConversion,
    Gaussian,
    Odds,
)
from tests import skeletons

SHARED_FILES = {
    "agreement",
    "judgement",
    "__init__",
    "by_group",
    "conversion",
    "correction",
    "location_scale",
    "customised_scaling",
    "ranks",
    "shaped",
    "ties",
}
KINDS = CDF_CONVERSIONS | skeletons.CONVERSIONS

CDFS = [
    pytest.param(setting(scaled=scaled, level=level), id=f"{name}-{'scaled' if scaled else 'plain'}-{level}")
    for name, setting in KINDS.items()
    for scaled in (True, False)
    for level in ("cdf_of_mean", "mean_of_cdf")
]
SETTINGS = [
    *CDFS,
    pytest.param(Odds(), id="odds"),
    pytest.param(Odds(false_alarms=0.02, steepness=2.0), id="odds-steep"),
]

# Every way in which training scores can fail to vary; the last one varies by float32 rounding only.
ALL_EQUAL = {
    "one row": np.array([0.1]),
    "equal": np.full(7, 0.1),
    "equal and negative": np.full(7, -0.1),
    "equal up to rounding": np.float32(0.1) * (1 + np.array([0, 3, -2, 1, -4, 2, 4], np.float32) * 1.2e-7),
}

# CDF below, at and above the only training score: the limits of the formulas as the scale goes to 0.
STEPS = {
    "gaussian": [0.0, 0.5, 1.0],
    "exponential": [0.0, 0.0, 1.0],
    "uniform": [0.0, 0.0, 1.0],
    "ecdf": [0.0, 1.0, 1.0],
    "gamma": [0.0, 0.0, 1.0],
    "lognormal": [0.0, 0.0, 1.0],
    "logistic": [0.0, 0.5, 1.0],
}


@pytest.fixture(params=SETTINGS)
def conversion(request):
    return request.param


@pytest.fixture(params=CDFS)
def cdf(request):
    return request.param


@pytest.fixture
def train():
    # Offsets make the draws differ in location and in sign: a learnt variance gives negative scores.
    return np.random.default_rng(0).gamma(2.0, 0.3, size=(3, 200)) + np.array([[0.0], [1.0], [-0.5]])


@pytest.fixture
def test():
    return np.random.default_rng(1).gamma(2.0, 0.5, size=(3, 300)) + np.array([[0.0], [1.0], [-0.5]])


def test_the_list_of_conversions_names_every_file_of_the_folder():
    files = {path.stem for path in (Path(indubio.judging.__file__).parent / "conversions").glob("*.py")}
    assert files - SHARED_FILES == CONVERSIONS.keys()
    for name, conversion in CONVERSIONS.items():
        assert conversion.__module__ == f"indubio.judging.conversions.{name}"


def test_probabilities_are_within_zero_and_one(conversion, train, test):
    probability = conversion.fit(train).probability(test)
    assert probability.shape == test.shape
    assert probability.dtype == np.float64
    assert probability.min() >= 0
    assert probability.max() <= 1


def test_a_higher_score_never_has_a_lower_probability(conversion, train):
    spread = np.ptp(train, axis=1, keepdims=True)
    grid = train.min(axis=1, keepdims=True) + np.linspace(-0.5, 3, 2000) * spread
    assert np.diff(conversion.fit(train).probability(grid), axis=1).min() >= -1e-15


def test_permuting_the_draws_permutes_the_probabilities(conversion, train, test):
    order = [2, 0, 1]
    permuted = conversion.fit(train[order]).probability(test[order])
    np.testing.assert_array_equal(permuted, conversion.fit(train).probability(test)[order])


def test_a_draw_fitted_alone_gives_the_same_row(conversion, train, test):
    together = conversion.fit(train).probability(test)
    for draw in range(len(train)):
        alone = conversion.fit(train[draw : draw + 1]).probability(test[draw : draw + 1])
        np.testing.assert_array_equal(alone[0], together[draw])


def test_a_probability_does_not_depend_on_the_batch_or_the_memory_layout(conversion, train, test):
    fitted = conversion.fit(train)
    together = fitted.probability(test)
    one_by_one = [fitted.probability(test[:, [example]]) for example in range(test.shape[1])]
    np.testing.assert_array_equal(np.concatenate(one_by_one, axis=1), together)
    np.testing.assert_array_equal(fitted.probability(np.asfortranarray(test)), together)
    np.testing.assert_array_equal(conversion.fit(np.asfortranarray(train)).probability(test), together)


def test_the_order_of_the_training_examples_does_not_matter(conversion, train, test):
    np.testing.assert_allclose(
        conversion.fit(train[:, ::-1]).probability(test), conversion.fit(train).probability(test), atol=1e-12
    )


def test_scores_in_single_precision_are_converted_in_double(conversion, train, test):
    single_train, single_test = train.astype(np.float32), test.astype(np.float32)
    np.testing.assert_array_equal(
        conversion.fit(single_train).probability(single_test),
        conversion.fit(single_train.astype(np.float64)).probability(single_test.astype(np.float64)),
    )


def test_a_conversion_rebuilt_from_its_parameters_is_the_same(conversion, train, test):
    fitted = conversion.fit(train)
    copied = {name: values.copy() for name, values in fitted.parameters.items()}
    rebuilt = FittedConversion(conversion=conversion, parameters=copied)
    assert rebuilt.draws == 3
    np.testing.assert_array_equal(rebuilt.probability(test), fitted.probability(test))


def test_fitting_leaves_the_scores_as_they_were(conversion, train):
    before = train.copy()
    conversion.fit(train).probability(train)
    np.testing.assert_array_equal(train, before)


def test_an_infinite_score_has_probability_one(conversion, train):
    largest = np.finfo(np.float64).max
    probability = conversion.fit(train).probability(np.array([[np.inf, largest]] * 3))
    np.testing.assert_array_equal(probability[:, 0], 1.0)
    np.testing.assert_array_equal(probability[:, 1], SUREST_ODDS if isinstance(conversion, Odds) else 1.0)


def test_no_test_examples_give_no_probabilities(conversion, train):
    assert conversion.fit(train).probability(np.empty((3, 0))).shape == (3, 0)


def test_scaling_gives_zero_up_to_an_average_training_score(train):
    for conversion in KINDS.values():
        fitted = conversion(scaled=True, level="cdf_of_mean").fit(train)
        mean = train.mean(axis=1, keepdims=True)
        np.testing.assert_array_equal(fitted.probability(np.hstack([mean - 0.1, mean])), 0.0)
        assert (fitted.probability(mean + 0.1) > 0).all()


@pytest.mark.parametrize("scores", ALL_EQUAL.values(), ids=ALL_EQUAL.keys())
@pytest.mark.parametrize("name", KINDS)
def test_training_scores_that_do_not_vary_make_a_step(name, scores):
    score = scores[0]
    found = KINDS[name](scaled=False).fit(scores[None]).probability(np.array([[score - 0.01, score, score + 0.01]]))
    np.testing.assert_array_equal(found, [STEPS[name]])


@pytest.mark.parametrize("scores", ALL_EQUAL.values(), ids=ALL_EQUAL.keys())
def test_what_scores_as_every_training_example_has_probability_zero_when_scaled(cdf, scores):
    scaled = cdf.replaced(scaled=True).fit(scores[None])
    np.testing.assert_array_equal(scaled.probability(scores[None]), 0.0)
    around = np.array([[scores[0] - 0.01, scores[0] + 0.01]])
    np.testing.assert_array_equal(scaled.probability(around), [[0.0, 1.0]])


@pytest.mark.parametrize("name", KINDS)
def test_the_step_does_not_turn_on_the_rounding_of_a_score(name):
    score = np.float32(0.7)
    nearly = np.array([[score * (1 - TIE_TOLERANCE / 2), score, score * (1 + TIE_TOLERANCE / 2)]])
    clearly = np.array([[score * (1 - TIE_TOLERANCE * 2), score, score * (1 + TIE_TOLERANCE * 2)]])
    fitted = KINDS[name](scaled=False).fit(np.full((1, 5), score))
    np.testing.assert_array_equal(fitted.probability(nearly), [[STEPS[name][1]] * 3])
    np.testing.assert_array_equal(fitted.probability(clearly), [STEPS[name]])


def test_training_scores_of_zero_make_a_step_at_zero(cdf):
    found = cdf.replaced(scaled=True).fit(np.zeros((1, 4))).probability(np.array([[0.0, 1e-9]]))
    np.testing.assert_array_equal(found, [[0.0, 1.0]])


def test_only_the_draw_that_does_not_vary_becomes_a_step(cdf, train, test):
    mixed = train.copy()
    mixed[1] = 1.5
    found = cdf.fit(mixed).probability(test)
    expected = cdf.fit(train).probability(test)
    np.testing.assert_array_equal(found[[0, 2]], expected[[0, 2]])
    assert set(found[1]) <= {0.0, 0.5, 1.0}


def test_a_mean_that_ties_with_the_largest_score_still_scales_to_a_step():
    # One low score among many equal ones: they do vary, yet the ECDF of their mean is 1 and the formula is 0/0.
    train = np.ones((1, 200_000))
    train[0, 0] = 0.9
    found = Ecdf(level="cdf_of_mean").fit(train).probability(np.array([[0.5, 1.0, 1.001]]))
    np.testing.assert_array_equal(found, [[0.0, 0.0, 1.0]])


@pytest.mark.parametrize("tiny_or_huge", [1e-300, 1e-160, 1e140])
def test_training_scores_of_extreme_size_are_converted_without_overflow(conversion, train, tiny_or_huge):
    fitted = conversion.fit(train * tiny_or_huge)
    probability = fitted.probability(train * tiny_or_huge * 2)
    assert probability.min() >= 0
    assert probability.max() <= 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_training_scores_that_are_not_usable_are_refused_with_their_place(conversion, train, bad):
    train[1, 17] = bad
    with pytest.raises(DataError, match=r"finite.*1 of 600.*draw 1, example 17"):
        conversion.fit(train)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_scores_that_are_not_numbers_are_refused_with_their_place(conversion, train, test, bad):
    test[2, 5] = bad
    with pytest.raises(DataError, match=r"1 of 900.*draw 2, example 5"):
        conversion.fit(train).probability(test)


def test_scores_of_another_number_of_draws_are_refused(conversion, train, test):
    with pytest.raises(ShapeError, match="fitted on 3 draws, got 2 draws"):
        conversion.fit(train).probability(test[:2])


def test_no_training_examples_or_no_draws_are_refused(conversion):
    for empty in (np.empty((3, 0)), np.empty((0, 3))):
        with pytest.raises(DataError, match="at least one training example"):
            conversion.fit(empty)


def test_scores_without_a_dimension_for_the_draws_are_refused(conversion, train, test):
    with pytest.raises(ShapeError, match=r"\(draws, examples\), got \(200,\)"):
        conversion.fit(train[0])
    with pytest.raises(ShapeError, match=r"\(draws, examples\)"):
        conversion.fit(train).probability(test[0])


def test_scores_that_are_text_are_refused(conversion):
    with pytest.raises(DataError, match="real numbers"):
        conversion.fit(np.array([["low", "high"]]))


def test_parameters_of_another_conversion_are_refused(conversion, train):
    parameters = conversion.fit(train).parameters
    with pytest.raises(ConfigError, match="must be"):
        FittedConversion(conversion=conversion, parameters=parameters | {"surplus": np.ones(3)})
    other = Gaussian(scaled=False) if isinstance(conversion, Ecdf) else Ecdf(scaled=False)
    with pytest.raises(ConfigError, match="must be"):
        FittedConversion(conversion=other, parameters=parameters)


def test_damaged_parameters_are_refused(conversion, train):
    parameters = conversion.fit(train).parameters
    for name, values in parameters.items():
        with pytest.raises(ShapeError, match=name):
            FittedConversion(conversion=conversion, parameters=parameters | {name: values[0, ...]})
        with pytest.raises(DataError, match=name):
            FittedConversion(conversion=conversion, parameters=parameters | {name: values * np.nan})


def test_parameters_of_different_numbers_of_draws_are_refused(train):
    parameters = Gaussian().fit(train).parameters
    with pytest.raises(ShapeError, match="same draws"):
        FittedConversion(conversion=Gaussian(), parameters=parameters | {"scale": parameters["scale"][:2]})


def test_unknown_settings_are_refused():
    with pytest.raises(ConfigError, match="level"):
        Gaussian(level="median")
    with pytest.raises(ConfigError, match="scaled"):
        Gaussian(scaled=1)


def rates(odds: Odds, scores: np.ndarray, new: np.ndarray) -> float:
    """Share of new good examples that have at least even odds."""
    return float((odds.fit(scores[None]).probability(new[None]) >= 0.5).mean())


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.3])
def test_even_odds_are_reached_by_the_chosen_share_of_good_examples(rate):
    random = np.random.default_rng(3)
    found = rates(Odds(false_alarms=rate), random.gamma(2.0, size=20_000), random.gamma(2.0, size=50_000))
    assert abs(found - rate) < 4 * np.sqrt(rate * (1 - rate) * (1 / 20_000 + 1 / 50_000))


def test_odds_are_those_of_the_count_of_scores_that_are_reached():
    training, new = np.array([3.0, 1.0, 2.0, 2.0]), np.array([0.5, 1.0, 2.0, 2.5, 3.0])
    reached = np.array([(training >= score).sum() for score in new])
    rarity = (reached + 0.5) / 5
    found = Odds(false_alarms=0.2, steepness=2.0).fit(training[None]).probability(new[None])
    np.testing.assert_allclose(found[0], 1 / (1 + (rarity / 0.2) ** 2))


def test_what_many_good_examples_have_is_no_anomaly_though_nothing_scores_higher():
    training = np.concatenate([np.random.default_rng(0).random(70), np.full(30, 5.0)])
    assert (Odds(false_alarms=0.1).fit(training[None]).probability(np.array([[5.0]])) < 0.5).all()


def test_far_outliers_stay_in_order_and_nothing_is_certain():
    training = np.random.default_rng(0).gamma(2.0, size=500)
    new = training.max() * np.array([1.5, 3.0, 10.0, 1e3, 1e6])
    found = Odds().fit(training[None]).probability(np.concatenate([[0.0], new])[None])[0]
    assert (np.diff(found) > 0).all()
    assert 0 < found[0] < 0.5 < found[1]
    assert found[-1] < 1


@pytest.mark.parametrize("scores", ALL_EQUAL.values(), ids=ALL_EQUAL.keys())
def test_odds_of_scores_that_do_not_vary_rise_beyond_them(scores):
    found = Odds().fit(scores[None]).probability(np.array([[scores[0] - 1, scores[0], scores[0] + 1]]))[0]
    assert found[0] == found[1] < found[2]


def test_the_stages_after_the_network_work_where_torch_is_absent():
    program = """
import sys

class WithoutTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, WithoutTorch())
import numpy as np
import indubio.decision
from indubio.judging import CONVERSIONS, quantify

nll = np.random.default_rng(0).gamma(2.0, size=(3, 50))
for conversion in CONVERSIONS.values():
    assert quantify(conversion().fit(nll).probability(nll), nll, 9.0, 50).total.shape == (50,)
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_odds_of_the_scores_that_it_was_fitted_on_are_those_among_the_others():
    scores = np.random.default_rng(0).gamma(2.0, size=(2, 60))
    fitted = Odds().fit(scores)
    own = fitted.own_probability(scores)
    for place in range(0, 60, 7):
        others = Odds().fit(np.delete(scores, place, axis=1))
        # The mean excess of the highest tenth is that of all scores, so only what lies beyond the others differs.
        within = scores[:, place] <= np.delete(scores, place, axis=1).max(axis=1)
        alone = others.probability(scores[:, [place]])[:, 0]
        np.testing.assert_allclose(own[within, place], alone[within], rtol=1e-12)
    top = scores.argmax(axis=1)
    assert (own[[0, 1], top] > fitted.probability(scores)[[0, 1], top]).all()


def test_what_few_scores_tell_of_a_draw_s_odds_is_the_spread_of_a_beta_distribution():
    random, count = np.random.default_rng(0), 400
    for steepness in (1.0, 2.0):
        conversion = Odds(false_alarms=0.1, steepness=steepness)
        for s in (0.05, 0.1, 0.3, 0.8):
            p = 1 / (1 + (s / 0.1) ** steepness)
            drawn = random.beta(s * (count + 1), (1 - s) * (count + 1), size=200_000)
            log_odds = -steepness * np.log(drawn / 0.1)
            told = conversion.log_odds_variance(np.array([[p]]), count)[0, 0]
            assert told == pytest.approx(log_odds.var(), rel=0.08)
