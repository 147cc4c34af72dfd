"""Anomaly detection that knows when it is in doubt.

    data            tables (N, D) or windows (N, L, K), checked and scaled
      v
    calibration     which rows train, and which rows scores are compared with
      v
    autoencoders    the network and its likelihood, as specifications
      v
    engine          trains and scores them, from arrays to arrays
      v
    posteriors      training data -> M draws                   AnchoredEnsemble, MCDropout, ...
      v
    probability     nll (M, N) -> anomaly probability (M, N), conformal p-values (N)
      v
    uncertainty     epistemic, aleatoric, total, exceed, var_nll
      v
    decision        INLIER, ANOMALY or REFER, and why
      v
    evaluation      accuracy-rejection curves, on anybody's scores

`Detector` composes the stages. Names are imported when they are first used, so that `import indubio` does not wait
for what it does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indubio.assessment import Assessment
    from indubio.calibration import CrossFit, HoldOut, TrainScores
    from indubio.decision import AtMost, Budget, Cost, NoReferral, TargetRisk, UncertaintyThreshold, Verdict
    from indubio.detector import Detector
    from indubio.evaluation import evaluate
    from indubio.inputs.example_streams import ExampleStream
    from indubio.networks import Conv1d, Dense, OwnNetwork
    from indubio.posteriors import (
        SGHMC,
        VAE,
        AnchoredEnsemble,
        BayesByBackprop,
        Deterministic,
        MCDropout,
        Training,
    )
    from indubio.storage import load, save

__all__ = [
    "SGHMC",
    "VAE",
    "AnchoredEnsemble",
    "Assessment",
    "AtMost",
    "BayesByBackprop",
    "Budget",
    "Conv1d",
    "Cost",
    "CrossFit",
    "Dense",
    "Detector",
    "Deterministic",
    "ExampleStream",
    "HoldOut",
    "MCDropout",
    "NoReferral",
    "OwnNetwork",
    "TargetRisk",
    "TrainScores",
    "Training",
    "UncertaintyThreshold",
    "Verdict",
    "evaluate",
    "load",
    "save",
]

__version__ = "0.1.0"

_HOMES = {
    "indubio.assessment": ("Assessment",),
    "indubio.networks": ("Conv1d", "Dense", "OwnNetwork"),
    "indubio.calibration": ("CrossFit", "HoldOut", "TrainScores"),
    "indubio.inputs.example_streams": ("ExampleStream",),
    "indubio.decision": ("AtMost", "Budget", "Cost", "NoReferral", "TargetRisk", "UncertaintyThreshold", "Verdict"),
    "indubio.detector": ("Detector",),
    "indubio.evaluation": ("evaluate",),
    "indubio.posteriors": (
        "SGHMC",
        "VAE",
        "AnchoredEnsemble",
        "BayesByBackprop",
        "Deterministic",
        "MCDropout",
        "Training",
    ),
    "indubio.storage": ("load", "save"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'indubio' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
