"""The stacked engine against a plain loop over torch.nn modules, in float64, where the two agree to rounding."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from torch import nn

from indubio.autoencoders import Autoencoder, Conv1d, Dense, GaussianLikelihood, LaplaceLikelihood, compiled
from indubio.autoencoders.gradient import BlockGradient, can_differentiate
from indubio.posteriors import AnchoredEnsemble, Deterministic, Draws, MCDropout, Training
from indubio.posteriors.training import member_generators
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


def rows_of(shape: tuple[int, ...], count: int = 33) -> torch.Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def plain_member(
    make, options, autoencoder: Autoencoder, rows: torch.Tensor, member: int, prior_scale: float
) -> nn.Module:
    generator = member_generators(SEED, member + 1)[member]
    module = load(make(options).double(), autoencoder.initial(generator, torch.float64))
    anchor = load(make(options).double(), autoencoder.initial(generator, torch.float64))
    train_plain(
        module, anchor, rows, epochs=EPOCHS, batch=BATCH, rate=RATE, prior_scale=prior_scale, generator=generator
    )
    return module


@pytest.fixture
def without_numba(monkeypatch):
    """Everything on torch, as where Numba is not installed."""
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("members_at_once", [None, 1, 2])
@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_the_engine_trains_as_a_plain_loop_does(net, options, members_at_once, engine, request):
    if engine == "torch":
        request.getfixturevalue("without_numba")
    architecture, shape, make, more = NETS[net]
    autoencoder = Autoencoder(architecture(**options, **more).build(shape), GaussianLikelihood())
    rows = rows_of(shape)
    # A prior strong enough to move the weights: lambda of the paper would hide a wrong gradient.
    posterior = AnchoredEnsemble(members=MEMBERS, prior_scale=1e-3)
    training = Training(epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE, members_at_once=members_at_once)

    draws = posterior.fit(autoencoder, rows, training=training, seed=SEED)

    for member in range(MEMBERS):
        module = plain_member(make, options, autoencoder, rows, member, 1e-3)
        expected = ((rows - module(rows)) ** 2).flatten(1).mean(1) / 2
        torch.testing.assert_close(draws.nll(rows)[member], expected.detach(), rtol=1e-9, atol=1e-12)


def test_one_network_is_trained_towards_zero_by_its_prior():
    autoencoder = Autoencoder(Dense().build((5,)), GaussianLikelihood())
    rows = rows_of((5,))
    draws = Deterministic(prior_scale=0.01).fit(
        autoencoder, rows, training=Training(epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE), seed=SEED
    )
    (generator,) = member_generators(SEED, 1)
    options = {"layer_norm": False, "bias": False, "skips": True}
    module = load(PlainDense(5, **options).double(), autoencoder.initial(generator, torch.float64))
    train_plain(module, None, rows, epochs=EPOCHS, batch=BATCH, rate=RATE, prior_scale=0.01, generator=generator)
    expected = ((rows - module(rows)) ** 2).mean(1) / 2
    torch.testing.assert_close(draws.nll(rows)[0], expected.detach(), rtol=1e-9, atol=1e-12)


def test_in_float32_stacked_and_sequential_training_give_nearly_the_same_scores():
    autoencoder = Autoencoder(Dense().build((6,)), GaussianLikelihood())
    rows = rows_of((6,), 200).float()
    scores = [
        AnchoredEnsemble(members=4)
        .fit(autoencoder, rows, training=Training(epochs=30, members_at_once=size), seed=1)
        .nll(rows)
        for size in (4, 1)
    ]
    torch.testing.assert_close(*scores, rtol=5e-3, atol=1e-6)


def test_early_stopping_stops_each_member_as_if_it_were_alone():
    from indubio.posteriors import EarlyStopping

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
    torch.testing.assert_close(*scores, rtol=1e-9, atol=1e-12)


BY_HAND = {
    "dense": (Dense(), (5,)),
    "dense, bias, no skips": (Dense(bias=True, skips=False), (5,)),
    "dense, no last activation": (Dense(last_activation="none", bias=True), (5,)),
    "dense, one hidden layer": (Dense(widths=(9,), latent=2), (5,)),
    "dense on windows": (Dense(), (4, 2)),
    "conv": (Conv1d(linear=(7,)), (20, 2)),
    "conv, odd length": (Conv1d(linear=(7,)), (31, 3)),
    "conv, bias, no skips": (Conv1d(linear=(7,), bias=True, skips=False), (23, 2)),
    "conv, no linear layer between": (Conv1d(linear=(), bias=True), (21, 2)),
    "conv, stride beyond the kernel": (Conv1d(channels=(3,), kernels=(2,), strides=(3,), linear=(6,)), (19, 2)),
    "conv, three of them": (
        Conv1d(channels=(3, 4, 5), kernels=(5, 3, 2), strides=(2, 3, 1), linear=(6, 5)),
        (41, 2),
    ),
}


@pytest.mark.parametrize("net", BY_HAND)
@pytest.mark.parametrize("dropout", [False, True])
def test_the_backward_pass_by_hand_is_that_of_autograd(net, dropout):
    architecture, shape = BY_HAND[net]
    autoencoder = Autoencoder(architecture.build(shape), GaussianLikelihood())
    assert can_differentiate(autoencoder)
    each = [autoencoder.initial(torch.Generator().manual_seed(seed), torch.float64) for seed in range(3)]
    weights = {name: torch.stack([one[name] for one in each]) for name in each[0]}
    gradients = {name: torch.full_like(weight, torch.nan) for name, weight in weights.items()}
    by_hand = BlockGradient(autoencoder, weights, gradients)

    # Batches of two sizes, in turns: nothing of one may be left in the buffers of the next.
    for batch in (7, 4, 7):
        rows = rows_of((batch, *shape), 3) + 0.1 * batch
        masks = (
            [(rows_of((batch, units), 3) > 0.3).double() for units in autoencoder.network.dropout_units]
            if dropout
            else None
        )
        loss = by_hand(rows, masks)

        leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        expected = autoencoder.nll(leaves, rows, masks=masks).mean(1)
        expected.sum().backward()
        torch.testing.assert_close(loss, expected.detach())
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, leaves[name].grad, rtol=1e-11, atol=1e-14)


def test_what_is_not_written_out_takes_autograd():
    others = [
        Autoencoder(Dense(layer_norm=True).build((5,)), GaussianLikelihood()),
        Autoencoder(Dense(activation="tanh").build((5,)), GaussianLikelihood()),
        Autoencoder(Dense().build((5,)), LaplaceLikelihood()),
        Autoencoder(Dense().build((5,), output_noise=True), GaussianLikelihood(noise="per_example")),
        Autoencoder(Conv1d().build((60, 1), code_noise=True), GaussianLikelihood()),
    ]
    assert not any(can_differentiate(autoencoder) for autoencoder in others)


COMPILED = BY_HAND | {
    # Products in parts, and a layer's weights in several blocks.
    "dense, wide": (Dense(widths=(300,), latent=10, bias=True), (150,)),
    "dense, parts of the output": (Dense(bias=True), (64,)),
    "dense, too wide for small products": (Dense(widths=(4000,), latent=3), (20,)),
}


ANCHORED = AnchoredEnsemble(members=3, prior_scale=1e-3)
TRAINED = {
    "anchored": ANCHORED,
    "one network": Deterministic(prior_scale=1e-3),
    "dropout": MCDropout(draws=4, dropout=0.3, prior_scale=1e-3),
}


def fitted(architecture, shape, *, dtype=torch.float64, threads=None, posterior=ANCHORED, rows=70) -> Draws:
    autoencoder = Autoencoder(architecture.build(shape), GaussianLikelihood())
    # Batches of 32, 32 and 6: nothing of one may be left in the room of the next.
    training = Training(epochs=2, batch_size=32, learning_rate=0.01, threads=threads)
    return posterior.fit(autoencoder, rows_of(shape, rows).to(dtype), training=training, seed=1)


@pytest.mark.parametrize("net", COMPILED)
@pytest.mark.parametrize("posterior", TRAINED)
def test_the_compiled_engine_trains_and_scores_as_torch_does(net, posterior, request):
    (architecture, shape), posterior = COMPILED[net], TRAINED[posterior]
    rows = rows_of(shape, 300)  # more than are scored at once
    draws = fitted(architecture, shape, posterior=posterior)
    scores = draws.nll(rows)
    again, apart = draws.nll_apart(rows)
    assert torch.equal(again, scores)
    request.getfixturevalue("without_numba")
    expected = fitted(architecture, shape, posterior=posterior)
    for name, weight in expected.weights.items():
        torch.testing.assert_close(draws.weights[name], weight, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(scores, expected.nll(rows), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(apart, expected.nll_per_feature(rows), rtol=1e-9, atol=1e-12)


def test_the_sigmoid_in_single_precision_is_that_of_double_precision():
    from indubio.autoencoders.kernel import _sigmoid

    z = np.append(np.linspace(-86, 100, 100_001), [-np.inf, -1e30, 1e30, np.inf, np.nan]).astype(np.float32)
    found = z.copy()
    _sigmoid(found, np.float32(1))
    expected = expit(z.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-37)


def test_the_order_in_which_weights_are_named_means_nothing():
    # A loaded model has them sorted by name.
    draws = fitted(Dense(bias=True), (5,))
    turned = Draws(draws.autoencoder, draws.count, dict(sorted(draws.weights.items())))
    assert list(turned.weights) != list(draws.weights)
    assert torch.equal(turned.nll(rows_of((5,))), draws.nll(rows_of((5,))))


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(compiled, "THREAD_PRODUCTS", 0)  # or so small a work would stay on one
    alone, shared = (fitted(Dense(), (9,), dtype=torch.float32, threads=threads) for threads in (1, 2))
    assert all(torch.equal(alone.weights[name], shared.weights[name]) for name in alone.weights)


def test_masks_that_are_drawn_a_step_at_a_time_are_the_same(monkeypatch):
    at_once = fitted(Dense(), (9,), posterior=TRAINED["dropout"])
    monkeypatch.setattr(compiled, "MASKS_AT_ONCE", 1)
    by_step = fitted(Dense(), (9,), posterior=TRAINED["dropout"])
    assert all(torch.equal(at_once.weights[name], by_step.weights[name]) for name in at_once.weights)


def test_blas_gets_its_threads_back_after_the_last_of_several_works():
    libraries = compiled._blas_libraries()
    before = [library.num_threads for library in libraries]
    with compiled.one_blas_thread():
        with compiled.one_blas_thread():
            pass
        assert all(library.num_threads == 1 for library in libraries)
    assert [library.num_threads for library in libraries] == before


def test_what_is_not_compiled_runs_on_torch(without_numba):
    rows = rows_of((5,))
    assert compiled.engine_for(Autoencoder(Dense().build((5,)), GaussianLikelihood()), rows) is None
    assert bool(fitted(Dense(), (5,)).nll(rows).isfinite().all())
