"""The paper's arrangement: a lettered part for every collection, a panel for every task, one legend, notes."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from string import ascii_lowercase
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from indubio.report import report_style
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.figures.look import task_title
from indubio_lab.paper.reproduction.figures.results import FigurePart

COLUMNS = 4
WIDTH, PANEL_HEIGHT = 11.0, 1.95  # inches
PART_HEIGHT = 0.35  # of a lettered part's title and its axis label
LEGEND_ROW, MOST_IN_A_ROW = 0.24, 6
LINE_HEIGHT = 0.17
LETTERS_A_LINE = 165  # of the notes
UNBROKEN = "\N{NO-BREAK SPACE}"

Draw = Callable[[Axes, list[Record]], None]


def panels(
    parts: Sequence[FigurePart],
    draw: Draw,
    *,
    handles: Sequence[Artist],
    notes: Sequence[str],
    xlabel: str,
    ylabel: str,
) -> Figure | None:
    """A figure with a panel for every task; None where there are no parts.

    Args:
        parts: one for each collection.
        draw: what a panel shows, given the records of its task.
        handles: of the legend.
        notes: what must be said below the figure.
        xlabel: of all panels.
        ylabel: of all panels.
    """
    if not parts:
        return None
    rows = [-(-len(part.by_task) // COLUMNS) for part in parts]
    heights = [PANEL_HEIGHT * count + PART_HEIGHT for count in rows]
    with framed(sum(heights), handles, notes) as (figure, middle):
        rooms = middle.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
        for letter, room, part, count in zip(ascii_lowercase, rooms, parts, rows, strict=False):
            room.suptitle(f"({letter}) {part.title}", x=0.01, ha="left", fontsize=11, fontweight="bold")
            _fill(room.subplots(count, COLUMNS, squeeze=False), part, draw, xlabel, ylabel)
    return figure


@contextmanager
def framed(height: float, handles: Sequence[Artist], notes: Sequence[str]) -> Iterator[tuple[Figure, SubFigure]]:
    """A figure with a legend above and notes below, and the room between them, to be drawn in within the block."""
    lines = _lines(notes)
    legend_rows = -(-len(handles) // MOST_IN_A_ROW)
    heights = [LEGEND_ROW * legend_rows + 0.1, height, LINE_HEIGHT * (len(lines) + 1)]
    with report_style():
        figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        top, middle, bottom = figure.subfigures(3, 1, height_ratios=heights, squeeze=False)[:, 0]
        columns = -(-len(handles) // legend_rows)
        top.legend(handles=handles, loc="center", ncols=columns, fontsize=9, columnspacing=1.6, handlelength=2.8)
        bottom.text(0.5, 0.5, "\n".join(lines), ha="center", va="center", fontsize=8.5)
        yield figure, middle


def _lines(notes: Sequence[str]) -> list[str]:
    """The notes one after the other; a line is broken between two of them."""
    whole = "; ".join(note.replace(" ", UNBROKEN) for note in notes)
    return [line.replace(UNBROKEN, " ") for line in textwrap.wrap(whole, LETTERS_A_LINE, break_long_words=False)]


def _fill(grid: Any, part: FigurePart, draw: Draw, xlabel: str, ylabel: str) -> None:
    tasks = part.by_task
    for place, axes in enumerate(grid.flat):
        if place >= len(tasks):
            axes.set_visible(False)
            continue
        task = list(tasks)[place]
        draw(axes, tasks[task])
        axes.set_title(task_title(part.collection, task))
        if place + COLUMNS >= len(tasks):
            axes.set_xlabel(xlabel)
        if place % COLUMNS == 0:
            axes.set_ylabel(ylabel)
