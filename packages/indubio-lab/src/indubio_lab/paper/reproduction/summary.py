"""One line for every cell, under the conversion that counts: what all tables are made of, and small enough to keep.

    records of some cells -> summarised -> CSV <-> summaries -> tables, claims

The conversion is chosen over all seeds of a task and model, so a summary is made of all cells together, again after
each run. Numbers are in percent.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from indubio.io import whole_file
from indubio.judging import UNCERTAINTIES, Level
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.cells import Cell
from indubio_lab.paper.reproduction.choice import Choice, judged_as_chosen
from indubio_lab.paper.reproduction.judgements import FORMULAS_LEVEL, PAPERS_LEVEL, within

# A table of W by uncertainty: metric, how the conversion is chosen, reading of the scaling.
TABLES: dict[str, tuple[str, Choice, Level]] = {
    "gss": ("gss", "oracle", PAPERS_LEVEL),
    "auroc": ("auroc", "oracle", PAPERS_LEVEL),
    "formula": ("gss", "oracle", FORMULAS_LEVEL),
    "fixed": ("gss", "fixed", PAPERS_LEVEL),
}
WHOLE = ("gss", "auroc")  # of the others only total uncertainty is kept
KEYS = ("collection", "protocol", "sensors", "variant", "task", "model")


@dataclass(frozen=True, kw_only=True)
class CellSummary:
    """What is said of a cell.

    Args:
        collection: of the cell, as all down to `seed`.
        protocol: "text" or "authors".
        sensors: of ZeMA.
        variant: settings that were changed.
        task: of the collection.
        model: by name.
        seed: of the run.
        cpu_seconds: of fitting and scoring.
        auroc: of the mean score, nothing rejected.
        gained: for each of the eight conversions whether rejecting by total uncertainty gains; none of a detector for
            use.
        weighted: W by table and uncertainty; NaN where it is not defined.
        gains: of GSS by uncertainty.
    """

    collection: str
    protocol: str
    sensors: str
    variant: str
    task: str
    model: str
    seed: int
    cpu_seconds: float
    auroc: float
    gained: tuple[bool, ...]
    weighted: Mapping[tuple[str, str], float]
    gains: Mapping[str, float]

    @property
    def series(self) -> tuple[str, str]:
        """Model and task: what runs of several seeds share."""
        return self.model, self.task

    def gain(self, table: str, uncertainty: str) -> float:
        """What rejecting by this uncertainty adds on average, in one of the whole tables."""
        return self.gains[uncertainty] if table == "gss" else self.weighted[table, uncertainty] - self.auroc


def summarised(records: Iterable[Record]) -> list[CellSummary]:
    """One line of each cell, in the order of the cells."""
    done = list(records)
    weighted: dict[Cell, dict[tuple[str, str], float]] = {record.cell: {} for record in done}
    gains: dict[Cell, dict[str, float]] = {record.cell: {} for record in done}
    for table, (metric, choice, level) in TABLES.items():
        for cell, judged in judged_as_chosen(done, level=level, choice=choice):
            if judged.metric == metric and (table in WHOLE or judged.uncertainty == "total"):
                weighted[cell][table, judged.uncertainty] = 100 * judged.weighted_average
                if table == "gss":
                    gains[cell][judged.uncertainty] = 100 * judged.gain
    return [_summary(record, weighted[record.cell], gains[record.cell]) for record in done]


def _summary(record: Record, weighted: Mapping[tuple[str, str], float], gains: Mapping[str, float]) -> CellSummary:
    by_total = {one.conversion: one.gain for one in record.judged if (one.uncertainty, one.metric) == ("total", "gss")}
    return CellSummary(
        **{name: getattr(record.cell, name) for name in (*KEYS, "seed")},
        cpu_seconds=record.cpu_seconds,
        auroc=next(100 * one.base for one in record.judged if one.metric == "auroc"),
        gained=tuple(bool(by_total[name] > 0) for name in within(PAPERS_LEVEL) if name in by_total),
        weighted=weighted,
        gains=gains,
    )


def _places() -> list[tuple[str, str]]:
    """Table and uncertainty of every W that is kept."""
    return [(table, name) for table in TABLES for name in (UNCERTAINTIES if table in WHOLE else ("total",))]


def write_summaries(path: Path, summaries: Iterable[CellSummary]) -> None:
    """As a CSV, a line for each cell; an empty field is what a model does not have."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    weighted, gains = ([f"{table} {name}" for table, name in _places()], [f"gain {name}" for name in UNCERTAINTIES])
    lines.writerow([*KEYS, "seed", "cpu_seconds", "auroc", "gained", *weighted, *gains])
    for one in summaries:
        numbers = [*(one.weighted.get(place) for place in _places()), *(one.gains.get(name) for name in UNCERTAINTIES)]
        lines.writerow(
            [
                *(getattr(one, name) for name in (*KEYS, "seed")),
                f"{one.cpu_seconds:.1f}",
                f"{one.auroc:.2f}",
                "".join("y" if gain else "n" for gain in one.gained),
                *("" if value is None else f"{value:.2f}" for value in numbers),
            ]
        )
    with whole_file(path) as stream:
        stream.write(text.getvalue().encode())


def read_summaries(path: Path) -> list[CellSummary]:
    """What `write_summaries` wrote."""
    with path.open(newline="") as file:
        return [_read(line) for line in csv.DictReader(file)]


def _read(line: Mapping[str, str]) -> CellSummary:
    return CellSummary(
        **{name: line[name] for name in KEYS},
        seed=int(line["seed"]),
        cpu_seconds=float(line["cpu_seconds"]),
        auroc=float(line["auroc"]),
        gained=tuple(mark == "y" for mark in line["gained"]),
        weighted={(table, name): float(said) for table, name in _places() if (said := line[f"{table} {name}"])},
        gains={name: float(said) for name in UNCERTAINTIES if (said := line[f"gain {name}"])},
    )


def gaps(summaries: Iterable[CellSummary]) -> list[str]:
    """Cells that are missing although a later seed of the same task and model is there: these did not train."""
    seeds: dict[tuple[str, ...], set[int]] = {}
    for one in summaries:
        seeds.setdefault(tuple(getattr(one, name) for name in KEYS), set()).add(one.seed)
    return [
        f"{key[0].upper()}, {key[1]}, {key[4]}, {key[5]}, seed {seed}"
        for key, there in seeds.items()
        for seed in range(max(there))
        if seed not in there
    ]
