"""The last layer's posterior and its evidence, against Bayesian linear regression in plain numpy and scikit-learn."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.linear_model import BayesianRidge

from indubio import Detector, TrainScores, load, save
from indubio.errors import ConfigError
from indubio.networks import (
    Autoencoder,
    Conv1d,
    Dense,
    FitContext,
    GaussianLikelihood,
    PointWeights,
    Training,
    fit_network,
)
from indubio.numerics import stream
from indubio.posteriors import Deterministic, Draws
from indubio.report import html_report
from indubio_lab.posteriors import Laplace
from indubio_lab.posteriors.evidence import evidence_of
from indubio_lab.posteriors.laplace import LastLayer, last_weights
from tests.end_to_end.test_commands import run
from tests.engines import ENGINES, run_on

RNG = np.random.default_rng(0)
NETWORKS = {
    "dense": (Dense(), (4,)),
    "dense, bias, no skips": (Dense(bias=True, skips=False), (4,)),
    "dense, any number": (Dense(last_activation="none", bias=True), (4,)),
    "dense on windows": (Dense(widths=(7,)), (5, 2)),
    "conv1d": (Conv1d(linear=(6,), channels=(3, 4), kernels=(4, 2)), (14, 2)),
    "conv1d, bias": (Conv1d(linear=(6,), bias=True), (13, 2)),
}


def context_of(network: str, rows: int = 30) -> FitContext:
    architecture, shape = NETWORKS[network]
    autoencoder = Autoencoder(architecture.build(shape), GaussianLikelihood())
    values = RNG.uniform(0.1, 0.9, size=(rows, *shape))
    return FitContext(autoencoder=autoencoder, rows=values, training=Training(epochs=3), seed=0)


def trained_of(context: FitContext) -> np.ndarray:
    return fit_network(PointWeights(prior_scale=0.0), context)[0]


def regression(rows: int = 60, features: int = 5) -> tuple[np.ndarray, np.ndarray, BayesianRidge]:
    """A regression, and scikit-learn's solution of it without hyperpriors."""
    given = RNG.normal(size=(rows, features))
    target = given @ RNG.normal(size=features) + 0.3 * RNG.normal(size=rows)
    flat = dict.fromkeys(("alpha_1", "alpha_2", "lambda_1", "lambda_2"), 0.0)
    book = BayesianRidge(fit_intercept=False, max_iter=5000, tol=1e-14, compute_score=True, **flat)
    return given, target, book.fit(given, target)


# ----- evidence


def test_prior_and_noise_are_those_of_scikit_learns_evidence():
    given, target, book = regression()
    misfit = ((target - given @ book.coef_) ** 2).sum()
    eigenvalues = np.linalg.eigvalsh(given.T @ given)[None]
    found = evidence_of(eigenvalues, np.array([misfit]), (book.coef_**2).sum(), len(given))
    assert found.prior_precision == pytest.approx(book.lambda_, rel=5e-3)  # three digits
    assert 1 / found.noise[0] == pytest.approx(book.alpha_, rel=5e-3)
    assert found.log == pytest.approx(book.scores_[-1], rel=1e-5)


def test_at_the_mode_the_evidence_is_the_probability_of_all_targets():
    given, target, _ = regression(rows=20, features=3)
    alpha, noise = 0.7, 0.2
    mode = np.linalg.solve(given.T @ given / noise + alpha * np.eye(3), given.T @ target / noise)
    misfit = ((target - given @ mode) ** 2).sum()
    eigenvalues = np.linalg.eigvalsh(given.T @ given)[None]
    decided = (eigenvalues / (eigenvalues + alpha * noise)).sum()
    # With a misfit for which this noise is the best one; the difference to the true misfit is then added again.
    best = noise * (len(given) - decided)
    found = evidence_of(eigenvalues, np.array([best]), (mode**2).sum(), len(given), alpha)
    assert found.noise[0] == pytest.approx(noise, rel=5e-3)
    covariance = noise * np.eye(len(given)) + given @ given.T / alpha
    exact = multivariate_normal(np.zeros(len(given)), covariance).logpdf(target)
    assert found.log - (misfit - best) / (2 * found.noise[0]) == pytest.approx(exact, rel=1e-3)


