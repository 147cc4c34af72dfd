"""The stages put together: sources are read piece by piece, and windows come out part by part.

There is one way only: `read_windows` is a stream in one part.
"""

import sys
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Shaped

from indubio.data.recordings.cutting import Collector, Cut, Cutter, Samples, Tally
from indubio.data.recordings.filling import RowSampler
from indubio.data.recordings.interleaving import require_one_machine
from indubio.data.recordings.layouts import Long, Wide
from indubio.data.recordings.resampling import GridSampler
from indubio.data.recordings.row_pieces import Reader
from indubio.data.recordings.sampling import Piece
from indubio.data.recordings.sensors import sensor_names
from indubio.data.windows import ShortGroup, Windowing, Windows
from indubio.errors import ConfigError, DataError, ShapeError
from indubio.io import FileFormat, opened
from indubio.message import Message


def read_windows(
    source: Any, layout: Wide | Long, windowing: Windowing, *, file_format: FileFormat | None = None
) -> Windows:
    """All windows of a recording, in memory.

    Args:
        source: a text (CSV), Parquet or spreadsheet file, several, a folder, a pattern such as "runs/*.csv", a
            DataFrame (pandas or polars) or an Arrow table. The files of a folder go by name, run2 before run10.
        layout: what the columns are.
        windowing: how windows are cut.
        file_format: separator, decimal mark, encoding, sheet; None finds them out.
    """
    (windows,) = stream_windows(source, layout, windowing, windows_at_once=sys.maxsize, file_format=file_format)
    return windows


def stream_windows(
    source: Any,
    layout: Wide | Long,
    windowing: Windowing,
    *,
    windows_at_once: int = 1024,
    file_format: FileFormat | None = None,
) -> Iterator[Windows]:
    """The windows of a recording part by part, for recordings larger than memory.

    The parts together are what `read_windows` gives, their reports add up to its report.

    Args:
        source: as for `read_windows`.
        layout: what the columns are.
        windowing: how windows are cut.
        windows_at_once: windows in a part; the last one has what is left.
        file_format: as for `read_windows`.
    """
    if isinstance(windows_at_once, bool) or not isinstance(windows_at_once, int) or windows_at_once < 1:
        raise ConfigError(f"`windows_at_once` must be an integer of at least 1, got {windows_at_once!r}.")
    _check_time(layout, windowing)
    sources = opened(source, file_format)
    require_one_machine(sources[0], layout)
    sensors = sensor_names(sources, layout)
    labels = [one.label for one in sources]
    return _streamed(Reader(sources, layout, sensors), sensors, labels, windowing, windows_at_once)


def array_windows(
    recordings: Float[np.ndarray, "samples sensors"] | Sequence[Float[np.ndarray, "_ sensors"]],
    windowing: Windowing,
    *,
    times: Shaped[np.ndarray, " samples"] | Sequence[Shaped[np.ndarray, " _"]] | None = None,
    sensors: Sequence[str] | None = None,
) -> Windows:
    """Windows of arrays; each array is a group, whose id is its number.

    Args:
        recordings: one array (T, K), or several of different lengths.
        windowing: how windows are cut.
        times: of the samples, for each array: seconds, or datetime64.
        sensors: names of the sensors; None numbers them.
    """
    one = isinstance(recordings, np.ndarray) and recordings.ndim == 2
    arrays = [np.asarray(array, dtype=np.float64) for array in ([recordings] if one else recordings)]
    if not arrays or any(array.ndim != 2 or array.shape[1] != arrays[0].shape[1] for array in arrays):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ShapeError(f"give arrays (samples, sensors) with the same sensors, got {shapes or 'none'}.")
    lengths = [len(array) for array in arrays]
    if 0 in lengths:
        raise DataError(f"array {lengths.index(0)} has no samples. Leave it out.")
    names = tuple(str(number) for number in range(arrays[0].shape[1])) if sensors is None else tuple(sensors)
    if len(names) != arrays[0].shape[1]:
        raise ShapeError(f"{len(names)} sensor names for arrays of {arrays[0].shape[1]} sensors.")
    columns = dict(zip(names, np.concatenate(arrays).T, strict=True))
    columns["(group)"] = np.repeat(np.arange(len(arrays)), lengths)
    if times is not None:
        stamps = [np.asarray(stamp) for stamp in ([times] if one else times)]
        if [len(stamp) for stamp in stamps] != lengths:
            raise ShapeError("every sample needs its time: `times` must have the lengths of the arrays.")
        columns["(time)"] = np.concatenate(stamps)
    layout = Wide(time=None if times is None else "(time)", sensors=names, group="(group)")
    return read_windows(pa.table(columns), layout, windowing)


def _check_time(layout: Wide | Long, windowing: Windowing) -> None:
    if isinstance(layout, Long) and windowing.rate is None:
        raise ConfigError(Message("`rate` must be set for a long recording: every tag has its own time stamps."))
    if layout.time is None and (windowing.rate is not None or windowing.longest_gap is not None):
        raise ConfigError(Message("`rate` and `longest_gap` need a time column: name it by `time`."))


