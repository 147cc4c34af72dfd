r"""Spectra: windows (N, L, K) as a table of features, a row of them per sensor.

    level         means of a few blocks of the window, in the sensor's unit
    spread        log RMS of x - mean, and log kurtosis
    bands         log energies of the frequencies of x - mean, from 0 to half of the sampling rate
    envelope      the same of the amplitude |z|, where z is the analytic signal of x - mean: what modulates a vibration
    statistics    ten of them: window_statistics.py
    shape         energy, skewness and spikiness along small patterns: window_shapes.py

Vibrations are told apart by bands, envelope and shape, slow sensors by levels and statistics. These are *views* of the
same window: levels; spread, bands and envelope; statistics; shape. Energies are those of a Hann window, one-sided, and
add up to about the variance.

A signal that stands still has no energy, and no logarithm: a floor is added to every energy, `FLOOR` times the mean
variance of the sensor's training windows. So what is 60 dB below the usual signal counts as nothing.

A row never depends on its neighbours: transforms are done row by row, sums are added in order, and the logarithm is
made of sums, products and quotients, which are rounded alike on every machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from indubio.data import Column, Schema
from indubio.errors import ConfigError
from indubio.prepare.series import Series, centred, log_of, mean_of, sum_of
from indubio.prepare.window_shapes import Shapes
from indubio.prepare.window_statistics import STATISTICS, statistics
from indubio.settings import AtLeastOne, NotNegativeInt, Positive, Settings

FLOOR = 1e-6  # of the mean variance of the training windows
ROUNDING = 1e-12  # of the level: a variance below its square is rounding
SMALLEST = 1e-100  # the floor of a sensor that was 0 throughout; its square is a number too
FARTHEST = 1e45  # beyond it a value is simply far away, and its fourth power still fits
SHORTEST, BLOCK = 8, 4  # samples of a window, and of a block
VALUES_AT_ONCE = 2**19  # bounds the memory; several arrays of this size are there at a time


@dataclass(frozen=True, kw_only=True)
class Spectra(Settings):
    """Turn windows into features per sensor: levels, spread, energies of frequency bands and of the envelope.

    Args:
        bands: frequency bands; as many as there are frequencies (half of the window's samples) where these are fewer.
        spacing: "linear" makes bands of one width, for vibrations; "log" bands that widen with the frequency.
        envelope: bands of the envelope, which widen with the frequency; 0 for none.
        blocks: parts of the window whose means are features: the level, and how it moves; fewer where a part would have
            fewer than four samples.
        statistics: ten statistics of every sensor: `prepare/window_statistics.py`.
        patterns: how many shapes are looked for, over all sensors: `prepare/window_shapes.py`; at least four a sensor,
            none in windows shorter than 16 samples. 0 for none.
        rate: samples per second, for the names of the bands; None takes the rate of windows that were resampled, and
            without one the names are in cycles per sample.

    Examples:
        >>> import numpy as np
        >>> time = np.arange(1024) / 12000
        >>> hum = np.sin(2 * np.pi * 1000 * time)[None, :, None]
        >>> fitted = Spectra(bands=4, envelope=0, blocks=1, statistics=False, patterns=0).fit(hum, rate=12000.0)
        >>> fitted.names(("vibration",))[3:]
        ('vibration: 0-1500 Hz', 'vibration: 1500-3000 Hz', 'vibration: 3000-4500 Hz', 'vibration: 4500-6000 Hz')
        >>> int(fitted.features(hum)[0, 3:].argmax())
        0
    """

    bands: AtLeastOne = 16
    spacing: Literal["linear", "log"] = "linear"
    envelope: NotNegativeInt = 8
    blocks: AtLeastOne = 16
    statistics: bool = True
    patterns: NotNegativeInt = 40
    rate: Positive | None = None

    def of_shape(self, length: int, sensors: int, rate: float | None = None) -> "FittedSpectra":
        """What is computed of windows of this shape, with floors that are not learned yet."""
        return FittedSpectra(spectra=self, length=length, floor=np.ones(sensors), rate=self.rate or rate)

    def fit(self, windows: Float[np.ndarray, "windows length sensors"], rate: float | None = None) -> "FittedSpectra":
        """Learn the floor of every sensor.

        Args:
            windows: for training, without missing values.
            rate: samples per second of these, where it is known.
        """
        length, sensors = windows.shape[1:]
        if length < SHORTEST:
            raise ConfigError(
                "spectra need windows of at least {shortest} samples, got {length}. Take longer windows, or "
                "`spectra=False`, windows as they are.",
                shortest=SHORTEST,
                length=length,
            )
        fitted = self.of_shape(length, sensors, rate)
        variance, square = np.zeros(sensors), np.zeros(sensors)
        for block in fitted.blocks(windows):
            moved, mean = centred(block)
            variance += sum_of(mean_of(moved * moved).T)
            square += sum_of((mean * mean).T)
        floor = np.maximum(FLOOR * variance, ROUNDING * ROUNDING * square) / len(windows)
        return replace(fitted, floor=np.maximum(floor, SMALLEST))


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedSpectra:
    """What is computed of every window.

    Args:
        spectra: the settings.
        length: samples per window.
        floor: of each sensor, added to its energies.
        rate: samples per second, where it is known.
        smallest: smallest training value of each feature; None before any was seen.
        largest: likewise.
    """

    spectra: Spectra
    length: int
    floor: Float[np.ndarray, " sensors"]
    rate: float | None = None
    smallest: Float[np.ndarray, " features"] | None = None
    largest: Float[np.ndarray, " features"] | None = None

    @property
    def sensors(self) -> int:
        """How many sensors a window has, K."""
        return len(self.floor)

    @property
    def per_sensor(self) -> int:
        """How many features each sensor has."""
        return len(self._feature_names)

    @property
    def count(self) -> int:
        """Features of a window: those of the first sensor, then those of the second, and so on."""
        return self.sensors * self.per_sensor

    def names(self, sensors: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the features, such as "vibration: 1500-3000 Hz".

        Args:
            sensors: names of the sensors.
        """
        return tuple(f"{sensor}: {feature}" for sensor in sensors for feature in self._feature_names)

    def schema(self, sensors: tuple[str, ...]) -> Schema:
        """Names and training ranges of the features.

        Args:
            sensors: names of the sensors.
        """
        assert self.smallest is not None
        assert self.largest is not None
        ends = zip(self.names(sensors), self.smallest.tolist(), self.largest.tolist(), strict=True)
        return Schema(tuple(Column(name=name, smallest=low, largest=high) for name, low, high in ends))

    def features(self, windows: Float[np.ndarray, "windows length sensors"]) -> Float[np.ndarray, "windows features"]:
        """The features of windows without missing values."""
        out = np.empty((len(windows), self.sensors, self.per_sensor))
        start = 0
        for block in self.blocks(windows):
            out[start : start + len(block)] = self._features(block)
            start += len(block)
        return out.reshape(len(windows), self.count)

    def blocks(
        self, windows: Float[np.ndarray, "windows length sensors"]
    ) -> Iterator[Float[np.ndarray, "block sensors length"]]:
        """Some windows at a time, sensor by sensor."""
        size = max(1, VALUES_AT_ONCE // (self.length * self.sensors))
        for start in range(0, len(windows), size):
            yield np.clip(windows[start : start + size].transpose(0, 2, 1), -FARTHEST, FARTHEST)

    @cached_property
    def block_edges(self) -> Int[np.ndarray, " edges"]:
        """Where blocks begin, and the end of the last."""
        return _linear_edges(self.length, min(self.spectra.blocks, self.length // BLOCK))

    @cached_property
    def band_edges(self) -> Int[np.ndarray, " edges"]:
        """First frequency of every band, and the end of the last; in cycles per window, less one."""
        edges = _linear_edges if self.spectra.spacing == "linear" else _log_edges
        return edges(self.length // 2, self.spectra.bands)

    @cached_property
    def envelope_edges(self) -> Int[np.ndarray, " edges"]:
        """Edges of the bands of the envelope, in places of its spectrum."""
        return _log_edges(self.length // 2, self.spectra.envelope) if self.spectra.envelope else np.zeros(1, np.int64)

    @cached_property
    def taper(self) -> Series:
        """The Hann window, rounded: no two machines differ in so many digits of a sine."""
        hann = np.sin(np.pi * np.arange(self.length) / self.length) ** 2
        return np.asarray(np.round(hann * 2**30) / 2**30)

    @cached_property
    def weights(self) -> Float[np.ndarray, " frequencies"]:
        """From squared amplitudes of the tapered signal to energies: one-sided, so all count twice but the last."""
        weights = np.full(self.length // 2, 2.0)
        if self.length % 2 == 0:
            weights[-1] = 1.0
        return weights / (self.length * float(sum_of(self.taper * self.taper)))

    @cached_property
    def analytic(self) -> Float[np.ndarray, " frequencies"]:
        """From amplitudes to those of the analytic signal: 2 for positive frequencies, 0 for negative ones."""
        keep = np.zeros(self.length)
        keep[0] = 1.0
        keep[1 : (self.length + 1) // 2] = 2.0
        if self.length % 2 == 0:
            keep[self.length // 2] = 1.0
        return keep

    @cached_property
    def shapes(self) -> Shapes:
        """The patterns that windows are compared with."""
        return Shapes(self.length, self.spectra.patterns, self.sensors)

    @property
    def views(self) -> dict[str, int]:
        """How many features of each sensor belong together, in their order: what says the same in its own way."""
        return {name: len(features) for name, features in self._views.items()}

    @property
    def _feature_names(self) -> tuple[str, ...]:
        return tuple(name for features in self._views.values() for name in features)

    @cached_property
    def _views(self) -> dict[str, list[str]]:
        blocks = len(self.block_edges) - 1
        bands, envelope = self._band_names(self.band_edges), self._band_names(self.envelope_edges)
        views = {
            "levels": ["mean"] if blocks == 1 else [f"mean {place + 1}/{blocks}" for place in range(blocks)],
            "spectrum": ["RMS", "kurtosis", *bands, *(f"envelope {band}" for band in envelope)],
            "statistics": list(STATISTICS) if self.spectra.statistics else [],
            "shape": self.shapes.names(self.rate),
        }
        return {name: features for name, features in views.items() if features}

    def _band_names(self, edges: Int[np.ndarray, " edges"]) -> list[str]:
        unit = "cycles/sample" if self.rate is None else "Hz"
        ends = edges / self.length * (self.rate or 1.0)
        return [f"{low:.4g}-{high:.4g} {unit}" for low, high in pairwise(ends)]

    def _features(self, block: Float[np.ndarray, "block sensors length"]) -> Float[np.ndarray, "block sensors each"]:
        floor = self.floor
        moved, _ = centred(block)
        square = moved * moved
        variance = mean_of(square) + floor
        kurtosis = (mean_of(square * square) + 3 * (floor * floor)) / (variance * variance)
        parts = [
            *(mean_of(block[..., a:b]) for a, b in _pairs(self.block_edges)),
            0.5 * log_of(variance),
            log_of(kurtosis),
            *self._energies(moved, self.band_edges),
        ]
        if self.spectra.envelope:
            amplitude = np.fft.ifft(np.fft.fft(moved) * self.analytic)
            size = np.sqrt(amplitude.real * amplitude.real + amplitude.imag * amplitude.imag)
            parts += self._energies(centred(size)[0], self.envelope_edges)
        if self.spectra.statistics:
            parts += statistics(block, moved, floor)
        return np.stack([*parts, *self.shapes.features(moved, floor)], axis=-1)

    def _energies(
        self, moved: Float[np.ndarray, "block sensors length"], edges: Int[np.ndarray, " edges"]
    ) -> list[Float[np.ndarray, "block sensors"]]:
        amplitude = np.fft.rfft(moved * self.taper)[..., 1:]
        energy = (amplitude.real * amplitude.real + amplitude.imag * amplitude.imag) * self.weights
        return list(log_of(np.stack([sum_of(energy[..., a:b]) for a, b in _pairs(edges)]) + self.floor))


def chosen_spectra(
    given: Spectra | Literal[False] | None, usual: Spectra | Literal[False], input_shape: tuple[int, ...]
) -> Spectra | None:
    """What makes features of examples of this shape; None takes them as they are.

    Args:
        given: what a detector is set to.
        usual: what None stands for, of windows that are long enough.
        input_shape: of one example.
    """
    if len(input_shape) != 2:
        if given:
            these = f"rows of {input_shape[0]} values" if len(input_shape) == 1 else f"images of shape {input_shape}"
            raise ConfigError(
                "`spectra` are of windows (N, L, K), and these are {these}. Leave it out, or cut the recording into "
                "windows.",
                these=these,
            )
        return None
    if given is None and input_shape[0] < SHORTEST:
        return None
    return (usual if given is None else given) or None


def _pairs(edges: Int[np.ndarray, " edges"]) -> list[tuple[int, int]]:
    return list(pairwise(edges.tolist()))


def _linear_edges(count: int, parts: int) -> Int[np.ndarray, " edges"]:
    parts = min(parts, count)
    return np.arange(parts + 1) * count // parts


def _log_edges(count: int, parts: int) -> Int[np.ndarray, " edges"]:
    """Parts that widen by about one factor, each of at least one."""
    parts = min(parts, count)
    edges = np.round(np.geomspace(1, count + 1, parts + 1)).astype(np.int64) - 1
    edges = np.maximum.accumulate(np.maximum(edges, np.arange(parts + 1)))
    for place in range(1, parts + 1):
        edges[place] = max(edges[place], edges[place - 1] + 1)
    return np.asarray(np.minimum(edges, count - parts + np.arange(parts + 1)))
