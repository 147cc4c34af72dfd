"""The training of ensembles and single networks against a plain loop over torch.nn modules, in double precision."""

import numpy as np
import pytest
import torch
from torch import nn

from indubio.networks import Autoencoder, Conv1d, Dense, EarlyStopping, GaussianLikelihood, Training
from indubio.networks.engine.torch_engine import SMALL_NETWORK, TorchEngine
from indubio.numerics import stream
from indubio.posteriors import AnchoredEnsemble, Deterministic, Draws, MCDropout
from tests.engines import ENGINES, run_on
from tests.reference.plain_loop import PlainConv, PlainDense, load, train_plain

SEED, MEMBERS, EPOCHS, BATCH, RATE = 5, 3, 4, 10, 0.01

NETS = {
    "dense": (Dense, (7,), lambda o: PlainDense(7, **o), {}),
    "conv": (Conv1d, (31, 2), lambda o: PlainConv(31, 2, linear=12, **o), {"linear": (12,)}),
    "conv, even length": (Conv1d, (60, 1), lambda o: PlainConv(60, 1, linear=9, **o), {"linear": (9,)}),
}
OPTIONS = [
    {"layer_norm": False, "bias": False, "skips": True},
    {"layer_norm": True, "bias": True, "skips": True},
    {"layer_norm": False, "bias": True, "skips": False},
]


@pytest.fixture(params=ENGINES, autouse=True)
def engine(request, monkeypatch) -> str:
    """Everything here is trained and scored by each engine."""
    run_on(request.param, monkeypatch)
    return request.param


def rows_of(shape: tuple[int, ...], count: int = 33, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(0).random((count, *shape)).astype(dtype)


def expected_nll(module: nn.Module, rows: np.ndarray) -> np.ndarray:
    given = torch.from_numpy(rows)
    return (((given - module(given)) ** 2).flatten(1).mean(1) / 2).detach().numpy()


def plain_member(
    make, options, autoencoder: Autoencoder, rows: np.ndarray, member: int, prior_scale: float, *, anchored: bool = True
) -> nn.Module:
    own = stream(SEED, 0, member)
    module = load(make(options).double(), autoencoder.initial(own))
    anchor = load(make(options).double(), autoencoder.initial(own)) if anchored else None
    train_plain(
        module,
        anchor,
        torch.from_numpy(rows),
        epochs=EPOCHS,
        batch=BATCH,
        rate=RATE,
        prior_scale=prior_scale,
        stream=own,
    )
    return module


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("net", NETS)
def test_an_ensemble_is_trained_as_a_plain_loop_does(net, options):
    architecture, shape, make, more = NETS[net]
    autoencoder = Autoencoder(architecture(**options, **more).build(shape), GaussianLikelihood())
    rows = rows_of(shape)
    # A prior strong enough to move the weights: lambda of the paper would hide a wrong gradient.
    posterior = AnchoredEnsemble(members=MEMBERS, prior_scale=1e-3)
    modules = [plain_member(make, options, autoencoder, rows, member, 1e-3) for member in range(MEMBERS)]
    expected = np.stack([expected_nll(module, rows) for module in modules])

    for at_once in (None, 1, 2):
        training = Training(epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE, members_at_once=at_once)
        draws = posterior.fit(autoencoder, rows, training=training, seed=SEED)
        np.testing.assert_allclose(draws.nll(rows), expected, rtol=1e-9, atol=1e-12, err_msg=f"{at_once} at once")


def test_one_network_is_trained_towards_zero_by_its_prior():
    autoencoder = Autoencoder(Dense().build((5,)), GaussianLikelihood())
    rows = rows_of((5,))
    draws = Deterministic(prior_scale=0.01).fit(
        autoencoder, rows, training=Training(epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE), seed=SEED
    )
    module = plain_member(
        lambda options: PlainDense(5, **options), OPTIONS[0], autoencoder, rows, 0, 0.01, anchored=False
    )
    np.testing.assert_allclose(draws.nll(rows)[0], expected_nll(module, rows), rtol=1e-9, atol=1e-12)


def test_in_float32_stacked_and_sequential_training_give_nearly_the_same_scores():
    autoencoder = Autoencoder(Dense().build((6,)), GaussianLikelihood())
    rows = rows_of((6,), 200, np.float32)
    scores = [
        AnchoredEnsemble(members=4)
        .fit(autoencoder, rows, training=Training(epochs=30, members_at_once=size), seed=1)
        .nll(rows)
        for size in (4, 1)
    ]
    np.testing.assert_allclose(*scores, rtol=5e-3, atol=1e-6)


def test_early_stopping_stops_each_member_as_if_it_were_alone():
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    rows = rows_of((4,), 60)
    scores = [
        AnchoredEnsemble(members=5)
        .fit(
            autoencoder,
            rows,
            training=Training(
                epochs=60,
                batch_size=8,
                learning_rate=0.05,
                early_stopping=EarlyStopping(held_out=0.3, patience=3),
                members_at_once=size,
            ),
            seed=3,
        )
        .nll(rows)
        for size in (5, 1)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-12)


def fitted(architecture, shape, *, dtype=np.float64, threads=None, posterior=None) -> Draws:
    autoencoder = Autoencoder(architecture.build(shape), GaussianLikelihood())
    # Batches of 32, 32 and 6: nothing of one may be left in the room of the next.
    training = Training(epochs=2, batch_size=32, learning_rate=0.01, threads=threads)
    posterior = posterior or AnchoredEnsemble(members=3, prior_scale=1e-3)
    return posterior.fit(autoencoder, rows_of(shape, 70, dtype), training=training, seed=1)


def test_the_order_in_which_weights_are_named_means_nothing():
    # A loaded model has them sorted by name.
    draws = fitted(Dense(bias=True), (5,))
    turned = Draws(draws.autoencoder, draws.count, dict(sorted(draws.weights.items())))
    assert list(turned.weights) != list(draws.weights)
    assert np.array_equal(turned.nll(rows_of((5,))), draws.nll(rows_of((5,))))


@pytest.mark.parametrize("posterior", [None, MCDropout(draws=2, dropout=0.3)], ids=["ensemble", "dropout"])
def test_the_number_of_threads_changes_no_bit_of_small_networks(posterior):
    alone, shared = (
        fitted(Dense(), (9,), dtype=np.float32, threads=threads, posterior=posterior) for threads in (1, 2)
    )
    assert all(np.array_equal(alone.weights[name], shared.weights[name]) for name in alone.weights)


@pytest.mark.parametrize(("width", "threads"), [(10, 1), (SMALL_NETWORK // 10, 2)], ids=["small", "large"])
def test_torch_trains_small_networks_on_one_thread_and_puts_the_number_back(width, threads, monkeypatch):
    seen = []
    original = torch.optim.Adam.step
    monkeypatch.setattr(
        torch.optim.Adam, "step", lambda self: (seen.append(torch.get_num_threads()), original(self))[1]
    )
    run_on("torch", monkeypatch)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        fitted(Dense(widths=(width,)), (5,), threads=2, posterior=Deterministic())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {threads}


def test_draws_can_be_copied_after_they_have_scored():
    import copy

    draws, rows = fitted(Dense(), (5,)), rows_of((5,))
    scores = draws.nll(rows)
    again = copy.deepcopy(draws)
    assert "_scorer" in vars(draws)
    assert "_scorer" not in vars(again)
    np.testing.assert_array_equal(again.nll(rows), scores)


def test_large_networks_run_one_by_one_on_torch():
    assert not TorchEngine(Autoencoder(Dense().build((4,)), GaussianLikelihood())).by_network
