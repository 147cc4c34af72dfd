"""Anomaly detection that knows when it is in doubt.

What a row meets, from a file to a verdict (docs/life-of-a-row.md traces one):

    io              bytes <-> tables: CSV, Parquet, Excel, stdin, URLs; whole files or none
      v
    data            tables (N, D), windows (N, L, K), images (N, H, W, C), from files or from memory
      v
    prepare         matched by name, checked, filled in, scaled; features of windows
      v
    posteriors      M draws of an autoencoder: Prototypes, AnchoredEnsemble, ...; `networks` computes their nll (M, N)
      v
    judging         nll (M, N) -> anomaly probability (M, N), uncertainties (N), p-value (N)
      v
    decision        INLIER, ANOMALY or REFER, and why
      v
    chain           these as one: Preparation -> Scorer -> Calibrated -> Decider -> Assessment, one array per statement;
                    what made a score, a verdict per run, a score per time step

    fitting         makes the chain, one way for all: rows in memory, streams, updates, refits of other detectors
    detector        scikit-learn's faces: Detector, of draws of autoencoders, and EnsembleDetector, of refits of any
                    other detector; what people's labels teach, and which training examples to look at

What makes a detector:

    calibration     which rows train, and which rows scores are compared with
    networks        autoencoders and their likelihoods, the engine that runs them, and how they are trained
    numerics        the compiled core, sums in a fixed order, random streams
    workers         processes or a cluster

What is done with one:

    drift           whether new data is still like the training data
    evaluation      accuracy-rejection curves, on anybody's scores
    report          an HTML page of an assessment, plots by the names people guess, what a notebook shows
    texts           words of reports and review pages in other languages; `message` is what is put into them
    storage         model files; `configuration` is a detector as plain data
    judge           a model in use: detector, how its files are read, digest
    export          ONNX; MLflow
    batch           folders of files, shard by shard, on workers
    cli             the `indubio` command
    compat          our detectors as PyOD's
    families        methods and commands of other packages: the server's, the lab's, yours

Names are imported when they are first used, so that `import indubio` does not wait
for what it does not need. A room is imported through its `__init__` only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indubio.calibration import CrossFit, HoldOut, TrainScores
    from indubio.chain import Assessment
    from indubio.data import ExampleStream
    from indubio.decision import AtMost, Budget, Cost, NoReferral, TargetRisk, UncertaintyThreshold, Verdict
    from indubio.detector import Detector
    from indubio.evaluation import evaluate
    from indubio.fitting import Trimming
    from indubio.judging import Ecdf, Odds
    from indubio.networks import Coalition, Conv1d, Dense, OwnNetwork, Training
    from indubio.posteriors import (
        SGHMC,
        VAE,
        AnchoredEnsemble,
        BayesByBackprop,
        Deterministic,
        MCDropout,
        NormalWishart,
        Prototypes,
        RandomFeatures,
    )
    from indubio.prepare import Spectra
    from indubio.storage import load, save

__all__ = [
    "SGHMC",
    "VAE",
    "AnchoredEnsemble",
    "Assessment",
    "AtMost",
    "BayesByBackprop",
    "Budget",
    "Coalition",
    "Conv1d",
    "Conv2d",
    "Cost",
    "CrossFit",
    "Dense",
    "Detector",
    "Deterministic",
    "Ecdf",
    "ExampleStream",
    "HoldOut",
    "MCDropout",
    "NoReferral",
    "NormalWishart",
    "Odds",
    "OwnNetwork",
    "Prototypes",
    "RandomFeatures",
    "Spectra",
    "TargetRisk",
    "TrainScores",
    "Training",
    "Trimming",
    "UncertaintyThreshold",
    "Verdict",
    "evaluate",
    "load",
    "save",
]

__version__ = "0.2.0"

_HOMES = {
    "indubio.calibration": ("CrossFit", "HoldOut", "TrainScores"),
    "indubio.chain": ("Assessment",),
    "indubio.data": ("ExampleStream",),
    "indubio.decision": ("AtMost", "Budget", "Cost", "NoReferral", "TargetRisk", "UncertaintyThreshold", "Verdict"),
    "indubio.detector": ("Detector",),
    "indubio.evaluation": ("evaluate",),
    "indubio.fitting": ("Trimming",),
    "indubio.judging": ("Ecdf", "Odds"),
    "indubio.networks": ("Coalition", "Conv1d", "Conv2d", "Dense", "OwnNetwork", "Training"),
    "indubio.posteriors": (
        "SGHMC",
        "VAE",
        "AnchoredEnsemble",
        "BayesByBackprop",
        "Deterministic",
        "MCDropout",
        "NormalWishart",
        "Prototypes",
        "RandomFeatures",
    ),
    "indubio.prepare": ("Spectra",),
    "indubio.storage": ("load", "save"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'indubio' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
