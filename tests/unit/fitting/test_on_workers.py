"""Draws that workers train are the draws that one process trains."""

import numpy as np
import pyarrow as pa
import pytest
from distributed import LocalCluster
from torch import nn

from indubio import (
    AnchoredEnsemble,
    Coalition,
    CrossFit,
    Dense,
    Detector,
    ExampleStream,
    HoldOut,
    MCDropout,
    OwnNetwork,
    Training,
    TrainScores,
)
from indubio.data import Table
from indubio.errors import ConfigError
from indubio.networks.training.normal_equations import KEPT
from indubio.posteriors import RandomFeatures
from indubio.workers import Workers
from tests.small_examples import TRAINING, table

QUICK = Training(epochs=3, batch_size=32)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=3, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        yield Workers(cluster=cluster.scheduler_address)


def assert_same(detector: Detector, other: Detector) -> None:
    for name, weight in detector.draws_.weights.items():
        # The same seeds: what may differ is the rounding of another number of networks side by side.
        np.testing.assert_allclose(other.draws_.weights[name], weight, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(other.assess(TRAINING).p_value, detector.assess(TRAINING).p_value)


@pytest.mark.parametrize(
    "settings",
    [
        {"posterior": AnchoredEnsemble(members=7), "calibration": TrainScores()},
        {"posterior": AnchoredEnsemble(members=5), "calibration": CrossFit(folds=2)},
        {"posterior": MCDropout(draws=6), "calibration": CrossFit(folds=3)},
    ],
    ids=["members of an ensemble", "folds of an ensemble", "folds of one network"],
)
def test_what_workers_train_is_what_is_trained_here(settings, cluster):
    here, there = (Detector(training=QUICK, **settings).fit(TRAINING, workers=workers) for workers in (None, cluster))
    assert_same(here, there)


@pytest.mark.filterwarnings("ignore:before you rely")  # the rows are copies
def test_a_stream_is_read_by_every_worker(cluster):
    stream = ExampleStream(
        pa.table({f"x{i}": column for i, column in enumerate(np.tile(TRAINING, (10, 1)).T)}), buffer=500
    )
    here, there = (
        Detector(posterior=AnchoredEnsemble(members=3), training=QUICK).fit(stream, workers=workers)
        for workers in (None, cluster)
    )
    for name, weight in here.draws_.weights.items():
        np.testing.assert_allclose(there.draws_.weights[name], weight, rtol=1e-4, atol=1e-6)
    new = Table(features=stream.source.slice(0, 50))
    np.testing.assert_allclose(there.assess(new).p_value, here.assess(new).p_value)


@pytest.mark.parametrize("calibration", [HoldOut(), CrossFit(folds=2)], ids=["one fold", "two folds"])
def test_workers_that_share_rows_give_the_same_bits(calibration, cluster):
    """Three workers, two draws: the rows of a draw, of several blocks with a rest, are added up by two workers."""
    rows = np.random.default_rng(0).normal(size=(6 * 1024 + 77, 3))
    settings = {"posterior": RandomFeatures(draws=2, units=30, keep_sums=True), "calibration": calibration}
    here, there = (Detector(**settings).fit(rows, workers=workers) for workers in (None, cluster))
    assert_same_bits(here, there)


def test_workers_that_share_a_stream_give_the_same_bits(cluster):
    rows = np.random.default_rng(0).normal(size=(5000, 3))
    stream = ExampleStream(pa.table({f"x{i}": column for i, column in enumerate(rows.T)}), buffer=1500)
    settings = {"posterior": RandomFeatures(draws=4, units=30, keep_sums=True), "calibration": HoldOut()}
    assert_same_bits(*(Detector(**settings).fit(stream, workers=workers) for workers in (None, cluster)))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3, 5])
def test_any_number_of_processes_gives_the_same_bits(processes):
    rows = np.random.default_rng(0).normal(size=(10 * 1024, 3))
    settings = {"posterior": RandomFeatures(draws=2, units=30, keep_sums=True), "calibration": TrainScores()}
    here, there = (Detector(**settings).fit(rows, workers=one) for one in (None, Workers(processes=processes)))
    assert_same_bits(here, there)


def assert_same_bits(detector: Detector, other: Detector) -> None:
    for name, weight in detector.draws_.weights.items():
        np.testing.assert_array_equal(other.draws_.weights[name], weight)
    for name in KEPT:
        np.testing.assert_array_equal(getattr(other.draws_.sums, name), getattr(detector.draws_.sums, name))
    assert other.referral_threshold_ == detector.referral_threshold_


def test_processes_here_train_the_same():
    told = []
    posterior = AnchoredEnsemble(members=2)
    here = Detector(posterior=posterior, training=QUICK, calibration=TrainScores()).fit(TRAINING)
    there = Detector(posterior=posterior, training=QUICK, calibration=TrainScores()).fit(
        TRAINING, workers=Workers(processes=1), progress=told.append
    )
    for name, weight in here.draws_.weights.items():
        np.testing.assert_array_equal(there.draws_.weights[name], weight)
    assert told[-1].done == told[-1].total == 1


def test_a_coalition_is_sent(cluster):
    windows = np.random.default_rng(0).normal(size=(40, 12, 2))
    settings = {"posterior": AnchoredEnsemble(members=3), "architecture": Coalition(network=Dense(widths=(6,)))}
    here, there = (Detector(training=QUICK, **settings).fit(windows, workers=workers) for workers in (None, cluster))
    np.testing.assert_allclose(there.nll(windows), here.nll(windows), rtol=1e-5)


def test_an_own_network_is_not_sent():
    own = OwnNetwork(encoder=lambda shape: nn.Linear(shape[0], 2), decoder=lambda shape: nn.Linear(2, shape[0]))
    with pytest.raises(ConfigError, match="built-in networks"):
        Detector(posterior=AnchoredEnsemble(), architecture=own, training=QUICK).fit(
            table(TRAINING), workers=Workers(processes=1)
        )
