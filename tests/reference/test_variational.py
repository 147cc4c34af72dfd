"""Bayes by Backprop in every engine, against autograd, torch.distributions and what theory says."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import distributions

from indubio.networks import Dense, Variational
from indubio.networks.engine.torch_losses import log_prior
from indubio.numerics import streams
from tests.engines import ENGINES, NOISES
from tests.reference.engine_cases import CASES, NETWORKS, Case, adam, batches_of, corruption_of, noisy_inputs

OBJECTIVE = {"samples": 3, "mixture": 0.3, "wide": 1.5, "narrow": 0.2}
VARIATIONAL = ["dense, bias", "dense, bias, no skips", "conv, leaky_relu", "dense, tanh, norm"]


def mixture_log_prob(objective: Variational, theta: torch.Tensor) -> torch.Tensor:
    """Log density of the prior by torch."""
    parts, scales = (objective.mixture, 1 - objective.mixture), (objective.wide, objective.narrow)
    return distributions.MixtureSameFamily(
        distributions.Categorical(torch.tensor(parts, dtype=torch.float64)),
        distributions.Normal(torch.zeros(2, dtype=torch.float64), torch.tensor(scales, dtype=torch.float64)),
    ).log_prob(theta)


def variational_values(case: Case, rho: float = -2.0) -> np.ndarray:
    """Means, then rhos around this one."""
    mean = case.values()
    return np.concatenate([mean, rho + 0.3 * np.random.default_rng(1).normal(size=mean.shape)], axis=1)


def trainer_of(case: Case, engine: str, objective: Variational, values: np.ndarray, batch: int, **how):
    own = streams(3, len(values))
    return ENGINES[engine](case.autoencoder).trainer(objective, values, None, own, batch=batch, threads=1, **how)


def test_the_prior_of_bayes_by_backprop_is_the_log_of_the_mixture():
    theta = torch.linspace(-4, 4, 101, dtype=torch.float64)
    settings = Variational(prior_scale=1.0, samples=1, mixture=0.3, wide=1.5, narrow=0.2)
    torch.testing.assert_close(log_prior(theta, settings), mixture_log_prob(settings, theta))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_kl_of_bayes_by_backprop_is_that_of_two_gaussians_when_the_mixture_is_one(engine):
    # With both parts of the mixture alike the prior is a Gaussian, and the KL is known exactly; zeros are reconstructed
    # perfectly whatever the weights, so the loss is the KL alone.
    objective = Variational(prior_scale=1.0, samples=4000, mixture=0.5, wide=0.7, narrow=0.7)
    case = Case(Dense(widths=(2,), latent=1, last_activation="none"), (2,))
    values = variational_values(case, rho=-3)
    trainer = trainer_of(case, engine, objective, values, batch=3)
    found = trainer.steps(np.zeros((3, 2)), np.tile(np.arange(3), (NETWORKS, 1)), [1e-12])
    mean, rho = torch.from_numpy(values).chunk(2, dim=1)
    exact = distributions.kl_divergence(
        distributions.Normal(mean, F.softplus(rho)), distributions.Normal(0.0, 0.7)
    ).sum(1)
    np.testing.assert_allclose(found, exact, rtol=0.01)


@pytest.mark.parametrize("name", VARIATIONAL)
@pytest.mark.parametrize("prior_scale", [0.0, 0.3])
@pytest.mark.parametrize("noisy", [False, True], ids=["clean inputs", "noisy inputs"])
@pytest.mark.parametrize("engine", ENGINES)
def test_steps_of_bayes_by_backprop_are_those_of_autograd_on_the_same_noise(name, prior_scale, noisy, engine):
    case, objective = CASES[name], Variational(prior_scale=prior_scale, **OBJECTIVE)
    values, rows, order = variational_values(case), case.rows(), case.order()
    given = corruption_of(case, "by feature") if noisy else None
    trainer = trainer_of(case, engine, objective, values, batch=9, corruption=given)
    totals = trainer.steps(rows, order, [0.01, 0.02, 0.005])

    def loss_of(own):
        def loss(both, batch):
            mean, rho = both.chunk(2)
            seen = batch if given is None else noisy_inputs(own, case, batch, given)
            q = distributions.Normal(mean, F.softplus(rho))
            noise = torch.tensor(own.weights(objective.samples, len(mean))).double()
            sampled = [mean + q.scale * one for one in noise]
            nll = sum(case.nll(theta, batch, seen=seen) for theta in sampled) / objective.samples
            prior = sum(mixture_log_prob(objective, theta).sum() for theta in sampled) / objective.samples
            return nll + prior_scale * (-q.entropy().sum() - prior)

        return loss

    losses = [loss_of(NOISES[engine](member, seed=3)) for member in range(NETWORKS)]
    expected = adam(losses, values, rows, batches_of(order, 9), [0.01, 0.02, 0.005])
    np.testing.assert_allclose(totals, expected[0], rtol=1e-9)
    np.testing.assert_allclose(trainer.values(), expected[1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", VARIATIONAL)
@pytest.mark.parametrize("engine", ENGINES)
def test_at_vanishing_spread_the_means_of_bayes_by_backprop_move_as_point_weights_do(name, engine):
    # Whatever the noise, every sample is the mean then; the prior pulls it by the mixture's slope.
    case, objective = CASES[name], Variational(prior_scale=0.3, **OBJECTIVE)
    values, rows, order = variational_values(case, rho=-60), case.rows(), case.order()
    trainer = trainer_of(case, engine, objective, values, batch=9)
    held_out = trainer.held_out_loss(rows)
    totals = trainer.steps(rows, order, [0.01, 0.02, 0.005])
    means, rhos = np.split(values, 2, axis=1)

    def loss(theta, batch):
        return case.nll(theta, batch) - 0.3 * mixture_log_prob(objective, theta).sum()

    expected = adam([loss] * NETWORKS, means, rows, batches_of(order, 9), [0.01, 0.02, 0.005])
    found, spreads = np.split(trainer.values(), 2, axis=1)
    np.testing.assert_allclose(found, expected[1], rtol=1e-8, atol=1e-10)
    # Only the entropy moves the spreads, -lambda (sigma'/sigma) = -lambda for such rhos: all up, at Adam's full rate.
    np.testing.assert_allclose(spreads - rhos, 0.035, rtol=1e-6)
    np.testing.assert_allclose(held_out, [case.nll(*map(torch.tensor, (mean, rows))).item() for mean in means])
    assert np.isfinite(totals).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_spreads_of_bayes_by_backprop_settle_to_the_prior_where_the_data_says_nothing(engine):
    # L = KL[N(mu, sigma^2) || N(0, 0.5^2)] for every weight: the minimum is the prior itself.
    objective = Variational(prior_scale=1.0, samples=5, mixture=0.5, wide=0.5, narrow=0.5)
    case = Case(Dense(widths=(12,), latent=6, last_activation="none"), (8,))
    trainer = trainer_of(case, engine, objective, variational_values(case), batch=3)
    rows, order = np.zeros((3, 8)), np.tile(np.arange(3), (NETWORKS, 700))
    trainer.steps(rows, order, np.geomspace(0.1, 1e-3, 700).tolist())
    mean, rho = np.split(trainer.values(), 2, axis=1)
    # Adam's last steps leave noise of the order of its rate on each of some 300 weights.
    assert np.abs(mean).mean() < 0.05
    assert np.logaddexp(0, rho).mean() == pytest.approx(0.5, rel=0.02)
