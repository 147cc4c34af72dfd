"""Plots of what `assess` found, and of what made one score."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from indubio.chain import Assessment, ChainEstimator
from indubio.decision import Verdict
from indubio.detector import Detector
from indubio.errors import ConfigError, ShapeError
from indubio.evaluation import accuracy_rejection_curve, checked_binary
from indubio.judging import UNCERTAINTIES
from indubio.report.confusion import plot_confusion
from indubio.report.contributions import plot_contributions
from indubio.report.distributions import plot_distribution
from indubio.report.plane import plane_figure
from indubio.report.rejection_plots import plot_rejection_curves
from indubio.report.style import ANOMALOUS, NORMAL, ORANGE, QUANTITIES

SIZE = 6.0, 3.6  # inches
ABOVE_LEGEND = 26  # points between the axes and a title that a legend is under
COLOURS_OF_VERDICTS = {Verdict.INLIER: NORMAL, Verdict.ANOMALY: ANOMALOUS, Verdict.REFER: ORANGE}


def probability(found: Assessment, labels: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """How the anomaly probability is distributed, normal and anomalous examples apart where labels are given.

    Args:
        found: what `assess` found.
        labels: 1 or True for an anomaly.
        ax: where to draw.

    Examples:
        >>> import numpy as np
        >>> from indubio import Detector
        >>> from indubio.report import plots
        >>> good = np.random.default_rng(0).normal(size=(100, 3))
        >>> found = Detector().fit(good).assess(good[:20] * 2)
        >>> plots.probability(found).get_title("left")
        'anomaly probability of 20 examples'
    """
    return _distribution(found, "probability", labels, ax)


def uncertainty(
    found: Assessment, labels: ArrayLike | None = None, *, of: str = "total", ax: Axes | None = None
) -> Axes:
    """How an uncertainty is distributed, normal and anomalous examples apart where labels are given.

    Args:
        found: what `assess` found.
        labels: 1 or True for an anomaly.
        of: "total", "epistemic", "aleatoric", "novelty", "exceed" or "var_nll".
        ax: where to draw.
    """
    return _distribution(found, of, labels, ax)


def scores(found: Assessment, labels: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """The scores (negative log-likelihoods) of the examples, sorted, coloured by verdict or by label.

    Args:
        found: what `assess` found.
        labels: 1 or True for an anomaly; colours by them instead.
        ax: where to draw.
    """
    axes, place = _axes(ax), np.empty(len(found), dtype=np.int64)
    place[np.argsort(found.nll, kind="stable")] = np.arange(1, len(found) + 1)
    _dots(axes, place, found.nll, _groups(found, labels))
    axes.set_xlabel("examples, by score")
    axes.set_ylabel("score [NLL]")
    return _titled(axes, found, "score", ABOVE_LEGEND)


def scatter(
    found: Assessment, against: str = "epistemic", labels: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """The probability of each example against an uncertainty, coloured by verdict or by label.

    Args:
        found: what `assess` found.
        against: an uncertainty, or "novelty". (The total follows from the probability: it is p (1 - p).)
        labels: 1 or True for an anomaly; colours by them instead.
        ax: where to draw.
    """
    axes, values = _axes(ax), _values(found, against)
    _dots(axes, found.probability, values, _groups(found, labels))
    axes.set_xlabel(QUANTITIES["probability"].label)
    axes.set_ylabel(QUANTITIES[against].label)
    return _titled(axes, found, f"probability and {QUANTITIES[against].label.partition(' [')[0]}", ABOVE_LEGEND)


def timeline(
    found: Assessment, of: str = "probability", at: Sequence[Any] | None = None, *, ax: Axes | None = None
) -> Axes:
    """A number of the examples in their order, coloured by verdict.

    Args:
        found: what `assess` found.
        of: what to show, as for `uncertainty`, or "probability".
        at: times of the examples; None takes the column `start` or `time` that was passed through, else their numbers.
        ax: where to draw.
    """
    axes, values = _axes(ax), _values(found, of)
    times = _times(found) if at is None else np.asarray(at)
    if len(times) != len(found):
        raise ShapeError(f"`at` must have one time for each of the {len(found)} examples, got {len(times)}.")
    axes.plot(times, values, color="0.7", linewidth=0.8, zorder=1)
    _dots(axes, times, values, _groups(found, None))
    axes.set_xlabel("example" if times.dtype.kind in "iu" else "time")
    axes.set_ylabel(QUANTITIES[of].label)
    return _titled(axes, found, QUANTITIES[of].label.partition(" [")[0], ABOVE_LEGEND)


def verdicts(found: Assessment, *, ax: Axes | None = None) -> Axes:
    """How many examples have which verdict."""
    axes = _axes(ax)
    counts = [int(np.count_nonzero(found.verdict == verdict)) for verdict in Verdict]
    bars = axes.barh([str(verdict) for verdict in Verdict], counts, color=[COLOURS_OF_VERDICTS[one] for one in Verdict])
    axes.bar_label(bars, padding=3)
    axes.invert_yaxis()
    axes.set_xlabel("examples")
    return _titled(axes, found, "verdicts")


def rejection(
    found: Assessment,
    labels: ArrayLike,
    by: Sequence[str] = tuple(UNCERTAINTIES),
    *,
    metric: str = "gss",
    ax: Axes | None = None,
) -> Axes:
    """How good the predictions are that are left when the most uncertain examples are rejected.

    Args:
        found: what `assess` found.
        labels: 1 or True for an anomaly.
        by: the uncertainties to reject by, a curve each.
        metric: "gss", "f1", "mcc" or "balanced_accuracy".
        ax: where to draw.
    """
    axes, actual = _axes(ax), _labels(found, labels)
    assert actual is not None
    curves = {
        name: accuracy_rejection_curve(actual, found.prediction, _values(found, name), metric=metric) for name in by
    }
    plot_rejection_curves(axes, curves)
    return _titled(axes, found, "what rejecting the most uncertain buys,")


def confusion(found: Assessment, labels: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Verdicts against labels: what is right, wrong and referred."""
    axes, actual = _axes(ax), _labels(found, labels)
    assert actual is not None
    plot_confusion(axes, actual, found.prediction, np.asarray(found.verdict == Verdict.REFER))
    return _titled(axes, found, "verdicts and labels")


