"""Batches, schedules, the range test, early stopping and the choice of chunks."""

import numpy as np
import pytest

from indubio.errors import ConfigError, TrainingError
from indubio.networks import (
    Autoencoder,
    Dense,
    EarlyStopping,
    GaussianLikelihood,
    PointWeights,
    RangeTest,
    Training,
    fresh_weights,
)
from indubio.networks.training.learning_rate import (
    FoundRates,
    fixed,
    found_rates,
    smoothed_losses,
    smoothly_found_rates,
    triangular,
)
from indubio.networks.training.loop import epoch_orders, members_at_once, thread_count, train
from indubio.numerics import streams
from indubio.posteriors import AnchoredEnsemble, Deterministic
from indubio.workers import cores
from tests.engines import ENGINES


def test_every_network_sees_every_row_once_an_epoch_in_its_own_order():
    rows = np.arange(20.0).reshape(20, 1)
    ((stretch, order),) = epoch_orders(rows, 6, streams(0, 3))
    # 6 + 6 + 6 rows, and the last batch of 2 is too small.
    assert stretch is rows
    assert order.shape == (3, 18)
    assert all(len(np.unique(one)) == 18 for one in order)
    assert not np.array_equal(order[0], order[1])


def test_a_left_over_batch_of_three_is_used():
    ((_, order),) = epoch_orders(np.arange(9.0).reshape(9, 1), 6, streams(0, 1))
    assert order.shape == (1, 9)


def test_two_rows_in_all_are_one_batch():
    ((_, order),) = epoch_orders(np.zeros((2, 1)), 6, streams(0, 1))
    assert order.shape == (1, 2)


@pytest.mark.parametrize(
    ("training", "rows", "size"),
    [
        (Training(batches=3), 1324, 441),
        (Training(batches=5), 3, 1),
        (Training(batch_size=100), 1324, 100),
        (Training(batch_size=100), 7, 7),
    ],
)
def test_batches_are_given_by_size_or_by_number(training, rows, size):
    assert training.batch_rows(rows) == size


def test_small_networks_are_stacked_and_large_ones_go_one_by_one():
    assert members_at_once(Training(), 10, weights=2_000, widest=24, batch=100) == 10
    assert members_at_once(Training(), 10, weights=7_300_000, widest=2780, batch=16) == 1
    assert members_at_once(Training(members_at_once=3), 10, weights=2_000, widest=24, batch=100) == 3
    # 100 draws of 0.5 M weights would not fit what the caches like: some of them, not all, not one.
    assert 1 < members_at_once(Training(), 100, weights=500_000, widest=1000, batch=100) < 100


def test_the_triangular_schedule_goes_up_and_down_once_a_cycle():
    schedule = triangular(0.1, 0.5, 4)
    assert [schedule(step) for step in range(6)] == pytest.approx([0.1, 0.3, 0.5, 0.3, 0.1, 0.3])
    assert fixed(0.2)(17) == 0.2


def test_the_range_test_finds_both_ends_of_a_known_curve():
    # Flat until 1e-3, falling in log rate until 0.1, rising after: as a loss without noise would.
    rates = np.geomspace(1e-7, 10, 401)
    log_rate = np.log10(rates)
    losses = np.where(log_rate < -3, 1.0, np.where(log_rate < -1, 1 - 0.4 * (log_rate + 3), 0.2 + (log_rate + 1)))
    found = found_rates(rates, losses)
    # The running mean lags behind by about ten steps, a factor of 1.6 here.
    assert 1e-3 / 2 < found.low < 2e-3
    assert 0.1 / 2 < found.high < 0.2


def test_a_smooth_curve_is_read_at_its_first_minimum_that_is_near_the_lowest():
    # Flat, then two valleys: the second is a hair deeper, so that the first counts.
    rates = RangeTest(epochs=10, smoothing="gaussian_process").rates(8)
    log_rate = np.log10(rates)
    valleys = 0.97 * np.exp(-((log_rate + 3) ** 2) / 0.5) + np.exp(-(log_rate**2) / 0.5)
    found = smoothly_found_rates(rates, 0.4 - 0.3 * valleys)
    assert found.high == pytest.approx(1e-3, rel=0.2)
    # A tenth of the fall is done where 0.97 exp(-d^2 / 0.5) is 0.1: 1.07 decades before; and half of it.
    assert found.low == pytest.approx(0.5 * 10 ** (-3 - np.sqrt(0.5 * np.log(9.7))), rel=0.3)
    second = smoothly_found_rates(
        rates, 0.4 - 0.3 * np.exp(-(log_rate**2) / 0.5) - 0.1 * np.exp(-((log_rate + 3) ** 2))
    )
    assert second.high == pytest.approx(1, rel=0.2)


def test_a_smooth_curve_without_a_minimum_is_read_at_its_end_and_one_that_never_falls_is_an_error():
    rates = RangeTest(epochs=10, smoothing="gaussian_process").rates(3)
    assert smoothly_found_rates(rates, np.linspace(1, 0, 30)).high == pytest.approx(rates[-1], rel=1e-2)
    with pytest.raises(TrainingError, match="Set `learning_rate` to a number"):
        smoothly_found_rates(rates, np.linspace(1, 2, 30))


