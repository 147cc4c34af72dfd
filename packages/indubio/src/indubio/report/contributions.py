"""What made the score of one example: a bar per feature or sensor."""

import numpy as np
from matplotlib.axes import Axes

from indubio.chain import Contributions
from indubio.report.style import BLUE, GREY, told_apart
from indubio.report.words import percent
from indubio.texts import _


def plot_contributions(axes: Axes, found: Contributions, example: int, *, most: int = 8) -> None:
    """Contributions of the largest features or sensors, the spread over the draws as a line, the share as a number.

    They are what the score has beyond that of a typical training row; bars to the left speak for a normal example.

    Args:
        axes: where to draw.
        found: contributions of some examples.
        example: which of them to draw.
        most: how many bars at most.
    """
    value, spread = found.features.value[example], found.features.spread[example]
    share = found.features.share[example]
    order = np.argsort(-value, kind="stable")[:most]
    places = np.arange(len(order))
    axes.barh(places, value[order], height=0.7, color=BLUE, alpha=0.55)
    axes.errorbar(value[order], places, xerr=spread[order], fmt="none", ecolor=GREY, elinewidth=1.2, capsize=2)
    highest, lowest = (value + spread)[order].max(initial=0), min(0.0, float((value - spread)[order].min()))
    reach = float(highest - lowest)
    for place, feature in zip(places, order, strict=True):
        end = max(0.0, float(value[feature] + spread[feature]))
        axes.text(end + 0.02 * reach, float(place), percent(round(float(share[feature]), 2)), va="center", fontsize=8)
    axes.set_yticks(places, told_apart([found.names[feature] for feature in order], 28), parse_math=False)
    axes.set_ylim(max(len(order), 3) - 0.4, -0.6)
    axes.set_xlim(right=highest + 0.15 * reach or 1.0)
    axes.locator_params(axis="x", nbins=4)
    label = _("beyond the typical score [NLL]") if found.typical else _("part of the score [NLL]")
    axes.set_xlabel(label, loc="right")  # beside long names it is wider than the axes
    axes.tick_params(axis="y", length=0)
