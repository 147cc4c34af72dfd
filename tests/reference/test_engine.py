"""Every engine against plain torch in double precision, where the two agree to rounding."""

from dataclasses import replace
from itertools import cycle, product
from math import sqrt

import numpy as np
import pytest
import torch

from indubio.networks import Conv1d, Conv2d, Dense, Dynamics, PointWeights
from indubio.numerics import streams
from tests.engines import ENGINES, NOISES
from tests.reference.engine_cases import (
    CASES,
    CLOSE,
    FEW,
    NETWORKS,
    NOISY,
    POINTS,
    SHAPES,
    Case,
    adam,
    batches_of,
    corruption_of,
    noisy_inputs,
)
from tests.reference.plain_network import kl_of_code

BATCH, RATES = 9, (0.01, 0.02, 0.005)  # batches of 9, 9 and 5 of 23 rows: nothing of one may be left in the next


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    return request.param


def trainer_of(case: Case, engine: str, objective, values, anchors=None, *, seed: int = 3, batch: int = BATCH, **how):
    own = streams(seed, len(values))
    return ENGINES[engine](case.autoencoder).trainer(objective, values, anchors, own, batch=batch, threads=1, **how)


def sampler_of(case: Case, engine: str, chain: Dynamics, values, *, batch: int = BATCH, **how):
    return ENGINES[engine](case.autoencoder).sampler(chain, values, streams(3, 1)[0], batch=batch, **how)


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(array)


# ----- training


@pytest.mark.parametrize(("name", "anchored"), list(zip(POINTS, cycle([False, True]), strict=False)))
def test_steps_are_those_of_adam_on_the_plain_loss(name, anchored, engine):
    case = CASES[name]
    values, rows, order = case.values(), case.rows(), case.order()
    given, anchors = values.copy(), case.values(seed=1) if anchored else None
    # A prior strong enough to move the weights: lambda of the paper would hide a wrong gradient.
    trainer = trainer_of(case, engine, PointWeights(prior_scale=1e-3), values, anchors)
    totals = trainer.steps(rows, order, RATES) + trainer.steps(rows, order, RATES)

    expected = adam(
        [case.nll] * NETWORKS,
        values,
        rows,
        2 * batches_of(order, BATCH),
        2 * RATES,
        prior_scale=1e-3,
        anchors=anchors,
    )
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], **CLOSE)
    np.testing.assert_array_equal(values, given)  # what was given is not trained in place


def test_rows_beyond_the_last_rate_are_left_out(engine):
    case = CASES["dense, bias"]
    values, rows, order = case.values(), case.rows(), case.order()
    trainer = trainer_of(case, engine, PointWeights(prior_scale=0), values)
    totals = trainer.steps(rows, order, RATES[:2])
    expected = adam([case.nll] * NETWORKS, values, rows, batches_of(order[:, :18], BATCH), RATES[:2])
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], **CLOSE)


