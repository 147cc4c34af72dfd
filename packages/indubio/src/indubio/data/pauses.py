"""Pauses: time steps within a window that are far longer than its usual ones, so that what lies between is unknown.

A window is looked at by itself, so the same is found however the recording is read. Where steps are of all lengths, as
between events, a long one is nothing unusual and no pause.
"""

import numpy as np
from jaxtyping import Float, Shaped

from indubio.texts import english

PAUSE = 10.0  # times the usual step, the median of those above 0
REGULAR, MOSTLY = 1.5, 0.75  # where fewer than this share of the other steps are within so many usual ones: no pauses
WINDOWS_AT_ONCE = 1024


def longest_pauses(times: Shaped[np.ndarray, "windows length"], ticks: float) -> Float[np.ndarray, " windows"]:
    """Seconds of the longest pause within each window; 0 where there is none.

    Args:
        times: of the samples of each window.
        ticks: of these times, per second.
    """
    found = np.zeros(len(times))
    for first in range(0, len(times), WINDOWS_AT_ONCE):
        steps = np.diff(times[first : first + WINDOWS_AT_ONCE], axis=1).astype(np.float64)
        steps[steps <= 0] = np.nan
        shortest = np.min(steps, axis=1, initial=np.inf, where=steps > 0)
        longest = np.max(steps, axis=1, initial=0.0, where=steps > 0)
        some = np.flatnonzero(longest > PAUSE * shortest)  # few, as a rule
        if len(some):
            found[first + some] = _longest(steps[some]) / ticks
    return found


def _longest(steps: Float[np.ndarray, "windows steps"]) -> Float[np.ndarray, " windows"]:
    usual = np.nanmedian(steps, axis=1, keepdims=True)
    others = np.count_nonzero(steps <= PAUSE * usual, axis=1)
    regular = np.count_nonzero(steps <= REGULAR * usual, axis=1) >= MOSTLY * others
    longest = np.nanmax(steps, axis=1)
    return np.where(regular & (longest > PAUSE * usual[:, 0]), longest, 0.0)


def duration(seconds: float) -> str:
    """A length of time as people say it: 0.25 s, 400 s, 3.5 h."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 10 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def pause_notes(seconds: Float[np.ndarray, " windows"]) -> Shaped[np.ndarray, " windows"]:
    """Pauses as text beside the verdicts; "" where there is no pause."""
    return np.array(
        [english("pause: {length}", length=duration(one)) if one else "" for one in seconds.tolist()], dtype=object
    )