def test_outputs_share_a_prior_and_have_their_own_noise():
    quiet, loud = regression(), regression()
    eigenvalues = np.stack([np.linalg.eigvalsh(given.T @ given) for given, _, _ in (quiet, loud)])
    found = evidence_of(eigenvalues, np.array([1.0, 100.0]), 3.0, 60)
    decided = (eigenvalues / (eigenvalues + found.prior_precision * found.noise[:, None])).sum(axis=1)
    np.testing.assert_allclose(found.noise, [1 / (60 - decided[0]), 100 / (60 - decided[1])], rtol=5e-3)
    assert found.prior_precision == pytest.approx(decided.sum() / 3.0, rel=5e-3)
    assert found.decided == pytest.approx(decided.sum(), rel=1e-4)


def test_fewer_rows_than_weights_leave_some_undecided():
    few = RNG.normal(size=(3, 5))
    found = evidence_of(np.maximum(np.linalg.eigvalsh(few.T @ few), 0)[None], np.array([0.01]), 1.0, 3)
    assert 0 < found.decided < 3
    assert np.isfinite([found.log, found.prior_precision, *found.noise]).all()


# ----- the last layer


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_last_layer_is_linear_in_its_features(network, engine, monkeypatch):
    run_on(engine, monkeypatch)
    context = context_of(network)
    trained, autoencoder = trained_of(context), context.autoencoder
    layer = LastLayer.of(context, trained)
    last = last_weights(autoencoder, autoencoder.named(trained))
    outputs = last[0].shape[-1]
    weights = np.concatenate([part.reshape(-1, outputs) for part in last])
    given = layer.features @ weights
    shown = Draws(autoencoder, 1, autoencoder.named(trained)).reconstruction(context.rows).reshape(-1, outputs)
    sigmoid = autoencoder.network.last_activation == "sigmoid"
    np.testing.assert_allclose(1 / (1 + np.exp(-given)) if sigmoid else given, shown, rtol=1e-9)
    residuals = context.rows.reshape(-1, outputs) - shown
    np.testing.assert_allclose(layer.misfits, (residuals**2).sum(axis=0), rtol=1e-9)
    assert layer.squares == pytest.approx((weights**2).sum())


@pytest.mark.parametrize("network", ["dense", "dense, any number", "conv1d, bias"])
def test_the_curvature_is_that_of_half_the_squared_residuals_without_their_second_derivatives(network):
    context = context_of(network)
    trained, autoencoder = trained_of(context), context.autoencoder
    layer = LastLayer.of(context, trained)
    output, step = 1, 1e-5

    def shown(weight: int, off: float) -> np.ndarray:
        moved = trained.copy()
        last = last_weights(autoencoder, autoencoder.named(moved))
        part, place = (last[0], weight) if weight < layer.inputs else (last[1], 0)
        where = np.unravel_index(place, part.shape[1:-1]) if part.ndim > 2 else ()
        part[(0, *where, output)] += off
        found = Draws(autoencoder, 1, autoencoder.named(moved)).reconstruction(context.rows)
        return found.reshape(-1, layer.slopes.shape[1])[:, output]

    columns = [(shown(weight, step) - shown(weight, -step)) / (2 * step) for weight in range(layer.features.shape[1])]
    jacobian = np.stack(columns, axis=1)
    np.testing.assert_allclose(layer.curvature(output), jacobian.T @ jacobian, rtol=1e-5, atol=1e-8)


def test_draws_of_an_output_have_the_covariance_of_bayesian_linear_regression():
    context = context_of("dense, any number", rows=80)
    layer = LastLayer.of(context, trained_of(context))
    alpha, noise = 2.0, 0.05
    samples = layer.drawn(1, alpha, noise, stream(0, 0, 0), 50_000)
    exact = np.linalg.inv(layer.features.T @ layer.features / noise + alpha * np.eye(layer.features.shape[1]))
    np.testing.assert_allclose(np.cov(samples), exact, atol=5 * exact.max() / np.sqrt(samples.shape[1]))


