"""Data quality of windows: sensors that are frozen or saturated.

Frozen: no change over the window. Saturated: cut off, that is for more than half of it at one value, its lowest or
highest, at or beyond the end of the training range. A signal that moves, and only out there, is elsewhere instead.
A sensor that did so in more than 1 % of the training windows is made that way, a switch for example, and never
flagged for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.errors import ShapeError
from indubio.prepare.notes import joined_notes, named_flags
from indubio.texts import english

USUAL = 0.01  # share of the training windows
MOST = 0.5  # share of a window's samples
VALUES_AT_ONCE = 2**18  # they stay in the cache


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
    ends = [block.ends for block in _blocks(values)]
    low, high = (np.concatenate([block[place] for block in ends]) for place in (0, 1))
    smallest, largest = np.fmin.reduce(low, axis=0), np.fmax.reduce(high, axis=0)
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
    found = [(block.frozen, block.saturated(limits.smallest, limits.largest)) for block in _blocks(values)]
    stuck, at_limit = (np.concatenate([flags[place] for flags in found]) for place in (0, 1))
    return joined_notes(
        named_flags(stuck & (limits.frozen_share <= USUAL), sensors, english("frozen: {names}")),
        named_flags(at_limit & (limits.saturated_share <= USUAL), sensors, english("saturated: {names}")),
    )


def frozen(values: Float[np.ndarray, "windows length sensors"]) -> Bool[np.ndarray, "windows sensors"]:
    """No change over the window, among at least two values that are there."""
    return np.concatenate([block.frozen for block in _blocks(values)])


def saturated(
    values: Float[np.ndarray, "windows length sensors"],
    smallest: Float[np.ndarray, " sensors"],
    largest: Float[np.ndarray, " sensors"],
) -> Bool[np.ndarray, "windows sensors"]:
    """At one end, at or beyond that of the range, for most values that are there; not those that only move outside."""
    return np.concatenate([block.saturated(smallest, largest) for block in _blocks(values)])


@dataclass(frozen=True, eq=False)
class _Block:
    """Some windows, sensor by sensor: along the last axis, numpy looks for ends many times as fast."""

    series: Float[np.ndarray, "windows sensors length"]

    @cached_property
    def ends(self) -> tuple[Float[np.ndarray, "windows sensors"], Float[np.ndarray, "windows sensors"]]:
        """Smallest and largest of the values that are there; NaN where none is."""
        low, high = self.series.min(axis=2), self.series.max(axis=2)
        gaps = np.isnan(low)
        if gaps.any():
            low[gaps], high[gaps] = np.fmin.reduce(self.series[gaps], axis=1), np.fmax.reduce(self.series[gaps], axis=1)
        return low, high

    @property
    def frozen(self) -> Bool[np.ndarray, "windows sensors"]:
        low, high = self.ends
        flags = low == high
        flags[flags] = np.count_nonzero(~np.isnan(self.series[flags]), axis=1) > 1
        return np.asarray(flags)

    def saturated(
        self, smallest: Float[np.ndarray, " sensors"], largest: Float[np.ndarray, " sensors"]
    ) -> Bool[np.ndarray, "windows sensors"]:
        low, high = self.ends
        at_rest = low == high
        below = (low <= smallest) & ((high >= smallest) | at_rest)
        above = (high >= largest) & ((low <= largest) | at_rest)
        below[below] = self._mostly_at(low, below)  # few are looked at value by value
        above[above] = self._mostly_at(high, above)
        return np.asarray(below | above)

    def _mostly_at(
        self, end: Float[np.ndarray, "windows sensors"], where: Bool[np.ndarray, "windows sensors"]
    ) -> Bool[np.ndarray, " chosen"]:
        series = self.series[where]
        there = np.count_nonzero(~np.isnan(series), axis=1)
        return np.asarray(np.count_nonzero(series == end[where][:, None], axis=1) > MOST * there)


def _blocks(values: Float[np.ndarray, "windows length sensors"]) -> Iterator[_Block]:
    size = max(1, VALUES_AT_ONCE // max(1, values.shape[1] * values.shape[2]))
    for start in range(0, max(1, len(values)), size):
        yield _Block(np.ascontiguousarray(values[start : start + size].transpose(0, 2, 1)))
