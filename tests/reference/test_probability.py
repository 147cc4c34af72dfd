"""Conversions and U_exceed against scipy, plain loops of the paper's formulas, and exact arithmetic."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from indubio.judging import CDF_CONVERSIONS, CONVERSIONS, TIE_TOLERANCE, Ecdf, Gamma, LogNormal, exceed

DISTRIBUTIONS = {"gaussian": stats.norm, "exponential": stats.expon, "uniform": stats.uniform}
SHAPED = {"gamma": stats.gamma, "lognormal": stats.lognorm}


# On two grids half a step apart no test score ties with a training score: scipy's ECDF has no tolerance.
@pytest.fixture
def train():
    return np.random.default_rng(0).gamma(2.0, 0.3, size=(4, 250)).round(3)


@pytest.fixture
def test():
    return np.random.default_rng(1).gamma(2.0, 0.5, size=(4, 400)).round(3) + 0.0005


def reference_cdf(name, train_scores):
    """One draw's CDF by scipy alone."""
    if name == "ecdf":
        return stats.ecdf(train_scores).cdf.evaluate
    if name in SHAPED:
        return begun_by_the_smallest(SHAPED[name], train_scores).cdf
    distribution = DISTRIBUTIONS[name]
    return distribution(*distribution.fit(train_scores)).cdf


def begun_by_the_smallest(distribution, train_scores):
    """Fitted by scipy from where on the CDF of the smallest score is 1 / (n + 1), found by halving."""
    smallest, spread = train_scores.min(), np.ptp(train_scores)
    low, high = 1e-9 * spread, 10 * spread
    for _ in range(200):
        middle = np.sqrt(low * high)
        fitted = distribution(*distribution.fit(train_scores, floc=smallest - middle))
        low, high = (low, middle) if fitted.cdf(smallest) > 1 / (len(train_scores) + 1) else (middle, high)
    return fitted


@pytest.mark.parametrize("name", CDF_CONVERSIONS)
def test_the_unscaled_probability_is_the_cdf_that_scipy_fits(name, train, test):
    found = CDF_CONVERSIONS[name](scaled=False).fit(train).probability(test)
    expected = [reference_cdf(name, draw)(scores) for draw, scores in zip(train, test, strict=True)]
    tolerance = 1e-8 if name in SHAPED else 1e-12  # what scipy's search for the shape is right to
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-3 * tolerance)


@pytest.mark.parametrize("level", ["cdf_of_mean", "mean_of_cdf"])
@pytest.mark.parametrize("name", CDF_CONVERSIONS)
def test_the_scaled_probability_is_the_formula_of_kriegel_written_as_a_loop(name, level, train, test):
    found = CDF_CONVERSIONS[name](scaled=True, level=level).fit(train).probability(test)
    for draw in range(len(train)):
        cdf = reference_cdf(name, train[draw])
        if level == "cdf_of_mean":
            average = float(cdf(sum(train[draw]) / len(train[draw])))
        else:
            average = sum(float(cdf(score)) for score in train[draw]) / len(train[draw])
        expected = [max(0.0, (float(cdf(score)) - average) / (1 - average)) for score in test[draw]]
        close = {"rtol": 1e-7, "atol": 1e-8} if name in SHAPED else {"rtol": 1e-10, "atol": 1e-12}
        np.testing.assert_allclose(found[draw], expected, **close)


@pytest.mark.parametrize("name", SHAPED)
def test_no_other_scale_and_shape_make_the_training_scores_more_probable(name, train):
    parameters = CDF_CONVERSIONS[name]().fit(train).parameters
    for draw, scores in enumerate(train):
        location, scale, shape = (parameters[each][draw] for each in ("location", "scale", "shape"))
        best = SHAPED[name].logpdf(scores, shape, location, scale).sum()
        for up in (0.99, 1.01):
            assert SHAPED[name].logpdf(scores, shape * up, location, scale).sum() < best
            assert SHAPED[name].logpdf(scores, shape, location, scale * up).sum() < best


@pytest.mark.parametrize(("conversion", "made"), [(Gamma, stats.gamma), (LogNormal, stats.lognorm)])
@pytest.mark.parametrize("shape", [0.3, 0.7, 2.0])
def test_the_distribution_that_scores_were_drawn_from_is_found_again(conversion, made, shape):
    true = made(shape, loc=-3.0, scale=0.5)
    fitted = conversion(scaled=False).fit(true.rvs(size=(1, 20_000), random_state=0))
    quantiles = np.linspace(0.005, 0.995, 199)
    # 20,000 scores tell a CDF to 0.0035 anywhere (one standard error), and the fit is no worse.
    np.testing.assert_allclose(fitted.probability(true.ppf(quantiles)[None])[0], quantiles, atol=4 * 0.0035)