@pytest.mark.parametrize(
    "turned", [np.asfortranarray, lambda rows: rows[::-1].copy()[::-1]], ids=["columns", "strides"]
)
def test_how_the_rows_lie_in_memory_means_nothing(turned, engine):
    case = CASES["conv, leaky_relu"]
    rows, order, found = case.rows(), case.order(), []
    fixed = turned(rows)
    fixed.flags.writeable = False
    for given in (rows, fixed):
        trainer = trainer_of(case, engine, PointWeights(prior_scale=1e-3), case.values())
        found.append((trainer.steps(given, order, RATES), trainer.held_out_loss(given), trainer.values().copy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_training_goes_on_from_what_was_put_there(engine):
    # Adam keeps its moments, so the first step after is not that of a fresh one; the loss tells where it is.
    case = CASES["dense, bias"]
    values, rows, order = case.values(), case.rows(), case.order()
    trainer = trainer_of(case, engine, PointWeights(prior_scale=0), values)
    first = trainer.steps(rows, order[:, :9], [0.01])
    assert not np.array_equal(trainer.values(), values)
    trainer.put(values)
    np.testing.assert_array_equal(trainer.values(), values)
    np.testing.assert_allclose(trainer.steps(rows, order[:, :9], [0.01]), first, rtol=1e-12)


@pytest.mark.parametrize("name", [*FEW, *NOISY])
def test_the_held_out_loss_is_the_mean_nll_without_noise(name, engine):
    case = CASES[name]
    values, rows = case.values(), case.rows(200)
    objective = PointWeights(
        prior_scale=1, dropout=0.0 if case.code_noise else 0.5, kl_weight=1 if case.code_noise else None
    )
    found = trainer_of(case, engine, objective, values).held_out_loss(rows)
    expected = [case.nll(tensor(theta), tensor(rows)).item() for theta in values]
    np.testing.assert_allclose(found, expected, **CLOSE)


# ----- code noise


@pytest.mark.parametrize("name", [name for name in NOISY if CASES[name].network.code_heads == "linear"])
def test_with_vanishing_code_noise_steps_are_those_on_nll_and_kl(name, engine):
    case = CASES[name]
    values, rows, order = case.values(), case.rows(), case.order()
    heads = case.autoencoder.named(values)
    heads["code_log_variance.weight"][:] = 0
    heads["code_log_variance.bias"][:] = -60  # sigma = 1e-13
    trainer = trainer_of(case, engine, PointWeights(prior_scale=1e-3, kl_weight=0.05), values)
    totals = trainer.steps(rows, order, RATES)

    def loss(theta, batch):
        return case.nll(theta, batch) + 0.05 * kl_of_code(case.passed(theta, batch)).mean()

    expected = adam([loss] * NETWORKS, values, rows, batches_of(order, BATCH), RATES, prior_scale=1e-3)
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", NOISY)
def test_code_noise_is_drawn_afresh_for_every_row(name, engine):
    case = CASES[name]
    values, rows, order = case.values(), case.rows(), case.order()
    trainer = trainer_of(case, engine, PointWeights(prior_scale=0, kl_weight=0.05), values)
    totals = trainer.steps(rows, order, RATES)

    def loss_of(own):
        def loss(theta, batch):
            noise = tensor(own.code(len(batch), case.network.latent_shape)).double()
            kl = kl_of_code(case.passed(theta, batch)).mean()
            return case.nll(theta, batch, noise=noise) + 0.05 * kl

        return loss

    losses = [loss_of(NOISES[engine](member, seed=3)) for member in range(NETWORKS)]
    expected = adam(losses, values, rows, batches_of(order, BATCH), RATES)
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], **CLOSE)


def test_code_noise_has_the_spread_that_the_encoder_says(engine):
    # Without skips, squares or sigmoid the code is the reconstruction's only way: x -> W (c + sigma e), so the NLL of
    # zeros is |W sigma e|^2 / 2D, of known mean.
    case = Case(
        Dense(widths=(1,), latent=3, skips=False, last_activation="none", activation="leaky_relu", slope=1.0),
        (4,),
        code_noise=True,
    )
    values, rows = case.values(networks=2), np.zeros((20_000, 4))
    named = case.autoencoder.named(values)
    named["code_log_variance.weight"][:] = 0
    trainer = trainer_of(case, engine, PointWeights(prior_scale=0, kl_weight=0.0), values, batch=len(rows))
    found = trainer.steps(rows, case.order(len(rows), networks=2), [1e-12])
    for network in range(2):
        spread = np.exp(named["code_log_variance.bias"][network] / 2)
        there = spread[:, None] * named["decoder.0.weight"][network] @ named["decoder.1.weight"][network]
        expected = (there**2).sum() / 8
        # The NLL of a row is at most a scaled chi-square of 3 degrees, so its deviation is at most sqrt(2) means.
        assert found[network] == pytest.approx(expected, rel=5 * sqrt(2 / len(rows)))


# ----- dropout


@pytest.mark.parametrize("name", SHAPES)
def test_every_row_has_masks_of_its_own(name, engine):
    case = CASES[name]
    values, rows, order = case.values(), case.rows(), case.order()
    trainer = trainer_of(case, engine, PointWeights(prior_scale=1e-3, dropout=0.3), values)
    totals = trainer.steps(rows, order, RATES)

    def loss_of(own):
        def loss(theta, batch):
            masks = own.masks(len(batch), case.network.dropout_units, 0.7)
            return case.nll(theta, batch, masks=[tensor(mask).double() for mask in masks])

        return loss

    losses = [loss_of(NOISES[engine](member, seed=3)) for member in range(NETWORKS)]
    expected = adam(losses, values, rows, batches_of(order, BATCH), RATES, prior_scale=1e-3)
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], **CLOSE)


