"""The paper's tables from the summaries of one collection, protocol and set of sensors, each beside the paper's number.

A mean is over tasks, and in each over its seeds: a task of which a run is missing counts as much as the others. All
numbers are in percent.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from indubio.judging import UNCERTAINTIES
from indubio_lab.paper.reproduction import published as paper
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.judgements import PAPERS_LEVEL, within
from indubio_lab.paper.reproduction.summary import WHOLE, CellSummary


@dataclass(frozen=True)
class Mean:
    """A mean over series of runs with its standard error over the seeds; `undefined` runs are left out."""

    value: float
    error: float
    runs: int
    undefined: int = 0

    @classmethod
    def over(cls, runs: Iterable[tuple[Hashable, int, float]]) -> "Mean":
        """The mean of the means of all series.

        What is drawn at random are the seeds: the error is that of a mean of clusters, a cluster being what all runs of
        a seed add to the whole. There is none where a series has one seed only.

        Args:
            runs: what the run shares with other seeds, such as its task; its seed; the value.
        """
        runs = list(runs)
        series: dict[Hashable, dict[int, float]] = defaultdict(dict)
        for name, seed, value in runs:
            if np.isfinite(value):
                series[name][seed] = value
        undefined = len(runs) - sum(map(len, series.values()))
        if not series:
            return cls(np.nan, np.nan, len(runs), undefined)
        means = {name: float(np.mean([*of.values()])) for name, of in series.items()}
        added: dict[int, float] = defaultdict(float)
        for name, of in series.items():
            for seed, value in of.items():
                added[seed] += (value - means[name]) / len(of) / len(series)
        fewest = min(map(len, series.values()))
        variance = sum(part**2 for part in added.values()) * fewest / (fewest - 1) if fewest > 1 else np.nan
        return cls(float(np.mean([*means.values()])), float(np.sqrt(variance)), len(runs), undefined)

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "-"
        return f"{self.value:.1f}" if np.isnan(self.error) else f"{self.value:.1f} ± {self.error:.1f}"


@dataclass(frozen=True)
class TableEntry:
    """One cell of a table of W and, where it is a whole one, Gain, with what the paper has there."""

    model: str
    uncertainty: str
    weighted_average: Mean
    gain: Mean
    paper: tuple[float, float] | None

    @property
    def difference(self) -> float:
        """Our W minus the paper's, in points."""
        return np.nan if self.paper is None else self.weighted_average.value - self.paper[0]


def gain_table(summaries: Iterable[CellSummary], table: str = "gss") -> list[TableEntry]:
    """W and Gain for every model and uncertainty, and the mean of the paper's models.

    Args:
        summaries: of one collection, protocol and set of sensors.
        table: a name in `summary.TABLES`.
    """
    done = list(summaries)
    models = dict.fromkeys(one.model for one in done)
    of_the_paper = [model for model in paper.MODELS_OF_THE_PAPER if model in models]
    others = [model for model in models if model not in of_the_paper]
    rows = [*((model, [model]) for model in of_the_paper), *([(paper.MEAN, of_the_paper)] if of_the_paper else [])]
    return [
        _entry(name, uncertainty, [one for one in done if one.model in of], table)
        for name, of in [*rows, *((model, [model]) for model in others)]
        for uncertainty in UNCERTAINTIES
        if any((table, uncertainty) in one.weighted for one in done if one.model in of)
    ]


def _entry(name: str, uncertainty: str, summaries: Sequence[CellSummary], table: str) -> TableEntry:
    runs = [one for one in summaries if (table, uncertainty) in one.weighted]
    whole = runs if table in WHOLE else []
    metric = "auroc" if table == "auroc" else "gss"
    return TableEntry(
        name,
        uncertainty,
        Mean.over((one.series, one.seed, one.weighted[table, uncertainty]) for one in runs),
        Mean.over((one.series, one.seed, one.gain(table, uncertainty)) for one in whole),
        paper.weighted_average_and_gain(metric, summaries[0].collection, name, uncertainty),
    )


@dataclass(frozen=True)
class PositiveRuns:
    """How many runs gain by rejecting, under one conversion."""

    conversion: str
    positive: int
    total: int
    paper: tuple[int, int]


def positive_runs(summaries: Iterable[CellSummary]) -> list[PositiveRuns]:
    """Runs of the paper's models with Gain > 0 by total uncertainty, for each of the eight conversions."""
    done = [one for one in summaries if one.model in paper.MODELS_OF_THE_PAPER]
    if not done:
        return []
    names = [name.removesuffix("*") for name in within(PAPERS_LEVEL)]
    return [
        PositiveRuns(
            name,
            sum(one.gained[place] for one in done),
            len(done),
            paper.positive_runs(done[0].collection, name),
        )
        for place, name in enumerate(names)
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


def sizes(records: Iterable[Record]) -> list[Size]:
    """The sizes of each data set, beside those of the paper."""
    of_tasks = {record.cell.task: record for record in records}
    return [
        Size(task, record.train, record.inliers, record.anomalies, paper.sizes(record.cell.collection, task))
        for task, record in of_tasks.items()
    ]


def auroc_by_series(summaries: Iterable[CellSummary]) -> dict[tuple[str, str], Mean]:
    """AUROC of the mean score with nothing rejected by model and task; no conversion is involved."""
    values: dict[tuple[str, str], list[tuple[Hashable, int, float]]] = defaultdict(list)
    for one in summaries:
        values[one.series].append((one.task, one.seed, one.auroc))
    return {series: Mean.over(runs) for series, runs in values.items()}
