"""Gain of GSS against the number of training examples: which uncertainty keeps up when there is much data."""

from collections import defaultdict
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from indubio.judging import UNCERTAINTIES
from indubio.report import BLACK, COLOURS, GREY, report_style
from indubio_lab.paper.reproduction.choice import judged_as_chosen
from indubio_lab.paper.reproduction.figures.averaging import mean_and_error
from indubio_lab.paper.reproduction.figures.look import MARKERS, UNCERTAINTY_NAMES, light_grid
from indubio_lab.paper.reproduction.figures.panels import framed
from indubio_lab.paper.reproduction.figures.results import FigurePart, Results, by_model

PAPERS_MODELS = ("Deterministic AE", "VAE", "BAE-MCD", "BAE-BBB", "BAE-Ensemble")  # SGHMC is ours: outside the means
METRIC = "gss"


def gain_by_training_size(results: Results) -> Figure | None:
    """One point for each task at its number of training examples: mean and standard error over models and seeds."""
    ours = results.only(*PAPERS_MODELS)
    parts = ours.parts()
    if not parts:
        return None
    with report_style():
        handles = [Line2D([], [], label=one.title, **_marker(place, one)) for place, one in enumerate(parts)]
    said = f"mean and standard error over {len(by_model(ours.records))} models and the seeds"
    with framed(2.9, handles, [said, *ours.notes(METRIC)]) as (figure, middle):
        grid = middle.subplots(1, len(UNCERTAINTIES), sharex=True, sharey=True)
        for axes, uncertainty in zip(grid, UNCERTAINTIES, strict=True):
            for place, part in enumerate(parts):
                _draw_points(axes, points(ours, part, uncertainty), _marker(place, part))
            _finish(axes, UNCERTAINTY_NAMES[uncertainty])
        grid[0].set_ylabel("Gain of GSS [percentage points]")
        middle.supxlabel("training examples", fontsize=9)
    return figure


def points(results: Results, part: FigurePart, uncertainty: str) -> list[tuple[int, float, float]]:
    """Training examples, mean gain and its standard error, in percentage points, of every task."""
    gains: dict[str, list[float]] = defaultdict(list)
    for cell, one in judged_as_chosen(part.records, level=results.level, choice=results.choice):
        if (one.uncertainty, one.metric) == (uncertainty, METRIC):
            gains[cell.task].append(100 * one.gain)
    sizes = {task: records[0].train for task, records in part.by_task.items()}
    return [(sizes[task], *mean_and_error(np.array(values))) for task, values in gains.items()]


def _marker(place: int, part: FigurePart) -> dict[str, Any]:
    return {"marker": MARKERS[part.collection], "color": COLOURS[place], "markersize": 5, "linestyle": "none"}


def _draw_points(axes: Axes, summary: list[tuple[int, float, float]], marker: dict[str, Any]) -> None:
    if summary:
        sizes, means, errors = zip(*summary, strict=True)
        axes.errorbar(sizes, means, yerr=errors, ecolor=GREY, elinewidth=1, capsize=2, **marker)


def _finish(axes: Axes, title: str) -> None:
    axes.axhline(0, color=BLACK, linestyle=":", linewidth=1)
    axes.set_title(title)
    axes.set_xscale("log")
    lowest, highest = axes.get_xlim()
    # Within a decade there may be no power of ten to stand on the axis.
    axes.xaxis.set_major_locator(LogLocator() if highest > 10 * lowest else MaxNLocator(3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    light_grid(axes)
