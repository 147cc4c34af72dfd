"""From a store to the folder of results: tables as CSV and Markdown, figures, and one HTML page."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from indubio.io import whole_file
from indubio.report import PagePicture, Sheet, to_csv, to_html, to_markdown
from indubio_lab.paper.presets import CollectionName
from indubio_lab.paper.reproduction.cell_store import CellStore
from indubio_lab.paper.reproduction.cells import Cell, grid
from indubio_lab.paper.reproduction.figures import CAPTIONS, write_figures
from indubio_lab.paper.reproduction.page import Experiment, sheets
from indubio_lab.paper.reproduction.summary import write_summaries
from indubio_lab.paper.reproduction.variants import AS_THE_PROTOCOL

# The smallest tasks of each collection, and few epochs for the convolutional nets: a look, not a result.
QUICK: dict[CollectionName, tuple[tuple[str, ...], str]] = {
    "odds": (("lympho", "pima"), AS_THE_PROTOCOL),
    "zema": (("accumulator",), "training.epochs=5"),
    "strath": (("Feedback_SPA",), "training.epochs=5"),
}
QUICK_SEEDS = range(2)


def quick_grid(collections: Sequence[CollectionName], *, quick: bool, **asked: Any) -> list[Cell]:
    """The grid asked for, or of it a small part that is done in about a minute."""
    if not quick:
        return grid(collections, **asked)
    cells: list[Cell] = []
    for collection in collections:
        tasks, variant = QUICK[collection]
        cells += grid([collection], **asked | {"tasks": tasks, "variants": [variant], "seeds": QUICK_SEEDS})
    return cells


def experiments(cells: Iterable[Cell], store: CellStore) -> list[Experiment]:
    """The cells by collection, protocol, sensors and variant, with the records of those that are done."""
    parts: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        parts[cell.collection, cell.protocol, cell.sensors, cell.variant].append(cell)
    return [Experiment(tuple(part), tuple(store.records(part))) for part in parts.values()]


def write_results(made: Sequence[Experiment], store: CellStore, folder: Path, *, figures: bool = True) -> list[Path]:
    """Everything that can be said of the experiments; gives the files for people."""
    there = [experiment for experiment in made if experiment.records]
    parts = [(experiment.title, experiment.name, sheets(experiment)) for experiment in there]
    for title, name, of_part in parts:
        _write(folder / f"{name}.md", to_markdown(title, of_part))
        for number, sheet in enumerate(of_part, 1):
            _write(folder / "tables" / f"{name}-{number:02d}.csv", to_csv(sheet))
    write_summaries(folder / "cells.csv", [one for experiment in there for one in experiment.summaries])
    drawn = _drawn(there, store, folder / "figures") if figures else []
    shown: list[tuple[str, Sequence[Sheet]]] = [(title, of_part) for title, _, of_part in parts]
    _write(folder / "report.html", to_html("The paper's experiments, reproduced", shown, drawn))
    return [*(folder / f"{name}.md" for _, name, _ in parts), folder / "report.html"]


def _drawn(made: Sequence[Experiment], store: CellStore, folder: Path) -> list[PagePicture]:
    """The paper's figures: all collections in one, as the paper has them, unless one was run with several sensors."""
    together = len({experiment.first.collection for experiment in made}) == len(made)
    groups = [list(made)] if together else [[experiment] for experiment in made]
    pictures = []
    for group in groups:
        cells = [record.cell for experiment in group for record in experiment.records]
        place = folder if together else folder / group[0].name
        for name, paths in write_figures(store, cells, place).items():
            drawing = next(path for path in paths if path.suffix == ".svg")
            pictures.append(PagePicture.of_file(name.replace("-", " "), CAPTIONS[name], drawing))
    return pictures


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as stream:
        stream.write(text.encode())