def test_alternating_rates_go_up_and_down_in_half_an_epoch_each():
    test, found = RangeTest(use="alternating", margin=1.0), FoundRates(0.1, 0.5)
    assert [test.schedule(found, 3)(step) for step in range(4)] == pytest.approx([0.1, 0.5, 0.1, 0.5])
    assert [test.schedule(found, 5)(step) for step in range(6)] == pytest.approx([0.1, 0.3, 0.5, 0.3, 0.1, 0.3])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_restarted_adam_moves_every_weight_by_the_rate(engine):
    rows = np.random.default_rng(0).random((20, 4), dtype=np.float32)
    autoencoder = Autoencoder(Dense(bias=True).build((4,)), GaussianLikelihood())
    alone = streams(0, 1)
    trainer = ENGINES[engine](autoencoder).trainer(
        PointWeights(prior_scale=0), fresh_weights(autoencoder, alone, rows.dtype), None, alone, batch=20, threads=1
    )
    order = np.arange(20)[None]
    for rate in (0.01, 0.0001, 0.003):
        trainer.restart()
        before = trainer.values().copy()
        trainer.steps(rows, order, [rate])
        # A first step of Adam is rate g / (|g| + 1e-8): gradients that are next to nothing move less.
        assert np.quantile(np.abs(trainer.values() - before), 0.5) == pytest.approx(rate, rel=1e-2)
    before = trainer.values().copy()
    trainer.steps(rows, order, [0.003])
    assert np.ptp(np.abs(trainer.values() - before)) > 1e-5  # a second step remembers


def test_a_short_last_batch_is_left_out_where_asked_for():
    rows = np.arange(10.0).reshape(10, 1)
    for drop_last, kept in ((False, 10), (True, 6)):
        ((_, order),) = epoch_orders(rows, 6, streams(0, 1), drop_last=drop_last)
        assert order.shape == (1, kept)
    ((_, order),) = epoch_orders(rows[:4], 6, streams(0, 1), drop_last=True)
    assert order.shape == (1, 4)  # the only one


def test_a_loss_that_never_falls_is_an_error_that_says_what_to_do():
    with pytest.raises(TrainingError, match="Set `learning_rate` to a number"):
        found_rates(np.geomspace(1e-7, 10, 50), np.linspace(1, 2, 50))


def test_smoothing_a_constant_changes_nothing():
    np.testing.assert_allclose(smoothed_losses(np.full(9, 0.3)), 0.3)


def test_rates_the_wrong_way_round_are_refused():
    with pytest.raises(ConfigError, match="below"):
        RangeTest(lowest=1.0, highest=0.1)


def test_a_found_triangular_schedule_trains():
    rows = np.random.default_rng(0).random((60, 4), dtype=np.float32) / 4
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    untrained, trained = (
        Deterministic().fit(
            autoencoder,
            rows,
            training=Training(epochs=epochs, batch_size=10, learning_rate=RangeTest(highest=0.1, use="triangular")),
            seed=0,
        )
        for epochs in (0, 20)
    )
    assert trained.nll(rows).mean() < untrained.nll(rows).mean() / 2


@pytest.mark.parametrize("engine", ENGINES)
def test_early_stopping_keeps_the_best_weights_not_the_last(engine):
    rows = np.random.default_rng(0).random((60, 4), dtype=np.float32)
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    alone = streams(0, 1)
    trainer = ENGINES[engine](autoencoder).trainer(
        PointWeights(prior_scale=0), fresh_weights(autoencoder, alone, rows.dtype), None, alone, batch=10, threads=1
    )
    seen: list[float] = []
    train(
        trainer,
        rows[:30],
        # A rate so high that the held-out loss soon gets worse again.
        training=Training(epochs=200, batch_size=10, early_stopping=EarlyStopping(patience=3)),
        schedule=fixed(0.3),
        streams=alone,
        held_out=rows[30:],
        tell=lambda done, loss: seen.append(float(trainer.held_out_loss(rows[30:])[0])),
    )
    assert len(seen) < 200
    assert np.argmin(seen) == len(seen) - 4
    assert float(trainer.held_out_loss(rows[30:])[0]) == min(seen)


def test_automatic_epochs_are_early_stopping_with_room():
    rows = np.random.default_rng(0).random((60, 4), dtype=np.float32)
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    told = []
    auto = AnchoredEnsemble(members=3).fit(
        autoencoder, rows, training=Training(epochs="auto"), seed=0, report=told.append
    )
    said = Training(epochs=1000, early_stopping=EarlyStopping())
    explicit = AnchoredEnsemble(members=3).fit(autoencoder, rows, training=said, seed=0)
    for name, weight in auto.weights.items():
        np.testing.assert_array_equal(weight, explicit.weights[name])
    assert told[-1].done < 1000
    alone = Training(epochs="auto", members_at_once=1)
    one_by_one = AnchoredEnsemble(members=3).fit(autoencoder, rows, training=alone, seed=0)
    for name, weight in auto.weights.items():  # a network does not stop with its neighbours
        np.testing.assert_allclose(weight, one_by_one.weights[name], rtol=1e-4, atol=1e-6)


def test_early_stopping_on_one_row_is_an_error_that_names_the_way_out():
    autoencoder = Autoencoder(Dense().build((4,)), GaussianLikelihood())
    with pytest.raises(ConfigError, match="turn early stopping off"):
        Deterministic().fit(
            autoencoder, np.zeros((1, 4), np.float32), training=Training(early_stopping=EarlyStopping()), seed=0
        )


def test_the_threads_are_those_asked_for_or_said_by_the_environment_or_the_cpus_there_are(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert thread_count(Training(threads=3)) == 3
    assert thread_count(Training()) == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")  # four, and two within each
    assert thread_count(Training()) == 4
    for unusable in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", unusable)
        assert thread_count(Training()) == cores()
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert thread_count(Training()) == cores()


def test_the_rates_of_a_range_test_are_the_same_on_every_processor():
    # Powers differ in their last bit between processors; six digits do not.
    rates = RangeTest().rates()
    assert [float(f"{rate:.6g}") for rate in rates] == rates.tolist()
    np.testing.assert_allclose(rates, np.geomspace(1e-7, 10, 100), rtol=1e-5)
