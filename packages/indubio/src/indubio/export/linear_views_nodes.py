"""Linear views as ONNX nodes, in double precision; `networks/engine/views_engine.py` says what they are."""

import numpy as np
from onnx import TensorProto

from indubio.export.graph import Graph
from indubio.networks import LOG_2_PI, SMALLEST, LinearViewsNetwork, View
from indubio.posteriors import Draws


def views_nll(graph: Graph, draws: Draws, network: LinearViewsNetwork, rows: str) -> str:
    """Scores (draws, examples) of scaled float32 rows (examples, ...)."""
    flat = graph.cast(graph.reshape(rows, [-1, network.widest]), TensorProto.DOUBLE)
    views = View.of(network, draws.weights, draws.count)
    distances = [_distances(graph, view, flat) for view in views]
    if len(views) == 1:
        volume = LOG_2_PI / 2 - views[0].volume / len(views[0].places)
        half = graph.add("Mul", distances[0], graph.constant(0.5))
        score = graph.add("Add", half, graph.constant(volume))
    else:
        told = [_standardised(graph, view, one) for view, one in zip(views, distances, strict=True)]
        axis = graph.constant([0], np.int64)
        stacked = graph.add("Concat", *(graph.add("Unsqueeze", one, axis) for one in told), axis=0)
        whole = graph.add("ReduceLogSumExp", stacked, axis, keepdims=0)
        score = graph.add("Sub", whole, graph.constant(float(np.log(len(views)))))
    return graph.cast(graph.add("Transpose", score, perm=[1, 0]), TensorProto.FLOAT)


def _distances(graph: Graph, view: View, rows: str) -> str:
    """The mean of q over the features, (examples, draws)."""
    draws, size = view.at_mean.shape
    own = graph.add("Gather", rows, graph.constant(view.places, np.int64), axis=1)
    white = graph.reshape(graph.add("MatMul", own, graph.constant(view.side_by_side)), [-1, draws, size])
    centred = graph.add("Sub", white, graph.constant(view.at_mean))
    return graph.mean(graph.add("Mul", centred, centred), [2])


def _standardised(graph: Graph, view: View, distances: str) -> str:
    logs = graph.add("Log", graph.add("Add", distances, graph.constant(SMALLEST)))
    return graph.add("Div", graph.add("Sub", logs, graph.constant(view.middle)), graph.constant(view.spread))