def _streamed(
    reader: Reader, sensors: tuple[str, ...], labels: Sequence[str | None], windowing: Windowing, at_once: int
) -> Iterator[Windows]:
    tally = Tally(sensors)
    collector = Collector(
        sensors, windowing.rate, tally=tally, labels=labels, group_type=reader.group_type, at_once=at_once
    )
    any_windows = False
    for cut in _cuts(reader, sensors, labels, windowing, tally):
        collector.add(cut)
        for windows in collector.full(reader.time_type):
            any_windows = True
            yield windows
    for windows in collector.rest(reader.time_type):
        any_windows = True
        yield windows
    if not any_windows:
        raise DataError(_nothing(tally.short, tally.pauses, windowing))


def _cuts(
    reader: Reader, sensors: tuple[str, ...], labels: Sequence[str | None], windowing: Windowing, tally: Tally
) -> Iterator[Cut]:
    """The windows of one group after the other; those of groups that take turns wait until it is theirs."""
    left = reader.group_sizes()
    current: _Group | None = None  # of a recording without groups, whose end is known when the next file begins
    going_on: dict[Hashable, tuple[_Group, list[Cut]]] = {}
    for piece in reader.pieces():
        if piece.key is None:
            _too_short(ShortGroup(file=labels[piece.file], group=None, samples=0), windowing, tally)
            continue
        if left is None:
            if current is None or current.key != piece.key:
                if current is not None:
                    yield from current.finished()
                current = _Group(piece, labels[piece.file], sensors, windowing, tally)
            yield from current.cut(piece)
            continue
        if piece.key not in going_on:
            going_on[piece.key] = _Group(piece, labels[piece.file], sensors, windowing, tally), []
        group, waiting = going_on[piece.key]
        waiting.extend(group.cut(piece))
        left[piece.key] -= len(piece)
        if not left[piece.key]:
            waiting.extend(group.finished())
        while going_on:
            first = next(iter(going_on))
            _, ready = going_on[first]
            yield from ready
            ready.clear()
            if left[first]:
                break
            del going_on[first]
    if current is not None:
        yield from current.finished()


class _Group:
    """The group that is being read."""

    def __init__(
        self, piece: Piece, label: str | None, sensors: Sequence[str], windowing: Windowing, tally: Tally
    ) -> None:
        self.key = piece.key
        self._group, self._label, self._windowing, self._tally = piece.group, label, windowing, tally
        sampler = RowSampler if windowing.rate is None else GridSampler
        self._sampler = sampler(windowing, sensors, tally)
        self._cutter = Cutter(windowing, piece.group, None if piece.time is None else piece.time_type)
        self._latest: Any = None

    def cut(self, piece: Piece) -> Iterator[Cut]:
        """The windows that are full now."""
        self._check_order(piece)
        self._tally.bad += piece.bad
        yield from self._windows_of(self._sampler.add(piece))

    def finished(self) -> Iterator[Cut]:
        """The last windows; the group goes to the report."""
        yield from self._windows_of(self._sampler.finish())
        self._cutter.finish()
        self._tally.pauses += self._cutter.pauses
        if self._cutter.windows:
            self._tally.groups += 1
            self._tally.left_over += self._cutter.left_over
        else:
            short = ShortGroup(file=self._label, group=self._group, samples=self._cutter.samples)
            _too_short(short, self._windowing, self._tally)

    def _windows_of(self, blocks: Iterator[Samples]) -> Iterator[Cut]:
        for samples in blocks:
            yield from self._cutter.cut(samples)

    def _check_order(self, piece: Piece) -> None:
        if piece.time is None:
            return
        if self._latest is not None and piece.time[0] < self._latest:
            row = 0
        else:
            backwards = piece.time[1:] < piece.time[:-1]
            if not backwards.any():
                self._latest = piece.time[-1]
                return
            row = int(np.argmax(backwards)) + 1
        raise DataError(
            "{place}: the time goes backwards. Sort the rows by group, then time, or read with "
            "`ordered=False`; if they are of several machines or runs, name the column that says which by `group`.",
            place=piece.place(row),
        )


def _too_short(group: ShortGroup, windowing: Windowing, tally: Tally) -> None:
    if windowing.short == "error":
        raise DataError(
            '{group}: shorter than one window of {length} samples. Leave it out, or take `short="report"`.',
            group=group,
            length=windowing.length,
        )
    tally.groups += 1
    tally.short.append(group)


def _nothing(groups: Sequence[ShortGroup], pauses: int, windowing: Windowing) -> str:
    longest = max(groups, key=lambda group: group.samples)
    if longest.samples == 0:
        return f"{longest}: there are no rows to cut windows from."
    if pauses and longest.samples >= windowing.length:
        return Message(
            "no stretch without a pause is as long as one window of {length} samples: {pauses} times two "
            "rows are more than {longest_gap:g} s apart. Take a larger `longest_gap` or a smaller `length`.",
            length=windowing.length,
            pauses=pauses,
            longest_gap=windowing.longest_gap,
        )
    return Message(
        "no group is as long as one window of {length} samples. The longest of {count} is {longest}. "
        "Take a smaller `length`.",
        length=windowing.length,
        count=len(groups),
        longest=longest,
    )