@pytest.mark.parametrize("shape", [(3,), (6, 1), (3, 4, 1)], ids=["units", "channels", "channels of images"])
def test_dropout_switches_units_at_its_rate_without_rescaling(shape, engine):
    # So few units that the mean over all masks is known.
    convolution = {"channels": (2,), "kernels": (3,), "strides": (2,), "linear": (), "latent": 2}
    architecture = {
        1: Dense(widths=(2,), latent=1, bias=True),
        2: Conv1d(**convolution),
        3: Conv2d(**convolution),
    }[len(shape)]
    case, keep, copies = Case(architecture, shape), 0.6, 40_000
    values, row = case.values(), case.rows(1)
    units = case.network.dropout_units
    trainer = trainer_of(case, engine, PointWeights(prior_scale=0, dropout=1 - keep), values, batch=copies)
    found = trainer.steps(np.repeat(row, copies, axis=0), case.order(copies), [1e-12])
    every = np.array(list(product([0.0, 1.0], repeat=sum(units))))
    chance = np.prod(np.where(every == 1, keep, 1 - keep), axis=1)
    masks = [tensor(part) for part in np.split(every, np.cumsum(units)[:-1], axis=1)]
    for network, theta in enumerate(values):
        repeated = tensor(np.repeat(row, len(every), axis=0))
        nll = case.nll_apart(tensor(theta), repeated, masks=masks).flatten(1).mean(1).numpy()
        mean = chance @ nll
        error = sqrt(chance @ (nll - mean) ** 2 / copies)
        assert found[network] == pytest.approx(mean, abs=5 * error)
        assert abs(nll[-1] - mean) > 50 * error  # that of no dropout at all is another


# ----- noise on the inputs


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("kind", ["fixed", "log-uniform", "by feature"])
def test_inputs_are_noisy_and_what_is_scored_is_clean(name, kind, engine):
    case = CASES[name]
    values, rows, order, given = case.values(), case.rows(), case.order(), corruption_of(case, kind)
    trainer = trainer_of(case, engine, PointWeights(prior_scale=1e-3), values, corruption=given)
    totals = trainer.steps(rows, order, RATES)

    def loss_of(own):
        def loss(theta, batch):
            seen = noisy_inputs(own, case, batch, given)
            own.pass_over()
            return case.nll(theta, batch, seen=seen)

        return loss

    losses = [loss_of(NOISES[engine](member, seed=3)) for member in range(NETWORKS)]
    expected = adam(losses, values, rows, batches_of(order, BATCH), RATES, prior_scale=1e-3)
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], **CLOSE)
    plain = [case.nll(tensor(theta), tensor(rows)).item() for theta in trainer.values()]
    np.testing.assert_allclose(trainer.held_out_loss(rows), plain, **CLOSE)


@pytest.mark.parametrize("name", ["dense, bias", "conv, leaky_relu"])
def test_noisy_inputs_and_dropout_draw_from_streams_of_their_own(name, engine):
    case = CASES[name]
    values, rows, order, given = case.values(), case.rows(), case.order(), corruption_of(case, "by feature")
    trainer = trainer_of(case, engine, PointWeights(prior_scale=0, dropout=0.3), values, corruption=given)
    totals = trainer.steps(rows, order, RATES)

    def loss_of(own):
        def loss(theta, batch):
            seen = noisy_inputs(own, case, batch, given)
            masks = own.masks(len(batch), case.network.dropout_units, 0.7)
            return case.nll(theta, batch, seen=seen, masks=[tensor(mask).double() for mask in masks])

        return loss

    losses = [loss_of(NOISES[engine](member, seed=3)) for member in range(NETWORKS)]
    expected = adam(losses, values, rows, batches_of(order, BATCH), RATES)
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], **CLOSE)


@pytest.mark.parametrize("name", NOISY)
def test_noisy_inputs_and_a_noisy_code_draw_from_streams_of_their_own(name, engine):
    case = CASES[name]
    values, rows, order, given = case.values(), case.rows(), case.order(), corruption_of(case, "log-uniform")
    trainer = trainer_of(case, engine, PointWeights(prior_scale=0, kl_weight=0.05), values, corruption=given)
    totals = trainer.steps(rows, order, RATES)

    def loss_of(own):
        def loss(theta, batch):
            seen = noisy_inputs(own, case, batch, given)
            noise = tensor(own.code(len(batch), case.network.latent_shape)).double()
            return case.nll(theta, batch, seen=seen, noise=noise) + 0.05 * kl_of_code(case.passed(theta, seen)).mean()

        return loss

    losses = [loss_of(NOISES[engine](member, seed=3)) for member in range(NETWORKS)]
    expected = adam(losses, values, rows, batches_of(order, BATCH), RATES)
    np.testing.assert_allclose(totals, expected[0], **CLOSE)
    np.testing.assert_allclose(trainer.values(), expected[1], **CLOSE)


