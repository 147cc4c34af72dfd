"""What every posterior promises, with every kind of network and likelihood."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import indubio.posteriors as posteriors
import indubio_lab.posteriors as lab_posteriors
from indubio import Detector
from indubio.errors import ConfigError, TrainingError
from indubio.networks import (
    Attention,
    Autoencoder,
    BernoulliLikelihood,
    BetaLikelihood,
    Coalition,
    ContinuousBernoulliLikelihood,
    Conv1d,
    Conv2d,
    Dense,
    EarlyStopping,
    GaussianLikelihood,
    LaplaceLikelihood,
    OwnNetwork,
    RangeTest,
    StreamedRows,
    StudentLikelihood,
    Training,
    TruncatedGaussianLikelihood,
    silent,
)
from indubio.posteriors import POSTERIORS, AnchoredEnsemble, Draws, NormalWishart, Posterior, TrainedPosterior
from tests import skeletons
from tests.small_examples import skip_if_refused

KINDS = {**POSTERIORS, **skeletons.POSTERIORS}
SMALL = {
    "deterministic": {},
    "vae": {"draws": 6},
    "mc_dropout": {"draws": 6, "dropout": 0.3},
    "bayes_by_backprop": {"draws": 6},
    "anchored_ensemble": {"members": 4},
    "sghmc": {"draws": 6, "burn_in": 5, "thinning": 3},
    "cyclical_sgmcmc": {"draws": 6, "cycles": 2, "burn_in": 4, "thinning": 2, "step_size": 0.01},
    "swag": {"draws": 6, "members": 2, "collected": 6, "every": 20},
    "laplace": {"draws": 6},
    "parallel_tempering": {"draws": 6, "chains": 3, "burn_in": 20, "thinning": 12},
    "bayesian_vae": {"draws": 6, "burn_in": 5, "thinning": 3},
    "functional_prior": {"draws": 6, "burn_in": 5, "thinning": 3, "networks": 4, "directions": 5, "moves": 1},
    "random_features": {"draws": 6, "units": 30},
    "prototypes": {"draws": 6},
    "normal_wishart": {"draws": 6},
    "noisy_weights": {"draws": 6},
}
OWN = OwnNetwork(
    encoder=lambda shape: nn.Sequential(nn.Linear(shape[0], 12), nn.Tanh(), nn.Linear(12, 3)),
    decoder=lambda shape: nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, shape[0]), nn.Sigmoid()),
)
NETWORKS = {
    "dense": (Dense(), (5,)),
    "dense with norm": (Dense(layer_norm=True, bias=True, skips=False), (5,)),
    "conv1d": (Conv1d(linear=(10,)), (23, 2)),
    "conv2d": (Conv2d(channels=(3, 4), latent=5), (7, 6, 2)),
    "coalition": (Coalition(network=Conv1d(linear=(10,))), (23, 2)),
    "own": (OWN, (5,)),
    "its own": (None, (5,)),
    "its own, of windows": (None, (23, 2)),
    "its own, of images": (None, (7, 6, 2)),
}
LIKELIHOODS = {
    "gaussian": GaussianLikelihood(),
    "gaussian, sigma per feature": GaussianLikelihood(noise="per_feature"),
    "gaussian, heteroscedastic": GaussianLikelihood(noise="per_example"),
    "laplace": LaplaceLikelihood(),
    "laplace, heteroscedastic": LaplaceLikelihood(noise="per_example"),
    "bernoulli": BernoulliLikelihood(),
    "student": StudentLikelihood(),
    "student, sigma per feature": StudentLikelihood(noise="per_feature"),
    "continuous bernoulli": ContinuousBernoulliLikelihood(),
    "truncated gaussian": TruncatedGaussianLikelihood(),
    "truncated gaussian, heteroscedastic": TruncatedGaussianLikelihood(noise="per_example"),
    "beta": BetaLikelihood(),
    "beta, heteroscedastic": BetaLikelihood(noise="per_example"),
    **{name: kind() for name, kind in skeletons.LIKELIHOODS.items()},
}
NOT_IN_CLOSED_FORM = [
    name for name, likelihood in LIKELIHOODS.items() if likelihood.output_noise or likelihood.unit_interval
]
QUICK = Training(epochs=3, batch_size=16)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the rounding of single precision."""
    np.testing.assert_allclose(found, expected, rtol=1.3e-6, atol=1e-5)


