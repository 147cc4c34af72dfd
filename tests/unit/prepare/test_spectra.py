"""Spectra: features of windows against scipy, their names, and what becomes of windows that stand still."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.signal
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from indubio.errors import ConfigError
from indubio.prepare import Spectra, log_of
from indubio.prepare.spectra import FLOOR

RNG = np.random.default_rng(0)
BARE = Spectra(statistics=False, patterns=0)  # levels, spread, bands and envelope
WINDOWS = RNG.normal(size=(37, 128, 3)).cumsum(axis=1) * [0.1, 1, 30] + RNG.normal(size=(37, 1, 3))


def energies(series: np.ndarray, edges: np.ndarray, floor: float) -> list[float]:
    """Log energies of bands of one series, by scipy's periodogram of a Hann window."""
    _, density = scipy.signal.periodogram(series, window="hann", detrend="constant", scaling="density")
    energy = density[1:] / len(series)
    return [np.log(energy[low:high].sum() + floor) for low, high in pairwise(edges)]


@pytest.mark.parametrize("length", [8, 30, 61, 128])
@pytest.mark.parametrize("spacing", ["linear", "log"])
def test_features_are_what_scipy_finds(length, spacing):
    windows = WINDOWS[:, :length]
    fitted = BARE.replaced(spacing=spacing).fit(windows)
    found = fitted.features(windows).reshape(len(windows), 3, -1)
    blocks = len(fitted.block_edges) - 1
    bands = len(fitted.band_edges) - 1
    for window, features in zip(windows[:5], found, strict=False):
        for series, row, floor in zip(window.T, features, fitted.floor, strict=True):
            centred = series - series.mean()
            starts = fitted.block_edges
            means = [series[low:high].mean() for low, high in pairwise(starts)]
            envelope = np.abs(scipy.signal.hilbert(centred))
            expected = [
                *means,
                0.5 * np.log(centred.var() + floor),
                np.log(scipy.stats.kurtosis(series, fisher=False)),
                *energies(series, fitted.band_edges, floor),
                *energies(envelope, fitted.envelope_edges, floor),
            ]
            # The floor moves kurtosis by about 1e-5 of its size; all else is rounding, and the taper's 30 bits.
            np.testing.assert_allclose(row, expected, rtol=1e-6, atol=2e-4)
            np.testing.assert_allclose(row[blocks + 2 : blocks + 2 + bands], expected[blocks + 2 :][:bands], atol=1e-6)


def view_of(fitted, windows, name):
    """The features of one view, (windows, sensors, features)."""
    start = 0
    for view, count in fitted.views.items():
        if view == name:
            return fitted.features(windows).reshape(len(windows), fitted.sensors, -1)[:, :, start : start + count]
        start += count
    raise AssertionError(name)


@pytest.mark.parametrize("length", [8, 31, 128])
def test_statistics_are_what_scipy_finds(length):
    windows = WINDOWS[:5, :length]
    fitted = Spectra().fit(WINDOWS[:, :length])
    for window, found in zip(windows, view_of(fitted, windows, "statistics"), strict=True):
        for series, row, floor in zip(window.T, found, fitted.floor, strict=True):
            expected = [
                series.mean(),
                0.5 * np.log(series.var() + floor),
                series.min(),
                series.max(),
                np.median(series),
                length * np.polyfit(np.arange(length), series, 1)[0],
                scipy.stats.skew(series),
                np.log(scipy.stats.kurtosis(series, fisher=False)),
                0.5 * np.log(np.diff(series).var() + floor),
                series[-1] - series[0],
            ]
            np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-4)  # the floor's share


@pytest.mark.parametrize("length", [16, 61, 128])
def test_shapes_are_moments_of_what_a_plain_filter_gives(length):
    windows = WINDOWS[:4, :length]
    fitted = Spectra(patterns=60).fit(WINDOWS[:, :length])
    found = view_of(fitted, windows, "shape").reshape(4, 3, -1, 3)
    assert len(fitted.shapes.chosen) == 20
    for place, pattern in enumerate(fitted.shapes.chosen):
        weights = np.full(9, -1.0)
        weights[list(pattern.high)] = 2.0
        spread_out = np.zeros(8 * pattern.apart + 1)
        spread_out[:: pattern.apart] = weights / np.linalg.norm(weights)
        for window, row in zip(windows, found[:, :, place], strict=True):
            for series, features, floor in zip(window.T, row, fitted.floor, strict=True):
                followed = np.correlate(series, spread_out, mode="valid")
                energy = (followed**2).mean() + floor
                np.testing.assert_allclose(
                    features,
                    [
                        0.5 * np.log(energy),
                        (followed**3).mean() / energy**1.5,
                        np.log(((followed**4).mean() + 3 * floor**2) / energy**2),
                    ],
                    rtol=1e-8,
                    atol=1e-8,
                )


