"""The confusion matrix, before and after the uncertain verdicts went to a person."""

import numpy as np
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from indubio.report.style import ANOMALOUS, NORMAL, ORANGE
from indubio.texts import _, gettext, marked, written

STRONGEST = 0.55  # opacity of a cell that holds its whole row; text must stay readable on it, on any paper


def plot_confusion(
    axes: Axes,
    labels: Bool[np.ndarray, " examples"],
    predictions: Bool[np.ndarray, " examples"],
    referred: Bool[np.ndarray, " examples"] | None = None,
) -> None:
    """How many normal examples and anomalies are called what; percentages are of the row.

    Args:
        axes: where to draw.
        labels: True for an anomaly.
        predictions: True for what is called an anomaly.
        referred: which examples went to a person instead; adds a column of its own.
    """
    kept = np.ones(len(labels), dtype=bool) if referred is None else ~referred
    columns = [(marked("normal"), kept & ~predictions), (marked("anomaly"), kept & predictions)]
    if referred is not None:
        columns.append((marked("referred"), referred))
    rows = (("normal", ~labels), ("anomaly", labels))
    for y, (truth, actual) in enumerate(rows):
        for x, (verdict, called) in enumerate(columns):
            colour = ORANGE if verdict == "referred" else NORMAL if verdict == truth else ANOMALOUS
            _draw_cell(axes, x, y, int((actual & called).sum()), int(actual.sum()), colour)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(1.5, -0.5)
    axes.set_xticks(range(len(columns)), [gettext(name) for name, _called in columns])
    axes.set_yticks(range(2), [gettext(name) for name, _actual in rows], rotation=90, va="center")
    axes.set_xlabel(_("verdict (examples, % of the row)"))
    axes.set_ylabel(_("label"))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_cell(axes: Axes, x: int, y: int, count: int, of_row: int, colour: str) -> None:
    share = count / of_row if of_row else 0.0
    opacity = 0.08 + (STRONGEST - 0.08) * share
    axes.add_patch(Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, facecolor=colour, alpha=opacity, linewidth=0))
    axes.text(x, y - 0.08, written(f"{count:,}"), ha="center", va="center", fontsize=13, weight="bold")
    of_it = _("{digits}%", digits=written(f"{100 * share:.1f}")) if of_row else "-"
    axes.text(x, y + 0.22, of_it, ha="center", va="center", fontsize=8.5)