def posterior_named(name: str) -> Posterior:
    return KINDS[name](**SMALL[name])


def autoencoder_for(posterior: Posterior, network: str, likelihood: str = "gaussian", rows: int = 40) -> Autoencoder:
    architecture, shape = NETWORKS[network]
    if architecture is None:
        architecture = posterior.architecture_for(shape, rows)
    noise = LIKELIHOODS[likelihood]
    built = architecture.build(shape, code_noise=posterior.code_noise, output_noise=noise.output_noise)
    return Autoencoder(built, noise)


def rows_for(network: str, count: int = 40, dtype: type = np.float32) -> np.ndarray:
    # Correlated values of mean 1/4, so that there is something to learn: an untrained network says 1/2.
    shape = NETWORKS[network][1]
    random = np.random.default_rng(1)
    base = random.random((count, *[1] * len(shape)))
    return ((0.7 * base + 0.3 * random.random((count, *shape))) / 2).astype(dtype)


def is_trained(name: str) -> bool:
    return issubclass(KINDS[name], TrainedPosterior)


@pytest.fixture(params=KINDS)
def posterior(request) -> Posterior:
    return posterior_named(request.param)


@pytest.fixture(params=[name for name in KINDS if is_trained(name)])
def trained(request) -> Posterior:
    return posterior_named(request.param)


@pytest.fixture(params=NETWORKS)
def network(request, posterior) -> str:
    skip_if_refused(posterior, NETWORKS[request.param][0])
    return request.param


@pytest.fixture(params=[name for name, (architecture, _) in NETWORKS.items() if architecture is not None])
def trained_network(request, trained) -> str:
    skip_if_refused(trained, NETWORKS[request.param][0])
    return request.param


@pytest.fixture(scope="module")
def fitted():
    """Draws are costly to make and never change: made once per posterior and network."""
    made: dict[tuple[str, str], Draws] = {}

    def draws_of(posterior: Posterior, network: str) -> Draws:
        key = (type(posterior).__name__, network)
        if key not in made:
            made[key] = posterior.fit(autoencoder_for(posterior, network), rows_for(network), training=QUICK, seed=0)
        return made[key]

    return draws_of


def test_the_list_of_posteriors_is_the_list_of_files():
    files = {path.stem for path in Path(posteriors.__file__).parent.glob("*.py")}
    assert files - {"__init__", "adds_up", "computed_draws", "draws", "posterior"} == set(POSTERIORS.own)
    assert set(SMALL) == set(KINDS)


def test_the_posteriors_of_the_lab_join_by_its_entry_points():
    files = {path.stem for path in Path(lab_posteriors.__file__).parent.glob("*.py")}
    assert files - {"__init__", "evidence", "iterates", "tempering"} == set(POSTERIORS) - set(POSTERIORS.own)


def test_there_is_one_finite_score_per_draw_and_row(posterior, network, fitted):
    scores = fitted(posterior, network).nll(rows_for(network))
    assert scores.shape == (posterior.count, 40)
    assert np.isfinite(scores).all()


def test_a_score_does_not_depend_on_the_batch(posterior, network, fitted):
    draws, rows = fitted(posterior, network), rows_for(network)
    in_parts = np.concatenate([draws.nll(rows[start : start + 7]) for start in range(0, len(rows), 7)], axis=1)
    assert_close(in_parts, draws.nll(rows))


def test_a_score_does_not_depend_on_the_order(posterior, network, fitted):
    draws, rows = fitted(posterior, network), rows_for(network)
    order = np.random.default_rng(2).permutation(len(rows))
    assert_close(draws.nll(rows[order]), draws.nll(rows)[:, order])


