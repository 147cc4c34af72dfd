"""From the samples of a group to windows, piece by piece: the samples of a window that is not full are carried over."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped
from numpy.lib.stride_tricks import sliding_window_view

from indubio.data.windows import ShortGroup, Windowing, WindowReport, Windows, ticks_per_second

ROUNDING = 1 + 1e-4  # a gap this little longer than the longest is not longer: differences of stamps are rounded


@dataclass(frozen=True, eq=False)
class Samples:
    """Consecutive samples of one group.

    Args:
        values: NaN where missing.
        at: time stamps, or sample numbers where there is no time.
        file: number of the file that each came from.
        labelled: which are labelled as anomalies; None without labels.
        passed: columns to pass through; None where there are none.
    """

    values: Float[np.ndarray, "samples sensors"]
    at: Shaped[np.ndarray, " samples"]
    file: Int[np.ndarray, " samples"]
    labelled: Bool[np.ndarray, " samples"] | None = None
    passed: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.values)

    def state(self) -> list[Shaped[np.ndarray, "samples ..."]]:
        """The three arrays, which make the same samples again."""
        return [self.values, self.at, self.file]

    def since(self, first: int) -> "Samples":
        """The samples without the first so many."""
        return self._part(first, len(self))

    def before(self, end: int) -> "Samples":
        """The first samples, so many of them."""
        return self._part(0, min(end, len(self)))

    def followed_by(self, other: "Samples") -> "Samples":
        """These samples and then the others, of the same group, as one."""
        if not len(self):
            return other
        return Samples(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.at, other.at]),
            np.concatenate([self.file, other.file]),
            joined_labels(self.labelled, other.labelled),
            joined_columns(self.passed, other.passed),
        )

    def _part(self, first: int, end: int) -> "Samples":
        part = slice(first, end)
        return Samples(
            self.values[part],
            self.at[part],
            self.file[part],
            None if self.labelled is None else self.labelled[part],
            None if self.passed is None else self.passed.slice(first, max(0, end - first)),
        )


def joined_labels(*parts: np.ndarray | None) -> np.ndarray | None:
    """Labels, shares of them, or times, one part after the other; None where there are none."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


def joined_columns(*parts: pa.Table | None) -> pa.Table | None:
    """Columns to pass through, one part after the other; None where there are none."""
    known = [part for part in parts if part is not None]
    return pa.concat_tables(known, promote_options="permissive") if known else None


class Tally:
    """Counts what a `WindowReport` reports."""

    def __init__(self, sensors: Sequence[str]) -> None:
        self._sensors = sensors
        self._clear()

    def _clear(self) -> None:
        self.groups, self.left_over, self.pauses = 0, 0, 0
        self.short: list[ShortGroup] = []
        self.held, self.interpolated, self.bad, self.missing = np.zeros((4, len(self._sensors)), dtype=np.int64)

    def taken(self) -> WindowReport:
        """The counts since the last call."""
        counts: dict[str, Any] = {
            name: dict(zip(self._sensors, map(int, getattr(self, name)), strict=True))
            for name in ("held", "interpolated", "bad", "missing")
        }
        counts |= {name: getattr(self, name) for name in ("groups", "left_over", "pauses")}
        report = WindowReport(short=tuple(self.short), **counts)
        self._clear()
        return report


@dataclass(frozen=True, eq=False)
class Cut:
    """Windows of one group; `values` and `times` are views, so that overlapping windows take no memory yet."""

    values: Float[np.ndarray, "windows length sensors"]
    start: Shaped[np.ndarray, " windows"]
    end: Shaped[np.ndarray, " windows"]
    file: Int[np.ndarray, " windows"]
    group: Any
    first: Int[np.ndarray, " windows"]
    times: Shaped[np.ndarray, "windows length"] | None
    bad_share: Float[np.ndarray, " windows"] | None = None
    passed: pa.Table | None = None

    def split(self, count: int) -> tuple["Cut", "Cut"]:
        """The first so many windows, and the others."""
        return self._part(0, count), self._part(count, len(self.values))

    def _part(self, first: int, end: int) -> "Cut":
        part = slice(first, end)
        return Cut(
            self.values[part],
            self.start[part],
            self.end[part],
            self.file[part],
            self.group,
            self.first[part],
            None if self.times is None else self.times[part],
            None if self.bad_share is None else self.bad_share[part],
            None if self.passed is None else self.passed.slice(first, end - first),
        )


