"""A coalition against K networks that are trained and scored by themselves, to the bit."""

import numpy as np
import pytest

from indubio import AnchoredEnsemble, Coalition, Conv1d, Dense, Detector, Training
from indubio.networks import (
    Autoencoder,
    Corruption,
    Dynamics,
    FitContext,
    GaussianLikelihood,
    Likelihood,
    PointWeights,
    StudentLikelihood,
    Variational,
    engine_for,
    fresh_weights,
    temperature_of,
)
from indubio.networks.engine.coalition_engine import SAMPLING, TRAINING, CoalitionEngine
from indubio.numerics import stream, streams
from indubio.posteriors import VAE, Deterministic, Draws, MCDropout
from tests.engines import ENGINES

LENGTH, SENSORS, ROWS, BATCH = 21, 3, 40, 16
INNER = Conv1d(channels=(3, 4), kernels=(4, 2), linear=(7,), bias=True, layer_norm=True)
LEARNED = GaussianLikelihood(noise="per_feature")
VARIATIONAL = Variational(prior_scale=0.01, samples=2, mixture=0.5, wide=1.0, narrow=0.1)
OBJECTIVES = {
    "plain": PointWeights(prior_scale=0.0),
    "prior": PointWeights(prior_scale=0.01),
    "dropout": PointWeights(prior_scale=0.01, dropout=0.3),
    "code noise": PointWeights(prior_scale=0.01, kl_weight=0.1),
    "variational": VARIATIONAL,
}


def rows_of(count: int = ROWS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, LENGTH, SENSORS), dtype=np.float32)


def pair(likelihood: Likelihood = LEARNED, *, code_noise: bool = False) -> tuple[Autoencoder, Autoencoder]:
    """The coalition, and the autoencoder of a sensor."""
    noise = {"code_noise": code_noise, "output_noise": likelihood.output_noise}
    whole, alone = Coalition(network=INNER).build((LENGTH, SENSORS), **noise), INNER.build((LENGTH, 1), **noise)
    return Autoencoder(whole, likelihood), Autoencoder(alone, likelihood)


