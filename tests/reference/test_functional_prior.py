"""The fitted prior: its distance against scipy, its search, and chains under it against the exact posterior."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from indubio.networks import Autoencoder, Dense, FitContext, GaussianLikelihood, Training
from indubio.numerics import streams
from indubio.posteriors import SGHMC
from indubio_lab.posteriors import FunctionalPrior
from indubio_lab.posteriors.functional_prior import (
    FACTORS,
    MOST,
    PriorNetworks,
    layers_of,
    lowest,
    sliced_wasserstein,
    unit_vectors,
)
from tests.engines import ENGINES, run_on
from tests.reference.test_mixing import linear


def rows_of(count: int = 80, values: int = 4) -> np.ndarray:
    random = np.random.default_rng(0)  # all over [0, 1]: fresh networks give nothing but its middle
    return (0.8 * random.random((count, 1)) + 0.2 * random.random((count, values))).astype(np.float32)


def context_of(autoencoder: Autoencoder, rows: np.ndarray, **how) -> FitContext:
    return FitContext(autoencoder=autoencoder, rows=rows, training=Training(**how), seed=0)


@pytest.mark.parametrize("times", [1, 7])
def test_in_one_dimension_the_distance_is_that_of_scipy(times):
    random = np.random.default_rng(times)
    few, many = random.normal(size=(30, 1)), random.exponential(size=(30 * times, 1))
    expected = wasserstein_distance(many[:, 0], few[:, 0])
    assert sliced_wasserstein(many, few, np.ones((1, 1))) == pytest.approx(expected, rel=1e-12)


def test_the_distance_is_the_mean_of_those_along_the_directions():
    random = np.random.default_rng(0)
    few, many = random.normal(size=(25, 3)), 2 * random.normal(size=(50, 3)) + 1
    directions = unit_vectors(random.normal(size=(40, 3)).astype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=1e-12)
    expected = np.mean([wasserstein_distance(many @ one, few @ one) for one in directions])
    assert sliced_wasserstein(many, few, directions) == pytest.approx(expected, rel=1e-12)
    assert sliced_wasserstein(few[::-1], few, directions) == 0


def test_the_search_finds_scales_that_are_known():
    target = np.array([0.3, 0.5, 3.0])
    found, before, after = lowest(lambda scales: float(np.abs(np.log(scales / target)).sum()), 3, moves=8)
    assert before == pytest.approx(np.abs(np.log(target)).sum())
    assert after < before
    assert (np.maximum(found / target, target / found) <= FACTORS[-1]).all()


def test_the_search_stays_within_its_range_and_stops_where_nothing_helps():
    for sign, end in ((1, 1 / MOST), (-1, MOST)):
        found = lowest(lambda scales, sign=sign: sign * float(scales.sum()), 2, moves=8)[0]
        assert found == pytest.approx([end] * 2, rel=FACTORS[-1] - 1)
    scales, before, after = lowest(lambda scales: 1.0 if (scales == 1).all() else float("inf"), 2, moves=8)
    assert (scales.tolist(), before, after) == ([1.0, 1.0], 1.0, 1.0)


def test_networks_of_the_prior_have_its_scales_and_leave_norms_alone():
    autoencoder = Autoencoder(
        Dense(widths=(60, 60), bias=True, layer_norm=True).build((30,), output_noise=True),
        GaussianLikelihood(noise="per_example"),
    )
    prior = PriorNetworks(context_of(autoencoder, rows_of(values=30)), 3, 5)
    scales = np.linspace(0.1, 2, len(prior.layers))
    named = autoencoder.named(prior.weights(scales, streams(0, 20)))
    spread = autoencoder.named(prior.spread(scales)[None])
    fresh = autoencoder.initial(streams(0, 1)[0])
    for name, weights in named.items():
        layer, _, kind = name.rpartition(".")
        if kind in ("weight", "bias") and layer != "output_log_variance":
            expected = scales[prior.layers.index(layer)]
            assert weights.std() == pytest.approx(expected, rel=5 / np.sqrt(2 * weights.size))
            assert (spread[name] == expected).all()
        else:
            np.testing.assert_array_equal(weights[0], fresh[name])
            assert np.isinf(spread[name]).all()
    assert layers_of(autoencoder)[0] == [f"{half}.{i}" for half in ("encoder", "decoder") for i in range(3)]


def test_every_engine_finds_the_same_distance(monkeypatch):
    autoencoder, found = Autoencoder(Dense(bias=True).build((4,)), GaussianLikelihood()), []
    scales = np.array([0.5, 0.3, 1, 2, 0.2, 1.5])
    for engine in ENGINES:
        run_on(engine, monkeypatch)
        found.append(PriorNetworks(context_of(autoencoder, rows_of()), 10, 20).distance(scales))
    assert found == pytest.approx([found[0]] * len(found), rel=1e-5)


def test_a_fitted_prior_gives_back_values_that_are_nearer_to_the_data():
    autoencoder, rows = Autoencoder(Dense().build((4,)), GaussianLikelihood()), rows_of()
    posterior = FunctionalPrior(draws=2, burn_in=2, thinning=1)
    facts = posterior.fit(autoencoder, rows, training=Training(epochs=2), seed=0).facts
    assert facts["distance of prior networks to the data"] < 0.7 * facts["the same of fresh networks' scales"]
    # Judged by other networks of the two priors, and by scipy along every feature.
    prior = PriorNetworks(context_of(autoencoder, rows), 50, 1)
    scales = np.array([facts[f"prior scale of {layer}"] for layer in prior.layers])
    fitted, fresh = (
        np.mean([wasserstein_distance(made[..., value].ravel(), rows[:, value]) for value in range(4)])
        for made in (prior.reconstruction(given, rows) for given in (scales, prior.start))
    )
    assert fitted < 0.8 * fresh


def test_before_the_first_move_a_chain_is_a_trained_network_of_the_prior():
    autoencoder, rows = Autoencoder(Dense().build((4,)), GaussianLikelihood()), rows_of()
    still = FunctionalPrior(
        draws=2, chains=2, burn_in=0, thinning=1, temperature=0, step_size=1e-30, networks=4, directions=5, moves=2
    )
    draws = still.fit(autoencoder, rows, training=Training(epochs=0), seed=0)
    prior = PriorNetworks(context_of(autoencoder, rows), 4, 5)
    scales = np.array([draws.facts[f"prior scale of {layer}"] for layer in prior.layers])
    np.testing.assert_array_equal(autoencoder.flat(draws.weights), prior.weights(scales, streams(0, 2)))


def test_under_a_prior_of_every_weight_the_chain_has_the_spread_of_the_exact_posterior():
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32) @ np.array([[1, 0.5], [0, 1]], np.float32)
    temperature, draws = 0.02, 150
    variances = np.array(
        [0.01, 1e-4, 1e-3, 1e-2, 5e-4]
    )  # of the weight that rows say nothing of, and of both rows of W
    chain = SGHMC(draws=draws, burn_in=100, chains=1, temperature=temperature, step_size=0.1, friction=0.1, thinning=20)
    fitted = chain.sampled(context_of(linear(2), rows, epochs=100, batch_size=40), variances=variances)
    unused, weight = fitted.weights.values()
    assert unused.std() == pytest.approx(np.sqrt(variances[0]), rel=4 / np.sqrt(2 * draws))
    for row in range(2):
        # N / T ||x - W x||^2 / 2D, and the prior of each weight.
        own = np.diag(1 / variances[1:].reshape(2, 2)[row])
        exact = np.linalg.inv(rows.T @ rows / temperature / 2 + own)
        mean = exact @ (rows.T @ rows[:, row] / temperature / 2)
        assert weight[:, row].std(axis=0) == pytest.approx(np.sqrt(np.diag(exact)), rel=4 / np.sqrt(2 * draws))
        assert weight[:, row].mean(axis=0) == pytest.approx(mean, abs=5 * np.sqrt(exact.max() / draws))
