"""SWAG and cyclical chains against plain numpy, and a model whose posterior is known."""

import numpy as np
import pytest
import torch

from indubio.networks import Autoencoder, Dense, FitContext, GaussianLikelihood, Training, fresh_weights
from indubio.networks.training.chain_moves import KeptPlace
from indubio.numerics import stream, streams
from indubio.posteriors import SGHMC
from indubio_lab.posteriors import SWAG, CyclicalSGMCMC, iterates
from indubio_lab.posteriors.cyclical_sgmcmc import shares
from indubio_lab.posteriors.iterates import Iterates, steady
from tests.engines import ENGINES, run_on
from tests.reference.engine_cases import Case
from tests.reference.test_mixing import linear

RNG = np.random.default_rng(0)
ROWS = RNG.random((40, 3), dtype=np.float32)


def recorded(count: int, size: int = 50) -> np.ndarray:
    return (5 + RNG.normal(size=(count, size))).astype(np.float32)


def remembered(places: np.ndarray, rank: int) -> Iterates:
    found = Iterates(rank)
    for place in places:
        found.add(place)
    return found


@pytest.mark.parametrize(("count", "rank"), [(30, 20), (5, 20), (20, 20), (2, 2)])
def test_what_is_remembered_of_iterates_is_what_all_of_them_say(count, rank):
    places = recorded(count)
    found = remembered(places, rank)
    exact = places.astype(float)
    np.testing.assert_allclose(found.mean, exact.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.variances, exact.var(axis=0), rtol=1e-9)
    running = np.stack([exact[: place + 1].mean(axis=0) for place in range(count)])
    np.testing.assert_allclose(found.deviations, (exact - running)[-rank:], rtol=1e-5, atol=1e-6)


def test_samples_have_half_the_covariance_of_each_weight_and_half_that_of_the_last_iterates():
    found = remembered(recorded(12, size=4), rank=6)
    samples = found.drawn(stream(0, 0, 0), 100_000)
    exact = np.diag(found.variances) / 2 + found.deviations.T @ found.deviations / (2 * (6 - 1))
    # A covariance from as many samples is known to about 1 / sqrt(samples) of its diagonal: five times that.
    np.testing.assert_allclose(np.cov(samples.T), exact, atol=5 * exact.max() / np.sqrt(len(samples)))
    np.testing.assert_allclose(samples.mean(axis=0), found.mean, atol=5 * np.sqrt(exact.max() / len(samples)))