@pytest.mark.parametrize("name", ["dense, bias", "conv, leaky_relu"])
def test_a_chain_is_given_noisy_inputs_too(name, engine):
    case = CASES[name]
    values, rows, order = case.values(networks=1), case.rows(), case.order(networks=1)
    chain, given = Dynamics(prior_scale=0, step_size=0.05, friction=0.2, spread=0.0), corruption_of(case, "by feature")
    sampler = sampler_of(case, engine, chain, values, corruption=given)
    last, own = sampler.steps(rows, order), NOISES[engine](0, seed=3)

    theta = torch.tensor(values[0], requires_grad=True)
    sgd = torch.optim.SGD([theta], lr=0.05, momentum=0.8)
    for index in batches_of(order, BATCH):
        batch = tensor(rows[index[0]])
        sgd.zero_grad()
        loss = case.nll(theta, batch, seen=noisy_inputs(own, case, batch, given))
        own.weights(1, len(theta))  # the kicks of the torch engine come from the same stream
        loss.backward()
        sgd.step()
    np.testing.assert_allclose(last, loss.item(), **CLOSE)
    np.testing.assert_allclose(sampler.values()[0], theta.detach(), **CLOSE)


# ----- chains


@pytest.mark.parametrize("name", FEW)
def test_without_kicks_a_chain_is_gradient_descent_with_momentum(name, engine):
    case = CASES[name]
    values, rows, order = case.values(networks=1), case.rows(), case.order(networks=1)
    chain = Dynamics(prior_scale=1e-3, step_size=0.05, friction=0.2, spread=0.0)
    sampler = sampler_of(case, engine, chain, values)
    last = [sampler.steps(rows, order), sampler.steps(rows, order)]

    theta = torch.tensor(values[0], requires_grad=True)
    sgd, losses = torch.optim.SGD([theta], lr=0.05, momentum=0.8), []
    for index in 2 * batches_of(order, BATCH):
        sgd.zero_grad()
        loss = case.nll(theta, tensor(rows[index[0]]))
        (loss + 1e-3 * theta.square().sum()).backward()
        sgd.step()
        losses.append(loss.item())
    np.testing.assert_allclose(last, [losses[2], losses[5]], **CLOSE)
    np.testing.assert_allclose(sampler.values()[0], theta.detach(), rtol=1e-8, atol=1e-10)  # a beta's slopes are steep


@pytest.mark.parametrize("name", FEW)
def test_the_gradient_at_some_values_is_that_of_plain_torch(name, engine):
    case = CASES[name]
    values, rows = case.values(networks=1), case.rows()
    kept = values.copy()
    found = ENGINES[engine](case.autoencoder).gradient(values, rows)
    theta = torch.tensor(values[0], requires_grad=True)
    case.nll(theta, tensor(rows)).backward()
    np.testing.assert_allclose(found[0], theta.grad, **CLOSE)
    np.testing.assert_array_equal(values, kept)


def test_the_moves_of_a_chain_can_change_on_the_way(engine):
    case = CASES["dense, bias"]
    values, rows, order = case.values(networks=1), case.rows(), case.order(networks=1)
    chain = Dynamics(prior_scale=1e-3, step_size=0.05, friction=0.2, spread=0.0)
    kinds = [chain, replace(chain, step_size=0.02, prior_scale=1e-2), replace(chain, step_size=0.1, friction=0.5)]
    sampler = sampler_of(case, engine, chain, values)
    for kind in kinds:
        sampler.chain = kind
        sampler.steps(rows, order)

    theta, momentum = torch.tensor(values[0], requires_grad=True), torch.zeros(values.shape[1], dtype=torch.double)
    for kind, index in [(kind, index) for kind in kinds for index in batches_of(order, BATCH)]:
        loss = case.nll(theta, tensor(rows[index[0]])) + kind.prior_scale * theta.square().sum()
        (gradient,) = torch.autograd.grad(loss, theta)
        momentum = (1 - kind.friction) * momentum - kind.step_size * gradient
        with torch.no_grad():
            theta += momentum
    np.testing.assert_allclose(sampler.values()[0], theta.detach(), **CLOSE)
    sampler.chain = replace(chain, step_size=0.0, friction=1.0, spread=0.01)
    sampler.steps(rows, order)
    off = sampler.values()[0] - theta.detach().numpy()  # three kicks; of 1,167 weights known to 2 %
    assert off.std() == pytest.approx(0.01 * sqrt(3), rel=0.1)


