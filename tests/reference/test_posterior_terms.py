"""The terms of the posteriors' losses, against torch.distributions, scipy and what theory says."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

from indubio.networks import (
    Autoencoder,
    BernoulliLikelihood,
    Conv1d,
    Dense,
    GaussianLikelihood,
    LaplaceLikelihood,
    Training,
)
from indubio.networks.engine.torch_likelihoods import nll_of_values
from indubio.networks.engine.torch_losses import kl_from_standard_normal
from indubio.networks.tensors import Decoded
from indubio.posteriors import SGHMC, VAE, BayesByBackprop, MCDropout
from indubio_lab.posteriors import BayesianVAE
from tests.engines import ENGINES, run_on
from tests.reference.engine_cases import NETWORKS, Case, batches_of

RNG = np.random.default_rng(0)


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(RNG.random(shape))


# ----- likelihoods

SCIPYS = [
    (GaussianLikelihood, stats.norm, math.log(2 * math.pi) / 2),
    (LaplaceLikelihood, stats.laplace, math.log(2)),
]


@pytest.mark.parametrize(("likelihood", "reference", "constant"), SCIPYS)
@pytest.mark.parametrize("noise", ["unit", "per_feature", "per_example"])
def test_the_nll_on_torch_is_that_of_scipy_up_to_the_constant(likelihood, reference, constant, noise):
    x, location, log_variance = random(2, 5, 3), random(2, 5, 3), random(2, 5, 3)
    settings = likelihood(noise=noise, smallest_scale=1e-9)
    weights = {"likelihood.log_variance": log_variance[:, 0]}
    nll = nll_of_values(settings, x, Decoded(location, log_variance), weights)
    scale = {
        "unit": torch.ones_like(x),
        "per_feature": (log_variance[:, :1] / 2).exp().expand_as(x),
        "per_example": (log_variance / 2).exp(),
    }[noise]
    expected = -reference.logpdf(x.numpy(), location.numpy(), scale.numpy()) - constant
    np.testing.assert_allclose(nll.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("likelihood", "reference", "constant"), SCIPYS)
@pytest.mark.parametrize("noise", ["unit", "per_feature"])
def test_scores_are_those_of_scipy_around_the_reconstruction(likelihood, reference, constant, noise, engine):
    case = Case(Dense(), (4,), likelihood(noise=noise, smallest_scale=0.3))
    values, rows = case.values(), case.rows()
    scorer = ENGINES[engine](case.autoencoder).scorer(NETWORKS, values, None, None)
    scale = np.ones((NETWORKS, 1, 4))
    if noise == "per_feature":
        log_variance = case.autoencoder.named(values)["likelihood.log_variance"]
        scale = np.sqrt(np.exp(log_variance) + 0.09)[:, None]
    expected = -reference.logpdf(rows, scorer.reconstruction(rows), scale) - constant
    np.testing.assert_allclose(scorer.nll_apart(rows)[1], expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_learned_scale_never_falls_below_its_floor(engine):
    # Zeros are reconstructed perfectly, so only the logarithm of the scale is left.
    likelihood = GaussianLikelihood(noise="per_feature", smallest_scale=0.01)
    case = Case(Dense(last_activation="none"), (3,), likelihood)
    values = case.values()
    case.autoencoder.named(values)["likelihood.log_variance"][:] = -1000
    nll = ENGINES[engine](case.autoencoder).scorer(NETWORKS, values, None, None).nll(np.zeros((2, 3)))
    np.testing.assert_allclose(nll, math.log(0.01))


def test_the_bernoulli_nll_on_torch_is_its_formula():
    x, p = random(2, 5, 3), random(2, 5, 3)
    nll = nll_of_values(BernoulliLikelihood(), x, Decoded(p), {})
    expected = -(x * torch.log(p) + (1 - x) * torch.log1p(-p))
    torch.testing.assert_close(nll, expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_logarithms_of_the_bernoulli_nll_are_bounded(engine):
    # A reconstruction of exactly 0 or 1 in single precision, and the opposite in the data: 100 for every value.
    case = Case(Dense(widths=(2,), latent=1, skips=False, bias=True), (2,), BernoulliLikelihood())
    values = np.zeros((1, case.autoencoder.weight_count()), np.float32)
    case.autoencoder.named(values)["decoder.1.bias"][:] = [-1e4, 1e4]
    scorer = ENGINES[engine](case.autoencoder).scorer(1, values, None, None)
    rows = np.array([[1, 0], [0, 1], [0.5, 1]], np.float32)
    np.testing.assert_allclose(scorer.nll_apart(rows)[1][0], [[100, 100], [0, 0], [50, 0]], atol=1e-6)


def test_the_kl_of_the_code_on_torch_is_that_of_torch():
    mean, log_variance = random(2, 4, 3), random(2, 4, 3)
    ours = kl_from_standard_normal(mean, log_variance)
    code = distributions.Normal(mean, (log_variance / 2).exp())
    expected = distributions.kl_divergence(code, distributions.Normal(0.0, 1.0)).sum(2)
    torch.testing.assert_close(ours, expected.double())


# ----- draws


def test_the_kick_of_sghmc_is_that_of_its_temperature():
    chain = SGHMC(step_size=0.01, friction=0.1).chain(examples=50, temperature=0.5, prior_scale=0.25)
    assert chain.spread == pytest.approx(math.sqrt(2 * 0.1 * 0.01 * 0.5 / 50))
    assert (chain.step_size, chain.friction, chain.prior_scale) == (0.01, 0.1, 0.25)
    assert SGHMC().chain(examples=50, temperature=0.0, prior_scale=0.25).spread == 0


@pytest.mark.parametrize(("burn_in", "thinning"), [(0, 1), (5, 3), (2, 11)])
def test_a_draw_of_sghmc_is_where_the_chain_is_after_so_many_moves(burn_in, thinning, monkeypatch):
    moved = []

    class Moves:
        """A chain that counts its moves."""

        def __init__(self, size: int, batch: int) -> None:
            self._values, self._batch = np.zeros((1, size)), batch

        def steps(self, rows, order) -> float:
            batches = batches_of(order, self._batch)
            moved.extend(batches)
            self._values += len(batches)
            return 0.5

        def values(self) -> np.ndarray:
            return self._values

    class Engine(ENGINES["torch"]):
        def sampler(self, chain, values, stream, *, batch, corruption=None):
            return Moves(values.shape[1], batch)

    monkeypatch.setitem(ENGINES, "moves", Engine)
    run_on("moves", monkeypatch)
    case = Case(Dense(), (4,))
    posterior, training = (
        SGHMC(draws=4, burn_in=burn_in, thinning=thinning, chains=1),
        Training(epochs=1, batch_size=10),
    )
    draws = posterior.fit(case.autoencoder, case.rows(), training=training, seed=0)
    expected = burn_in + thinning * np.arange(1, 5)
    np.testing.assert_array_equal(draws.weights["encoder.0.weight"][:, 0, 0], expected)
    # Epoch after epoch, each in batches of 10, 10 and 3.
    assert [batch.shape[1] for batch in moved] == ([10, 10, 3] * len(moved))[: len(moved)]
    for start in range(0, len(moved) - 2, 3):
        assert sorted(np.concatenate(moved[start : start + 3], axis=1)[0]) == list(range(23))


def test_a_dropout_draw_switches_whole_units_off_at_the_set_rate():
    autoencoder = Autoencoder(Dense().build((10,)), GaussianLikelihood())
    rows = RNG.random((5, 10), dtype=np.float32)
    draws = MCDropout(draws=400, dropout=0.25).fit(autoencoder, rows, training=Training(epochs=0), seed=0)
    values = np.concatenate([mask.ravel() for mask in draws.masks])
    assert set(values.tolist()) == {0.0, 1.0}
    # about 50,000 coin tosses: five standard errors
    assert values.mean() == pytest.approx(0.75, abs=5 * math.sqrt(0.25 * 0.75 / len(values)))


@pytest.mark.parametrize("engine", ENGINES)
def test_without_dropout_all_masks_agree_with_no_mask(engine, monkeypatch):
    run_on(engine, monkeypatch)
    case = Case(Dense(), (4,))
    rows = case.rows(6)
    draws = MCDropout(draws=3, dropout=0).fit(case.autoencoder, rows, training=Training(epochs=2), seed=0)
    (theta,) = case.autoencoder.flat(draws.weights)
    expected = case.nll_apart(torch.tensor(theta), torch.tensor(rows)).mean(1)
    np.testing.assert_allclose(draws.nll(rows), np.tile(expected, (3, 1)), rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case",
    [Case(Dense(skips=False), (4,), code_noise=True), Case(Conv1d(linear=(6,)), (20, 2), code_noise=True)],
    ids=["dense", "conv"],
)
def test_a_vae_draw_moves_the_code_by_its_noise_times_sigma(case, engine, monkeypatch):
    run_on(engine, monkeypatch)
    rows = case.rows(6)
    draws = VAE(draws=3).fit(case.autoencoder, rows, training=Training(epochs=2), seed=0)
    (theta,) = case.autoencoder.flat(draws.weights)
    for draw in range(3):
        noise = torch.tensor(draws.noise[draw])
        expected = case.nll_apart(torch.tensor(theta), torch.tensor(rows), noise=noise).flatten(1).mean(1)
        np.testing.assert_allclose(draws.nll(rows)[draw], expected, rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case",
    [
        Case(Dense(skips=False), (4,), code_noise=True),
        Case(Conv1d(linear=(6,)), (20, 2), GaussianLikelihood(noise="per_example"), code_noise=True),
    ],
    ids=["dense", "conv"],
)
def test_a_draw_of_a_bayesian_vae_has_weights_and_a_code_noise_of_its_own(case, engine, monkeypatch):
    run_on(engine, monkeypatch)
    rows, few = case.rows(6), {"draws": 3, "chains": 2, "burn_in": 4, "thinning": 2}
    draws = BayesianVAE(**few).fit(case.autoencoder, rows, training=Training(epochs=2), seed=0)
    assert len(np.unique(draws.noise, axis=0)) == 3
    for draw, theta in enumerate(case.autoencoder.flat(draws.weights)):
        noise = torch.tensor(draws.noise[draw])
        expected = case.nll_apart(torch.tensor(theta), torch.tensor(rows), noise=noise).flatten(1).mean(1)
        np.testing.assert_allclose(draws.nll(rows)[draw], expected, rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_the_decoder_of_a_bayesian_vae_is_kicked(engine, monkeypatch):
    # One move from trained weights: what the kicks add is the difference to a chain without temperature.
    run_on(engine, monkeypatch)
    case = Case(Dense(), (4,), GaussianLikelihood(noise="per_example"), code_noise=True)
    cold, warm = (
        BayesianVAE(draws=1, burn_in=0, thinning=1, temperature=temperature)
        .fit(case.autoencoder, case.rows(), training=Training(epochs=2, batch_size=23), seed=0)
        .weights
        for temperature in (0.0, 1.0)
    )
    for name, weight in cold.items():
        of_encoder = name.startswith(("encoder.", "code_log_variance."))
        assert np.array_equal(weight, warm[name]) == of_encoder, name
    assert {"code_log_variance.weight", "output_log_variance.weight"} < set(cold)


@pytest.mark.parametrize("engine", ENGINES)
def test_with_no_move_left_a_bayesian_vae_is_the_vae_that_it_began_with(engine, monkeypatch):
    run_on(engine, monkeypatch)
    case = Case(Dense(), (4,), code_noise=True)
    still = BayesianVAE(draws=2, chains=1, burn_in=0, thinning=1, temperature=0, step_size=1e-30, kl_weight=0.3)
    ours, theirs = (
        posterior.fit(case.autoencoder, case.rows(), training=Training(epochs=3), seed=0).weights
        for posterior in (still, VAE(draws=2, kl_weight=0.3))
    )
    for name, weight in theirs.items():
        np.testing.assert_array_equal(ours[name], np.repeat(weight, 2, axis=0))


def test_the_draws_of_bayes_by_backprop_have_the_spread_that_was_trained():
    case = Case(Dense(widths=(30,), latent=10, layer_norm=True), (20,))
    settings = BayesByBackprop(draws=300, initial_rho=-1.0, initial_spread=0.2)
    draws = settings.fit(case.autoencoder, case.rows().astype(np.float32), training=Training(epochs=0), seed=0)
    assert draws.weights["encoder.0.weight"].dtype == np.float32
    sigma = math.log1p(math.exp(-1.0))
    spread = case.autoencoder.flat(draws.weights).std(axis=0)
    assert spread.mean() == pytest.approx(sigma, rel=0.01)
    # A norm's gain begins at 1 and its shift at 0; other means begin at random.
    means = {name: weight.mean(axis=0) for name, weight in draws.weights.items()}
    error = 5 * sigma / math.sqrt(300)
    np.testing.assert_allclose(means["encoder.0.norm.gain"], 1, atol=error)
    np.testing.assert_allclose(means["encoder.0.norm.shift"], 0, atol=error)
    assert means["encoder.0.weight"].std() == pytest.approx(0.2, rel=0.1)
