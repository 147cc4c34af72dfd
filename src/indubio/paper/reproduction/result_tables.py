"""The paper's tables from the records of a grid, each number beside the paper's.

A mean is over tasks and seeds. Its standard error is over the seeds: each seed has one mean over the tasks, and the
seeds are what was drawn at random. All numbers of a table are in percent.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from indubio.paper.presets import CollectionName, Protocol
from indubio.paper.reproduction import published as paper
from indubio.paper.reproduction.cell_store import Record
from indubio.paper.reproduction.cells import Cell
from indubio.paper.reproduction.choice import Choice, judged_as_chosen
from indubio.paper.reproduction.judgements import within
from indubio.probability import Level
from indubio.uncertainty import ON_DEMAND, UNCERTAINTIES

LEVEL_OF: dict[Protocol, Level] = {"text": "cdf_of_mean", "authors": "mean_of_cdf"}


@dataclass(frozen=True)
class Mean:
    """A mean over tasks and seeds with its standard error over seeds; `undefined` runs are left out."""

    value: float
    error: float
    runs: int
    undefined: int = 0

    @classmethod
    def over(cls, values: Iterable[tuple[int, float]]) -> "Mean":
        """Of (seed, value) pairs, in percent."""
        by_seed: dict[int, list[float]] = defaultdict(list)
        runs = undefined = 0
        for seed, value in values:
            runs += 1
            if np.isfinite(value):
                by_seed[seed].append(100 * value)
            else:
                undefined += 1
        means = np.array([np.mean(of_seed) for of_seed in by_seed.values()])
        if not len(means):
            return cls(np.nan, np.nan, runs, undefined)
        error = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else np.nan
        return cls(float(np.mean(np.concatenate([*by_seed.values()]))), error, runs, undefined)


@dataclass(frozen=True)
class TableEntry:
    """One cell of a table of W and Gain, with what the paper has there."""

    model: str
    uncertainty: str
    weighted_average: Mean
    gain: Mean
    paper: tuple[float, float] | None

    @property
    def difference(self) -> float:
        """Our W minus the paper's, in points."""
        return np.nan if self.paper is None else self.weighted_average.value - self.paper[0]


def gain_table(
    records: Iterable[Record], collection: CollectionName, *, metric: str, level: Level, choice: Choice
) -> list[TableEntry]:
    """W and Gain for every model and uncertainty, and the mean of the paper's models.

    Args:
        records: cells of one collection, protocol and set of sensors.
        collection: whose numbers of the paper stand beside ours.
        metric: "gss" or "auroc".
        level: the reading of the scaling.
        choice: "oracle" or "fixed".
    """
    values: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
    for cell, one in judged_as_chosen(records, level=level, choice=choice):
        if one.metric == metric:
            run = (cell.seed, one.weighted_average, one.gain)
            values[cell.model, one.uncertainty].append(run)
            if cell.model in paper.MODELS_OF_THE_PAPER:
                values[paper.MEAN, one.uncertainty].append(run)
    models = list(dict.fromkeys(model for model, _ in values if model != paper.MEAN))
    return [
        _entry(model, uncertainty, values[model, uncertainty], collection, metric)
        for model in _in_order(models)
        for uncertainty in (*UNCERTAINTIES, *ON_DEMAND)
        if (model, uncertainty) in values
    ]


def _entry(
    model: str, uncertainty: str, runs: Sequence[tuple[int, float, float]], collection: CollectionName, metric: str
) -> TableEntry:
    return TableEntry(
        model,
        uncertainty,
        Mean.over((seed, weighted) for seed, weighted, _ in runs),
        Mean.over((seed, gain) for seed, _, gain in runs),
        paper.weighted_average_and_gain(metric, collection, model, uncertainty),
    )


def _in_order(models: Iterable[str]) -> list[str]:
    """The paper's models, their mean, then whatever else was run."""
    there = set(models)
    of_the_paper = [model for model in paper.MODELS_OF_THE_PAPER if model in there]
    others = [model for model in models if model not in paper.MODELS_OF_THE_PAPER]
    return [*of_the_paper, *([paper.MEAN] if of_the_paper else []), *others]


@dataclass(frozen=True)
class PositiveRuns:
    """How many runs gain by rejecting, under one conversion."""

    conversion: str
    positive: int
    total: int
    paper: tuple[int, int]


def positive_runs(records: Iterable[Record], collection: CollectionName, *, level: Level) -> list[PositiveRuns]:
    """Runs of the paper's models with Gain > 0 by total uncertainty, for each of the eight conversions."""
    counts: dict[str, list[int]] = {name: [0, 0] for name in within(level)}
    for record in records:
        if record.cell.model not in paper.MODELS_OF_THE_PAPER:
            continue
        for one in record.judged:
            if one.uncertainty == "total" and one.metric == "gss" and one.conversion in counts:
                counts[one.conversion][0] += one.gain > 0
                counts[one.conversion][1] += 1
    return [
        PositiveRuns(name, positive, total, paper.positive_runs(collection, name.removesuffix("*")))
        for name, (positive, total) in counts.items()
    ]


@dataclass(frozen=True)
class Size:
    """Examples of a task, and what the paper has."""

    task: str
    train: int
    inliers: int
    anomalies: int
    paper: tuple[int, int, int, int]

    @property
    def agrees(self) -> bool:
        """Whether the counts are the paper's."""
        return (self.train, self.inliers, self.anomalies) == self.paper[:3]


def sizes(records: Iterable[Record], collection: CollectionName) -> list[Size]:
    """The table of datasets."""
    found = {record.cell.task: record for record in records}
    return [
        Size(task, record.train, record.inliers, record.anomalies, paper.sizes(collection, task))
        for task, record in found.items()
    ]


def auroc_by_series(records: Iterable[Record]) -> dict[Cell, Mean]:
    """AUROC of the mean score with nothing rejected, for every series of cells; no conversion is involved."""
    values: dict[Cell, list[tuple[int, float]]] = defaultdict(list)
    for record in records:
        base = next(one.base for one in record.judged if one.metric == "auroc")
        values[record.cell.series].append((record.cell.seed, base))
    return {series: Mean.over(runs) for series, runs in values.items()}
