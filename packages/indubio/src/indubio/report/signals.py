"""A window: the signal of a sensor, what the draws take it for, and the score over time."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from indubio.report.style import ANOMALOUS, BLACK, NORMAL, shortened
from indubio.texts import _

Steps = Float[np.ndarray, " steps"]


def plot_signal(
    axes: Axes,
    signal: Steps,
    reconstruction: Float[np.ndarray, "draws steps"] | None,
    *,
    sensor: str,
    rate: float | None = None,
    most: int | None = None,
) -> None:
    """The signal, and the mean and spread (one standard deviation) of the draws' reconstructions.

    Args:
        axes: where to draw.
        signal: in its own units; missing values leave gaps.
        reconstruction: in the same units; None where there is none.
        sensor: name, with the unit where there is one.
        rate: samples per second; None counts time steps.
        most: draw no more than about this many points, keeping the peaks; None draws them all.
    """
    shown = peaks(signal, most)
    time = _time(len(signal), rate)[shown]
    if reconstruction is not None:
        mean, spread = reconstruction.mean(axis=0)[shown], reconstruction.std(axis=0)[shown]
        axes.fill_between(time, mean - spread, mean + spread, color=NORMAL, alpha=0.3, linewidth=0)
        axes.plot(time, mean, color=NORMAL, label=_("expected, ±1 s.d. of the draws"))
    axes.plot(time, signal[shown], color=BLACK, linewidth=0.9, label=_("measured"))
    axes.set_title(shortened(sensor, 48), loc="left", fontsize=9, parse_math=False)  # beside it, names would overlap
    axes.set_xlabel(time_label(rate))
    axes.margins(x=0)


def plot_score_over_time(
    axes: Axes, score: Steps, spread: Steps, *, rate: float | None = None, most: int | None = None
) -> None:
    """What each time step contributes to the score, with its spread over the draws.

    Args:
        axes: where to draw.
        score: contribution of each step; they add up to what the window's score has beyond the typical one.
        spread: standard deviation over the draws.
        rate: samples per second; None counts time steps.
        most: draw no more than about this many points, keeping the peaks; None draws them all.
    """
    shown = peaks(score, most)
    time = _time(len(score), rate)[shown]
    low, high = (score - spread)[shown], (score + spread)[shown]
    if (score >= 0).all():
        low = np.maximum(low, 0)
    axes.fill_between(time, low, high, color=ANOMALOUS, alpha=0.3, linewidth=0)
    axes.plot(time, score[shown], color=ANOMALOUS)
    axes.set_ylabel(_("score [NLL]"))
    axes.set_xlabel(time_label(rate))
    axes.margins(x=0)


def time_label(rate: float | None) -> str:
    """The label of the time axis: seconds where the sampling rate is known, else steps."""
    return _("time [steps]") if rate is None else _("time [s]")


def peaks(values: Steps, most: int | None) -> Int[np.ndarray, " shown"]:
    """Which steps to draw: the lowest and the highest of every stretch, so that no peak is lost; at most `most`."""
    everything = np.arange(len(values))
    if most is None or len(values) <= most:
        return everything
    lowest, highest = np.where(np.isnan(values), np.inf, values), np.where(np.isnan(values), -np.inf, values)
    chosen = {0, len(values) - 1}
    for stretch in np.array_split(everything, max(1, most // 2)):
        chosen |= {int(stretch[np.argmin(lowest[stretch])]), int(stretch[np.argmax(highest[stretch])])}
    return np.array(sorted(chosen))


def _time(steps: int, rate: float | None) -> Steps:
    return np.arange(steps, dtype=np.float64) / (rate or 1.0)
