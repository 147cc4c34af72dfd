"""What is searched: widths, depth and code of the network, layer norm, skips, and the learning rate."""

from math import prod
from typing import Any, Protocol

from indubio.detector import Detector
from indubio.errors import ConfigError
from indubio.networks import Architecture, Convolutional, Dense
from indubio.posteriors import AnchoredEnsemble
from indubio_lab.tuning.criterion import By

MANY_VALUES = 64  # of an example; the size of the code is then searched by its logarithm


class Trial(Protocol):
    """The part of an Optuna trial that is used."""

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """A whole number between these bounds."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A number between these bounds."""

    def suggest_categorical(self, name: str, choices: Any) -> Any:
        """One of these choices."""


def suggested(detector: Detector, shape: tuple[int, ...], trial: Trial, by: By) -> Detector:
    """The detector with the settings that a trial suggests; all others stay as they are.

    Where no posterior was asked for it is an ensemble: the default has no network to search for.
    """
    if detector.posterior is None:
        detector = Detector(**(detector.get_params(deep=False) | {"posterior": AnchoredEnsemble()}))
    chosen = detector.settings_for(shape)
    architecture = _architecture(chosen.architecture_for(shape, rows=1), chosen.value_shape_for(shape), trial, by)
    rate = trial.suggest_float("learning_rate", 1e-4, 3e-2, log=True)
    changed = {"architecture": architecture, "training": chosen.training.replaced(learning_rate=rate)}
    return Detector(**(detector.get_params(deep=False) | changed))


def _architecture(usual: Architecture, shape: tuple[int, ...], trial: Trial, by: By) -> Architecture:
    size = prod(shape)
    if not isinstance(usual, Dense | Convolutional):
        raise ConfigError(
            f"{type(usual).__name__} has no settings to search: choose a dense, conv1d or conv2d architecture, and a "
            "posterior that trains it."
        )
    common: dict[str, Any] = {
        "latent": trial.suggest_int("latent", 1, size, log=size > MANY_VALUES),
        "layer_norm": trial.suggest_categorical("layer_norm", [False, True]),
        "skips": trial.suggest_categorical("skips", [False, True]) if by == "separation" else False,
    }
    if isinstance(usual, Dense):
        depth = trial.suggest_int("depth", 1, 3)
        width = trial.suggest_categorical("expansion", [1.0, 2.0, 4.0, 8.0])
        return usual.replaced(**common, expansions=(width,) * depth, widths=None)
    channels = trial.suggest_int("channels", 4, 32, log=True)
    return usual.replaced(
        **common,
        channels=tuple(channels * 2**place for place in range(len(usual.channels))),
        linear=(trial.suggest_int("linear", 16, 1024, log=True),),
    )