def test_weights_that_never_moved_have_no_spread():
    found = remembered(np.repeat(recorded(1), 7, axis=0), rank=3)
    np.testing.assert_allclose(found.drawn(stream(0, 0, 0), 3), np.repeat(found.mean[None], 3, axis=0), atol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_iterates_are_those_of_gradient_descent_with_momentum(engine, monkeypatch):
    run_on(engine, monkeypatch)
    case, places = Case(Dense(), (3,)), []
    rows = case.rows()
    add = Iterates.add
    monkeypatch.setattr(Iterates, "add", lambda self, weights: (places.append(weights.copy()), add(self, weights)))
    settings = {"rate": 0.5, "momentum": 0.8, "collected": 6, "every": 2, "prior_scale": 0.01}
    SWAG(draws=2, members=1, **settings).fit(
        case.autoencoder, rows, training=Training(epochs=0, batch_size=len(rows)), seed=0
    )
    theta = torch.tensor(fresh_weights(case.autoencoder, streams(0, 1), rows.dtype)[0], requires_grad=True)
    sgd, expected = torch.optim.SGD([theta], lr=0.5, momentum=0.8), []
    for _ in range(12):
        sgd.zero_grad()
        (case.nll(theta, torch.tensor(rows)) + 0.01 * theta.square().sum()).backward()
        sgd.step()
        expected.append(theta.detach().numpy().copy())
    np.testing.assert_allclose(np.stack(places), expected[1::2], rtol=1e-9)


def test_members_share_the_draws_and_the_first_is_the_only_one_of_one():
    autoencoder, training = Autoencoder(Dense().build((3,)), GaussianLikelihood()), Training(epochs=2)
    quick = {"collected": 4, "every": 2}
    one = SWAG(draws=4, members=1, **quick).fit(autoencoder, ROWS, training=training, seed=0)
    three = SWAG(draws=10, members=3, **quick).fit(autoencoder, ROWS, training=training, seed=0)
    for name, weight in one.weights.items():
        # Torch rounds networks that are trained side by side differently; the core's bits have a test of their own.
        np.testing.assert_allclose(three.weights[name][:4], weight, rtol=1e-5, atol=1e-7)
        assert not np.allclose(three.weights[name][4], weight[0], atol=1e-3)
    assert SWAG(draws=2, members=9, **quick).fit(autoencoder, ROWS, training=training, seed=0).count == 2


@pytest.mark.parametrize("noise", ["unit", "per_feature", "per_example"])
def test_draws_explain_the_rows_about_as_well_as_what_they_are_around_whatever_the_likelihood(noise):
    likelihood = GaussianLikelihood(noise=noise)
    autoencoder = Autoencoder(Dense().build((3,), output_noise=likelihood.output_noise), likelihood)
    draws = SWAG(draws=20).fit(autoencoder, ROWS, training=Training(epochs=60), seed=0)
    of_mean, of_draws = draws.facts.values()
    nat = 2 * of_mean if noise == "unit" else 1.0  # the residuals' variance, or that which was learned
    assert of_mean - nat / 2 < of_draws < of_mean + nat


def test_the_rate_is_the_first_that_does_not_lead_too_far(monkeypatch):
    context = FitContext(
        autoencoder=Autoencoder(Dense().build((3,)), GaussianLikelihood()), rows=ROWS, training=Training(), seed=0
    )
    tried = []
    places = {3.0: 5.0, 0.3: 1.0, 0.03: 0.0, 0.003: 0.0}

    def walked(context, values, own, legs):
        tried.append(legs)
        yield from [KeptPlace(values + places[legs], 0.5)] * 3

    monkeypatch.setattr(iterates, "walk", walked)
    monkeypatch.setattr(iterates, "mean_score", lambda _, weights: float(np.abs(weights).max()))
    monkeypatch.setattr(iterates, "temperature_of", lambda *_: 0.01)
    for rank in (None, 2):  # by the places, and by the Gaussian of them
        tried.clear()
        rate, _ = steady(context, np.zeros((1, 4)), stream(0, 0, 0), list(places), lambda rate: rate, rank=rank)
        assert (rate, tried) == (0.03, [3.0, 0.3, 0.03])


# ----- cyclical chains


def test_steps_fall_as_a_cosine_from_the_first_to_nothing():
    found = np.array(shares(50))
    np.testing.assert_allclose(found, (1 + np.cos(np.pi * np.arange(50) / 50)) / 2, rtol=1e-5)
    assert found[0] == 1
    assert (np.diff(found) < 0).all()


def test_a_cycle_explores_without_noise_and_keeps_the_ends_of_its_later_moves():
    posterior = CyclicalSGMCMC(draws=7, cycles=2, burn_in=5, thinning=3, step_size=0.4, friction=0.1)
    moves = posterior.chain(examples=50, temperature=0.5, prior_scale=0.25)
    legs = posterior.legs(moves, 7)
    assert [leg.moves for leg in legs] == [1] * (2 * 5 + 7 * 3)
    assert np.flatnonzero([leg.kept for leg in legs]).tolist() == [7, 10, 13, 16, 24, 27, 30]
    for start, length in ((0, 17), (17, 14)):
        own = [leg.chain for leg in legs[start : start + length]]
        assert [chain.spread for chain in own[:5]] == [0.0] * 5
        for chain, share in zip(own, shares(length), strict=True):
            assert chain.step_size == 0.4 * share
            assert (chain.friction, chain.prior_scale) == (0.1, 0.25)
        # The kick of SGHMC at this step size: the temperature is the same all along.
        late = own[-2]
        same = SGHMC(step_size=late.step_size, friction=0.1).chain(examples=50, temperature=0.5, prior_scale=0.25)
        assert late.spread == pytest.approx(same.spread)


@pytest.mark.slow  # 9,000 moves
def test_on_a_linear_model_the_cycles_have_the_spread_of_the_exact_posterior():
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32) @ np.array([[1, 0.5], [0, 1]], np.float32)
    temperature, prior_scale, draws = 0.02, 0.05, 400
    posterior = CyclicalSGMCMC(
        draws=draws,
        cycles=4,
        burn_in=200,
        thinning=20,
        step_size=0.2,
        friction=0.1,
        temperature=temperature,
        prior_scale=prior_scale,
    )
    fitted = posterior.fit(linear(2), rows, training=Training(epochs=100, batch_size=40), seed=0)
    precision = len(rows) / temperature * (rows.T @ rows / len(rows) / 2 + 2 * prior_scale * np.eye(2))
    exact = np.sqrt(np.diag(np.linalg.inv(precision)))
    unused, weight = fitted.weights.values()
    # The last moves of a cycle hardly lead anywhere, so its draws are worth about half of as many.
    assert weight.std(axis=0).mean(axis=0) == pytest.approx(exact, rel=4 / np.sqrt(2 * draws))
    of_prior = np.sqrt(temperature / (2 * len(rows) * prior_scale))
    assert unused.std() == pytest.approx(of_prior, rel=4 / np.sqrt(draws))
    assert (fitted.mixing.what, fitted.mixing.chains) == ("cycle", 4)
    assert fitted.mixing.mixed


def test_cycles_are_compared_and_told_of_as_cycles():
    autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
    quick = {"burn_in": 3, "thinning": 2, "step_size": 0.01}
    fitted = CyclicalSGMCMC(draws=16, cycles=3, **quick).fit(autoencoder, ROWS, training=Training(epochs=2), seed=0)
    assert fitted.mixing.chains == 3
    assert str(fitted.mixing).startswith("the 3 cycles")
    few = CyclicalSGMCMC(draws=8, cycles=3, **quick).fit(autoencoder, ROWS, training=Training(epochs=2), seed=0)
    assert few.mixing is None  # 3, 3 and 2 draws