def test_scoring_twice_gives_the_same_to_the_bit_whatever_the_global_seed(posterior, network, fitted):
    draws, rows = fitted(posterior, network), rows_for(network)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = draws.nll(rows)
        torch.manual_seed(2)
        assert np.array_equal(first, draws.nll(rows))


def test_fitting_leaves_the_global_generators_alone(posterior, network):
    before_torch, before_numpy = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002 - it is watched, not used
    posterior.fit(autoencoder_for(posterior, network), rows_for(network), training=QUICK, seed=0)
    assert torch.equal(torch.get_rng_state(), before_torch)
    assert np.array_equal(np.random.get_state()[1], before_numpy)  # noqa: NPY002


def test_the_same_seed_gives_the_same_draws_and_another_seed_others(posterior, network, fitted):
    rows = rows_for(network)
    first = fitted(posterior, network).nll(rows)
    again = posterior.fit(autoencoder_for(posterior, network), rows, training=QUICK, seed=0).nll(rows)
    other = posterior.fit(autoencoder_for(posterior, network), rows, training=QUICK, seed=1).nll(rows)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_draws_are_different_functions(posterior, network, fitted):
    scores = fitted(posterior, network).nll(rows_for(network))
    assert len(np.unique(scores, axis=0)) == posterior.count


def test_scores_per_feature_average_to_the_score(posterior, network, fitted):
    draws, rows = fitted(posterior, network), rows_for(network)
    apart = draws.nll_per_feature(rows)
    assert apart.shape == (posterior.count, *rows.shape)
    assert_close(apart.reshape(*apart.shape[:2], -1).mean(axis=2), draws.nll(rows))


def test_reconstructions_have_the_shape_of_the_rows(posterior, network, fitted):
    rows = rows_for(network)
    assert fitted(posterior, network).reconstruction(rows).shape == (posterior.count, *rows.shape)


def test_training_lowers_the_score_of_the_training_rows(trained, trained_network):
    rows, autoencoder = rows_for(trained_network), autoencoder_for(trained, trained_network)
    scores = [
        trained.fit(autoencoder, rows, training=Training(epochs=epochs, batch_size=16), seed=0).nll(rows).mean()
        for epochs in (0, 40)
    ]
    assert scores[1] < 0.8 * scores[0]


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_every_posterior_takes_every_likelihood(posterior, network, likelihood):
    rows = rows_for(network)
    only_its_own = isinstance(posterior, NormalWishart) and likelihood != "gaussian"
    if only_its_own or (not isinstance(posterior, TrainedPosterior) and likelihood in NOT_IN_CLOSED_FORM):
        with pytest.raises(ConfigError, match=r"likelihood"):
            posterior.fit(autoencoder_for(posterior, network, likelihood), rows, training=QUICK, seed=0)
        return
    draws = posterior.fit(autoencoder_for(posterior, network, likelihood), rows, training=QUICK, seed=0)
    assert np.isfinite(draws.nll(rows)).all()


def test_a_rate_that_is_far_too_high_is_an_error_that_says_what_to_try(trained):
    with pytest.raises(TrainingError, match=r"diverged.*[Ll]ower the learning rate"):
        trained.fit(
            autoencoder_for(trained, "dense", "gaussian, sigma per feature"),
            rows_for("dense"),
            training=Training(epochs=5, learning_rate=1e36),
            seed=0,
        )


def test_progress_counts_up_to_its_total(trained):
    told = []
    trained.fit(autoencoder_for(trained, "dense"), rows_for("dense"), training=QUICK, seed=0, report=told.append)
    training = [progress.done for progress in told if progress.stage == "training"]
    assert training == [1, 2, 3]
    assert told[-1].done == told[-1].total


def test_the_learning_rate_can_be_found(trained):
    rows = rows_for("dense")
    training = Training(epochs=5, learning_rate=RangeTest(steps=60))
    found = trained.fit(autoencoder_for(trained, "dense"), rows, training=training, seed=0)
    untrained = trained.fit(autoencoder_for(trained, "dense"), rows, training=Training(epochs=0), seed=0)
    assert found.nll(rows).mean() < untrained.nll(rows).mean()


