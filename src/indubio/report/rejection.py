"""Accuracy-rejection curves on matplotlib axes."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from indubio.evaluation import RejectionCurve

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#000000")
NAMES = {"gss": "GSS", "auroc": "AUROC", "f1": "F1", "mcc": "MCC", "balanced_accuracy": "balanced accuracy"}


def plot_rejection_curves(axes: Axes, curves: Mapping[str, RejectionCurve]) -> None:
    """Each curve's metric of the examples that are kept, against the share that is rejected.

    Args:
        axes: where to draw.
        curves: by the name for the legend; all of one metric.
    """
    axes.set_prop_cycle(color=COLOURS)
    for name, curve in curves.items():
        axes.plot(
            100 * curve.rejection_rate,
            100 * curve.value,
            drawstyle="steps-post",
            label=f"{name}: W {100 * curve.weighted_average:.1f} ({100 * curve.gain:+.1f})",
        )
    metrics = {NAMES[curve.metric] for curve in curves.values()}
    axes.set_xlabel("rejected [%]")
    axes.set_ylabel(f"{', '.join(sorted(metrics))} of the rest [%]")
    axes.legend(fontsize=8)
