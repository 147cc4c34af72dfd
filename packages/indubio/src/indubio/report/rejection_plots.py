"""Accuracy-rejection curves on matplotlib axes."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from indubio.evaluation import RejectionCurve
from indubio.report.style import COLOURS
from indubio.texts import _, gettext, written

STYLES = ("-", "--", ":")  # after all colours are used
NAMES = {"gss": "GSS", "auroc": "AUROC", "f1": "F1", "mcc": "MCC", "balanced_accuracy": "balanced accuracy"}


def plot_rejection_curves(axes: Axes, curves: Mapping[str, RejectionCurve], *, most: int | None = None) -> None:
    """Each curve's metric of the examples that are kept, against the share that is rejected.

    Args:
        axes: where to draw.
        curves: by the name for the legend; all of one metric.
        most: draw no more than this many points of a curve, evenly spaced; None draws them all.
    """
    axes.set_prop_cycle(color=COLOURS * len(STYLES), linestyle=[style for style in STYLES for _ in COLOURS])
    for name, curve in curves.items():
        points = len(curve.value)
        shown = np.unique(np.linspace(0, points - 1, min(points, most or points)).round().astype(int))
        axes.plot(
            100 * curve.rejection_rate[shown],
            100 * curve.value[shown],
            drawstyle="steps-post",
            label=written(f"{gettext(name)}: W {100 * curve.weighted_average:.1f} ({100 * curve.gain:+.1f})"),
        )
    metrics = {NAMES[curve.metric] for curve in curves.values()}
    axes.set_xlabel(_("rejected [%]"))
    axes.set_ylabel(_("{metric} of the rest [%]", metric=", ".join(sorted(metrics))))
    axes.legend(fontsize=8)