def test_training_stops_early_where_it_no_longer_helps(trained):
    # Rows of noise: after the mean is learned, what is learned of these rows helps with no others.
    rows, told = np.random.default_rng(0).random((40, 5)).astype(np.float32), []
    trained.fit(
        autoencoder_for(trained, "dense"),
        rows,
        training=Training(epochs=2000, learning_rate=0.03, early_stopping=EarlyStopping(patience=2)),
        seed=0,
        report=told.append,
    )
    assert 2 < max(progress.done for progress in told if progress.stage == "training") < 1000


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_handful_of_rows_is_enough(posterior, rows):
    few = rows_for("its own")[:rows]
    draws = posterior.fit(autoencoder_for(posterior, "its own", rows=rows), few, training=QUICK, seed=0)
    assert np.isfinite(draws.nll(few)).all()


def test_a_member_does_not_depend_on_how_many_others_there_are():
    rows = rows_for("dense", dtype=np.float64)
    few, many = (
        AnchoredEnsemble(members=members)
        .fit(autoencoder_for(posterior_named("anchored_ensemble"), "dense"), rows, training=QUICK, seed=0)
        .nll(rows)
        for members in (2, 5)
    )
    np.testing.assert_allclose(few, many[:2], rtol=1e-7, atol=1e-7)


class InStretches(StreamedRows):
    """An array, so many rows at a time."""

    def __init__(self, rows: np.ndarray, size: int) -> None:
        self._rows, self._size, self.dtype = rows, size, rows.dtype

    def __len__(self) -> int:
        return len(self._rows)

    def stretches(self, epoch: int, batch: int):
        return (self._rows[start : start + self._size] for start in range(0, len(self), self._size))

    def held_out(self, share: float):
        raise NotImplementedError


def test_rows_in_one_stretch_are_as_good_as_an_array(posterior, fitted):
    rows = rows_for("its own")
    streamed = posterior.fit(
        autoencoder_for(posterior, "its own"), InStretches(rows, len(rows)), training=QUICK, seed=0, report=silent
    )
    np.testing.assert_array_equal(streamed.nll(rows), fitted(posterior, "its own").nll(rows))


@pytest.mark.parametrize("name", [name for name in KINDS if not is_trained(name)])
def test_a_posterior_in_closed_form_does_not_know_how_its_rows_are_streamed(name):
    posterior, rows = posterior_named(name), rows_for("its own", count=2500)
    autoencoder = autoencoder_for(posterior, "its own", rows=len(rows))
    whole, streamed = (
        posterior.fit(autoencoder, given, training=QUICK, seed=0) for given in (rows, InStretches(rows, 700))
    )
    np.testing.assert_array_equal(streamed.nll(rows), whole.nll(rows))


@pytest.mark.parametrize("name", [name for name in KINDS if not is_trained(name)])
def test_a_network_that_is_not_its_own_is_refused(name):
    detector = Detector(posterior=posterior_named(name), architecture=Dense())
    with pytest.raises(ConfigError, match="leave `architecture` out"):
        detector.fit(rows_for("dense"))


def test_a_network_in_closed_form_is_not_trained(trained):
    with pytest.raises(ConfigError, match="not trained by steps"):
        Detector(posterior=trained, architecture=Attention(units=3)).fit(rows_for("dense"))


def test_members_that_are_streamed_one_by_one_are_those_that_are_streamed_together():
    rows = rows_for("dense", dtype=np.float64)
    posterior = AnchoredEnsemble(members=3)
    alone, together = (
        posterior.fit(
            autoencoder_for(posterior, "dense with norm"),
            InStretches(rows, 16),
            training=QUICK.replaced(members_at_once=count),
            seed=0,
        )
        for count in (1, 3)
    )
    np.testing.assert_allclose(alone.nll(rows), together.nll(rows), rtol=1e-7, atol=1e-7)
