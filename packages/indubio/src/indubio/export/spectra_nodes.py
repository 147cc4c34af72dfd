"""Windows to the features of their spectra, as ONNX nodes; `inputs.spectra` says what they are."""

from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from indubio.export.graph import Graph
from indubio.inputs.spectra import FARTHEST, FittedSpectra


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
        ends = [self._graph.constant([end], np.int64) for end in (0, 1)]
        moved = self._graph.add("Sub", series, self._graph.add("Slice", series, *ends, self._last))
        return self._graph.add("Sub", moved, self.mean(moved))

    def energies(self, centred: str, edges: Int[np.ndarray, " edges"]) -> str:
        """Log energies of bands, (examples, sensors, bands)."""
        graph, spectra = self._graph, self._spectra
        tapered = graph.add("Mul", centred, graph.constant(spectra.taper))
        squares = self._squares(self._transformed(self._flat(tapered, 1), onesided=1), spectra.length // 2 + 1)
        weights = spectra.weights[:, None] * _members(edges, spectra.length // 2)
        bands = graph.add("MatMul", squares, graph.constant(np.concatenate([np.zeros_like(weights[:1]), weights])))
        return graph.add("Log", graph.add("Add", bands, graph.constant(spectra.floor[:, None])))

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
