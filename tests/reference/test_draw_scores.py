"""Scores other than the NLL against plain formulas, in double precision."""

import numpy as np
import pytest
import torch

from indubio.judging import PredictedNoise, ReconstructionVariance, Waic
from indubio.networks import Autoencoder, Conv1d, Dense, GaussianLikelihood, Training
from indubio.posteriors import AnchoredEnsemble, Draws, MCDropout
from tests.engines import ENGINES, run_on
from tests.reference.plain_network import passed

RNG = np.random.default_rng(0)
NETWORKS = {"dense": (Dense(layer_norm=True, latent=4), (5,)), "conv1d": (Conv1d(linear=(10,)), (23, 2))}
POSTERIORS = {"ensemble": AnchoredEnsemble(members=5), "dropout": MCDropout(draws=5, dropout=0.2)}
PARTS = (2, 3)


@pytest.fixture(params=[(n, p, e) for n in NETWORKS for p in POSTERIORS for e in ENGINES], ids=str)
def case(request, monkeypatch) -> tuple[Draws, np.ndarray]:
    """Draws in double precision, and rows."""
    network, posterior, engine = request.param
    run_on(engine, monkeypatch)
    architecture, shape = NETWORKS[network]
    rows = RNG.random((30, *shape))
    likelihood = GaussianLikelihood(noise="per_example")
    autoencoder = Autoencoder(architecture.build(shape, output_noise=True), likelihood)
    return POSTERIORS[posterior].fit(autoencoder, rows, training=Training(epochs=3), seed=0), rows


def test_the_epistemic_score_is_the_variance_of_the_reconstruction(case):
    draws, rows = case
    back = draws.reconstruction(rows)
    assert back.dtype == np.float64
    expected = np.stack([back[:2].var(axis=0), back[2:].var(axis=0)])
    scores, apart = ReconstructionVariance(draws=draws, parts=PARTS).nll_apart(rows)
    np.testing.assert_allclose(apart, expected, rtol=1e-9)
    np.testing.assert_allclose(scores, expected.reshape(2, 30, -1).mean(axis=2), rtol=1e-9)


def test_the_waic_is_mean_and_variance_of_the_nll(case):
    draws, rows = case
    nll = draws.nll(rows)
    expected = [own.mean(axis=0) + own.var(axis=0) for own in (nll[:2], nll[2:])]
    scores, apart = Waic(draws=draws, parts=PARTS).nll_apart(rows)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    np.testing.assert_allclose(apart.reshape(2, 30, -1).mean(axis=2), expected, rtol=1e-9)


def test_a_value_has_the_part_of_the_waic_that_varies_with_the_score(case):
    draws, rows = case
    nll, each = draws.nll_apart(rows)
    _, apart = Waic(draws=draws, parts=(5,)).nll_apart(rows)
    flat = each.reshape(5, 30, -1)
    for row in (0, 7):
        for value in (0, 3):
            covariance = np.cov(flat[:, row, value], nll[:, row], bias=True)[0, 1]
            expected = flat[:, row, value].mean() + covariance
            np.testing.assert_allclose(apart.reshape(30, -1)[row, value], expected, rtol=1e-9)


def test_the_aleatoric_score_is_the_variance_that_the_network_gives(case):
    draws, rows = case
    scores, apart = PredictedNoise(draws=draws, parts=(5,)).nll_apart(rows)
    for draw in range(5):
        own = {name: torch.tensor(weight[draw % len(weight)]) for name, weight in draws.weights.items()}
        masks = None if draws.masks is None else [torch.tensor(mask[draw]) for mask in draws.masks]
        found = passed(draws.autoencoder.network, own, torch.tensor(rows), masks=masks, noise=None)
        expected = (found.log_variance.exp() + 1e-6).numpy()
        np.testing.assert_allclose(apart[draw], expected, rtol=1e-9)
        np.testing.assert_allclose(scores[draw], expected.reshape(30, -1).mean(axis=1), rtol=1e-9)


def test_draws_that_are_one_and_the_same_have_no_variance():
    autoencoder = Autoencoder(Dense().build((3,)), GaussianLikelihood())
    rows = RNG.random((10, 3))
    one = AnchoredEnsemble(members=1).fit(autoencoder, rows, training=Training(epochs=1), seed=0)
    weights = {name: np.repeat(weight, 4, axis=0) for name, weight in one.weights.items()}
    same = Draws(autoencoder, 4, weights)
    np.testing.assert_array_equal(ReconstructionVariance(draws=same, parts=(4,)).nll(rows), np.zeros((1, 10)))
    np.testing.assert_allclose(Waic(draws=same, parts=(4,)).nll(rows), one.nll(rows), rtol=1e-12)
