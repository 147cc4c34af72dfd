"""ZeMA: full-rate files, the 1 Hz ones, and the choice of sensors. Cycles are generated and few."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import resample

from indubio.errors import ConfigError, DataError, DownloadError
from indubio_lab.collections import ZEMA_SENSOR_SETS, ZEMA_SENSORS, zema
from indubio_lab.collections.zema_collection import FILES

CYCLES = 20
SECONDS = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Twenty cycles: ten with a good pump, six with only the pump worn, four with pump and valve worn."""
    monkeypatch.setenv("INDUBIO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "zema").mkdir()
    good, worn, both = "100\t100\t0\t130\t0", "100\t100\t2\t130\t1", "100\t73\t1\t130\t0"
    (tmp_path / "zema" / "profile.txt").write_text("\n".join([good] * 10 + [worn] * 6 + [both] * 4) + "\n")
    return tmp_path


def write(folder, name, values):
    np.savetxt(folder / "zema" / f"{name}.txt", values, fmt="%.3f", delimiter="\t")
    return np.round(values, 3)


def at_rate(rate, seed=0):
    return 100 + np.random.default_rng(seed).standard_normal((CYCLES, SECONDS * rate)).cumsum(axis=1)


def windows(task):
    return np.sort(np.concatenate([task.train, task.test])[..., 0], axis=0)


@pytest.mark.parametrize(("sensor", "rate"), [("PS1", 100), ("EPS1", 100), ("FS2", 10)])
def test_a_full_rate_file_becomes_the_mean_of_each_second(sensor, rate, folder):
    values = write(folder, sensor, at_rate(rate))
    task = zema("pump", sensors=sensor, folder=folder)
    assert (len(task.train), len(task.test_inliers), len(task.test_anomalies)) == (7, 3, 6)
    assert task.files == (f"{sensor}.txt",)
    seconds = np.stack([values[:, start : start + rate].mean(axis=1) for start in range(0, SECONDS * rate, rate)], 1)
    np.testing.assert_allclose(windows(task), np.sort(seconds[:16], axis=0))


def test_a_full_rate_file_is_resampled_by_fourier_when_asked(folder):
    values = write(folder, "PS1", at_rate(100))
    task = zema("pump", sensors="PS1", downsample="fourier", folder=folder)
    np.testing.assert_allclose(task.test_anomalies[..., 0], resample(values, SECONDS, axis=1)[10:16])


def test_the_full_rate_file_goes_before_the_means(folder):
    write(folder, "PS1", at_rate(100))
    write(folder, "PS1_1hz", np.zeros((CYCLES, SECONDS)))
    assert zema("pump", sensors="PS1", folder=folder).files == ("PS1.txt",)


def test_the_means_are_read_where_there_is_no_full_rate_file(folder):
    means = write(folder, "PS1_1hz", at_rate(1))
    task = zema("pump", sensors="PS1", folder=folder)
    assert task.files == ("PS1_1hz.txt",)
    np.testing.assert_allclose(task.test_anomalies[..., 0], means[10:16])


def test_means_do_not_pass_for_fourier(folder, monkeypatch):
    archive = replace(FILES["PS1"].archive, addresses=("http://127.0.0.1:9/data.zip",))
    monkeypatch.setitem(FILES, "PS1", replace(FILES["PS1"], archive=archive))
    write(folder, "PS1_1hz", at_rate(1))
    with pytest.raises(DownloadError, match=r"zema/PS1\.txt is not in .* and could not be downloaded"):
        zema("pump", sensors="PS1", downsample="fourier", folder=folder)


def test_several_sensors_become_channels_in_the_order_asked_for(folder):
    flow, warmth = write(folder, "FS1", at_rate(10, 1)), write(folder, "TS2", at_rate(1, 2))
    task = zema("pump", sensors=("TS2", "FS1"), folder=folder)
    assert (task.names, task.units) == (("TS2", "FS1"), ("°C", "l/min"))
    assert task.test_anomalies.shape == (6, SECONDS, 2)
    np.testing.assert_allclose(task.test_anomalies[..., 0], warmth[10:16])
    np.testing.assert_allclose(task.test_anomalies[:, 0, 1], flow[10:16, :10].mean(axis=1))


@pytest.mark.parametrize("name", ZEMA_SENSOR_SETS)
def test_a_set_of_sensors_has_one_for_each_task_and_says_if_it_was_chosen_on_test_labels(name, folder):
    sensor = ZEMA_SENSOR_SETS[name]["pump"]
    write(folder, sensor, at_rate(ZEMA_SENSORS[sensor].rate))
    task = zema("pump", sensors=name, folder=folder)
    assert task.names == (sensor,)
    assert (task.remarks == ('the sensor set "fits" was chosen on test labels',)) == (name == "fits")


@pytest.mark.parametrize("wrong", ["PS7", "ts4", (), ("PS1", "PS1"), ("PS1", "text")])
def test_wrong_sensors_are_refused_with_the_right_ones(wrong):
    with pytest.raises(ConfigError, match=r"`sensors` must be one or several different of PS1, .*, SE, or one of"):
        zema("pump", sensors=wrong)


def test_another_way_of_downsampling_is_refused():
    with pytest.raises(ConfigError, match="`downsample` must be one of mean, fourier, got 'median'"):
        zema("pump", downsample="median")


def test_a_file_cut_short_is_refused_by_its_shape(folder):
    write(folder, "PS1", at_rate(100)[:-1])
    with pytest.raises(DataError, match=r"PS1\.txt: 20 cycles of 6000 values are needed, got \(19, 6000\)"):
        zema("pump", sensors="PS1", folder=folder)


def test_a_missing_value_is_refused_by_its_place(folder):
    values = at_rate(1)
    values[4, 7] = np.nan
    write(folder, "TS1", values)
    with pytest.raises(DataError, match=r"TS1\.txt: a value is missing in row 5, column 8"):
        zema("pump", sensors="TS1", folder=folder)


def test_text_between_the_numbers_is_refused(folder):
    (folder / "zema" / "TS1.txt").write_text("1\t2\nabc\t4\n")
    with pytest.raises(DataError, match=r"TS1\.txt: .*abc"):
        zema("pump", sensors="TS1", folder=folder)
