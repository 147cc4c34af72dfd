"""Engines: what trains and scores networks, from arrays to arrays.

`engine_for` chooses: the compiled core where it can run the network, and torch for a user's own modules, for other
devices than the CPU and where there is no core.
"""

from indubio.engine.engine import DrawScorer, Engine, Sampler, Trainer, engine_for, require_device
from indubio.engine.objectives import Corruption, Dynamics, PointWeights, Variational
from indubio.engine.random import Stream, stream, streams

__all__ = [
    "Corruption",
    "DrawScorer",
    "Dynamics",
    "Engine",
    "PointWeights",
    "Sampler",
    "Stream",
    "Trainer",
    "Variational",
    "engine_for",
    "require_device",
    "stream",
    "streams",
]
