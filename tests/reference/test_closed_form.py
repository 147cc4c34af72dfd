"""Posteriors in closed form against plain formulas: least squares by numpy, evidence by SciPy, attention by loops."""

import numpy as np
import pytest
import torch
from scipy import stats

from indubio.networks import (
    Attention,
    Autoencoder,
    Cosine,
    Cosines,
    GaussianLikelihood,
    NormalEquations,
    Solution,
    StudentLikelihood,
    Training,
    in_blocks,
)
from indubio.networks.engine.torch_engine import TorchEngine
from indubio.networks.training.normal_equations import noisy
from indubio.numerics import linear_algebra, stream
from indubio.posteriors import Prototypes, RandomFeatures
from tests.engines import CORE
from tests.reference.plain_network import nll_of_values, passed

NOISE = (0.1, 1.0)


def rows_of(count: int = 300, values: int = 5, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.normal(size=(count, 2)) @ random.normal(size=(2, values)) + 0.2).astype(np.float32)


def equations(rows: np.ndarray, units: int = 40, copies: int = 3) -> NormalEquations:
    encoder = Cosine.drawn(stream(0, 3, 0), rows.shape[1], units)
    return NormalEquations.none(encoder, copies).with_rows(in_blocks(rows), NOISE, 0, 0)


@pytest.mark.parametrize("size", [1, 5, 64, 65, 200])
def test_factors_and_solutions_are_numpys(size):
    random = np.random.default_rng(size)
    root = random.normal(size=(size + 20, size))
    matrix, right = root.T @ root, random.normal(size=(size, 7))
    np.testing.assert_allclose(linear_algebra.gram(root), matrix, rtol=1e-12, atol=1e-12)
    factor = linear_algebra.cholesky(matrix)
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(linear_algebra.solved(factor, right), np.linalg.solve(matrix, right), rtol=1e-7)
    np.testing.assert_allclose(linear_algebra.back(factor, right), np.linalg.solve(factor.T, right), rtol=1e-7)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        linear_algebra.cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_the_decoder_is_ridge_regression_from_the_noisy_rows():
    """With as many pseudo-rows as the prior has, ordinary least squares gives the same."""
    rows = rows_of()
    encoder = Cosine.drawn(stream(0, 3, 0), 5, 40)
    seen = []

    class Watched(Cosine):
        def features(self, rows):
            seen.append(super().features(rows))
            return seen[-1]

    sums = NormalEquations.none(Watched(encoder.weight, encoder.bias), 3).with_rows(in_blocks(rows), NOISE, 0, 0)
    features, targets = np.concatenate(seen), np.tile(rows.astype(np.float64), (3, 1))
    prior = np.diag([np.sqrt(1e-3 * len(features))] * 40 + [0.0])
    expected = np.linalg.lstsq(
        np.concatenate([features, prior]), np.concatenate([targets, np.zeros((41, 5))]), rcond=None
    )[0]
    np.testing.assert_allclose(Solution.of(sums, 1e-3).mean, expected, rtol=1e-5, atol=1e-6)


def test_draws_of_the_decoder_have_the_posteriors_mean_and_covariance():
    sums = equations(rows_of(60, 2), units=4, copies=1)
    solution = Solution.of(sums, 1e-2)
    drawn = np.stack([solution.drawn(stream(1, 6, draw)) for draw in range(4000)])
    matrix = sums.pairs + np.diag([1e-2 * sums.rows] * 4 + [0.0])
    for value in range(2):
        covariance = solution.noise_variance[value] * np.linalg.inv(matrix)
        error = np.sqrt(np.diag(covariance) / 4000)
        assert (np.abs(drawn[:, :, value].mean(axis=0) - solution.mean[:, value]) < 4.5 * error).all()
        found = np.cov(drawn[:, :, value].T)
        np.testing.assert_allclose(found, covariance, atol=6 * np.abs(covariance).max() / np.sqrt(2000))


def test_the_evidence_orders_priors_as_the_marginal_likelihood_does():
    """SciPy's normal density of all targets, the decoder integrated out; the constant has a wide prior."""
    rows = rows_of(50, 2)
    sums = equations(rows, units=6, copies=1)
    features = sums.encoder.features(noisy(rows.astype(np.float64), NOISE, stream(0, 4, 0)))

    def plain(ridge: float) -> float:
        found = Solution.of(sums, ridge)
        total = 0.0
        for value in range(2):
            variance = found.noise_variance[value]
            prior = np.array([variance / (ridge * sums.rows)] * 6 + [1e5 * variance])
            covariance = features * prior @ features.T + variance * np.eye(len(rows))
            total += stats.multivariate_normal(np.zeros(len(rows)), covariance).logpdf(rows[:, value])
        return total / len(rows)

    ridges = [1e-5, 1e-3, 1e-1, 10.0]
    found = np.array([Solution.of(sums, ridge).evidence for ridge in ridges])
    expected = np.array([plain(ridge) for ridge in ridges])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-3, atol=1e-4)


