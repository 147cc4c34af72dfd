"""NormalWishart against scikit-learn's shrinkage, scipy's distributions and a plain joining of views."""

import numpy as np
import pytest
import scipy.stats
from scipy.special import logsumexp
from sklearn.covariance import ledoit_wolf

from indubio import Detector, HoldOut, TrainScores, load, save
from indubio.networks import Autoencoder, FitContext, GaussianLikelihood, LinearViews, NormalWishartState, Training
from indubio.networks.training.gaussian_sums import ViewSums, chi_squared
from indubio.numerics import stream
from indubio.posteriors import Draws, NormalWishart

RNG = np.random.default_rng(0)


def rows_of(count: int, features: int) -> np.ndarray:
    """Features that move together, around means of their own."""
    return RNG.normal(size=(count, features)) @ RNG.normal(size=(features, features)) / features**0.5 + RNG.normal(
        size=features
    )


def drawn(rows: np.ndarray, draws: int, views: tuple[int, ...] = (), **settings) -> Draws:
    autoencoder = Autoencoder(LinearViews(views=views).build(rows.shape[1:]), GaussianLikelihood())
    return NormalWishart(draws=draws, **settings).fit(autoencoder, rows, training=Training(), seed=0)


@pytest.mark.parametrize(("count", "features"), [(30, 5), (100, 60), (10, 40), (2, 3)])
def test_the_prior_is_as_strong_as_ledoit_and_wolf_say(count, features):
    rows = rows_of(count, features) + 3
    expected = np.clip(ledoit_wolf(rows)[1], 1e-4, 0.99)
    np.testing.assert_allclose(ViewSums.of(rows).shrinkage, expected, rtol=1e-9)


def test_the_mean_covariance_is_the_shrunk_one():
    rows = rows_of(200, 6)
    state = NormalWishartState.of(ViewSums.of(rows))
    mean_of_inverse_wishart = state.factor @ state.factor.T / (state.freedom - 6 - 1)
    np.testing.assert_allclose(mean_of_inverse_wishart * 199 / 200, ledoit_wolf(rows)[0], rtol=0.01, atol=0.01)


@pytest.mark.slow  # 20,000 draws
def test_the_density_of_new_rows_over_many_draws_is_the_multivariate_t_of_theory():
    rows = rows_of(12, 3).astype(np.float32)
    state = NormalWishartState.of(ViewSums.of(rows.astype(np.float64)))
    freedom = state.freedom - 3 + 1
    scale = state.factor @ state.factor.T * (1 + 1 / 12) / freedom
    theory = scipy.stats.multivariate_t(rows.mean(axis=0), scale, df=freedom)
    new = (rows.mean(axis=0) + np.array([[0, 0, 0], [1, -1, 2], [2, 0, -2]])).astype(np.float32)
    densities = -3 * drawn(rows, 20_000).nll(new).astype(np.float64)
    np.testing.assert_allclose(logsumexp(densities, axis=0) - np.log(20_000), theory.logpdf(new), atol=0.03)


def test_draws_spread_as_the_posterior_does():
    """The distance of a row from the mean, x P x, is chi-squared times its mean over the degrees of freedom."""
    state = NormalWishartState.of(ViewSums.of(rows_of(40, 4)))
    direction, own = np.array([1.0, -2.0, 0.5, 0.0]), stream(0, 10, 0)
    drawn_states = [state.drawn(own) for _ in range(3000)]
    distances = [np.sum((direction @ factor) ** 2) for _, factor, _ in drawn_states]
    usual = direction @ np.linalg.inv(state.factor @ state.factor.T) @ direction
    assert scipy.stats.kstest(np.array(distances) / usual, "chi2", args=(state.freedom,)).pvalue > 0.01
    for mean, factor, volume in drawn_states[:5]:
        np.testing.assert_allclose(volume, np.linalg.slogdet(factor)[1], rtol=1e-9)
        assert np.isfinite(mean).all()
    means = np.array([mean - state.sums.mean for mean, _, _ in drawn_states])
    expected = state.factor @ state.factor.T / (state.freedom - 4 - 1) / 40
    np.testing.assert_allclose(means.T @ means / len(means), expected, atol=0.1 * np.abs(expected).max())