def test_more_rows_than_are_looked_at_count_as_all(monkeypatch):
    context = context_of("dense", rows=400)
    trained = trained_of(context)
    whole = LastLayer.of(context, trained)
    monkeypatch.setattr("indubio_lab.posteriors.laplace.MOST_VALUES", 16 * 100)
    some = LastLayer.of(context, trained)
    assert (len(some.features), some.rows) == (100, 4.0)
    np.testing.assert_allclose(some.misfits, whole.misfits, rtol=0.3)
    np.testing.assert_allclose(np.trace(some.curvature(0)), np.trace(whole.curvature(0)), rtol=0.2)


# ----- the posterior


def test_draws_are_around_the_trained_network_and_differ_in_its_last_layer_alone():
    context = context_of("conv1d, bias")
    trained = Deterministic().fit(context.autoencoder, context.rows, training=context.training, seed=0).weights
    draws = Laplace(draws=400).fit(context.autoencoder, context.rows, training=context.training, seed=0)
    last = context.autoencoder.network.decoder[-1].layer.name
    for name, weight in draws.weights.items():
        if name.startswith(f"{last}."):
            spread = weight.std(axis=0)
            assert (spread > 0).all()
            np.testing.assert_allclose(weight.mean(axis=0), trained[name][0], atol=5 * spread.max() / np.sqrt(400))
        else:
            np.testing.assert_array_equal(weight, np.repeat(trained[name], 400, axis=0))


def test_a_strong_prior_leaves_no_spread():
    context = context_of("dense")
    wide, narrow = (
        Laplace(draws=20, prior_precision=alpha).fit(context.autoencoder, context.rows, training=Training(), seed=0)
        for alpha in (1.0, 1e8)
    )
    assert narrow.weights["decoder.2.weight"].std(axis=0).max() < 2e-4
    assert narrow.weights["decoder.2.weight"].std(axis=0).max() < wide.weights["decoder.2.weight"].std(axis=0).min()
    assert narrow.facts["prior precision"] == 1e8


def test_the_chosen_prior_has_the_largest_evidence():
    context = context_of("dense", rows=100)
    found = Laplace(draws=2).fit(context.autoencoder, context.rows, training=Training(epochs=50), seed=0).facts
    for factor in (0.1, 0.5, 2.0, 10.0):
        other = Laplace(draws=2, prior_precision=factor * found["prior precision"])
        given = other.fit(context.autoencoder, context.rows, training=Training(epochs=50), seed=0).facts
        assert given["log evidence"] < found["log evidence"]


@pytest.mark.parametrize("architecture", [Dense(layer_norm=True), Conv1d(layer_norm=True)])
def test_a_norm_after_the_last_layer_is_refused_with_the_way_out(architecture):
    shape = (5,) if isinstance(architecture, Dense) else (20, 2)
    rows = RNG.random((30, *shape))
    with pytest.raises(ConfigError, match="`layer_norm=False`"):
        Detector(posterior=Laplace(), architecture=architecture).fit(rows)
    with pytest.raises(ConfigError, match="`layer_norm=False`"):
        Laplace().fit(Autoencoder(architecture.build(shape), GaussianLikelihood()), rows, training=Training(), seed=0)


def test_what_the_fit_tells_is_saved_shown_and_reported(tmp_path):
    rows = RNG.normal(size=(60, 3))
    detector = Detector(posterior=Laplace(draws=4), training=Training(epochs=3), calibration=TrainScores()).fit(rows)
    facts = detector.draws_.facts
    assert set(facts) == {"log evidence", "prior precision", "weights that the data decide"}
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.draws_.facts == facts
    shown = " ".join(run("inspect", tmp_path / "model").stdout.split())
    assert f"log evidence {facts['log evidence']:.4g}" in shown
    assert f"{facts['prior precision']:.4g}" in html_report(loaded, rows)
