"""Windows to the features of their spectra, as ONNX nodes; `prepare.Spectra` says what they are."""

from itertools import groupby, pairwise

import numpy as np
from jaxtyping import Float, Int

from indubio.export.graph import Graph
from indubio.prepare import FARTHEST, PLACES, SCALE, FittedSpectra, slope_weights


def features(graph: Graph, spectra: FittedSpectra, windows: str) -> str:
    """Features (examples, features) of float64 windows (examples, length, sensors) without missing values."""
    nodes = _SeriesNodes(graph, spectra)
    series = graph.add("Transpose", windows, perm=[0, 2, 1])
    near = graph.add("Min", graph.add("Max", series, graph.constant(-FARTHEST)), graph.constant(FARTHEST))
    centred = nodes.centred(near)
    square = graph.add("Mul", centred, centred)
    floor = spectra.floor[:, None]
    variance = graph.add("Add", nodes.mean(square), graph.constant(floor))
    fourth = graph.add("Add", nodes.mean(graph.add("Mul", square, square)), graph.constant(3 * floor * floor))
    edges = spectra.block_edges
    parts = [
        graph.add("MatMul", near, graph.constant(_members(edges, spectra.length) / np.diff(edges))),
        graph.add("Mul", graph.add("Log", variance), graph.constant(0.5)),
        graph.add("Log", graph.add("Div", fourth, graph.add("Mul", variance, variance))),
        nodes.energies(centred, spectra.band_edges),
    ]
    if spectra.spectra.envelope:
        parts.append(nodes.energies(nodes.centred(nodes.envelope(centred)), spectra.envelope_edges))
    if spectra.spectra.statistics:
        parts += nodes.statistics(near, centred)
    if spectra.shapes.chosen:
        parts.append(nodes.shapes(centred))
    return graph.reshape(graph.add("Concat", *parts, axis=2), [-1, spectra.count])