def test_patterns_are_of_all_widths_and_short_windows_have_none():
    apart = [pattern.apart for pattern in Spectra().of_shape(1024, 1).shapes.chosen]
    assert len(apart) == 40
    assert sorted(set(apart)) == [1, 2, 4, 8, 16, 32, 64]
    assert "shape" not in Spectra().of_shape(15, 1).views
    assert len(Spectra().of_shape(64, 50).shapes.chosen) == 4  # of each of many sensors


def test_views_have_all_features_in_their_order():
    fitted = Spectra().of_shape(64, 2, rate=10.0)
    assert list(fitted.views) == ["levels", "spectrum", "statistics", "shape"]
    assert sum(fitted.views.values()) == fitted.per_sensor
    assert len(set(fitted.names(("a", "b")))) == fitted.count
    assert fitted.names(("a", "b"))[fitted.per_sensor - 1].startswith("a: shape 20 (")


def test_the_floor_is_the_stated_share_of_the_mean_variance():
    np.testing.assert_allclose(Spectra().fit(WINDOWS).floor, FLOOR * WINDOWS.var(axis=1).mean(axis=0), rtol=1e-12)


@given(st.floats(1e-250, 1e250))
def test_the_logarithm_is_the_logarithm(x):
    np.testing.assert_allclose(log_of(np.array([x])), np.log([x]), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("length", [8, 30, 60, 61, 64, 127])
def test_a_row_does_not_depend_on_its_neighbours(length):
    windows = WINDOWS[:, :length]
    settings = Spectra(patterns=12)  # four a sensor, of three or of six
    fitted = settings.fit(windows)
    whole = fitted.features(windows)
    for size in (1, 2, 3, 5, 8):
        parts = [fitted.features(windows[start : start + size]) for start in range(0, len(windows), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    order = RNG.permutation(len(windows))
    np.testing.assert_array_equal(fitted.features(windows[order]), whole[order])
    np.testing.assert_array_equal(fitted.features(np.asfortranarray(windows)), whole)
    doubled = settings.fit(np.concatenate([windows, windows], axis=2))
    np.testing.assert_array_equal(
        doubled.features(np.concatenate([windows, windows], axis=2)), np.concatenate([whole, whole], axis=1)
    )


def test_many_windows_are_done_in_blocks_without_a_difference(monkeypatch):
    fitted = Spectra().fit(WINDOWS)
    whole = fitted.features(WINDOWS)
    monkeypatch.setattr("indubio.prepare.spectra.VALUES_AT_ONCE", 1000)
    np.testing.assert_array_equal(fitted.features(WINDOWS), whole)
    np.testing.assert_array_equal(Spectra().fit(WINDOWS).floor.shape, fitted.floor.shape)


def test_a_window_that_stands_still_has_the_floor_for_its_energies():
    fitted = BARE.replaced(blocks=1).fit(WINDOWS)
    still = fitted.features(np.full((1, 128, 3), 0.1)).reshape(3, -1)
    for row, floor in zip(still, fitted.floor, strict=True):
        np.testing.assert_allclose(row[0], 0.1)
        np.testing.assert_allclose(row[1], 0.5 * np.log(floor))
        np.testing.assert_allclose(row[2], np.log(3))  # as of a normal distribution: it says nothing
        np.testing.assert_allclose(row[3:], np.log(floor))


@pytest.mark.parametrize("level", [0.0, 5.0, -1e9])
def test_a_sensor_that_never_moved_in_training_is_far_away_when_it_does(level):
    fitted = Spectra().fit(np.full((10, 64, 1), level))
    still = fitted.features(np.full((2, 64, 1), level))
    moved = fitted.features(level + (abs(level) + 1) * 1e-3 * WINDOWS[:2, :64, :1])
    assert np.isfinite(still).all()
    np.testing.assert_array_equal(still[0], still[1])
    rms = fitted.names(("s",)).index("s: RMS")
    assert (moved[:, rms] > still[:, rms] + 5).all()


def test_values_near_the_end_of_the_range_have_finite_features():
    fitted = Spectra().fit(WINDOWS)
    huge = np.where(WINDOWS > 0, 1e308, -1e308)
    assert np.isfinite(fitted.features(huge)).all()
    assert np.isfinite(Spectra().fit(huge).floor).all()


def test_names_are_in_hertz_where_the_rate_is_known():
    settings = BARE.replaced(bands=4, envelope=1, blocks=2)
    windows = np.zeros((2, 1024, 1))
    ends = ("0-1500", "1500-3000", "3000-4500", "4500-6000")
    levels = ("vibration: mean 1/2", "vibration: mean 2/2", "vibration: RMS", "vibration: kurtosis")
    bands = tuple(f"vibration: {end} Hz" for end in ends)
    expected = (*levels, *bands, "vibration: envelope 0-6000 Hz")
    assert settings.fit(windows, rate=12000.0).names(("vibration",)) == expected
    assert settings.replaced(rate=12000.0).fit(windows).names(("vibration",)) == expected
    assert settings.fit(windows).names(("x",))[4:6] == ("x: 0-0.125 cycles/sample", "x: 0.125-0.25 cycles/sample")


def test_a_tone_is_in_the_band_that_is_named_after_its_frequency():
    time = np.arange(1024) / 12000.0
    fitted = BARE.replaced(blocks=1, envelope=0).fit(np.random.default_rng(1).normal(size=(5, 1024, 1)), rate=12000.0)
    for frequency in (100.0, 1700.0, 5900.0):
        features = fitted.features(np.sin(2 * np.pi * frequency * time)[None, :, None])[0]
        name = fitted.names(("v",))[3 + int(features[3:].argmax())]
        low, high = map(float, name.removeprefix("v: ").removesuffix(" Hz").split("-"))
        assert low <= frequency <= high


def test_the_envelope_shows_what_modulates_a_tone():
    """Of a tone of 3 kHz whose loudness goes up and down 150 times a second."""
    time = np.arange(1200) / 12000.0
    noise = np.random.default_rng(1).normal(size=(5, 1200, 1))
    fitted = Spectra(blocks=1).fit(noise, rate=12000.0)
    signal = (1 + 0.8 * np.sin(2 * np.pi * 150 * time)) * np.sin(2 * np.pi * 3000 * time)
    features = fitted.features(signal[None, :, None])[0]
    names = fitted.names(("v",))
    envelope = [place for place, name in enumerate(names) if "envelope" in name]
    loudest = names[envelope[int(features[envelope].argmax())]]
    low, high = map(float, loudest.removeprefix("v: envelope ").removesuffix(" Hz").split("-"))
    assert low <= 150 <= high


@pytest.mark.parametrize("length", [8, 9, 20, 33, 1000])
@pytest.mark.parametrize("spacing", ["linear", "log"])
@pytest.mark.parametrize("bands", [1, 3, 16, 400])
def test_every_frequency_is_in_one_band_and_no_band_is_empty(length, spacing, bands):
    fitted = Spectra(bands=bands, spacing=spacing, envelope=bands).of_shape(length, 1)
    for edges in (fitted.band_edges, fitted.envelope_edges):
        assert (edges[0], edges[-1]) == (0, length // 2)
        assert (np.diff(edges) >= 1).all()
        assert len(edges) - 1 == min(bands, length // 2)
    assert (np.diff(fitted.block_edges) >= 4).all()


def test_windows_too_short_for_a_spectrum_are_refused():
    with pytest.raises(ConfigError, match=r"at least 8 samples, got 7.*`spectra=False`"):
        Spectra().fit(np.zeros((3, 7, 1)))


@pytest.mark.parametrize("wrong", [{"bands": 0}, {"envelope": -1}, {"blocks": 0}, {"spacing": "mel"}, {"rate": 0.0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"`{next(iter(wrong))}`"):
        Spectra(**wrong)