def test_rows_that_are_added_later_give_what_one_fit_gives():
    rows = rows_of(3000, 4)
    whole = equations(rows)
    later = equations(rows[:2048]).with_rows(in_blocks(rows[2048:], first=2), NOISE, 0, 0)
    for name in ("pairs", "targets", "squares"):
        np.testing.assert_allclose(getattr(later, name), getattr(whole, name), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(later.solution(1e-3).mean, whole.solution(1e-3).mean, rtol=0, atol=1e-10)


def test_sums_of_several_workers_are_those_of_one():
    rows = rows_of(3000, 4)
    whole, blocks = equations(rows), in_blocks(rows)
    first, *others = (NormalEquations.none(whole.encoder, 3).with_rows([block], NOISE, 0, 0) for block in blocks)
    joined = first.joined(others)
    assert joined.rows == whole.rows
    np.testing.assert_allclose(joined.solution(1e-3).mean, whole.solution(1e-3).mean, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "likelihood", [GaussianLikelihood(), StudentLikelihood(noise="per_feature", freedom=2.0)], ids=["unit", "student"]
)
@pytest.mark.parametrize("kind", ["cosines", "attention"])
def test_both_engines_score_as_plain_torch_does(kind, likelihood):
    rows = rows_of(30).astype(np.float64)
    architecture = {"cosines": Cosines(units=20), "attention": Attention(units=20)}[kind]
    posterior = {"cosines": RandomFeatures(draws=2, units=20), "attention": Prototypes(draws=2)}[kind]
    autoencoder = Autoencoder(architecture.build((5,)), likelihood)
    draws = posterior.fit(autoencoder, rows, training=Training(), seed=0)
    new = torch.tensor(np.concatenate([rows_of(9, seed=1).astype(np.float64), 50 * rows[:2]]))
    expected = []
    for draw in range(2):
        weights = {name: torch.tensor(weight[draw]) for name, weight in draws.weights.items()}
        found = passed(autoencoder.network, weights, new)
        expected.append(nll_of_values(likelihood, weights, new, found).numpy())
    flat = autoencoder.flat(draws.weights)
    engines = [TorchEngine(autoencoder).scorer(2, flat, None, None)]
    if CORE is not None:
        engines.append(draws)
    for engine in engines:
        nll, apart = engine.nll_apart(new.numpy())
        np.testing.assert_allclose(apart, expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(nll, np.mean(expected, axis=2), rtol=1e-8, atol=1e-9)


def test_prototypes_take_a_row_for_the_mean_of_the_nearest_remembered_ones():
    rows = rows_of(40, 3).astype(np.float64)
    autoencoder = Autoencoder(Attention(units=30).build((3,)), StudentLikelihood(noise="per_feature"))
    draws = Prototypes(draws=1, bandwidth=0.3).fit(autoencoder, rows, training=Training(), seed=0)
    remembered = draws.weights["decoder.0.weight"][0]
    assert {tuple(row) for row in remembered} <= {tuple(row) for row in rows}
    assert len({tuple(row) for row in remembered}) == 30
    # What a squared distance of each value counts for, by the scale of its noise; and h by the definition.
    counts = np.exp(-draws.weights["likelihood.log_variance"][0])
    counts /= counts.mean()
    distances = [[sum(counts * (a - b) ** 2) for b in remembered] for a in remembered]
    fifth = np.median([sorted(one)[5] for one in distances])  # the row itself is the first
    new = rows_of(8, 3, seed=5).astype(np.float64)
    for row, found in zip(new, draws.reconstruction(new)[0], strict=True):
        near = np.array([np.exp(-sum(counts * (row - one) ** 2) / (2 * 0.3 * fifth)) for one in remembered])
        np.testing.assert_allclose(found, near @ remembered / near.sum(), rtol=1e-9)


def test_a_small_bandwidth_gives_the_nearest_neighbour():
    rows = rows_of(40, 3).astype(np.float64)
    autoencoder = Autoencoder(Attention(units=40).build((3,)), GaussianLikelihood())
    draws = Prototypes(draws=1, share=1.0, bandwidth=1e-6).fit(autoencoder, rows, training=Training(), seed=0)
    new = rows_of(20, 3, seed=5).astype(np.float64)
    counts = (
        np.diff(draws.weights["encoder.0.weight"][0], axis=1)[:, 0]
        / np.diff(draws.weights["decoder.0.weight"][0], axis=0)[0]
    )  # importance over h^2
    nearest = [rows[np.argmin(((rows - row) ** 2 * counts).sum(axis=1))] for row in new]
    np.testing.assert_allclose(draws.reconstruction(new)[0], nearest, atol=1e-6)


@pytest.mark.parametrize("posterior", [Prototypes(draws=2), RandomFeatures(draws=2, units=20)], ids=["proto", "cosine"])
def test_rows_that_are_all_the_same_are_learned_and_others_stand_out(posterior):
    rows = np.tile(np.float32([1.0, -2.0, 0.5]), (30, 1))
    network = posterior.architecture_for((3,), 30).build((3,))
    draws = posterior.fit(
        Autoencoder(network, StudentLikelihood(noise="per_feature")), rows, training=Training(), seed=0
    )
    same, other = draws.nll(np.float32([[1.0, -2.0, 0.5], [1.0, -2.0, 1.5]])).mean(axis=0)
    assert np.isfinite([same, other]).all()
    assert same < other
