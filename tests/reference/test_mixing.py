"""R-hat and effective sample size, against plain formulas and chains whose size is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from indubio import CrossFit, Detector, TrainScores, load, save
from indubio.errors import MixingWarning
from indubio.networks import (
    FEWEST,
    Autoencoder,
    Dense,
    FitContext,
    GaussianLikelihood,
    Mixing,
    OwnNetwork,
    Training,
    prior_scale_at,
    temperature_of,
)
from indubio.networks.training.data_prior import INITIAL_NUMBERS
from indubio.networks.training.mixing import MIXED, effective_size, split_r_hat
from indubio.numerics import stream
from indubio.posteriors import POSTERIORS, SGHMC, TrainedPosterior
from indubio.report import html_report
from indubio.workers import Workers
from tests.end_to_end.test_commands import run


def ar1(rho: float, chains: int, draws: int, quantities: int, seed: int = 0) -> np.ndarray:
    """Stationary chains whose correlation at lag t is rho^t."""
    random = np.random.default_rng(seed)
    values = np.empty((chains, draws, quantities))
    values[:, 0] = random.normal(size=(chains, quantities))
    for step in range(1, draws):
        kick = random.normal(size=(chains, quantities))
        values[:, step] = rho * values[:, step - 1] + np.sqrt(1 - rho**2) * kick
    return values


def plain_r_hat(chains: np.ndarray) -> float:
    """Of one quantity, by the book: Vehtari et al. 2021, without its folding."""
    halves = [half for chain in chains for half in (chain[: len(chain) // 2], chain[-(len(chain) // 2) :])]
    ranks = stats.rankdata(np.concatenate(halves))
    parts = np.split(stats.norm.ppf((ranks - 3 / 8) / (len(ranks) + 1 / 4)), len(halves))
    n, means = len(parts[0]), [part.mean() for part in parts]
    between = n * sum((mean - np.mean(means)) ** 2 for mean in means) / (len(parts) - 1)
    within = np.mean([((part - part.mean()) ** 2).sum() / (n - 1) for part in parts])
    return float(np.sqrt(((n - 1) / n * within + between / n) / within))


@pytest.mark.parametrize(("chains", "draws"), [(1, 40), (4, 25), (3, 100)])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_r_hat_of_one_quantity_is_that_of_the_book(chains, draws, rho):
    values = np.exp(ar1(rho, chains, draws, 1))
    assert split_r_hat(values) == pytest.approx(plain_r_hat(values[..., 0]))


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.9])
def test_the_effective_size_of_an_ar1_chain_is_the_known_one(rho):
    # n (1 - rho) / (1 + rho), over 20 quantities of 4 chains; ranks bend it by some per cent.
    draws = 2000
    found = effective_size(ar1(rho, 4, draws, 20))
    assert found == pytest.approx(4 * draws * (1 - rho) / (1 + rho), rel=0.1)


def test_chains_that_agree_have_an_r_hat_of_one_however_few_draws_they_have():
    values = [
        split_r_hat(ar1(0.0, chains, draws, 200, seed)) for chains, draws, seed in ((1, 8, 0), (4, 4, 1), (2, 100, 2))
    ]
    assert values == pytest.approx([1.0] * 3, abs=0.03)


def test_a_random_walk_and_chains_at_different_places_have_not_mixed():
    random = np.random.default_rng(0)
    walk = random.normal(size=(1, 100, 50)).cumsum(axis=1)
    assert split_r_hat(walk) > 1.3
    assert effective_size(walk) < 10
    apart = random.normal(size=(4, 100, 50)) + 3 * np.arange(4)[:, None, None]
    assert split_r_hat(apart) > 1.5
    assert effective_size(apart) < 10


def test_a_chain_that_stands_still_says_so():
    still = np.zeros((1, 20, 3))
    assert (split_r_hat(still), effective_size(still)) == (1.0, 1.0)


def test_weights_are_compared_within_chains_and_scores_between_them():
    random = np.random.default_rng(0)
    scores = random.normal(size=(4, 50, 30))
    weights = random.normal(size=(4, 50, 30)) + 100 * np.arange(4)[:, None, None]
    found = Mixing.of(scores, weights)
    assert found.mixed
    assert found.weight_r_hat < 1.05
    assert found.draws == 200
    assert found.score_size == pytest.approx(200, rel=0.1)
    assert not Mixing.of(weights, scores).mixed


def test_too_few_draws_say_nothing():
    few = np.zeros((2, FEWEST - 1, 3))
    assert Mixing.of(few, few) is None


# ----- chains


class Unchanged(nn.Module):
    """Rows as they are, and a weight that no row says anything of."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The rows."""
        return rows + 0 * self.unused


def linear(values: int) -> Autoencoder:
    """A model whose posterior is known: every value of a row as a linear function of all of them."""
    own = OwnNetwork(encoder=lambda _: Unchanged(), decoder=lambda shape: nn.Linear(shape[0], shape[0], bias=False))
    return Autoencoder(own.build((values,)), GaussianLikelihood(), "cpu", own)


