"""Noise on what networks are given: how much each feature gets, and that it does what it is for."""

import numpy as np
import pytest
from scipy import stats

from indubio import AnchoredEnsemble, Dense, Detector, ExampleStream, HoldOut, Training, load, save
from indubio.data import read_table
from indubio.errors import ConfigError
from indubio.networks import Autoencoder, Denoising, EarlyStopping, GaussianLikelihood
from indubio.networks.training.denoising import tail_factors
from indubio.posteriors import Deterministic
from indubio.prepare import ZScore
from tests.engines import ENGINES, run_on

RNG = np.random.default_rng(0)


def test_a_feature_of_heavier_tails_than_a_normal_gets_less_noise():
    rows = np.stack([RNG.uniform(size=4000), RNG.laplace(size=4000), RNG.standard_t(4, size=4000)], axis=1)
    expected = np.minimum(1, np.sqrt(3 / stats.kurtosis(rows, fisher=False)))
    np.testing.assert_allclose(tail_factors(rows), expected, rtol=1e-9)
    assert tail_factors(rows)[0] == 1


def test_a_rare_category_gets_noise_in_proportion_to_the_root_of_its_share():
    rows = np.zeros((1000, 2), np.float32)
    rows[:10, 0], rows[:500, 1] = 1, 1
    rare, balanced = tail_factors(rows)
    assert rare == pytest.approx(np.sqrt(3 * 0.01), rel=0.02)
    assert balanced == 1


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e6])
def test_a_constant_feature_gets_none(value):
    assert tail_factors(np.full((33, 1), value, np.float32)).tolist() == [0]


def test_the_units_of_a_feature_change_nothing():
    rows = RNG.laplace(size=(500, 3))
    np.testing.assert_allclose(tail_factors(rows * [1e-6, 1, 1e6]), tail_factors(rows), rtol=1e-9)


def test_a_sensor_has_one_factor_for_all_time_steps():
    windows = RNG.laplace(size=(30, 20, 2)).astype(np.float32)
    given = Denoising(by_kurtosis=True).corruption(windows, 10)
    expected = tail_factors(windows.reshape(-1, 2))
    np.testing.assert_array_equal(given.factors, np.broadcast_to(expected, (20, 2)))


def test_the_scale_is_one_number_or_a_range():
    rows = np.zeros((4, 2), np.float32)
    fixed, drawn = (Denoising(scale=0.2, highest=high).corruption(rows, 2) for high in (None, 0.9))
    assert (fixed.lowest, fixed.highest, fixed.factors) == (0.2, 0.2, None)
    assert (drawn.lowest, drawn.highest) == (0.2, 0.9)
    with pytest.raises(ConfigError, match=r"`highest` must be at least `scale`, 0\.2, got 0\.1"):
        Denoising(scale=0.2, highest=0.1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_network_that_could_copy_its_input_learns_to_clean_it(engine, monkeypatch):
    # A band around a line: across it the rows have a standard deviation of 0.2, so of noise of 0.5 on top the best
    # guess keeps 0.2^2 / (0.2^2 + 0.5^2) = 0.14, and a copy all.
    run_on(engine, monkeypatch)
    random = np.random.default_rng(1)
    along, across = random.normal(size=(600, 1)), 0.2 * random.normal(size=(600, 1))
    rows = np.concatenate([along + across, along - across], axis=1).astype(np.float32)
    network = Dense(widths=(32,), latent=16, skips=False, bias=True, last_activation="none", activation="tanh")
    autoencoder = Autoencoder(network.build((2,)), GaussianLikelihood())
    off = np.add(along, [[0.5, -0.5]]).astype(np.float32)  # 1 apart
    left = {}
    for name, denoising in {"copies": None, "cleans": Denoising(scale=0.5)}.items():
        training = Training(epochs=100, batch_size=50, learning_rate=0.01, denoising=denoising)
        found = Deterministic().fit(autoencoder, rows, training=training, seed=0).reconstruction(off)[0]
        left[name] = float(np.abs(found[:, 0] - found[:, 1]).mean())
    assert left["cleans"] < 0.35
    assert left["copies"] > 0.6


def test_early_stopping_and_streams_work_with_it(tmp_path):
    rows = RNG.laplace(size=(300, 3))
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    training = Training(epochs=3, denoising=Denoising(by_kurtosis=True), early_stopping=EarlyStopping())
    detector = Detector(
        posterior=AnchoredEnsemble(members=2), training=training, scaling=ZScore(), calibration=HoldOut()
    )
    streamed = detector.fit(ExampleStream(tmp_path / "rows.csv", buffer=100))
    assert np.isfinite(streamed.nll(read_table(tmp_path / "rows.csv"))).all()
    save(streamed, tmp_path / "model")
    assert load(tmp_path / "model").training == training