@pytest.mark.parametrize("freedom", [2.0, 5.5, 300.0])
def test_chi_squared_numbers_are_chi_squared(freedom):
    found = chi_squared(np.full(20_000, freedom), stream(1, 2, 3))
    assert scipy.stats.kstest(found, "chi2", args=(freedom,)).pvalue > 0.01


def test_several_views_are_joined_as_a_plain_loop_does():
    rows = rows_of(60, 10).astype(np.float32)  # two sensors: three features of one view, two of another
    draws = drawn(rows, 3, views=(3, 2))
    new, apart = draws.nll_apart(rows[:7] * 2)
    places = draws.autoencoder.network.places
    assert [one.tolist() for one in places] == [[0, 1, 2, 5, 6, 7], [3, 4, 8, 9]]
    for draw in range(3):
        told = []
        for view, own in enumerate(places):
            weights = {
                name.rpartition(".")[2]: weight[draw].astype(np.float64)
                for name, weight in draws.weights.items()
                if name.startswith(f"view.{view}.")
            }
            moved = rows[:7, own].astype(np.float64) * 2 - weights["mean"]
            precision = weights["factor"] @ weights["factor"].T
            distance = np.einsum("ni,ij,nj->n", moved, precision, moved) / len(own)
            told.append((np.log(distance) - weights["middle"]) / weights["spread"])
        score = logsumexp(told, axis=0) - np.log(2)
        np.testing.assert_allclose(new[draw], score, rtol=1e-5, atol=1e-6)
        shares = np.exp(np.array(told) - logsumexp(told, axis=0))
        of_views = [apart[draw][:, own].sum(axis=1) / 10 for own in places]
        np.testing.assert_allclose(of_views, score * shares, rtol=1e-4, atol=1e-5)


def test_what_views_usually_say_is_measured_on_rows_that_were_held_out():
    rows = rows_of(50, 4)
    draws = drawn(rows, 1)
    told = []
    for start in range(0, 50, 10):
        others = np.concatenate([rows[:start], rows[start + 10 :]])
        weight = np.clip(ledoit_wolf(others)[1], 1e-4, 0.99)
        centred = others - others.mean(axis=0)
        strength = weight * 40 / (1 - weight)
        scale = centred.T @ centred + strength * np.trace(centred.T @ centred) / 40 / 4 * np.eye(4)
        precision = (strength + 4 + 40) * np.linalg.inv(scale)
        moved = rows[start : start + 10] - others.mean(axis=0)
        told.append(np.log(np.einsum("ni,ij,nj->n", moved, precision, moved) / 4))
    np.testing.assert_allclose(draws.weights["view.0.middle"][0, 0], np.mean(told), rtol=1e-9)
    np.testing.assert_allclose(draws.weights["view.0.spread"][0, 0], np.std(told), rtol=1e-9)


def test_rows_that_are_added_give_what_one_fit_of_all_gives():
    rows = rows_of(90, 6)
    whole, first = (drawn(some, 2, keep_sums=True) for some in (rows, rows[:50]))
    context = FitContext(autoencoder=first.autoencoder, rows=rows[50:], training=Training(), seed=0)
    added = NormalWishart(draws=2, keep_sums=True).extended(first, context, rows)
    for name, weight in whole.weights.items():
        np.testing.assert_allclose(added.weights[name], weight, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("calibration", [None, HoldOut(), TrainScores()])
def test_a_detector_of_windows_learns_more_windows_without_the_old_ones(calibration, tmp_path):
    windows = RNG.normal(size=(80, 32, 2)).cumsum(axis=1)
    detector = Detector(posterior=NormalWishart(keep_sums=True), calibration=calibration).fit(windows[:60])
    save(detector, tmp_path / "model")
    updated = load(tmp_path / "model").update(windows[60:])
    assert updated.n_training_ == 80
    np.testing.assert_array_equal(updated.nll(windows), detector.update(windows[60:]).nll(windows))
    assert (updated.nll(windows[60:]) < detector.nll(windows[60:])).mean() > 0.6
