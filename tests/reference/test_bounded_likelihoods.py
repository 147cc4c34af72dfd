"""Likelihoods of values within [0, 1], at chosen reconstructions and scales: against scipy, torch and integrals."""

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from torch import distributions

from indubio.networks import (
    BetaLikelihood,
    ContinuousBernoulliLikelihood,
    Dense,
    Dynamics,
    Likelihood,
    TruncatedGaussianLikelihood,
)
from indubio.numerics import streams
from tests.engines import ENGINES
from tests.reference.engine_cases import Case

# Sigmoids of these are the reconstructions: from next to 0, through all ways near 1/2, to next to 1.
LOGITS = np.array([-30, -12, -5, -2, -0.7, -0.69, -0.1, -1e-3, -1e-7, 0, 1e-9, 1e-4, 0.3, 0.694, 1, 3, 8, 15])
M = special.expit(LOGITS)
VALUES = np.array([0, 1e-9, 1e-3, 0.1, 0.3, 0.5, 0.62, 0.9, 0.999, 1])
SCALES = (0.002, 0.05, 0.3, 1.0, 20.0)
EDGE = 0.01
HALF_LOG = np.log(2 * np.pi) / 2


def at(likelihood: Likelihood, scale: float | None = None, dtype: type = np.float64) -> tuple[Case, np.ndarray]:
    """A case, and weights that reconstruct M whatever is put in, with this learned scale where there is one."""
    case = Case(Dense(widths=(2,), latent=1, skips=False, bias=True), M.shape, likelihood)
    values = np.zeros((1, case.autoencoder.weight_count()), dtype)
    named = case.autoencoder.named(values)
    named["decoder.1.bias"][:] = LOGITS
    floor = likelihood.least_variance
    if likelihood.output_noise:
        named["output_log_variance.bias"][:] = np.log(scale**2 - floor)
    elif "likelihood.log_variance" in named:
        named["likelihood.log_variance"][:] = np.log(scale**2 - floor)
    return case, values


def rows_of(dtype: type = np.float64) -> np.ndarray:
    """Each value at every reconstruction."""
    return np.repeat(VALUES[:, None], len(M), axis=1).astype(dtype)


def truncated_density(x: np.ndarray, m: np.ndarray, s: float) -> np.ndarray:
    return stats.truncnorm.logpdf(x, -m / s, (1 - m) / s, m, s) + HALF_LOG


def beta_density(x: np.ndarray, m: np.ndarray, s: float) -> np.ndarray:
    mean = EDGE + (1 - 2 * EDGE) * m
    return stats.beta.logpdf(EDGE + (1 - 2 * EDGE) * x, mean / s**2, (1 - mean) / s**2)


SCALED = {
    "truncated": (TruncatedGaussianLikelihood, truncated_density, {}),
    "beta": (BetaLikelihood, beta_density, {"edge": EDGE}),
}
NOISES = ("fixed", "per_feature", "per_example")


def settings_of(kind: type[Likelihood], noise: str, scale: float, given: dict[str, float]) -> Likelihood:
    """With this scale, fixed; or a floor below it."""
    return kind(noise=noise, scale=scale, smallest_scale=0.5 * scale, **given)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", SCALED)
def test_the_score_of_a_value_is_the_log_density_of_scipy(name, noise, scale, engine):
    kind, density, given = SCALED[name]
    case, values = at(settings_of(kind, noise, scale, given), scale)
    scorer = ENGINES[engine](case.autoencoder).scorer(1, values, None, None)
    rows = rows_of()
    expected = density(rows, M, scale)
    # With a concentration of 250,000 logarithms of gamma functions are of 3 million, and rounded accordingly.
    np.testing.assert_allclose(scorer.nll_apart(rows)[1][0], -expected, rtol=1e-10, atol=3e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_score_of_a_continuous_bernoulli_is_that_of_torch(engine):
    case, values = at(ContinuousBernoulliLikelihood())
    scorer = ENGINES[engine](case.autoencoder).scorer(1, values, None, None)
    rows = rows_of()
    # By its formula, in 1 - m as the sigmoid of -logit, but close to 1/2, where torch has a series.
    near = np.abs(LOGITS) < 0.004
    with np.errstate(invalid="ignore", divide="ignore"):
        constant = np.log(-LOGITS / (special.expit(-LOGITS) - M))
    by_formula = -rows * np.log(M) - (1 - rows) * np.log(special.expit(-LOGITS)) - constant
    by_torch = -distributions.ContinuousBernoulli(torch.tensor(M)).log_prob(torch.tensor(rows)).numpy()
    found = scorer.nll_apart(rows)[1][0]
    np.testing.assert_allclose(found[:, ~near], by_formula[:, ~near], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[:, near], by_torch[:, near], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "likelihood",
    [
        ContinuousBernoulliLikelihood(),
        *(TruncatedGaussianLikelihood(noise="fixed", scale=scale) for scale in (0.1, 1.0)),
        *(BetaLikelihood(noise="fixed", scale=scale, edge=EDGE) for scale in (0.1, 0.5)),
    ],
    ids=str,
)
def test_the_density_over_all_values_sums_to_one(likelihood, engine):
    case, values = at(likelihood)
    scorer = ENGINES[engine](case.autoencoder).scorer(1, values, None, None)
    constant = HALF_LOG if isinstance(likelihood, TruncatedGaussianLikelihood) else 0.0

    def density(x: float) -> np.ndarray:
        return np.exp(-scorer.nll_apart(np.full((1, len(M)), x))[1][0, 0] - constant)

    found, _ = integrate.quad_vec(density, 0, 1, epsabs=1e-9, epsrel=1e-9, limit=400)
    expected = np.ones(len(M))
    if isinstance(likelihood, BetaLikelihood):  # shrunk to [edge, 1 - edge], and nothing is ever beyond
        mean, found = EDGE + (1 - 2 * EDGE) * M, found * (1 - 2 * EDGE)
        whole = stats.beta(mean / likelihood.scale**2, (1 - mean) / likelihood.scale**2)
        expected = whole.cdf(1 - EDGE) - whole.cdf(EDGE)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [*SCALED, "continuous_bernoulli"])