@pytest.mark.parametrize("name", NOISY)
def test_a_chain_of_a_noisy_code_follows_nll_kl_and_a_prior_of_every_weight(name, engine):
    case = CASES[name]
    values, rows, order = case.values(networks=1), case.rows(), case.order(networks=1)
    priors = np.random.default_rng(5).uniform(0, 1e-2, size=values.shape[1])
    chain = Dynamics(prior_scale=priors, step_size=0.05, friction=0.2, spread=np.zeros(len(priors)), kl_weight=0.05)
    sampler = sampler_of(case, engine, chain, values)
    last, own = sampler.steps(rows, order), NOISES[engine](0, seed=3)

    theta = torch.tensor(values[0], requires_grad=True)
    sgd = torch.optim.SGD([theta], lr=0.05, momentum=0.8)
    for index in batches_of(order, BATCH):
        batch = tensor(rows[index[0]])
        noise = tensor(own.code(len(batch), case.network.latent_shape)).double()
        if engine == "torch":
            own.weights(1, len(theta))  # the kicks come from the same stream
        sgd.zero_grad()
        loss = case.nll(theta, batch, noise=noise) + 0.05 * kl_of_code(case.passed(theta, batch)).mean()
        (loss + (tensor(priors) * theta.square()).sum()).backward()
        sgd.step()
    np.testing.assert_allclose(last, loss.item(), **CLOSE)
    np.testing.assert_allclose(sampler.values()[0], theta.detach(), **CLOSE)


@pytest.mark.parametrize("name", ["dense, wide", "code noise, conv"])
def test_kicks_go_to_the_weights_that_they_are_for(name, engine):
    case = CASES[name]
    values, rows, order = case.values(networks=1), case.rows(9), case.order(9, networks=1)
    spread = np.where(np.arange(values.shape[1]) % 3, 0.0, np.linspace(0.1, 0.5, values.shape[1]))
    moved = []
    for given in (0.0, spread):
        chain = Dynamics(prior_scale=1e-3, step_size=0.05, friction=0.2, spread=given, kl_weight=0.1)
        if not case.code_noise:
            chain = replace(chain, kl_weight=None)
        sampler = sampler_of(case, engine, chain, values)
        sampler.steps(rows, order)
        moved.append(sampler.values()[0].copy())
    kick, kicked = moved[1] - moved[0], spread > 0
    np.testing.assert_allclose(kick[~kicked], 0, atol=1e-15)
    standard = kick[kicked] / spread[kicked]
    assert standard.var() == pytest.approx(1, abs=5 * sqrt(2 / kicked.sum()))
    assert standard.mean() == pytest.approx(0, abs=5 / sqrt(kicked.sum()))


def test_a_chain_settles_to_the_posterior(engine):
    # Zeros are reconstructed perfectly whatever the weights, so L = lambda theta^2 for each of many independent
    # weights, and the chain settles to N(0, T / (2 lambda N)).
    case = Case(Dense(widths=(90, 90), latent=20, last_activation="none"), (30,))
    curvature, examples, temperature, friction, step_size = 2.0, 50, 0.5, 0.1, 0.01
    spread = sqrt(2 * friction * step_size * temperature / examples)
    chain = Dynamics(prior_scale=curvature / 2, step_size=step_size, friction=friction, spread=spread)
    size = case.autoencoder.weight_count()
    sampler = sampler_of(case, engine, chain, np.zeros((1, size)), batch=3)
    rows = np.zeros((3, 30))
    order = np.tile(np.arange(3), 2000)[None]
    sampler.steps(rows, order)
    expected = temperature / (examples * curvature)
    values = sampler.values()[0]
    assert size > 20_000
    assert values.mean() == pytest.approx(0, abs=4 * sqrt(expected / size))
    # 20,000 independent chains know their variance to 1 %; the step size adds a known bias of the same order.
    assert values.var() == pytest.approx(expected, rel=0.06)


# ----- single precision


@pytest.mark.parametrize("name", CASES)
def test_in_single_precision_steps_are_nearly_the_same(name, engine):
    case = CASES[name]
    values, rows, order = case.values(), case.rows(200), case.order(200)
    single = [array.astype(np.float32) for array in (values, rows)]
    objective = PointWeights(prior_scale=1e-3, kl_weight=0.0 if case.code_noise else None)
    totals = []
    for given, seen in ((values, rows), single):
        trainer = trainer_of(case, engine, objective, given, batch=100)
        totals.append(trainer.steps(seen, order, [1e-3, 1e-3]))
        assert trainer.values().dtype == given.dtype
    np.testing.assert_allclose(totals[1], totals[0], rtol=1e-3 if case.code_noise else 1e-4, atol=1e-5)
