"""The figures of a benchmark: average ranks with the critical difference, and quality against cost."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from indubio.report import BLUE, GREY, VERMILLION

ROW = 0.24  # inches between two names
WIDE = 7.0  # inches


def diagram_height(detectors: int) -> float:
    """Inches for a diagram of so many."""
    return 1.0 + ROW * ((detectors + 1) // 2)


def plot_critical_difference(
    axes: Axes, ranks: Mapping[str, float], difference: float, *, ours: frozenset[str] = frozenset()
) -> None:
    """Demsar's diagram: the best rank on the left; bars join what is not told apart.

    Args:
        axes: to draw on.
        ranks: average ranks by title.
        difference: the critical difference.
        ours: titles to draw in colour.
    """
    order = sorted(ranks, key=lambda name: ranks[name])
    lowest, highest = 1, len(order)
    half = (len(order) + 1) // 2
    axes.set_axis_off()
    axes.set_xlim(lowest - 0.45 * (highest - lowest) - 0.3, highest + 0.45 * (highest - lowest) + 0.3)
    axes.set_ylim(half + 0.8, -1.9)
    axes.hlines(0, lowest, highest, color="black", linewidth=1)
    for rank in range(lowest, highest + 1):
        axes.vlines(rank, -0.12, 0, color="black", linewidth=1)
        axes.text(rank, -0.25, str(rank), ha="center", va="bottom", fontsize=8)
    axes.hlines(-1.35, lowest, min(lowest + difference, highest), color=GREY, linewidth=2)
    axes.text(lowest, -1.5, f"critical difference {difference:.2f}", ha="left", va="bottom", fontsize=8)
    for place, name in enumerate(order):
        left = place < half
        level = (place if left else len(order) - 1 - place) + 1.2
        end = lowest - 0.15 if left else highest + 0.15
        colour = VERMILLION if name in ours else BLUE
        axes.plot([ranks[name], ranks[name], end], [0, level, level], color=colour, linewidth=0.8)
        axes.text(
            end + (-0.05 if left else 0.05),
            level,
            f"{name}  {ranks[name]:.2f}" if left else f"{ranks[name]:.2f}  {name}",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            color=colour if name in ours else "black",
        )
    for number, (first, last) in enumerate(not_told_apart([ranks[name] for name in order], difference)):
        height = 0.25 + 0.2 * (number % 4)
        axes.hlines(height, ranks[order[first]] - 0.04, ranks[order[last]] + 0.04, color="black", linewidth=2.5)


def not_told_apart(ranks: list[float], difference: float) -> list[tuple[int, int]]:
    """First and last of every largest group of ascending ranks that lie within the difference; groups of one are none.

    Examples:
        >>> not_told_apart([1.0, 1.5, 2.2, 4.0], 1.0)
        [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(place for place in range(first, len(ranks)) if ranks[place] - ranks[first] <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def plot_quality_and_cost(
    axes: Axes, points: Mapping[str, tuple[float, float]], *, quality: str, ours: frozenset[str] = frozenset()
) -> None:
    """Quality against processor time; the line joins those that no other beats in both.

    Args:
        axes: to draw on.
        points: cost in seconds and quality, by title.
        quality: name of the axis.
        ours: titles to draw in colour.
    """
    for name, (cost, value) in points.items():
        colour = VERMILLION if name in ours else BLUE
        axes.plot(cost, value, "o", color=colour, markersize=5)
        axes.annotate(name, (cost, value), xytext=(4, 3), textcoords="offset points", fontsize=7.5)
    front = pareto_front(list(points.values()))
    axes.plot(*np.array(front).T, color=GREY, linewidth=0.9, zorder=0, drawstyle="steps-post")
    axes.set_xscale("log")
    axes.set_xlabel("processor time of a fit and its scoring [s], mean over the sets")
    axes.set_ylabel(quality)
    axes.margins(x=0.18, y=0.08)


def pareto_front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those (cost, quality) that no other point equals or beats in both, by cost.

    Examples:
        >>> pareto_front([(1.0, 0.8), (2.0, 0.7), (3.0, 0.9)])
        [(1.0, 0.8), (3.0, 0.9)]
    """
    found: list[tuple[float, float]] = []
    for cost, quality in sorted(points, key=lambda point: (point[0], -point[1])):
        if not found or quality > found[-1][1]:
            found.append((cost, quality))
    return found
