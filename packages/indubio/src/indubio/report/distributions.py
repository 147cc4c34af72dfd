"""How probability and uncertainty are distributed, over all examples and over right and wrong predictions."""

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter

from indubio.errors import ConfigError
from indubio.report.style import ANOMALOUS, BLACK, GREY, NORMAL, QUANTITIES, Quantity
from indubio.texts import _

BINS = 40
LOG_COUNTS = 30  # the tallest bar is this many times the usual one: on a linear axis the rest would vanish
FEW = 25  # as many points can be told apart, and say more than a box


def plot_distribution(
    axes: Axes,
    values: Float[np.ndarray, " examples"],
    *,
    of: str,
    labels: Bool[np.ndarray, " examples"] | None = None,
    threshold: float | None = None,
    threshold_name: str = "threshold",
) -> None:
    """A histogram of the probability or an uncertainty; counts are logarithmic where one bar dwarfs the others.

    Args:
        axes: where to draw.
        values: one per example; infinite ones are left out, and the axis says how many.
        of: what they are: "probability" or the name of an uncertainty.
        labels: True for an anomaly; normal and anomalous examples are then drawn apart.
        threshold: a line to draw, where it lies within the range.
        threshold_name: what the line is.
    """
    quantity = _quantity(of)
    shown = np.isfinite(values)
    logarithmic = quantity.largest is None and bool((values[shown] > 0).any())
    edges = _edges(values[shown], quantity.largest, logarithmic)
    placed = np.clip(values, edges[0], edges[-1])  # a log axis has no place for 0, rounding may pass the end
    if labels is None:
        counts = _bars(axes, placed[shown], edges, NORMAL, _("all examples"))
    else:
        normal = _bars(axes, placed[shown & ~labels], edges, NORMAL, f"{_('normal')} ({np.count_nonzero(~labels)})")
        anomalous = _bars(
            axes, placed[shown & labels], edges, ANOMALOUS, f"{_('anomalies')} ({np.count_nonzero(labels)})"
        )
        counts = np.maximum(normal, anomalous)
    if threshold is not None and edges[0] <= threshold <= edges[-1]:
        axes.axvline(threshold, color=BLACK, linewidth=1, linestyle="--", label=threshold_name)
    if counts.max(initial=0) > LOG_COUNTS * np.median(counts[counts > 0], keepdims=True).max(initial=1):
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(*10.0 ** np.array([np.floor(np.log10(edges[0])), np.ceil(np.log10(edges[-1]))]))
        axes.xaxis.set_minor_formatter(NullFormatter())
    left_out = np.count_nonzero(~shown)
    axes.set_xlabel(quantity.label + (_(", {number} infinite left out", number=left_out) if left_out else ""))
    axes.set_ylabel(_("examples"))
    if labels is not None or threshold is not None:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def plot_right_and_wrong(
    axes: Axes,
    values: Float[np.ndarray, " examples"],
    wrong: Bool[np.ndarray, " examples"],
    *,
    of: str,
) -> None:
    """Box plots of an uncertainty for right and for wrong predictions; few examples are drawn as points too.

    The box holds the middle half, the line is the median, the whiskers reach from the 5th to the 95th percentile.

    Args:
        axes: where to draw.
        values: uncertainty of each example.
        wrong: whether its prediction, with nothing referred, is wrong.
        of: name of the uncertainty.
    """
    quantity = _quantity(of)
    groups = ((_("right"), values[~wrong], NORMAL), (_("wrong"), values[wrong], ANOMALOUS))
    for place, (_name, group, colour) in enumerate(groups, start=1):
        group = group[np.isfinite(group)]
        if group.size:
            axes.boxplot(
                [group],
                positions=[place],
                widths=0.5,
                whis=(5, 95),
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": colour, "alpha": 0.35, "edgecolor": "none"},
                medianprops={"color": colour, "linewidth": 2},
                whiskerprops={"color": colour},
                capprops={"color": colour},
            )
        if group.size <= FEW:
            axes.plot(np.full(group.size, float(place)), group, "o", color=colour, markersize=3, alpha=0.8)
    axes.set_xlim(0.4, 2.6)
    axes.set_xticks([1, 2], [f"{name} ({group.size})" for name, group, _colour in groups])
    axes.set_xlabel(_("prediction"))
    axes.set_ylabel(quantity.label.replace(" [", "\n["))
    if quantity.largest is None and (values > 0).all():
        axes.set_yscale("log")
    axes.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)


def _quantity(of: str) -> Quantity:
    if of not in QUANTITIES:
        raise ConfigError(f"`of` must be one of {', '.join(QUANTITIES)}, got {of!r}.")
    return QUANTITIES[of]


def _edges(
    values: Float[np.ndarray, " examples"], largest: float | None, logarithmic: bool
) -> Float[np.ndarray, " edges"]:
    if largest is not None:
        return np.linspace(0, largest, BINS + 1)
    if not logarithmic:
        return np.linspace(0, 1, BINS + 1)
    positive = values[values > 0]
    low, high = np.log10(positive.min()), np.log10(positive.max())
    return np.logspace(low - 0.05, high + 0.05, BINS + 1)


def _bars(
    axes: Axes, values: Float[np.ndarray, " examples"], edges: Float[np.ndarray, " edges"], colour: str, label: str
) -> Float[np.ndarray, " bins"]:
    counts = np.histogram(values, edges)[0]
    axes.stairs(counts, edges, fill=True, color=colour, alpha=0.35)
    axes.stairs(counts, edges, color=colour, label=label)
    return counts.astype(np.float64)
