"""A cell of the grid: one model trained on one task with one seed, under one protocol.

Cells are independent of each other, so they may run anywhere and in any order; `run` is a plain function of a cell.
"""

import dataclasses
import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from indubio.chain import Assessment
from indubio.detector import Detector
from indubio.errors import ConfigError, data_warnings_told_otherwise, quoted
from indubio.io import json_text
from indubio.posteriors import Posterior, RandomFeatures
from indubio.settings import Settings
from indubio_lab.collections import DATASETS, Task, odds, strath, zema
from indubio_lab.paper.presets import MODELS, OTHER_MODELS, CollectionName, Protocol, preset
from indubio_lab.paper.reproduction.variants import AS_THE_PROTOCOL, changed

# Detectors as they are for use, with networks, calibration and conversion of their own: not the paper's.
FOR_USE: dict[str, Posterior | None] = {"Default of use": None, "Random features": RandomFeatures()}
REVISION = 3  # of what a cell computes: raised when old results must not be mixed with new ones
NO_SENSORS = "-"  # tables have none to choose


@dataclass(frozen=True, order=True)
class Cell:
    """What one run of the experiment is made of.

    Args:
        collection: "odds", "zema" or "strath".
        protocol: "text" or "authors".
        sensors: of ZeMA: a set by name ("text", "authors", "fits") or one sensor; "-" elsewhere.
        task: of the collection.
        model: a name in `presets.MODELS`, `presets.OTHER_MODELS` or `FOR_USE`.
        seed: of the split and of everything random in the model.
        variant: settings of the protocol that are changed: "training.epochs=5", or several joined by +.
        folder: where the data is; None looks in the usual places.
    """

    collection: CollectionName
    protocol: Protocol
    sensors: str
    task: str
    model: str
    seed: int
    variant: str = AS_THE_PROTOCOL
    folder: str | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Where the cell's results are, below the folder of results."""
        slug = self.model.lower().replace(" ", "-")
        sensors = "" if self.sensors == NO_SENSORS else f"-{self.sensors}"
        variant = "" if self.variant == AS_THE_PROTOCOL else f"-{self.variant}"
        return f"{self.collection}{sensors}/{self.protocol}{variant}/{self.task}/{slug}/{self.seed}"

    @property
    def series(self) -> "Cell":
        """The cell without its seed: what is averaged over."""
        return replace(self, seed=0)

    def detector(self) -> Detector:
        """The detector of this cell, not fitted."""
        if self.model in FOR_USE:
            return Detector(posterior=FOR_USE[self.model], seed=self.seed)
        detector = preset(self.collection, self.task, protocol=self.protocol, model=self.model)
        return changed(detector.set_params(seed=self.seed), self.variant)

    def data(self) -> Task:
        """The task, split by this cell's seed."""
        match self.collection:
            case "odds":
                return odds(self.task, seed=self.seed, folder=self.folder)
            case "zema":
                return zema(self.task, sensors=self.sensors, seed=self.seed, folder=self.folder)
            case "strath":
                return strath(self.task, seed=self.seed, folder=self.folder)

    def described(self) -> dict[str, Any]:
        """The cell as plain values, for a file."""
        return {
            name: getattr(self, name)
            for name in ("collection", "protocol", "sensors", "task", "model", "seed", "variant")
        }

    def fingerprint(self) -> str:
        """Changes with any setting that the raw scores depend on, and not when a setting is added to the library."""
        detector = self.detector()
        settings = ("posterior", "architecture", "training", "scaling")
        chosen = {name: _chosen(getattr(detector, name)) for name in settings}
        said = {"revision": REVISION, "cell": self.name, "detector": chosen}
        return hashlib.sha256(json_text(said).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, eq=False)
class CellOutcome:
    """What a cell gives: the raw scores, and what they cost.

    Args:
        train_nll: score of every training example under every draw.
        test_nll: score of every test example under every draw.
        labels: of the test examples, 1 for an anomaly.
        cpu_seconds: of fitting and scoring.
        generated: whether the data was made up in the collection's format.
        remarks: what must be said beside the result.
        own: what a detector for use says of the test examples; None where the paper's conversions are tried.
    """

    train_nll: Float[np.ndarray, "draws train"]
    test_nll: Float[np.ndarray, "draws test"]
    labels: Int[np.ndarray, " test"]
    cpu_seconds: float
    generated: bool
    remarks: tuple[str, ...]
    own: Assessment | None = None


def run(cell: Cell) -> CellOutcome:
    """Train and score; the same cell gives the same outcome."""
    task = cell.data()
    started = time.process_time()
    with data_warnings_told_otherwise():
        detector = cell.detector().fit(task.train)
    own = detector.assess(task.test) if cell.model in FOR_USE else None
    return CellOutcome(
        train_nll=detector.nll(task.train),
        test_nll=detector.nll(task.test),
        labels=task.labels,
        cpu_seconds=time.process_time() - started,
        generated=task.generated,
        remarks=task.remarks,
        own=own,
    )


def grid(
    collections: Iterable[CollectionName],
    *,
    protocols: Iterable[Protocol] = ("text",),
    models: Iterable[str] | None = None,
    tasks: Iterable[str] | None = None,
    sensors: Iterable[str] | None = None,
    seeds: Iterable[int] = range(10),
    variants: Iterable[str] | None = None,
    folder: str | None = None,
) -> list[Cell]:
    """All cells asked for; seed by seed, so that whatever is done when it stops is a whole experiment of fewer seeds.

    Args:
        collections: which of the paper's three.
        protocols: "text", "authors" or both.
        models: names as a cell has them; None takes those of `presets.MODELS`.
        tasks: None takes all of each collection.
        sensors: of ZeMA; None takes the set that the protocol's source names.
        seeds: one run each.
        variants: settings that are changed, as a cell has them; None takes the protocol as it is.
        folder: where the data is.
    """
    collections, protocols, seeds = list(collections), list(protocols), list(seeds)
    chosen_models = _known("model", MODELS if models is None else models, [*MODELS, *OTHER_MODELS, *FOR_USE])
    chosen_variants = [AS_THE_PROTOCOL] if variants is None else list(variants)
    every_task = [task for name in collections for task in DATASETS[name].tasks]
    chosen_tasks = _known("task", tasks, every_task)
    return [
        Cell(collection, protocol, looked_at, task, model, seed, variant, folder)
        for seed in seeds
        for variant in chosen_variants
        for protocol in protocols
        for collection in collections
        for looked_at in _sensors(collection, protocol, sensors)
        for task in DATASETS[collection].tasks
        if task in chosen_tasks
        for model in chosen_models
    ]


def _sensors(collection: CollectionName, protocol: Protocol, sensors: Iterable[str] | None) -> list[str]:
    if collection != "zema":
        return [NO_SENSORS]
    return [protocol] if sensors is None else list(sensors)


def _known(word: str, asked: Iterable[str] | None, there_are: Iterable[str]) -> list[str]:
    known = list(there_are)
    chosen = known if asked is None else list(asked)
    for name in chosen:
        if name not in known:
            raise ConfigError(f"there is no {word} {name!r}; there are {quoted(known)}.")
    return chosen


def _chosen(value: Any) -> Any:
    """What differs from the defaults: a setting that is added to the library changes no fingerprint."""
    if not isinstance(value, Settings):
        return value
    usual = {field.name: field.default for field in dataclasses.fields(value)}
    now = {field: getattr(value, field) for field in usual}
    return {"": type(value).__name__} | {field: _chosen(now[field]) for field in usual if now[field] != usual[field]}