FAR_FROM_IT = {
    "a long tail below": -np.random.default_rng(4).gamma(2.0, size=500),
    "many tie for the smallest": np.concatenate([np.zeros(200), np.random.default_rng(5).gamma(2.0, size=300)]),
}


@pytest.mark.parametrize("scores", FAR_FROM_IT.values(), ids=FAR_FROM_IT.keys())
@pytest.mark.parametrize("name", SHAPED)
def test_scores_that_no_such_distribution_fits_are_fitted_as_by_a_normal_one(name, scores):
    # The smallest is so probable that the distribution would have to begin infinitely far below, and is normal there.
    found = CDF_CONVERSIONS[name](scaled=False).fit(scores[None]).probability(scores[None])[0]
    np.testing.assert_allclose(found, stats.norm(scores.mean(), scores.std()).cdf(scores), atol=0.02)


@given(
    train=st.lists(st.floats(0, 2.0**100, width=32), min_size=1, max_size=8),
    new=st.lists(st.floats(0, allow_nan=False), min_size=1, max_size=8),
)
def test_single_precision_training_scores_are_compared_as_if_all_were_double(train, new):
    close = [*new, *train, *(score * (1 - TIE_TOLERANCE) for score in train), *(np.nextafter(train, np.inf))]
    found = Ecdf(scaled=False).fit(np.array([train], np.float32)).probability(np.array([close]))
    with np.errstate(over="ignore"):
        reached = [np.float64(score) * (1 + TIE_TOLERANCE) for score in close]
    expected = [sum(float(known) <= bound for known in train) / len(train) for bound in reached]
    np.testing.assert_array_equal(found, [expected])


def test_more_examples_than_a_block_have_the_probabilities_they_have_alone():
    random = np.random.default_rng(3)
    scores = random.gamma(2, size=(3, 10_000)).astype(np.float32)
    for conversion in CONVERSIONS.values():
        fitted = conversion().fit(random.gamma(2, size=(3, 50)).astype(np.float32))
        parts = [fitted.probability(scores[:, start : start + 77]) for start in range(0, 10_000, 77)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), fitted.probability(scores))


def test_the_two_levels_differ_as_they_do_for_an_exponential_distribution():
    # CDF(mean) = 1 - 1/e; E[CDF(score)] = 1/2 for the true CDF of any continuous distribution.
    train = np.random.default_rng(2).exponential(size=(1, 200_000))
    levels = {
        level: CONVERSIONS["exponential"](level=level).fit(train).parameters["scaling_level"][0]
        for level in ("cdf_of_mean", "mean_of_cdf")
    }
    assert levels["cdf_of_mean"] == pytest.approx(1 - np.exp(-1), abs=1e-12)
    assert levels["mean_of_cdf"] == pytest.approx(0.5, abs=0.005)


def test_the_ecdf_counts_ties_as_a_plain_loop_does():
    # Scores on a coarse grid, jittered by less than the tolerance: nearly every comparison is a tie.
    rng = np.random.default_rng(3)
    grid = np.array([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0])
    train = rng.choice(grid, size=(2, 60)) * (1 + rng.uniform(-1, 1, size=(2, 60)) * TIE_TOLERANCE / 4)
    test = rng.choice(grid, size=(2, 40)) * (1 + rng.uniform(-1, 1, size=(2, 40)) * TIE_TOLERANCE / 4)
    found = Ecdf(scaled=False).fit(train).probability(test)
    for draw in range(2):
        for example in range(40):
            score = test[draw, example]
            count = sum(1 for other in train[draw] if other <= score + TIE_TOLERANCE * abs(score))
            assert found[draw, example] == count / 60


@pytest.mark.parametrize("training_examples", [1, 1000, 5_000_000])
def test_u_exceed_is_right_to_twelve_digits_even_for_millions_of_training_examples(training_examples):
    p = np.array([0.0, 1e-300, 1e-9, 0.3, 0.5, 1 - 1e-4, 1 - 1e-6, 1 - 2e-7, 1 - 1e-12, 1 - 2.0**-53, 1.0])
    with localcontext(prec=60):
        powers = [Decimal(float(value)) ** training_examples for value in p]
        complements = [1 - power for power in powers]
    below = exceed(p, np.full_like(p, 1.0), 2.0, training_examples)
    above = exceed(p, np.full_like(p, 3.0), 2.0, training_examples)
    smallest_normal = np.finfo(np.float64).tiny
    np.testing.assert_allclose(below, [float(power) for power in powers], rtol=1e-12, atol=smallest_normal)
    np.testing.assert_allclose(above, [float(rest) for rest in complements], rtol=1e-12)
