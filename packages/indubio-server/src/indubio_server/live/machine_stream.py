"""The values of one machine: put in order, cleared of duplicates, and cut into windows by the rules for recordings.

Order is a matter of the machine's own time: a row is passed on when a value has come that is newer by `lateness`, so
what comes out depends on the values alone and not on how fast they travelled. It is then exactly what the same values
in a file, in order, would give.

To pass rows on costs more than to keep them. So they are kept until they could fill a window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int64

from indubio.data import (
    TICKS,
    Cutter,
    GridSampler,
    Long,
    Piece,
    Reading,
    RowSampler,
    Samples,
    Tally,
    Windowing,
    longest_pauses,
)
from indubio.errors import ConfigError
from indubio_server.live.messages import TimedValues
from indubio_server.live.settings_of_live import Ordering

TIME = pa.timestamp("ns", "UTC")
MOST_ROWS = 4096  # that are kept though they fill no window yet
NEVER = -(2**62)


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineExamples:
    """Windows or rows of one machine that are ready for the model.

    Args:
        machine: its name.
        values: NaN where missing.
        start: time of the first sample of each, nanoseconds since 1970. end: of the last.
        pauses: seconds of the longest pause within each, 0 for none.
    """

    machine: str
    values: Float[np.ndarray, "examples ..."]
    start: Int64[np.ndarray, " examples"]
    end: Int64[np.ndarray, " examples"]
    pauses: Float[np.ndarray, " examples"]


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamPlan:
    """How values become examples, the same for all machines.

    Args:
        sensors: their names, in the model's order.
        windowing: how windows are cut; None where every row is an example.
        long: the sensors have time stamps of their own.
        lateness: nanoseconds. restart: likewise, see `Ordering`.
    """

    sensors: tuple[str, ...]
    windowing: Windowing | None
    long: bool
    lateness: int
    restart: int

    @classmethod
    def of(cls, reading: Reading | None, sensors: tuple[str, ...], ordering: Ordering) -> "StreamPlan":
        """The plan for a model that reads its files like this."""
        windowing = None if reading is None else reading.windowing
        layout = None if reading is None else reading.layout
        if windowing is not None and layout is not None and layout.time is None and windowing.gaps == "linear":
            raise ConfigError(
                'the model was fitted on a recording without times and gaps="linear": lines between values need their '
                "times. Fit it with a time column."
            )
        if windowing is not None and windowing.gaps == "error":  # a gap must not stop the others: see `LiveBatch`
            windowing = replace(windowing, gaps="leave")
        return cls(
            sensors=sensors,
            windowing=windowing,
            long=isinstance(layout, Long),
            lateness=round(ordering.lateness * TICKS),
            restart=round(ordering.restart_after * TICKS),
        )


class MachineStream:
    """The values of one machine that are not in a window yet.

    Args:
        machine: its name.
        plan: how values become examples.
    """

    def __init__(self, machine: str, plan: StreamPlan) -> None:
        self.machine, self._plan = machine, plan
        self.heard = 0  # when its last message arrived, nanoseconds since 1970
        self._rows: dict[int, list[Any]] = {}  # by time: a cell per sensor, None where nothing came; then the group
        self._newest, self._released = NEVER, NEVER
        self._group: str | None = None
        self._changed = False  # a group ended or a pause came, so there may be a last window
        self._begin()

    def add(self, sample: TimedValues) -> tuple[int, int]:
        """Take a sample; how many of its values came too late, and how many were there already."""
        if sample.time <= self._released:
            return len(sample.cells), 0
        row = self._rows.get(sample.time)
        if row is None:
            row = self._rows[sample.time] = [None] * len(self._plan.sensors) + [sample.group]
        duplicates = 0
        for number, value in sample.cells:
            if row[number] is None:
                row[number] = value
            else:
                duplicates += 1
        if sample.time > self._newest:
            self._changed |= sample.group != self._group or sample.time - self._newest > self._plan.restart
            self._newest = sample.time
        return 0, duplicates

    @property
    def waiting(self) -> int:
        """How many rows wait for values that may still come."""
        return len(self._rows)

    def ready(self) -> list[MachineExamples]:
        """The examples that are complete now."""
        if not self._due():
            return []
        limit = self._newest - self._plan.lateness
        times = sorted(t for t, row in self._rows.items() if t < limit or (t == limit and None not in row[:-1]))
        if not times:
            return []
        rows = [self._rows.pop(t) for t in times]
        before = (self._released, self._group)
        keys = [before, *zip(times, (row[-1] for row in rows), strict=True)]
        breaks = [
            place
            for place, ((earlier, group), (later, new)) in enumerate(pairwise(keys))
            if group != new or later - earlier > self._plan.restart
        ]
        self._released, self._group = keys[-1]
        pause = self._newest - self._released > self._plan.restart
        self._changed = pause or any(row[-1] != self._group for row in self._rows.values())
        found: list[MachineExamples] = []
        for first, last in pairwise(sorted({0, *breaks, len(rows)})):
            if first in breaks:
                found += self._ended()
            found += self._examples(times[first:last], [row[:-1] for row in rows[first:last]])
        return found

    def _due(self) -> bool:
        windowing = self._plan.windowing
        if windowing is None or self._changed or len(self._rows) > MOST_ROWS:
            return True
        if windowing.rate is None:
            return len(self._rows) + self._fed - self._cutter.samples >= self._cutter.needed
        latest = self._cutter.latest
        needed = self._cutter.needed / windowing.rate * TICKS
        return latest is None or self._newest - self._plan.lateness > int(latest) + needed

    def _begin(self) -> None:
        windowing = self._plan.windowing
        self._fed = 0
        if windowing is not None:
            sampler = RowSampler if windowing.rate is None else GridSampler
            self._sampler = sampler(windowing, self._plan.sensors, Tally(self._plan.sensors))
            self._cutter = Cutter(windowing, self.machine, TIME)

    def _ended(self) -> list[MachineExamples]:
        """The last windows of a group; the next one begins."""
        if self._plan.windowing is None or not self._fed:
            return []
        last = self._cut(self._sampler.finish())
        self._begin()
        return last

    def _examples(self, times: list[int], rows: list[list[float | None]]) -> list[MachineExamples]:
        stamps = np.array(times, dtype=np.int64)
        if self._plan.windowing is None:
            none = np.zeros(len(stamps))
            return [MachineExamples(machine=self.machine, values=_filled(rows), start=stamps, end=stamps, pauses=none)]
        self._fed += len(rows)
        if self._plan.long:
            cells = [(t, n, v) for t, row in zip(times, rows, strict=True) for n, v in enumerate(row) if v is not None]
            stamps = np.array([t for t, _, _ in cells], dtype=np.int64)
            sensor = np.array([n for _, n, _ in cells], dtype=np.int64)
            piece = self._piece(stamps, np.array([v for _, _, v in cells], dtype=np.float64), sensor)
        else:
            piece = self._piece(stamps, _filled(rows), None)
        return self._cut(self._sampler.add(piece))

    def _piece(self, stamps: np.ndarray, values: np.ndarray, sensor: np.ndarray | None) -> Piece:
        return Piece(
            file=0,
            group=self.machine,
            key=self.machine,
            time=stamps,
            time_type=TIME,
            values=values,
            sensor=sensor,
            bad=np.zeros(len(self._plan.sensors), dtype=np.int64),
            place=lambda row: f"value {row}",
            name=self.machine,
        )

    def _cut(self, blocks: Iterator[Samples]) -> list[MachineExamples]:
        return [
            MachineExamples(
                machine=self.machine,
                values=np.ascontiguousarray(cut.values),
                start=cut.start,
                end=cut.end,
                pauses=np.zeros(len(cut.start)) if cut.times is None else longest_pauses(cut.times, TICKS),
            )
            for samples in blocks
            for cut in self._cutter.cut(samples)
        ]

    def state(self) -> dict[str, Any]:
        """All that it remembers: numbers, texts, lists and arrays."""
        cells = [row[:-1] for row in self._rows.values()]
        there: Bool[np.ndarray, "rows sensors"] = np.array([[cell is not None for cell in row] for row in cells])
        state: dict[str, Any] = {
            "heard": self.heard,
            "times": list(self._rows),
            "groups": [row[-1] for row in self._rows.values()],
            "values": _filled(cells),
            "there": there,
            "newest": self._newest,
            "released": self._released,
            "group": self._group,
            "changed": self._changed,
            "fed": self._fed,
        }
        if self._plan.windowing is not None:
            state |= {"sampler": self._sampler.state(), "cutter": self._cutter.state()}
        return state

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from the state that a snapshot kept."""
        for time, group, values, there in zip(
            state["times"], state["groups"], state["values"], state["there"], strict=True
        ):
            cells = [value if known else None for value, known in zip(values.tolist(), there.tolist(), strict=True)]
            self._rows[time] = [*cells, group]
        self._newest, self._released, self._group = state["newest"], state["released"], state["group"]
        self._changed, self._fed, self.heard = state["changed"], state["fed"], state["heard"]
        if self._plan.windowing is not None:
            self._sampler.resume(state["sampler"])
            self._cutter.resume(state["cutter"])


def _filled(rows: Sequence[Sequence[float | None]]) -> Float[np.ndarray, "rows sensors"]:
    """Rows of cells as an array, NaN where nothing came."""
    return np.array(rows, dtype=np.float64)  # None becomes NaN
