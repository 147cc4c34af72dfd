"""What the figures are made of: the cells of one protocol that are done, and their raw scores when asked for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from indubio.decision import ANOMALY_THRESHOLD, predictions
from indubio.errors import ConfigError, quoted
from indubio.evaluation import RejectionCurve
from indubio.judging import Level, Uncertainty, mean_nll
from indubio.report import NAMES
from indubio_lab.collections import DATASETS
from indubio_lab.paper.presets import MODELS
from indubio_lab.paper.reproduction.cell_store import CellStore, Record
from indubio_lab.paper.reproduction.cells import NO_SENSORS, Cell
from indubio_lab.paper.reproduction.choice import Choice, Key, chosen_conversions, fixed_conversion
from indubio_lab.paper.reproduction.figures.look import COLLECTIONS, GENERATED, conversion_name
from indubio_lab.paper.reproduction.judgements import PAPERS_LEVEL, curve, uncertainty


@dataclass(frozen=True, eq=False)
class CellExamples:
    """The test examples of a cell under one conversion.

    Args:
        labels: True for an anomaly.
        scores: NLL, the mean over the draws.
        quantified: probability and uncertainties.
    """

    labels: Bool[np.ndarray, " test"]
    scores: Float[np.ndarray, " test"]
    quantified: Uncertainty

    @property
    def wrong(self) -> Bool[np.ndarray, " test"]:
        """Whose prediction is not the label."""
        return np.asarray(predictions(self.quantified.probability, ANOMALY_THRESHOLD) != self.labels)

    def curve(self, *, by: str, metric: str) -> RejectionCurve:
        """The accuracy-rejection curve of one uncertainty."""
        return curve(self.labels, self.quantified, self.scores, by=by, metric=metric)


@dataclass(frozen=True, eq=False)
class FigurePart:
    """A lettered part of a figure: the records of one collection and, for ZeMA, one set of sensors."""

    collection: str
    sensors: str
    records: tuple[Record, ...]

    @property
    def title(self) -> str:
        """The collection; it says so when its data was made up."""
        name = COLLECTIONS[self.collection]
        if self.sensors != NO_SENSORS:
            name += f', sensors "{self.sensors}"'
        return f"{name} ({GENERATED})" if any(record.generated for record in self.records) else name

    @property
    def by_task(self) -> dict[str, list[Record]]:
        """The records of every task there is, in the paper's order."""
        tasks = DATASETS[self.collection].tasks
        parted = {task: [record for record in self.records if record.cell.task == task] for task in tasks}
        return {task: records for task, records in parted.items() if records}


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """Cells of one protocol, and how the conversion is chosen.

    Args:
        store: the folder of results.
        cells: what to draw; left out are cells that are not done or whose raw scores are not here, and models
            that are not the paper's.
        level: the reading of the customised scaling.
        choice: "oracle" takes the conversion with the best mean W on the test labels for every task, model,
            uncertainty and metric; "fixed" takes ECDF with the scaling.
    """

    store: CellStore
    cells: tuple[Cell, ...]
    level: Level = PAPERS_LEVEL
    choice: Choice = "oracle"
    _examples: dict[Any, CellExamples] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for word in ("protocol", "variant"):
            found = sorted({getattr(cell, word) for cell in self.cells})
            if len(found) > 1:
                raise ConfigError(f"a figure is of one {word}, got cells of {quoted(found)}. Draw them apart.")

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Records of the cells that are done and have raw scores to draw."""
        drawn = (cell for cell in self.cells if cell.model in MODELS and self.store.has_scores(cell))
        return tuple(self.store.records(drawn))

    @cached_property
    def chosen(self) -> Mapping[Key, str]:
        """The conversion for every series of cells, uncertainty and metric."""
        return chosen_conversions(self.records, level=self.level, choice=self.choice)

    @property
    def data_folder(self) -> str | None:
        """Where the cells' data is."""
        return next((cell.folder for cell in self.cells), None)

    def only(self, *models: str) -> "Results":
        """The cells of some models."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.model in models))

    def parts(self) -> list[FigurePart]:
        """The collections in the paper's order, ZeMA once for every set of sensors."""
        parted: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in self.records:
            parted[record.cell.collection, record.cell.sensors].append(record)
        order = list(DATASETS)
        keys = sorted(parted, key=lambda key: order.index(key[0]))
        return [FigurePart(*key, tuple(parted[key])) for key in keys]

    def examples(self, cell: Cell, conversion: str) -> CellExamples:
        """The test examples of a cell under a conversion; kept, since several figures ask for the same."""
        key = cell, conversion
        if key not in self._examples:
            outcome = self.store.outcome(cell)
            self._examples[key] = CellExamples(
                outcome.labels.astype(bool), mean_nll(outcome.test_nll), uncertainty(outcome, conversion)
            )
        return self._examples[key]

    def as_chosen(self, cell: Cell, *, by: str, metric: str) -> CellExamples:
        """The test examples of a cell under the conversion chosen for this uncertainty and metric."""
        return self.examples(cell, self.chosen[cell.series, by, metric])

    def notes(self, metric: str) -> list[str]:
        """What must be said below a figure: how the conversion was chosen, seeds, remarks of the loaders."""
        how = (
            f"Q of each task and model: best mean W of {NAMES[metric]} on the test labels (oracle)"
            if self.choice == "oracle"
            else f"Q: {conversion_name(fixed_conversion(self.level))} everywhere"
        )
        return [how, self.seeds, *self.remarks]

    @property
    def seeds(self) -> str:
        """How many there are: "10 seeds", or "3 to 10 seeds" while some runs are missing."""
        counts = Counter(record.cell.series for record in self.records).values()
        fewest, most = min(counts, default=0), max(counts, default=0)
        return f"{most} seed{'s' * (most != 1)}" if fewest == most else f"{fewest} to {most} seeds"

    @property
    def remarks(self) -> list[str]:
        """What the loaders say must stand beside the results, each once."""
        return list(dict.fromkeys(said for record in self.records for said in record.remarks))


def by_model(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of every model there is, in the paper's order."""
    records = list(records)
    parted = {model: [record for record in records if record.cell.model == model] for model in MODELS}
    return {model: of for model, of in parted.items() if of}
