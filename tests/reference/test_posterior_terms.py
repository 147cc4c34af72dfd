"""The terms of the posteriors' losses, against torch.distributions and against what theory says."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions

from indubio.autoencoders import (
    Autoencoder,
    BernoulliLikelihood,
    Conv1d,
    Dense,
    GaussianLikelihood,
    LaplaceLikelihood,
)
from indubio.autoencoders.network import Decoded
from indubio.posteriors import SGHMC, VAE, BayesByBackprop, MCDropout, Training
from indubio.posteriors.bayes_by_backprop import _VariationalObjective
from indubio.posteriors.posterior import fresh_weights
from indubio.posteriors.training import Objective
from indubio.posteriors.vae import kl_from_standard_normal

GENERATOR = torch.Generator().manual_seed(0)


def random(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=GENERATOR, dtype=torch.float64)


@pytest.mark.parametrize(
    ("likelihood", "reference", "constant"),
    [
        (GaussianLikelihood, stats.norm, math.log(2 * math.pi) / 2),
        (LaplaceLikelihood, stats.laplace, math.log(2)),
    ],
)
@pytest.mark.parametrize("noise", ["unit", "per_feature", "per_example"])
def test_the_nll_is_that_of_scipy_up_to_the_constant(likelihood, reference, constant, noise):
    x, location, log_variance = random(2, 5, 3), random(2, 5, 3), random(2, 5, 3)
    settings = likelihood(noise=noise, smallest_scale=1e-9)
    weights = {"likelihood.log_variance": log_variance[:, 0]}
    nll = settings.nll(x, Decoded(location, log_variance), weights)
    scale = {
        "unit": torch.ones_like(x),
        "per_feature": (log_variance[:, :1] / 2).exp().expand_as(x),
        "per_example": (log_variance / 2).exp(),
    }[noise]
    expected = -reference.logpdf(x.numpy(), location.numpy(), scale.numpy()) - constant
    np.testing.assert_allclose(nll.numpy(), expected, rtol=1e-10)


def test_a_learned_scale_never_falls_below_its_floor():
    x = torch.zeros(1, 1, 1)
    nll = GaussianLikelihood(noise="per_example", smallest_scale=0.01).nll(x, Decoded(x, x - 1000), {})
    assert nll.item() == pytest.approx(math.log(0.01))


def test_the_bernoulli_nll_is_that_of_torch():
    x, p = random(2, 5, 3), random(2, 5, 3)
    nll = BernoulliLikelihood().nll(x, Decoded(p), {})
    expected = -(x * torch.log(p) + (1 - x) * torch.log1p(-p))
    torch.testing.assert_close(nll, expected)


def test_the_kl_of_the_code_is_that_of_torch():
    mean, log_variance = random(2, 4, 3), random(2, 4, 3)
    ours = kl_from_standard_normal(mean, log_variance)
    code = distributions.Normal(mean, (log_variance / 2).exp())
    expected = distributions.kl_divergence(code, distributions.Normal(0.0, 1.0)).sum(2)
    torch.testing.assert_close(ours, expected.double())


def test_the_prior_of_bayes_by_backprop_is_the_log_of_the_mixture():
    theta = torch.linspace(-4, 4, 101, dtype=torch.float64)
    settings = BayesByBackprop(mixture=0.3, wide=1.5, narrow=0.2)
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(torch.tensor([0.3, 0.7], dtype=torch.float64)),
        distributions.Normal(torch.zeros(2, dtype=torch.float64), torch.tensor([1.5, 0.2], dtype=torch.float64)),
    )
    torch.testing.assert_close(settings.log_prior(theta), mixture.log_prob(theta))


def test_the_kl_of_bayes_by_backprop_is_that_of_two_gaussians_when_the_mixture_is_one():
    # With both parts of the mixture alike the prior is a Gaussian, and the KL is known exactly.
    settings = BayesByBackprop(samples=4000, wide=0.7, narrow=0.7)
    autoencoder = Autoencoder(Dense(widths=(2,), latent=1).build((2,)), GaussianLikelihood())
    generators = [torch.Generator().manual_seed(0)]
    weights = fresh_weights(autoencoder, generators, random(1, 2))
    objective = _VariationalObjective(settings, autoencoder, weights, generators)
    estimate = objective.kl(objective.sample(4000))
    exact = distributions.kl_divergence(
        distributions.Normal(objective.mean, torch.nn.functional.softplus(objective.rho)),
        distributions.Normal(0.0, 0.7),
    ).sum()
    assert estimate.item() == pytest.approx(exact.item(), rel=0.01)


@pytest.mark.parametrize(
    "architecture", [Dense(), Dense(skips=False, bias=True), Conv1d()], ids=["dense", "bias", "conv"]
)
@pytest.mark.parametrize("prior_scale", [0.0, 0.3])
def test_the_gradient_of_bayes_by_backprop_by_hand_is_that_of_autograd(architecture, prior_scale):
    windows = isinstance(architecture, Conv1d)
    rows = random(2, 7, 20, 2) if windows else random(2, 7, 5)
    autoencoder = Autoencoder(architecture.build(rows.shape[2:]), GaussianLikelihood())
    settings = BayesByBackprop(samples=3, prior_scale=prior_scale, mixture=0.3, wide=1.5, narrow=0.2)

    def objective() -> _VariationalObjective:
        generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
        weights = fresh_weights(autoencoder, generators, rows[0])
        return _VariationalObjective(settings, autoencoder, weights, generators)

    plain, by_hand = objective(), objective()
    for _ in range(2):  # the second time the tensors are used again
        loss = Objective.differentiate(plain, rows)
        torch.testing.assert_close(by_hand.differentiate(rows), loss)
        for ours, autograd in zip(by_hand.moved, plain.moved, strict=True):
            torch.testing.assert_close(ours.grad, autograd.grad)


def test_the_chain_of_sghmc_settles_to_the_posterior():
    # L(theta) = k theta^2 / 2 for each of many independent weights: the posterior is N(0, T / (N k)).
    curvature, examples, temperature = 2.0, 50, 0.5
    settings = SGHMC(step_size=0.01, friction=0.1, temperature=temperature)
    leaf = torch.zeros(20_000, dtype=torch.float64)
    momentum, generator = torch.zeros_like(leaf), torch.Generator().manual_seed(0)
    for _ in range(2000):
        settings.move([leaf], [momentum], (curvature * leaf,), examples, generator)
    expected = temperature / (examples * curvature)
    assert leaf.mean().item() == pytest.approx(0, abs=4 * math.sqrt(expected / 20_000))
    # 20,000 independent chains know their variance to 1 %; the step size adds a known bias of the same order.
    assert leaf.var().item() == pytest.approx(expected, rel=0.06)


def test_without_temperature_sghmc_is_gradient_descent_with_momentum():
    settings = SGHMC(step_size=0.05, friction=0.2, temperature=0)
    leaf, momentum = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    plain = torch.ones(3, dtype=torch.float64, requires_grad=True)
    sgd = torch.optim.SGD([plain], lr=0.05, momentum=0.8)
    for _ in range(30):
        settings.move([leaf], [momentum], (2 * leaf,), 10, torch.Generator())
        sgd.zero_grad()
        plain.square().sum().backward()
        sgd.step()
    torch.testing.assert_close(leaf, plain.detach())


def test_a_dropout_draw_switches_whole_units_off_at_the_set_rate():
    autoencoder = Autoencoder(Dense().build((10,)), GaussianLikelihood())
    draws = MCDropout(draws=400, dropout=0.25).fit(
        autoencoder, random(5, 10).float(), training=Training(epochs=0), seed=0
    )
    values = torch.cat([mask.flatten() for mask in draws.masks])
    assert set(values.tolist()) == {0.0, 1.0}
    # about 50,000 coin tosses: five standard errors
    assert values.mean().item() == pytest.approx(0.75, abs=5 * math.sqrt(0.25 * 0.75 / len(values)))


def test_without_dropout_all_masks_agree_with_no_mask():
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    rows = random(6, 4).float()
    draws = MCDropout(draws=3, dropout=0).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
    torch.testing.assert_close(draws.nll(rows), autoencoder.nll(draws.weights, rows[None]).expand(3, -1))


def test_a_vae_draw_moves_the_code_by_its_noise_times_sigma():
    rows = random(6, 4).float()
    autoencoder = Autoencoder(Dense(skips=False).build((4,), code_noise=True), GaussianLikelihood())
    draws = VAE(draws=3).fit(autoencoder, rows, training=Training(epochs=2), seed=0)
    code = autoencoder.network.encode(draws.weights, rows[None], None)
    for draw in range(3):
        z = code.latent + draws.noise[draw] * torch.exp(code.log_variance / 2)
        decoded = autoencoder.network.decode(draws.weights, type(code)(z), None)
        torch.testing.assert_close(draws.nll(rows)[draw], ((rows - decoded.location) ** 2).mean(2)[0] / 2)
