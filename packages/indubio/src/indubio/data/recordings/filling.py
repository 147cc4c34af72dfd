"""Every row of a wide recording is a sample: only the empty cells are filled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from indubio.data.recordings.cutting import Samples, Tally
from indubio.data.recordings.sampling import Piece, RecordingSampler
from indubio.data.windows import Windowing
from indubio.errors import DataError


class RowSampler(RecordingSampler):
    """Every row of a wide recording is a sample; empty cells are filled as `gaps` says."""

    def __init__(self, windowing: Windowing, sensors: Sequence[str], tally: Tally) -> None:
        super().__init__(windowing, sensors, tally)
        nothing = np.full(len(sensors), np.nan)
        self._rows = Samples(np.empty((0, len(sensors))), np.empty(0), np.empty(0, dtype=np.int64))
        self._seconds = np.empty(0)
        self._last = Known(nothing, nothing)
        self._base: float | None = None
        self._count = 0

    def add(self, piece: Piece) -> Iterator[Samples]:
        """The samples that are certain now."""
        numbers = np.arange(self._count, self._count + len(piece))
        self._count += len(piece)
        at = numbers if piece.time is None else piece.time
        samples = Samples(piece.values, at, np.full(len(piece), piece.file), piece.labelled, piece.passed)
        if self._windowing.gaps in ("error", "leave"):
            yield self._plain(samples, piece)
            return
        if self._base is None and piece.time is not None and len(piece):
            self._base = piece.time[0]
        seconds = numbers.astype(np.float64) if self._base is None else piece.seconds(self._base)
        self._rows = self._rows.followed_by(samples)
        self._seconds = np.concatenate([self._seconds, seconds])
        yield self._given_out(self._certain() if self._linear else len(self._rows), ended=False)

    def finish(self) -> Iterator[Samples]:
        """The rest, at the end of the group."""
        yield self._given_out(len(self._rows), ended=True)

    def state(self) -> dict[str, Any]:
        """What it has to remember from piece to piece."""
        return {
            "rows": self._rows.state(),
            "seconds": self._seconds,
            "last": [self._last.values, self._last.seconds],
            "base": None if self._base is None else np.asarray(self._base),
            "count": self._count,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, perhaps in another process."""
        self._rows, self._seconds = Samples(*state["rows"]), state["seconds"]
        self._last = Known(*state["last"])
        self._base = None if state["base"] is None else state["base"][()]
        self._count = state["count"]

    def _plain(self, samples: Samples, piece: Piece) -> Samples:
        missing = np.isnan(samples.values)
        if missing.any():
            if self._windowing.gaps == "error":
                row, sensor = np.argwhere(missing)[0]
                raise DataError(
                    '{place} has no usable value of "{sensor}". '
                    'Fill the gaps with `gaps="hold"` or "linear", or keep them with `gaps="leave"`.',
                    place=piece.place(int(row)),
                    sensor=self._sensors[sensor],
                )
            self._tally.missing += missing.sum(axis=0)
        return samples

    def _certain(self) -> int:
        """How many of the waiting rows a later row cannot change: the line to the next value is known."""
        if not len(self._rows):
            return 0
        known = ~np.isnan(self._rows.values)
        until = np.where(known.any(axis=0), len(known) - np.argmax(known[::-1], axis=0), 0)  # after the last value
        since = np.where(until > 0, self._seconds[until - 1], self._last.seconds)
        hopeless = np.isnan(since) | (self._seconds[-1] - since > self._oldest)
        return int(np.where(hopeless, len(known), until).min())

    def _given_out(self, count: int, *, ended: bool) -> Samples:
        rows, seconds = self._rows, self._seconds
        self._rows, self._seconds = rows.since(count), seconds[count:]
        if not np.isnan(rows.values[:count]).any():  # nothing to fill, which is nearly always
            if count:
                self._last = Known(rows.values[count - 1], np.full(len(self._sensors), seconds[count - 1]))
            return rows.before(count)
        filled, last, held, drawn = filled_rows(
            rows.values, seconds, self._last, count=count, oldest=self._oldest, linear=self._linear, ended=ended
        )
        self._last = last
        self._tally.held += held.sum(axis=0)
        self._tally.interpolated += drawn.sum(axis=0)
        self._tally.missing += np.isnan(filled).sum(axis=0)
        return replace(rows.before(count), values=filled)


@dataclass(frozen=True, eq=False)
class Known:
    """Per sensor, the latest value and its time; NaN where there is none."""

    values: Float[np.ndarray, " sensors"]
    seconds: Float[np.ndarray, " sensors"]


def filled_rows(
    rows: Float[np.ndarray, "rows sensors"],
    seconds: Float[np.ndarray, " rows"],
    before: Known,
    *,
    count: int,
    oldest: float,
    linear: bool,
    ended: bool,
) -> tuple[
    Float[np.ndarray, "count sensors"], Known, Bool[np.ndarray, "count sensors"], Bool[np.ndarray, "count sensors"]
]:
    """The first `count` rows with their gaps filled, the latest values then, which were held and which interpolated.

    Args:
        rows: NaN where missing.
        seconds: time of each row.
        before: the latest values before the first row.
        count: how many rows to fill; the others are looked at for the next values.
        oldest: seconds a gap may last.
        linear: draw a line to the next value; else the last value is held.
        ended: the group ends with the last row, so that a line that finds no next value holds the last.
    """
    missing = np.isnan(rows)
    numbers = np.arange(len(rows))[:, None]
    previous = np.maximum.accumulate(np.where(missing, -1, numbers), axis=0)[:count]
    value = np.where(previous < 0, before.values, np.take_along_axis(rows, previous, axis=0))
    since = np.where(previous < 0, before.seconds, seconds[previous])
    last = Known(value[-1], since[-1])
    empty, now = missing[:count], seconds[:count, None]
    if not linear:
        held = empty & (now - since <= oldest)
        return np.where(empty & ~held, np.nan, value), last, held, np.zeros_like(held)
    following = np.minimum.accumulate(np.where(missing, len(rows), numbers)[::-1], axis=0)[::-1][:count]
    found = following < len(rows)
    following = np.minimum(following, len(rows) - 1)
    gap = np.where(found, seconds[following], seconds[-1]) - since
    bridged = empty & (gap <= oldest)  # NaN, so False, where nothing came before
    drawn, held = bridged & found, bridged & ~found & ended
    share = np.divide(now - since, gap, out=np.zeros_like(gap), where=gap > 0)
    line = value + (np.take_along_axis(rows, following, axis=0) - value) * share
    return np.where(empty, np.where(drawn, line, np.where(held, value, np.nan)), value), last, held, drawn