def contributions(detector: Detector, X: Any, example: int = 0, *, most: int = 8, ax: Axes | None = None) -> Axes:
    """What made the score of one example: the features that add most to it.

    Args:
        detector: fitted.
        X: the examples, as for `assess`.
        example: which of them, by its place.
        most: show so many features.
        ax: where to draw.
    """
    examples = detector.fitted_chain.preparation.examples(X)
    if not -len(examples) <= example < len(examples):
        raise ConfigError(f"`example` must be one of the {len(examples)} examples, got {example}.")
    made = detector.contributions(examples.select([example]))
    axes = _axes(ax)
    plot_contributions(axes, made, 0, most=most)
    axes.set_title(f"what made the score of example {example}", loc="left", fontsize="medium")
    return axes


def plane(detector: ChainEstimator, training: ArrayLike, **options: Any) -> Figure:
    """Probability and uncertainties over the plane, for a detector of two features; see `report.plane_figure`."""
    return plane_figure(detector, np.asarray(training, dtype=np.float64), **options)


def _distribution(found: Assessment, of: str, labels: ArrayLike | None, ax: Axes | None) -> Axes:
    axes, values = _axes(ax), _values(found, of)
    shown = values[~np.isnan(values)] if labels is None else values
    plot_distribution(axes, shown, of=of, labels=_labels(found, labels))
    return _titled(axes, found, QUANTITIES[of].label.partition(" [")[0])


def _titled(axes: Axes, found: Assessment, what: str, pad: int = 6) -> Axes:
    axes.set_title(f"{what} of {len(found):,} examples", loc="left", fontsize="medium", pad=pad)
    return axes


def _axes(given: Axes | None) -> Axes:
    if given is not None:
        return given
    import matplotlib.pyplot as plt  # shows the figure where a notebook does; nothing else in the package uses it

    return plt.subplots(figsize=SIZE, layout="constrained")[1]


def _values(found: Assessment, of: str) -> Float[np.ndarray, " examples"]:
    values = found.to_dict().get(of) if of in QUANTITIES else None
    if values is None:
        known = ", ".join(name for name in QUANTITIES if name in found.to_dict())
        raise ConfigError(f"an assessment has no number called {of!r}; it has {known}.")
    return np.asarray(values, dtype=np.float64)


def _labels(found: Assessment, labels: ArrayLike | None) -> Bool[np.ndarray, " examples"] | None:
    if labels is None:
        return None
    actual = checked_binary("labels", labels)
    if len(actual) != len(found):
        raise ShapeError(f"`labels` must be of the same {len(found)} examples, got {len(actual)}.")
    return actual


def _groups(found: Assessment, labels: ArrayLike | None) -> dict[str, tuple[str, Bool[np.ndarray, " examples"]]]:
    """Name, colour and mask of what is told apart: verdicts, or labels where they are given."""
    actual = _labels(found, labels)
    if actual is not None:
        return {"normal": (NORMAL, ~actual), "anomalies": (ANOMALOUS, actual)}
    return {str(one): (colour, np.asarray(found.verdict == one)) for one, colour in COLOURS_OF_VERDICTS.items()}


def _dots(
    axes: Axes,
    x: Shaped[np.ndarray, " examples"],
    y: Float[np.ndarray, " examples"],
    groups: dict[str, tuple[str, Bool[np.ndarray, " examples"]]],
) -> None:
    for name, (colour, chosen) in groups.items():
        if chosen.any():
            axes.scatter(
                x[chosen], y[chosen], s=14, color=colour, alpha=0.8, label=f"{name} ({chosen.sum()})", zorder=2
            )
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


def _times(found: Assessment) -> Shaped[np.ndarray, " examples"]:
    if found.passed is not None:
        for name in ("start", "time"):
            if name in found.passed.column_names:
                return np.asarray(found.passed.column(name).to_numpy(zero_copy_only=False))
    return np.arange(len(found))
