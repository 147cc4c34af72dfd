"""The paper's settings by name, per collection and task, under two protocols.

"text" is what the paper says, "authors" what its published scripts ran; where the text is silent, it takes the scripts'
value. The differences, one by one, are in docs/decisions/paper-settings.md.
"""

from typing import Literal, get_args

from indubio.calibration import TrainScores
from indubio.collections import DATASETS
from indubio.detector import Detector
from indubio.errors import ConfigError
from indubio.inputs import MinMax
from indubio.networks import Architecture, Conv1d, Dense
from indubio.posteriors import (
    SGHMC,
    VAE,
    AnchoredEnsemble,
    BayesByBackprop,
    Deterministic,
    MCDropout,
    Posterior,
    RangeTest,
    Training,
)
from indubio.probability import Ecdf

CollectionName = Literal["odds", "zema", "strath"]
Protocol = Literal["text", "authors"]

WITHOUT_SKIPS = ("L_ACTpos", "A_ACTspd")  # paper, model hyperparameters: STRATH tasks (i) and (ii)

# The paper's five models and its settings for them (model hyperparameters and appendix A); SGHMC is named, not run.
MODELS: dict[str, Posterior] = {
    "Deterministic AE": Deterministic(),
    "VAE": VAE(draws=100),
    "BAE-MCD": MCDropout(draws=100, dropout=0.01),
    "BAE-BBB": BayesByBackprop(draws=100, mixture=0.5, wide=1.0, narrow=0.1),
    "BAE-Ensemble": AnchoredEnsemble(members=10),
    "BAE-SGHMC": SGHMC(chains=1),
}


def preset(collection: CollectionName, task: str | None = None, *, protocol: Protocol = "text") -> Detector:
    """An unfitted detector with the paper's architecture, training, scaling, conversion and calibration.

    Its model is the paper's best, BAE-Ensemble; put in another, of `MODELS` or any that is trained.
    `indubio.configuration.detector_to_plain` makes a configuration of it.

    >>> preset("odds").set_params(posterior=MODELS["VAE"]).training.batches
    3

    Args:
        collection: "odds", "zema" or "strath".
        task: needed for STRATH, where the tasks differ in their skips.
        protocol: "text" or "authors".
    """
    _check("collection", collection, tuple(DATASETS))
    _check("protocol", protocol, get_args(Protocol))
    if task is not None or collection == "strath":
        _check("task", task, DATASETS[collection].tasks)
    return Detector(
        posterior=MODELS["BAE-Ensemble"],
        architecture=_architecture(collection, task, protocol),
        training=_training(collection, protocol),
        conversion=Ecdf(),
        scaling=MinMax(clip=True),
        calibration=TrainScores(),
    )


def _architecture(collection: CollectionName, task: str | None, protocol: Protocol) -> Architecture:
    skips = task not in WITHOUT_SKIPS
    match collection:
        case "odds":
            # The scripts' layer norm was silently off on dense layers.
            return Dense(layer_norm=protocol == "text", skips=skips)
        case "zema":
            return Conv1d(layer_norm=False, skips=skips)
        case "strath":
            return Conv1d(layer_norm=True, skips=skips)


def _training(collection: CollectionName, protocol: Protocol) -> Training:
    if collection == "strath":
        return Training(epochs=100, batches=5, learning_rate=0.001)
    found = RangeTest(use="fixed" if protocol == "text" else "triangular")
    if collection == "zema":
        return Training(epochs=100, batches=5, learning_rate=found)
    return Training(epochs=100 if protocol == "text" else 300, batches=3, learning_rate=found)


def _check(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")