@pytest.mark.parametrize("prior_scale", [0.05, pytest.param(0.2, marks=pytest.mark.slow)])
def test_on_a_linear_model_the_chain_has_the_spread_of_the_exact_posterior_however_long_it_is(prior_scale):
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32) @ np.array([[1, 0.5], [0, 1]], np.float32)
    temperature = 0.02
    chain = {"temperature": temperature, "prior_scale": prior_scale, "step_size": 0.1, "friction": 0.1, "thinning": 20}
    # N / T (||x - W x||^2 / 2D + lambda ||W||^2): the same precision for every row of W.
    precision = len(rows) / temperature * (rows.T @ rows / len(rows) / 2 + 2 * prior_scale * np.eye(2))
    exact = np.sqrt(np.diag(np.linalg.inv(precision)))
    for draws in (100, 400):
        fitted = SGHMC(draws=draws, burn_in=100, chains=1, **chain).fit(
            linear(2), rows, training=Training(epochs=100, batch_size=40), seed=0
        )
        unused, weight = fitted.weights.values()
        # A standard deviation from as many draws is known to 1 / sqrt(2 draws); both rows of W have the same.
        assert weight.std(axis=0).mean(axis=0) == pytest.approx(exact, rel=4 / np.sqrt(4 * draws))
        of_prior = np.sqrt(temperature / (2 * len(rows) * prior_scale))
        assert unused.std() == pytest.approx(of_prior, rel=4 / np.sqrt(2 * draws))
        assert fitted.mixing.mixed
        assert fitted.mixing.weight_r_hat < MIXED


def test_the_temperature_of_the_data_is_the_variance_of_the_residuals_by_value():
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 2)).astype(np.float32)
    context = FitContext(autoencoder=linear(2), rows=rows, training=Training(), seed=0)
    weights = np.array([[0.0, 0.5, 0.0, 0.0, 1.0]], np.float32)  # the first value is half off
    expected = (0.5 * rows[:, 0]) ** 2
    assert temperature_of(context, weights) == pytest.approx(expected.mean() / 2 / 2, rel=1e-5)  # over D values, by D
    learned = Autoencoder(context.autoencoder.network, GaussianLikelihood(noise="per_feature"))
    assert temperature_of(replace(context, autoencoder=learned), weights) == 1 / 2


def test_a_prior_of_the_data_counts_less_the_more_rows_there_are():
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    few, many = (
        prior_scale_at(
            FitContext(autoencoder=autoencoder, rows=np.zeros((rows, 4), np.float32), training=Training(), seed=0), 0.1
        )
        for rows in (50, 500)
    )
    assert few == pytest.approx(10 * many)
    start = np.concatenate([weight.ravel() for weight in autoencoder.initial(stream(0, INITIAL_NUMBERS, 0)).values()])
    assert few == pytest.approx(0.1 / (2 * 50 * np.mean(start.astype(float) ** 2)))


def test_chains_share_the_draws_and_the_first_is_the_only_one_of_one():
    rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
    autoencoder, training = Autoencoder(Dense().build((3,)), GaussianLikelihood()), Training(epochs=2)
    quick = {"burn_in": 3, "thinning": 2}
    one = SGHMC(draws=4, chains=1, **quick).fit(autoencoder, rows, training=training, seed=0)
    three = SGHMC(draws=10, chains=3, **quick).fit(autoencoder, rows, training=training, seed=0)
    for name, weight in one.weights.items():
        np.testing.assert_allclose(three.weights[name][:4], weight, rtol=1e-5, atol=1e-7)  # torch rounds otherwise
        assert not np.allclose(three.weights[name][4], weight[0], atol=1e-3)
    assert three.mixing is None  # 4, 3 and 3 draws
    assert SGHMC(draws=2, chains=9, **quick).fit(autoencoder, rows, training=training, seed=0).count == 2


TRAINED = [kind for kind in POSTERIORS.values() if issubclass(kind, TrainedPosterior)]


@pytest.mark.parametrize("posterior", TRAINED)
def test_a_prior_of_the_data_is_for_every_posterior_that_is_trained(posterior):
    rows = np.random.default_rng(0).random((40, 3), dtype=np.float32)
    made = posterior(prior_scale="auto").with_count(2)
    network = Dense().build((3,), code_noise=made.code_noise)
    autoencoder = Autoencoder(network, GaussianLikelihood())
    fitted = made.fit(autoencoder, rows, training=Training(epochs=3), seed=0)
    assert np.isfinite(fitted.nll(rows)).all()


def test_a_detector_warns_of_chains_that_did_not_mix_and_keeps_what_they_were(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.warns(MixingWarning, match="the chain did not mix: R-hat is"):
        detector = Detector(
            posterior=SGHMC(draws=20, chains=1, burn_in=0, thinning=1),
            training=Training(epochs=5),
            calibration=TrainScores(),
        ).fit(rows)
    mixing = detector.draws_.mixing
    assert mixing.score_r_hat > MIXED
    save(detector, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.draws_.mixing == mixing
    shown = " ".join(run("inspect", tmp_path / "model").stdout.split())
    assert f"R-hat is {mixing.score_r_hat:.2f} of scores" in shown
    page = html_report(loaded, rows)
    assert f"R-hat is {mixing.score_r_hat:.2f} of scores" in page


def test_the_chains_of_all_folds_are_told_of_together_wherever_they_run():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    posterior = SGHMC(draws=16, chains=2, burn_in=0, thinning=1)
    settings = {"posterior": posterior, "training": Training(epochs=2), "calibration": CrossFit(folds=2)}
    told = []
    for workers in (None, Workers(processes=1)):
        with pytest.warns(MixingWarning, match="the 4 chains did not mix"):
            told.append(Detector(**settings).fit(rows, workers=workers).draws_.mixing)
    assert (told[0].chains, told[0].draws) == (4, 16)
    assert told[0] == told[1]
