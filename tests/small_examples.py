"""Small tables and windows for the tests of explanations and reports, and what trains a network for a moment."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from indubio import AnchoredEnsemble, Conv1d, Detector, Training
from indubio.data import Table, WindowReport, Windows
from indubio.errors import ConfigError
from indubio.networks import Architecture
from indubio.posteriors import Posterior

RNG = np.random.default_rng(0)
NAMES = ("temperature", "pressure", "flow", "speed")
SENSORS = ("force [kN]", "torque")


def good(count: int) -> np.ndarray:
    """Rows whose four features move together."""
    return RNG.normal(size=(count, 1)) + 0.3 * RNG.normal(size=(count, 4)) + [0, 10, -5, 100]


TRAINING, GOOD = good(300), good(60)
ROWS = np.concatenate([GOOD, good(20) + RNG.choice([-6, 6], size=(20, 4))])
LABELS = np.repeat([False, True], [60, 20])
SIGNALS = np.sin(np.linspace(0, 6, 30))[None, :, None] + 0.1 * RNG.normal(size=(40, 30, 2))


def table(rows: np.ndarray, *, ids=None, labels=None, names=NAMES) -> Table:
    features = pa.table({name: rows[:, place] for place, name in enumerate(names)})
    return Table(features=features, passed=None if ids is None else pa.table(ids), labels=labels)


def windows(values: np.ndarray, *, rate=None, **report) -> Windows:
    none = dict.fromkeys(SENSORS, 0)
    empty = {"groups": 3, "short": (), "left_over": 0, "held": none, "interpolated": none, "bad": none, "missing": none}
    origin = pa.table({"file": [f"run_{i}.csv" for i in range(len(values))], "start": np.arange(len(values)) * 1.5})
    return Windows(values=values, sensors=SENSORS, rate=rate, origin=origin, report=WindowReport(**(empty | report)))


def quick(**settings) -> Detector:
    """An ensemble that is trained for a moment; for windows give it `SMALL_NETWORK`."""
    return Detector(
        **trained_if_so({"posterior": AnchoredEnsemble(members=4), "training": Training(epochs=20)} | settings)
    )


def trained_if_so(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, without `training` where the posterior is computed: it is refused there."""
    return settings if settings["posterior"].TRAINED else settings | {"training": None}


def skip_if_refused(posterior: Posterior, architecture: Architecture | None) -> None:
    """Skip where the posterior says that this network is none for it: those in closed form have one of their own."""
    if architecture is None:
        return
    try:
        posterior.check_architecture(architecture)
    except ConfigError as refused:
        pytest.skip(str(refused))


SMALL_NETWORK = Conv1d(linear=(20,))
