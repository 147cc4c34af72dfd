"""Anomaly detection that knows when it is in doubt.

What a row meets, from a file to a verdict (docs/life-of-a-row.md traces one):

    io              bytes <-> tables: CSV, Parquet, Excel, stdin, URLs; whole files or none
      v
    inputs          tables (N, D), windows (N, L, K), images (N, H, W, C): matched by name, checked, filled in, scaled
      v
    posteriors      M draws of an autoencoder: Prototypes, AnchoredEnsemble, ...; `engine` computes their nll (M, N)
      v
    probability     nll (M, N) -> anomaly probability (M, N); `conformal` gives p-values (N)
      v
    uncertainty     epistemic, aleatoric, total, exceed, var_nll (N)
      v
    decision        INLIER, ANOMALY or REFER, and why
      v
    assessment      one array per statement

    pipeline        these as one chain: Preparation -> Scorer -> Calibrated -> Decider -> Assessment
    fitting         makes the chain, one way for all: rows in memory, streams, updates, refits of other detectors
    detector        Detector: scikit-learn's face of draws of autoencoders
    ensemble        EnsembleDetector: scikit-learn's face of refits of any other detector

What makes a detector:

    calibration     which rows train, and which rows scores are compared with
    networks        autoencoders and their likelihoods, as specifications
    engine          trains and scores them, from arrays to arrays: the compiled core, or torch
    training        epochs, batches, learning rates, early stopping
    workers         processes or a cluster

What is done with one:

    explain         which features made the score
    suspects        training examples for a person to look at
    labelled        what people's labels teach, and old and new compared on labels that taught nothing
    runs, points    windows of a recording together: a verdict per run, a score per time step
    drift           whether new data is still like the training data
    evaluation      accuracy-rejection curves, on anybody's scores
    report          an HTML page of an assessment
    plots           pictures by the names people guess; `notebook` is what a notebook shows, `most_anomalous` a terminal
    texts           words of reports and review pages in other languages; `message` is what is put into them
    storage         model files; `configuration` is a detector as plain data
    judge           a model in use: detector, how its files are read, digest
    export          ONNX; MLflow
    batch           folders of files, shard by shard, on workers
    cli             the `indubio` command
    compat          our detectors as PyOD's
    families        methods and commands of other packages: the server's, the lab's, yours

Names are imported when they are first used, so that `import indubio` does not wait
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
    from indubio.fitting.trimming import Trimming
    from indubio.inputs.example_streams import ExampleStream
    from indubio.inputs.spectra import Spectra
    from indubio.networks import Coalition, Conv1d, Dense, OwnNetwork
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
        Training,
    )
    from indubio.probability import Ecdf, Odds
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
    "indubio.assessment": ("Assessment",),
    "indubio.networks": ("Coalition", "Conv1d", "Conv2d", "Dense", "OwnNetwork"),
    "indubio.calibration": ("CrossFit", "HoldOut", "TrainScores"),
    "indubio.inputs.example_streams": ("ExampleStream",),
    "indubio.inputs.spectra": ("Spectra",),
    "indubio.decision": ("AtMost", "Budget", "Cost", "NoReferral", "TargetRisk", "UncertaintyThreshold", "Verdict"),
    "indubio.detector": ("Detector",),
    "indubio.evaluation": ("evaluate",),
    "indubio.fitting.trimming": ("Trimming",),
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
        "Training",
    ),
    "indubio.probability": ("Ecdf", "Odds"),
    "indubio.storage": ("load", "save"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'indubio' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