@pytest.mark.parametrize("scale", SCALES[1:])
def test_slopes_are_those_of_autograd_wherever_the_reconstruction_is(name, scale, engine):
    # Without friction and noise a chain moves by its step times the slope: what it moved by is the gradient.
    kind, _, given = SCALED.get(name, (None, None, {}))
    likelihood = ContinuousBernoulliLikelihood() if kind is None else settings_of(kind, "per_feature", scale, given)
    case, values = at(likelihood, scale)
    values[0, -len(M) :] += np.linspace(0, 0.2, len(M))
    rows, step = rows_of()[1:-1], 2.0**-30
    chain = Dynamics(prior_scale=0, step_size=step, friction=0.0, spread=0.0)
    sampler = ENGINES[engine](case.autoencoder).sampler(chain, values, streams(0, 1)[0], batch=len(rows))
    sampler.steps(rows, np.arange(len(rows))[None])
    moved = case.autoencoder.named((values - sampler.values()) / step)

    theta = torch.tensor(values[0], requires_grad=True)
    case.nll(theta, torch.tensor(rows)).backward()
    expected = case.autoencoder.named(theta.grad.numpy()[None])
    # Weights of about 1 move in steps of 2e-16, so that a slope is told to 2e-7; torch's own continuous Bernoulli keeps
    # off 0 and 1, and where the sigmoid is flat nothing is left of either.
    for parameter in ("decoder.1.bias", "likelihood.log_variance"):
        if parameter in moved:
            clear = np.abs(LOGITS) < 20
            np.testing.assert_allclose(moved[parameter][0, clear], expected[parameter][0, clear], rtol=2e-6, atol=4e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "likelihood",
    [
        ContinuousBernoulliLikelihood(),
        *(kind(noise=noise) for kind in (TruncatedGaussianLikelihood, BetaLikelihood) for noise in NOISES),
    ],
    ids=str,
)
@pytest.mark.parametrize("log_variance", [-200.0, 0.0, 80.0])
def test_scores_and_steps_stay_finite_at_reconstructions_of_exactly_0_and_1(likelihood, log_variance, engine):
    case, values = at(likelihood, 2.0, np.float32)
    named = case.autoencoder.named(values)
    named["decoder.1.bias"][0, :2] = [-1e4, 1e4]
    for name in ("output_log_variance.bias", "likelihood.log_variance"):
        if name in named:
            named[name][:] = log_variance
    rows = rows_of(np.float32)
    assert np.isfinite(ENGINES[engine](case.autoencoder).scorer(1, values, None, None).nll(rows)).all()
    chain = Dynamics(prior_scale=0, step_size=1e-30, friction=0.0, spread=0.0)
    sampler = ENGINES[engine](case.autoencoder).sampler(chain, values, streams(0, 1)[0], batch=len(rows))
    assert np.isfinite(sampler.steps(rows, np.arange(len(rows))[None]))
    assert np.isfinite(sampler.values()).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_single_precision_agrees_with_double(engine):
    for kind, _, given in SCALED.values():
        for scale in SCALES[1:4]:
            likelihood = settings_of(kind, "fixed", scale, given)
            scores = []
            for dtype in (np.float32, np.float64):
                case, values = at(likelihood, scale, dtype)
                scores.append(
                    ENGINES[engine](case.autoencoder).scorer(1, values, None, None).nll_apart(rows_of(dtype))[1]
                )
            np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_ends_count_as_the_edge_of_a_beta_distribution(engine):
    scores = {}
    for edge in (0.1, 0.001):
        case, values = at(BetaLikelihood(noise="fixed", scale=0.5, edge=edge))
        scores[edge] = ENGINES[engine](case.autoencoder).scorer(1, values, None, None).nll_apart(rows_of())[1][0]
        mean = edge + (1 - 2 * edge) * M
        np.testing.assert_allclose(scores[edge][0], -stats.beta.logpdf(edge, 4 * mean, 4 * (1 - mean)), rtol=1e-9)
        np.testing.assert_allclose(scores[edge][-1], -stats.beta.logpdf(1 - edge, 4 * mean, 4 * (1 - mean)), rtol=1e-9)
    middle = np.abs(M - 0.5) < 0.1
    assert (scores[0.001][0, middle] > scores[0.1][0, middle]).all()  # the smaller the edge, the more an end counts