def of_sensor(sensor: int, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights that a network alone would have, found by their names."""
    start = f"sensor.{sensor}."
    own = {name.removeprefix(start): weight for name, weight in weights.items() if name.startswith(start)}
    learned = {name: weight[..., sensor, None] for name, weight in weights.items() if not name.startswith("sensor.")}
    return own | learned


def different_weights(autoencoder: Autoencoder, count: int, dtype: type = np.float32) -> np.ndarray:
    """Fresh weights, those that begin at a constant too."""
    fresh = fresh_weights(autoencoder, streams(0, count), np.dtype(dtype))
    return fresh + np.random.default_rng(0).normal(size=fresh.shape).astype(dtype) / 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("noisy", [False, True], ids=["clean", "denoising"])
def test_networks_are_trained_as_if_there_were_no_others(engine, objective, noisy):
    whole, alone = pair(code_noise=objective == "code noise")
    values, anchors = different_weights(whole, 2), different_weights(whole, 2)[::-1]
    if objective == "variational":
        values, anchors = np.concatenate([values, np.full_like(values, -3)], axis=1), None
    rows, own = rows_of(), streams(5, 2)
    factors = np.random.default_rng(3).random(rows.shape[1:], dtype=np.float32)
    corruption = Corruption(lowest=0.1, highest=0.3, factors=factors) if noisy else None
    order = np.stack([np.random.default_rng(seed).permutation(ROWS) for seed in range(2)])
    rates = [0.01, 0.02, 0.005]
    trainer = CoalitionEngine(whole, ENGINES[engine]).trainer(
        OBJECTIVES[objective], values, anchors, own, batch=BATCH, threads=1, corruption=corruption
    )
    losses, held_out = trainer.steps(rows, order, rates), trainer.held_out_loss(rows)

    def cut(sensor: int, flat: np.ndarray) -> np.ndarray:
        halves = np.split(flat, flat.shape[1] // whole.weight_count(), axis=1)
        return np.concatenate([alone.flat(of_sensor(sensor, whole.named(half))) for half in halves], axis=1)

    expected, expected_held_out = [], []
    for sensor in range(SENSORS):
        single = ENGINES[engine](alone).trainer(
            OBJECTIVES[objective],
            cut(sensor, values),
            None if anchors is None else cut(sensor, anchors),
            [stream(one.key, TRAINING, sensor) for one in own],
            batch=BATCH,
            threads=1,
            corruption=Corruption(lowest=0.1, highest=0.3, factors=factors[:, [sensor]]) if noisy else None,
        )
        expected.append(single.steps(rows[:, :, [sensor]], order, rates))
        expected_held_out.append(single.held_out_loss(rows[:, :, [sensor]]))
        np.testing.assert_array_equal(cut(sensor, trainer.values()), single.values())
    np.testing.assert_allclose(losses, np.mean(expected, axis=0), rtol=1e-6)
    np.testing.assert_allclose(held_out, np.mean(expected_held_out, axis=0), rtol=1e-6)
    before = trainer.values()
    trainer.put(values)
    np.testing.assert_array_equal(trainer.values(), values)
    assert not np.array_equal(before, values)


@pytest.mark.parametrize("engine", ENGINES)
def test_chains_wander_as_if_there_were_no_others(engine):
    whole, alone = pair()
    rows, values, own = rows_of(), different_weights(whole, 1), stream(5, 0, 0)
    chain = Dynamics(prior_scale=0.01, step_size=0.01, friction=0.1, spread=0.01)
    order = np.random.default_rng(1).permutation(ROWS)[None]
    sampler = CoalitionEngine(whole, ENGINES[engine]).sampler(chain, values, own, batch=BATCH)
    losses, last = [], sampler.steps(rows, order)
    for sensor in range(SENSORS):
        single = ENGINES[engine](alone).sampler(
            chain,
            alone.flat(of_sensor(sensor, whole.named(values))),
            stream(own.key, SAMPLING, sensor),
            batch=BATCH,
        )
        losses.append(single.steps(rows[:, :, [sensor]], order))
        found = alone.flat(of_sensor(sensor, whole.named(sampler.values())))
        np.testing.assert_array_equal(found, single.values())
    np.testing.assert_allclose(last, np.mean(losses), rtol=1e-6)


@pytest.mark.parametrize("likelihood", [LEARNED, GaussianLikelihood(noise="per_example"), StudentLikelihood()], ids=str)
@pytest.mark.parametrize("drawn", ["weights", "masks", "noise"])
def test_the_score_is_the_mean_of_the_sensors_scores(drawn, likelihood):
    whole, alone = pair(likelihood, code_noise=drawn == "noise")
    random, rows, count = np.random.default_rng(0), rows_of(), 5
    weights = whole.named(different_weights(whole, count if drawn == "weights" else 1))
    places = len(alone.network.dropout_units)
    masks = noise = None
    if drawn == "masks":
        units = alone.network.dropout_units * SENSORS
        masks = tuple((random.random((count, 1, size)) < 0.8).astype(np.float32) for size in units)
    if drawn == "noise":
        noise = random.normal(size=(count, 1, SENSORS, *alone.network.latent_shape)).astype(np.float32)
    draws = Draws(whole, count, weights, masks=masks, noise=noise)
    each = [
        Draws(
            alone,
            count,
            of_sensor(sensor, weights),
            masks=None if masks is None else masks[sensor * places : (sensor + 1) * places],
            noise=None if noise is None else noise[:, :, sensor],
        )
        for sensor in range(SENSORS)
    ]
    own = [rows[:, :, [sensor]] for sensor in range(SENSORS)]
    scores = [one.nll(part) for one, part in zip(each, own, strict=True)]
    np.testing.assert_array_equal(draws.nll(rows), (scores[0] + scores[1] + scores[2]) / np.float32(3))
    apart, back = draws.nll_per_feature(rows), draws.reconstruction(rows)
    for sensor, (one, part) in enumerate(zip(each, own, strict=True)):
        np.testing.assert_array_equal(apart[..., [sensor]], one.nll_per_feature(part))
        np.testing.assert_array_equal(back[..., [sensor]], one.reconstruction(part))


FITS = [
    (Deterministic(prior_scale=0.01), PointWeights(prior_scale=0.01)),
    (MCDropout(draws=2, dropout=0.3, prior_scale=0.01), PointWeights(prior_scale=0.01, dropout=0.3)),
    # The KL of a code is shared by the values of its own sensor.
    (VAE(draws=2, kl_weight=1.0, prior_scale=0.01), PointWeights(prior_scale=0.01, kl_weight=1 / LENGTH)),
]


@pytest.mark.parametrize(("posterior", "objective"), FITS, ids=["deterministic", "mc_dropout", "vae"])
def test_a_fit_is_one_fit_for_each_sensor_with_the_same_shuffles(posterior, objective):
    whole, alone = pair(code_noise=posterior.code_noise)
    rows, own = rows_of(), stream(7, 0, 0)
    training = Training(epochs=4, batch_size=BATCH, learning_rate=0.01)
    draws = posterior.fit(whole, rows, training=training, seed=7)
    first = [alone.network.initial(own) | LEARNED.initial((LENGTH, 1)) for _ in range(SENSORS)]
    orders = [own.permutation(ROWS)[None] for _ in range(4)]
    for sensor, start in enumerate(first):
        trainer = engine_for(alone).trainer(
            objective,
            alone.flat({name: weight[None] for name, weight in start.items()}),
            None,
            [stream(own.key, TRAINING, sensor)],
            batch=BATCH,
            threads=1,
        )
        for order in orders:
            trainer.steps(rows[:, :, [sensor]], order, [0.01] * 3)
        np.testing.assert_array_equal(alone.flat(of_sensor(sensor, draws.weights)), trainer.values())


@pytest.mark.parametrize("posterior", [Deterministic(), AnchoredEnsemble(members=3, prior_scale="auto")], ids=str)
def test_a_coalition_of_one_sensor_is_its_network(posterior):
    rows = rows_of()[:, :, :1]
    one, other = (
        posterior.fit(
            Autoencoder(architecture.build((LENGTH, 1)), LEARNED), rows, training=Training(epochs=3), seed=1
        ).nll(rows)
        for architecture in (Coalition(network=INNER), INNER)
    )
    np.testing.assert_array_equal(one, other)


def test_chains_of_a_coalition_are_as_warm_as_that_of_a_sensor():
    whole, alone = pair(GaussianLikelihood())
    weights, rows = different_weights(alone, 1), rows_of()[:, :, :1]
    single, same = (
        temperature_of(FitContext(autoencoder=one, rows=given, training=Training(), seed=0), values)
        for one, given, values in (
            (alone, rows, weights),
            (whole, np.repeat(rows, SENSORS, axis=2), np.tile(weights, SENSORS)),
        )
    )
    assert same == pytest.approx(single, rel=1e-6)


def test_a_broken_sensor_does_not_change_what_is_said_of_the_others():
    windows = rows_of(60)
    detector = Detector(
        posterior=AnchoredEnsemble(members=3),
        architecture=Coalition(network=Dense(widths=(8,))),
        training=Training(epochs=2),
    ).fit(windows)
    broken = windows.copy()
    broken[:, :, 1] += 5
    before, after = detector.contributions(windows), detector.contributions(broken)
    np.testing.assert_array_equal(before.features.value[:, [0, 2]], after.features.value[:, [0, 2]])
    assert (after.features.value[:, 1] > before.features.value[:, 1]).all()
    assert (after.features.value.argmax(axis=1) == 1).all()


def test_a_sensors_contribution_is_the_score_of_its_own_network():
    windows = rows_of(60)
    detector = Detector(
        posterior=AnchoredEnsemble(members=3), architecture=Coalition(network=INNER), training=Training(epochs=2)
    ).fit(windows)
    found = detector.contributions(windows).features.value
    draws, scaled = detector.draws_, detector.preparation_.scaling.scaled(windows)
    alone = Autoencoder(INNER.build((LENGTH, 1)), draws.autoencoder.likelihood)
    typical = detector.chain_.scorer.typical
    for sensor in range(SENSORS):
        own = Draws(alone, 3, of_sensor(sensor, draws.weights)).nll(scaled[:, :, [sensor]].astype(np.float32))
        beyond = own - typical[:, :, sensor].mean(axis=1, keepdims=True)
        np.testing.assert_allclose(found[:, sensor], beyond.mean(axis=0) / SENSORS, atol=1e-6)