class _SeriesNodes:
    """Nodes of series (examples, sensors, length)."""

    def __init__(self, graph: Graph, spectra: FittedSpectra) -> None:
        self._graph, self._spectra = graph, spectra
        self._last = graph.constant([-1], np.int64)

    def mean(self, series: str) -> str:
        """Mean over time, (examples, sensors, 1)."""
        return self._graph.add("ReduceMean", series, self._last, keepdims=1)

    def centred(self, series: str) -> str:
        """The series less its mean; exactly 0 for one that stands still."""
        moved = self._graph.add("Sub", series, self._part(series, 0, 1))
        return self._graph.add("Sub", moved, self.mean(moved))

    def energies(self, centred: str, edges: Int[np.ndarray, " edges"]) -> str:
        """Log energies of bands, (examples, sensors, bands)."""
        graph, spectra = self._graph, self._spectra
        tapered = graph.add("Mul", centred, graph.constant(spectra.taper))
        squares = self._squares(self._transformed(self._flat(tapered, 1), onesided=1), spectra.length // 2 + 1)
        weights = spectra.weights[:, None] * _members(edges, spectra.length // 2)
        bands = graph.add("MatMul", squares, graph.constant(np.concatenate([np.zeros_like(weights[:1]), weights])))
        return graph.add("Log", graph.add("Add", bands, graph.constant(spectra.floor[:, None])))

    def statistics(self, series: str, centred: str) -> list[str]:
        """Ten statistics, each (examples, sensors, 1), in the order of `STATISTICS`."""
        graph, length = self._graph, self._spectra.length
        steps = graph.add("Sub", self._part(series, 1, length), self._part(series, 0, length - 1))
        steps = graph.add("Sub", steps, self.mean(steps))
        second, third, fourth = self._moments(centred)
        roughness = graph.add("Add", self.mean(graph.add("Mul", steps, steps)), self._floor(2))
        slope = graph.add("Mul", centred, graph.constant(slope_weights(length)))
        spread, skewness, spikiness = self._from_moments(second, third, fourth, 2)
        last, first = self._part(series, length - 1, length), self._part(series, 0, 1)
        return [
            self.mean(series),
            spread,
            graph.add("ReduceMin", series, self._last, keepdims=1),
            graph.add("ReduceMax", series, self._last, keepdims=1),
            self._median(series),
            self.mean(slope),
            skewness,
            spikiness,
            self._half_log(roughness),
            graph.add("Sub", last, first),
        ]

    def shapes(self, centred: str) -> str:
        """Energy, skewness and spikiness along every pattern, (examples, sensors, features)."""
        graph, spectra = self._graph, self._spectra
        found: list[list[str]] = []
        axis = graph.constant([2], np.int64)
        for apart, patterns in groupby(spectra.shapes.chosen, key=lambda pattern: pattern.apart):
            count = spectra.length - (PLACES - 1) * apart
            starts = [place * apart for place in range(PLACES)]
            shifted = [graph.add("Unsqueeze", self._part(centred, start, start + count), axis) for start in starts]
            weights = np.stack([SCALE * (3.0 * np.isin(range(PLACES), one.high) - 1) for one in patterns])
            followed = graph.add("MatMul", graph.constant(weights), graph.add("Concat", *shifted, axis=2))
            found.append(self._moments(followed))
        second, third, fourth = (graph.add("Concat", *parts, axis=2) for parts in zip(*found, strict=True))
        each = self._from_moments(second, third, fourth, 3)
        patterns_of_sensor = len(spectra.shapes.chosen)
        joined = graph.add("Concat", *each, axis=3)
        return graph.reshape(joined, [-1, spectra.sensors, len(each) * patterns_of_sensor])

    def _moments(self, values: str) -> list[str]:
        """Mean square, cube and fourth power along the last axis, which stays."""
        graph = self._graph
        square = graph.add("Mul", values, values)
        return [self.mean(one) for one in (square, graph.add("Mul", square, values), graph.add("Mul", square, square))]

    def _from_moments(self, second: str, third: str, fourth: str, axes: int) -> list[str]:
        """Log of the spread, skewness, log of the kurtosis."""
        graph, floor = self._graph, self._spectra.floor
        energy = graph.add("Add", second, self._floor(axes))
        skewness = graph.add("Div", third, graph.add("Mul", energy, graph.add("Sqrt", energy)))
        least = graph.constant((3 * floor * floor).reshape(-1, *[1] * (axes - 1)))
        spikes = graph.add("Div", graph.add("Add", fourth, least), graph.add("Mul", energy, energy))
        return [self._half_log(energy), skewness, graph.add("Log", spikes)]

    def _half_log(self, energy: str) -> str:
        return self._graph.add("Mul", self._graph.add("Log", energy), self._graph.constant(0.5))

    def _floor(self, axes: int) -> str:
        return self._graph.constant(self._spectra.floor.reshape(-1, *[1] * (axes - 1)))

    def _median(self, series: str) -> str:
        """The middle value of an odd number, the mean of both middle ones of an even number."""
        length = self._spectra.length
        count = length // 2 + 1
        return self.mean(self._part(self._graph.largest(series, count), count - (2 - length % 2), count))

    def _part(self, series: str, start: int, stop: int) -> str:
        """Some samples of series."""
        ends = [self._graph.constant([end], np.int64) for end in (start, stop)]
        return self._graph.add("Slice", series, *ends, self._last)

    def envelope(self, centred: str) -> str:
        """The size of the analytic signal."""
        graph, spectra = self._graph, self._spectra
        both = self._transformed(self._flat(centred, 1))
        kept = graph.add("Mul", both, graph.constant(spectra.analytic[:, None]))
        return graph.add("Sqrt", self._squares(self._transformed(kept, inverse=1), spectra.length))

    def _flat(self, series: str, numbers: int) -> str:
        return self._graph.reshape(series, [-1, self._spectra.length, numbers])

    def _transformed(self, signal: str, **attributes: int) -> str:
        return self._graph.add("DFT", signal, axis=1, **attributes)

    def _squares(self, complex_numbers: str, length: int) -> str:
        """Squared sizes, (examples, sensors, length) of (examples x sensors, length, 2)."""
        graph = self._graph
        squares = graph.add("Mul", complex_numbers, complex_numbers)
        sums = graph.add("ReduceSum", squares, self._last, keepdims=0)
        return graph.reshape(sums, [-1, self._spectra.sensors, length])


def _members(edges: Int[np.ndarray, " edges"], count: int) -> Float[np.ndarray, "count parts"]:
    """1 where a place belongs to a part."""
    places = np.arange(count)
    return np.stack([(places >= low) & (places < high) for low, high in pairwise(edges)], axis=1).astype(np.float64)