class Cutter:
    """Cuts the samples of one group; after a pause longer than `longest_gap` it begins anew.

    Args:
        windowing: how windows are cut.
        group: id of the group.
        time_type: of the samples' times; None where there are none.
    """

    def __init__(self, windowing: Windowing, group: Any, time_type: pa.DataType | None) -> None:
        self._length, self._stride, self._group = windowing.length, windowing.stride, group
        self._timed = time_type is not None and windowing.rate is None
        ticks = 1.0 if time_type is None else ticks_per_second(time_type)
        self._longest_step = windowing.longest_step * ticks * ROUNDING
        self._tail: Samples | None = None
        self._skip = 0  # samples between two windows that are further apart than they are long
        self._reached = 0  # number of the sample after the last window, or after a pause
        self._latest: Any = None  # time of the last sample
        self.samples, self.windows, self.pauses = 0, 0, 0
        self.left_over = 0  # samples before pauses that no window took

    def cut(self, new: Samples) -> Iterator[Cut]:
        """The windows that are full now."""
        if not len(new):
            return
        breaks: list[int] = []
        if np.isfinite(self._longest_step):
            before = new.at[:1] if self._latest is None else np.asarray([self._latest])
            breaks = np.flatnonzero(np.diff(np.concatenate([before, new.at])) > self._longest_step).tolist()
        self._latest = new.at[-1]
        for first, end in pairwise(sorted({0, *breaks, len(new)})):
            if first in breaks:
                self._begin_anew()
            if (cut := self._cut(new.before(end).since(first))) is not None:
                yield cut

    def _begin_anew(self) -> None:
        self.pauses += 1
        self.left_over += max(0, self.samples - self._reached)
        self._reached, self._tail, self._skip = self.samples, None, 0

    def _cut(self, new: Samples) -> Cut | None:
        self.samples += len(new)
        samples = new if self._tail is None else self._tail.followed_by(new)
        dropped = min(self._skip, len(samples))
        self._skip -= dropped
        samples = samples.since(dropped)
        count = max(0, (len(samples) - self._length) // self._stride + 1)
        self._tail = samples.since(count * self._stride)
        if count == 0:
            return None
        self._skip += max(0, count * self._stride - len(samples))
        self.windows += count
        starts = np.arange(count) * self._stride
        numbers = self.samples - len(samples) + starts
        self._reached = int(numbers[-1]) + self._length
        ends = starts + self._length - 1
        labelled = samples.labelled
        return Cut(
            self._views(samples.values, starts).transpose(0, 2, 1),
            samples.at[starts],
            samples.at[ends],
            samples.file[starts],
            self._group,
            numbers,
            self._views(samples.at, starts) if self._timed else None,
            None if labelled is None else sliding_window_view(labelled, self._length)[starts].mean(axis=1),
            None if samples.passed is None else samples.passed.take(pa.array(starts)),
        )

    def _views(self, samples: np.ndarray, starts: Int[np.ndarray, " windows"]) -> np.ndarray:
        return sliding_window_view(samples, self._length, axis=0)[starts[0] : starts[-1] + 1 : self._stride]

    @property
    def needed(self) -> int:
        """Samples until the next window is full."""
        return self._length + self._skip - (0 if self._tail is None else len(self._tail))

    @property
    def latest(self) -> Any:
        """Time of the last sample; None where there is none to be carried over."""
        return None if self._tail is None or not len(self._tail) else self._tail.at[-1]

    def state(self) -> dict[str, Any]:
        """What it has to remember from piece to piece: numbers and arrays."""
        return {
            "tail": None if self._tail is None else self._tail.state(),
            "skip": self._skip,
            "samples": self.samples,
            "windows": self.windows,
            "latest": None if self._latest is None else np.asarray(self._latest),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, perhaps in another process."""
        self._tail = None if state["tail"] is None else Samples(*state["tail"])
        self._skip, self.samples, self.windows = state["skip"], state["samples"], state["windows"]
        self._latest = None if state["latest"] is None else state["latest"][()]

    def finish(self) -> None:
        """Count the samples after the last window, at the end of the group."""
        self.left_over += max(0, self.samples - self._reached)


class Collector:
    """Gathers windows until there are enough for a `Windows`.

    One window is always kept back, so that the last report finds windows to go with.
    """

    def __init__(
        self,
        sensors: tuple[str, ...],
        rate: float | None,
        *,
        tally: Tally,
        labels: Sequence[str | None],
        group_type: pa.DataType,
        at_once: int,
    ) -> None:
        self._sensors, self._rate, self._tally, self._at_once = sensors, rate, tally, at_once
        self._labels, self._group_type = pa.array(labels, type=pa.string()), group_type
        self._pending: deque[Cut] = deque()
        self._count = 0

    def add(self, cut: Cut) -> None:
        """Keep the windows of a cut until there are enough."""
        self._pending.append(cut)
        self._count += len(cut.values)

    def full(self, time_type: pa.DataType) -> Iterator[Windows]:
        """As many full parts as there are."""
        while self._count > self._at_once:
            yield self._taken(self._at_once, time_type)

    def rest(self, time_type: pa.DataType) -> Iterator[Windows]:
        """The windows that are left at the end, fewer than a full part."""
        yield from self.full(time_type)
        if self._count:
            yield self._taken(self._count, time_type)

    def _taken(self, count: int, time_type: pa.DataType) -> Windows:
        cuts: list[Cut] = []
        self._count -= count
        while count:
            cut = self._pending.popleft()
            if len(cut.values) > count:
                cut, later = cut.split(count)
                self._pending.appendleft(later)
            cuts.append(cut)
            count -= len(cut.values)
        windows = Windows(
            values=np.concatenate([cut.values for cut in cuts]),
            sensors=self._sensors,
            rate=self._rate,
            origin=self._origin(cuts, time_type),
            report=self._tally.taken(),
            bad_share=joined_labels(*(cut.bad_share for cut in cuts)),
            passed=joined_columns(*(cut.passed for cut in cuts)),
            first=np.concatenate([cut.first for cut in cuts]),
            times=joined_labels(*(cut.times for cut in cuts)),
        )
        if (pauses := windows.pauses) is None or not pauses.any():
            return windows
        over, longest = int(np.count_nonzero(pauses)), float(pauses.max())
        return replace(windows, report=replace(windows.report, over_pauses=over, longest_pause=longest))

    def _origin(self, cuts: Sequence[Cut], time_type: pa.DataType) -> pa.Table:
        which = np.repeat(np.arange(len(cuts)), [len(cut.values) for cut in cuts])
        groups = pa.array([cut.group for cut in cuts], type=self._group_type)
        return pa.table(
            {
                "file": self._labels.take(pa.array(np.concatenate([cut.file for cut in cuts]))),
                "group": groups.take(pa.array(which)),
                "start": pa.array(np.concatenate([cut.start for cut in cuts])).cast(time_type),
                "end": pa.array(np.concatenate([cut.end for cut in cuts])).cast(time_type),
            }
        )
