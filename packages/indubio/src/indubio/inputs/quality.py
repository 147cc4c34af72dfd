"""Data quality of windows: sensors that are frozen or saturated.

Frozen: no change over the window. Saturated: cut off, that is for more than half of it at one value, its lowest or
highest, at or beyond the end of the training range. A signal that moves, and only out there, is elsewhere instead.
A sensor that did so in more than 1 % of the training windows is made that way, a switch for example, and never
flagged for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.errors import ShapeError
from indubio.inputs.notes import joined_notes, named_flags
from indubio.texts import english

USUAL = 0.01  # share of the training windows
MOST = 0.5  # share of a window's samples


@dataclass(frozen=True, eq=False)
class QualityLimits:
    """What the sensors did in training.

    Args:
        smallest: per sensor; NaN where it never had a value.
        largest: per sensor.
        frozen_share: share of the training windows in which the sensor was frozen.
        saturated_share: share of the training windows in which it was saturated.
    """

    smallest: Float[np.ndarray, " sensors"]
    largest: Float[np.ndarray, " sensors"]
    frozen_share: Float[np.ndarray, " sensors"]
    saturated_share: Float[np.ndarray, " sensors"]


def fit_quality(values: Float[np.ndarray, "windows length sensors"]) -> QualityLimits:
    """The limits, from training windows."""
    smallest, largest = np.fmin.reduce(values, axis=(0, 1)), np.fmax.reduce(values, axis=(0, 1))
    return QualityLimits(
        smallest=smallest,
        largest=largest,
        frozen_share=frozen(values).mean(axis=0),
        saturated_share=saturated(values, smallest, largest).mean(axis=0),
    )


def quality_flags(
    values: Float[np.ndarray, "windows length sensors"], limits: QualityLimits, sensors: Sequence[str]
) -> Shaped[np.ndarray, " windows"]:
    """Per window what is wrong, as text: "frozen: pressure; saturated: flow, speed"; "" where nothing is."""
    if not values.shape[2] == len(sensors) == len(limits.smallest):
        raise ShapeError(
            f"the limits are of {len(limits.smallest)} sensors, but the windows have {values.shape[2]}, "
            f"and there are {len(sensors)} names."
        )
    stuck = frozen(values) & (limits.frozen_share <= USUAL)
    at_limit = saturated(values, limits.smallest, limits.largest) & (limits.saturated_share <= USUAL)
    return joined_notes(
        named_flags(stuck, sensors, english("frozen: {names}")),
        named_flags(at_limit, sensors, english("saturated: {names}")),
    )


def frozen(values: Float[np.ndarray, "windows length sensors"]) -> Bool[np.ndarray, "windows sensors"]:
    """No change over the window, among at least two values that are there."""
    there = np.count_nonzero(~np.isnan(values), axis=1)
    unchanged = np.fmin.reduce(values, axis=1) == np.fmax.reduce(values, axis=1)
    return np.asarray(unchanged & (there > 1))


def saturated(
    values: Float[np.ndarray, "windows length sensors"],
    smallest: Float[np.ndarray, " sensors"],
    largest: Float[np.ndarray, " sensors"],
) -> Bool[np.ndarray, "windows sensors"]:
    """At one end, at or beyond that of the range, for most values that are there; not those that only move outside."""
    needed = MOST * np.count_nonzero(~np.isnan(values), axis=1)
    low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
    at_low, at_high = (np.count_nonzero(values == end[:, None], axis=1) for end in (low, high))
    at_rest = low == high
    below = (low <= smallest) & (at_low > needed) & ((high >= smallest) | at_rest)
    above = (high >= largest) & (at_high > needed) & ((low <= largest) | at_rest)
    return np.asarray(below | above)
