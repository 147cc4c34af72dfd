"""Accuracy-rejection curves, mean and standard error over the seeds: of the models, and of the conversions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from indubio.evaluation import RejectionCurve
from indubio.report import NAMES
from indubio_lab.paper.reproduction.cell_store import Record
from indubio_lab.paper.reproduction.figures.averaging import mean_curve
from indubio_lab.paper.reproduction.figures.look import MODEL_LOOKS, conversion_line, conversion_name, light_grid
from indubio_lab.paper.reproduction.figures.panels import panels
from indubio_lab.paper.reproduction.figures.results import Results, by_model
from indubio_lab.paper.reproduction.judgements import within

SMALLEST_SPAN = 5.0  # percentage points of an axis: less would make noise look like a difference
WHOLE = 50  # percent rejected up to which an axis shows every mean
BY = "total"  # the uncertainty that rejects, in all of the paper's curves
ENSEMBLE = "BAE-Ensemble"
BANDS = "mean over the seeds, bands: standard error"


def gss_curves(results: Results) -> Figure | None:
    """GSS of what is kept against the share rejected, a line for each model."""
    return _model_curves(results, "gss")


def auroc_curves(results: Results) -> Figure | None:
    """AUROC of what is kept against the share rejected, a line for each model."""
    return _model_curves(results, "auroc")


def conversion_curves(results: Results) -> Figure | None:
    """GSS of what BAE-Ensemble keeps against the share rejected, a line for each of the eight conversions."""
    names = within(results.level)

    def draw(axes: Axes, records: list[Record]) -> None:
        for name in names:
            seeds = [results.examples(record.cell, name).curve(by=BY, metric="gss") for record in records]
            _draw_mean(axes, seeds, label=conversion_name(name), **conversion_line(name))
        _finish(axes)

    ensemble = results.only(ENSEMBLE)
    return panels(
        ensemble.parts(),
        draw,
        handles=[Line2D([], [], label=conversion_name(name), **conversion_line(name)) for name in names],
        notes=[ENSEMBLE, BANDS, ensemble.seeds, *ensemble.remarks],
        xlabel="rejected [%]",
        ylabel="GSS [%]",
    )


def _model_curves(results: Results, metric: str) -> Figure | None:
    def draw(axes: Axes, records: list[Record]) -> None:
        for model, of in by_model(records).items():
            seeds = [results.as_chosen(record.cell, by=BY, metric=metric).curve(by=BY, metric=metric) for record in of]
            _draw_mean(axes, seeds, label=model, **MODEL_LOOKS[model].line)
        _finish(axes)

    models = by_model(results.records)
    return panels(
        results.parts(),
        draw,
        handles=[Line2D([], [], label=model, **MODEL_LOOKS[model].line) for model in models],
        notes=[BANDS, *results.notes(metric)],
        xlabel="rejected [%]",
        ylabel=f"{NAMES[metric]} [%]",
    )


def _draw_mean(axes: Axes, curves: Sequence[RejectionCurve], **line: Any) -> None:
    mean = mean_curve(curves)
    rates, middle, reach = 100 * mean.rates, 100 * mean.mean, 100 * mean.error
    axes.plot(rates, middle, linewidth=1.3, **line)
    known = ~np.isnan(reach)
    if known.any():
        low, high = middle[known] - reach[known], middle[known] + reach[known]
        axes.fill_between(rates[known], low, high, color=line["color"], alpha=0.15, linewidth=0)


def _finish(axes: Axes) -> None:
    """Axes that show the first half whole: at the ends of the curves hardly an anomaly is left, and some fall to 0."""
    drawn = [np.column_stack([line.get_xdata(), line.get_ydata()]) for line in axes.lines]
    rates, values = np.concatenate(drawn)[~np.isnan(np.concatenate(drawn)[:, 1])].T
    if values.size:
        high = values.max()
        low = min(values[rates <= WHOLE].min(initial=high), high - SMALLEST_SPAN)
        edge = 0.07 * (high - low)
        axes.set_ylim(low - edge, high + edge)
    axes.set_xlim(0, 100)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    light_grid(axes)
