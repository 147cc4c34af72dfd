"""The paper's picture of probability and the five uncertainties over a plane, for detectors of two features."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from indubio.chain import ChainEstimator
from indubio.errors import ShapeError
from indubio.report.style import GREEN

PANELS = {
    "probability": "(a) anomaly probability",
    "epistemic": "(b) epistemic",
    "aleatoric": "(c) aleatoric",
    "total": "(d) total",
    "exceed": "(e) exceed",
    "var_nll": "(f) Var[NLL]",
}


def plane_figure(
    detector: ChainEstimator,
    training: Float[np.ndarray, "examples 2"],
    *,
    margin: float = 0.6,
    resolution: int = 150,
) -> Figure:
    """Six maps: the anomaly probability and each uncertainty around the training examples.

    Args:
        detector: fitted on two features.
        training: the examples it was fitted on, drawn as dots.
        margin: how far to look beyond the training range, in units of that range.
        resolution: points along each axis.
    """
    points = np.asarray(training, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ShapeError(f"the plane needs examples of two features, got an array of shape {points.shape}.")
    low, high = points.min(axis=0), points.max(axis=0)
    reach = margin * (high - low)
    x, y = (np.linspace(a, b, resolution) for a, b in zip(low - reach, high + reach, strict=True))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    found = detector.assess(grid).to_dict()
    figure = Figure(figsize=(10.5, 6.6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(2, 3, sharex=True, sharey=True).flat, PANELS.items(), strict=True):
        _draw_map(axes, x, y, found[name].reshape(resolution, resolution), points, title)
    return figure


def _draw_map(
    axes: Axes,
    x: Float[np.ndarray, " columns"],
    y: Float[np.ndarray, " rows"],
    values: Float[np.ndarray, "rows columns"],
    points: Float[np.ndarray, "examples 2"],
    title: str,
) -> None:
    image = axes.pcolormesh(x, y, values, cmap="Greys", shading="auto", rasterized=True)
    axes.scatter(points[:, 0], points[:, 1], s=5, color=GREEN, linewidths=0, label="training examples")
    axes.set_title(title, fontsize=11)
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    axes.set_xlabel("feature 1")
    axes.set_ylabel("feature 2")
    axes.label_outer()
    axes.figure.colorbar(image, ax=axes, shrink=0.85, format="%.2g")
