"""The served models: their versions, batches of requests, recorded verdicts, drift and alarms."""

from indubio_server.models.alarm_rules import HOUR
from indubio_server.models.batching import Batcher, Result
from indubio_server.models.drift_monitors import DriftMonitors
from indubio_server.models.model_inputs import (
    LARGEST,
    ExampleBatch,
    ModelInput,
    Name,
    refuse_doubles,
    require_printable,
)
from indubio_server.models.recorder import Recorder
from indubio_server.models.registry import Contributors, Loaded, Model, Registry
from indubio_server.models.scored_batch import ExampleOrigin, ScoredBatch, chosen_for_control
from indubio_server.models.verdict_entries import VerdictEntry

__all__ = [
    "HOUR",
    "LARGEST",
    "Batcher",
    "Contributors",
    "DriftMonitors",
    "ExampleBatch",
    "ExampleOrigin",
    "Loaded",
    "Model",
    "ModelInput",
    "Name",
    "Recorder",
    "Registry",
    "Result",
    "ScoredBatch",
    "VerdictEntry",
    "chosen_for_control",
    "refuse_doubles",
    "require_printable",
]
