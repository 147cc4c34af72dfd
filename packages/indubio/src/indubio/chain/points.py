r"""Scores of single time steps, from the windows that cover them.

    score(t) = mean over the windows w with t in w of s(w), or of s(w, t)

s(w) is the score of a window, s(w, t) the contribution of the time step within it (`explain`), which only windows that
are scored as they are have. Windows that overlap much show when something began; those that do not, only in steps of
their length.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from indubio.data import Windows
from indubio.errors import ConfigError, DataError, ShapeError

Scores = Float[np.ndarray, " windows"] | Float[np.ndarray, "windows length"]


def point_scores(windows: Windows, scores: Scores, *, step: int) -> pa.Table:
    """The score of every time step that a window covers, with the number of these windows.

    Columns: file, group, sample (its number within the group), time (its own, where the recording has times), score,
    windows.

    Args:
        windows: all windows of their groups, in order.
        scores: of each, such as `found.nll`; or of each time step of each, as of `Detector.contributions`.
        step: samples from the start of one window to the start of the next, as they were cut.

    Examples:
        >>> import numpy as np
        >>> from indubio.data import Windowing
        >>> from indubio.data import array_windows
        >>> windows = array_windows(np.zeros((6, 1)), Windowing(length=4, step=2))
        >>> point_scores(windows, np.array([1.0, 3.0]), step=2)["score"].to_pylist()
        [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    """
    points = PointGatherer(windows.values.shape[1], step)
    made = [*points.add(windows, scores), *points.rest()]
    return pa.concat_tables(made).combine_chunks()


class PointGatherer:
    """Gathers the scores of windows, part by part, and gives out time steps that no later window covers.

    Args:
        length: samples per window.
        step: samples from the start of one window to the start of the next.
    """

    def __init__(self, length: int, step: int) -> None:
        if step < 1:
            raise ConfigError("`step` must be at least 1, got {step}.", step=step)
        self._length, self._step = length, step
        self._group: _Group | None = None
        self._key: Any = None

    def add(self, windows: Windows, scores: Scores) -> Iterator[pa.Table]:
        """The time steps that are certain after some more windows."""
        if scores.shape not in ((len(windows),), windows.values.shape[:2]) or windows.values.shape[1] != self._length:
            raise ShapeError(
                f"`scores` must be of {len(windows)} windows, or of each of their {self._length} time steps, got "
                f"{scores.shape}."
            )
        each = np.broadcast_to(scores if scores.ndim == 2 else scores[:, None], (len(windows), self._length))
        keys = _keys(windows.origin)
        cuts = [place for place in range(1, len(keys)) if keys[place] != keys[place - 1]]
        for start, stop in zip([0, *cuts], [*cuts, len(keys)], strict=True):
            if self._group is None or self._key != keys[start]:
                yield from self.rest()
                self._group, self._key = _Group(windows.origin.slice(start, 1), self._length, self._step), keys[start]
            self._group.add(windows.select(np.arange(start, stop)), each[start:stop])
        if self._group is not None:
            yield self._group.certain()

    def rest(self) -> Iterator[pa.Table]:
        """The time steps that are left at the end."""
        if self._group is not None:
            yield self._group.certain(last=True)
        self._group = None


class _Group:
    """The group whose windows are coming in; sums are added in the order of the windows."""

    def __init__(self, origin: pa.Table, length: int, step: int) -> None:
        self._length, self._step = length, step
        self._names = origin.select(["file", "group"])
        self._type = origin.column("start").type
        self._timed = not pa.types.is_integer(self._type)
        self._ticks = pa.int64() if pa.types.is_timestamp(self._type) else pa.float64()
        self._first = 0  # number of the first sample that is not given out yet
        self._next = 0  # number of the first sample that the next window may have
        self._sums, self._counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._at = np.zeros(0, dtype=np.int64 if pa.types.is_timestamp(self._type) else np.float64)

    def add(self, windows: Windows, each: Float[np.ndarray, "windows length"]) -> None:
        """Some more windows of the group."""
        starts = self._starts(windows)
        self._next = int(starts[-1]) + self._step
        end = int(starts[-1]) + self._length - self._first
        grown = max(0, end - len(self._sums))
        self._sums = np.concatenate([self._sums, np.zeros(grown)])
        self._counts = np.concatenate([self._counts, np.zeros(grown, dtype=np.int64)])
        places = (starts - self._first)[:, None] + np.arange(self._length)
        np.add.at(self._sums, places, each)
        np.add.at(self._counts, places, 1)
        if self._timed:
            self._at = np.concatenate([self._at, np.zeros(grown, dtype=self._at.dtype)])
            self._at[places] = self._times(windows)

    def certain(self, *, last: bool = False) -> pa.Table:
        """The samples that no later window covers; all of them at the end."""
        count = len(self._sums) if last else min(len(self._sums), max(0, self._next - self._first))
        chosen = np.flatnonzero(self._counts[:count])
        samples = self._first + chosen
        names = self._names.take(pa.array(np.zeros(len(chosen), dtype=np.int64)))
        columns = {name: names.column(name) for name in names.column_names} | {"sample": pa.array(samples)}
        if self._timed:
            columns["time"] = pa.array(self._at[chosen]).cast(self._type)
            self._at = self._at[count:]
        columns["score"] = pa.array(self._sums[chosen] / self._counts[chosen])
        columns["windows"] = pa.array(self._counts[chosen])
        self._first += count
        self._sums, self._counts = self._sums[count:], self._counts[count:]
        return pa.table(columns)

    def _starts(self, windows: Windows) -> Int[np.ndarray, " windows"]:
        """Numbers of the windows' first samples; after a pause they may begin anew anywhere."""
        regular = self._next + np.arange(len(windows)) * self._step
        starts = regular if windows.first is None else windows.first
        late = starts[0] >= self._next and (np.diff(starts) >= self._step).all()
        if not (late if self._timed else np.array_equal(starts, regular)):
            raise DataError(
                "the windows of a group must be all there, in order and {step} samples apart: pass the `step` "
                "they were cut with.",
                step=self._step,
            )
        return starts

    def _times(self, windows: Windows) -> Shaped[np.ndarray, "windows length"]:
        """Of every sample; those of a resampled recording are evenly spaced."""
        if windows.times is not None:
            return windows.times
        start, end = (
            np.asarray(windows.origin.column(name).cast(self._ticks).to_numpy())[:, None] for name in ("start", "end")
        )
        passed = (end - start) * (np.arange(self._length) / max(self._length - 1, 1))
        return np.asarray(start + (np.rint(passed).astype(np.int64) if start.dtype.kind == "i" else passed))


def _keys(origin: pa.Table) -> list[Any]:
    groups, files = origin.column("group").to_pylist(), origin.column("file").to_pylist()
    return [
        ("group", group) if group is not None else ("file", file) for group, file in zip(groups, files, strict=True)
    ]
