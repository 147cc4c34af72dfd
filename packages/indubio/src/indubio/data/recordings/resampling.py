"""Resampling: every sensor of a recording is read off at regular times.

A value counts until the next, or a line goes from value to value (gaps="linear"). gaps="hold" limits the age of a
value; the others limit how far two values are apart, and beyond it the gap is missing as a whole. Values of bad quality
are passed over. Of several values with one stamp the last counts.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped

from indubio.data.recordings.cutting import Samples, Tally, joined_columns, joined_labels
from indubio.data.recordings.sampling import Piece, RecordingSampler
from indubio.data.windows import TICKS, Windowing
from indubio.errors import DataError

SLACK = 1e-3  # sample periods; stamps are rounded, and one this little after the sampling time still counts
SAMPLES_AT_ONCE = 2**16  # a gap of a weekend may hold millions


class HeldRows:
    """Labels and passed columns at regular times: the latest row counts, of whatever sensor.

    A sample is also labelled where any row since the sample before is, so that no label falls between two samples.
    """

    def __init__(self) -> None:
        self._seconds = np.empty(0)
        self._labelled: Bool[np.ndarray, " rows"] | None = None
        self._passed: pa.Table | None = None
        self._first = True  # no sample was given out yet: the row of the one before is not there

    def add(self, seconds: Float[np.ndarray, " rows"], piece: Piece) -> None:
        """Take the labels and passed columns of some more rows."""
        if piece.labelled is None and piece.passed is None:
            return
        self._seconds = np.concatenate([self._seconds, seconds])
        self._labelled = joined_labels(self._labelled, piece.labelled)
        self._passed = joined_columns(self._passed, piece.passed)

    def read_off(
        self, now: Float[np.ndarray, " samples"]
    ) -> tuple[Bool[np.ndarray, " samples"] | None, pa.Table | None]:
        """What holds at these times; later ones must follow."""
        if not len(self._seconds):
            return None, None
        place = np.maximum(np.searchsorted(self._seconds, now, side="right") - 1, 0)
        labelled = None
        if self._labelled is not None:
            sums = np.concatenate([[0], np.cumsum(self._labelled)])
            before = np.concatenate([[place[0] if self._first else 0], place[:-1]])
            labelled = self._labelled[place] | (sums[place + 1] > sums[np.minimum(before, place) + 1])
        passed = None if self._passed is None else self._passed.take(pa.array(place))
        kept, self._first = int(place[-1]), False
        self._seconds = self._seconds[kept:]
        self._labelled = None if self._labelled is None else self._labelled[kept:]
        self._passed = None if self._passed is None else self._passed.slice(kept)
        return labelled, passed


class GridSampler(RecordingSampler):
    """Every sensor is read off at regular times, from the latest of the sensors' first stamps to the last stamp."""

    def __init__(self, windowing: Windowing, sensors: Sequence[str], tally: Tally) -> None:
        super().__init__(windowing, sensors, tally)
        assert windowing.rate is not None
        self._rate = windowing.rate
        self._slack = SLACK / self._rate
        self._knots = [(np.empty(0), np.empty(0)) for _ in sensors]  # seconds and values, both still needed
        self._first = np.full(len(sensors), np.nan)
        self._used = np.full(len(sensors), np.nan)  # stamp of the value the latest sample has
        self._base: float | None = None
        self._end = -np.inf  # the latest stamp
        self._given = 0  # samples
        self._files: list[tuple[float, int]] = []
        self._piece: Piece | None = None
        self._beside = HeldRows()

    def add(self, piece: Piece) -> Iterator[Samples]:
        """The samples that are certain now."""
        assert piece.time is not None
        self._piece = piece
        if self._base is None:
            self._base = piece.time[0]
        seconds = piece.seconds(self._base)
        if not self._files or self._files[-1][1] != piece.file:
            self._files.append((float(seconds[0]), piece.file))
        self._beside.add(seconds, piece)
        for sensor, mine in self._by_sensor(piece):
            if len(of_sensor := seconds[mine]):
                if np.isnan(self._first[sensor]):
                    self._first[sensor] = of_sensor[0]
                self._end = max(self._end, float(of_sensor[-1]))
                self._keep(
                    sensor, of_sensor, piece.values[mine] if piece.sensor is not None else piece.values[:, sensor]
                )
        if not np.isnan(self._first).any():
            yield from self._samples(self._certain(), ended=False)

    def finish(self) -> Iterator[Samples]:
        """The rest, at the end of the group."""
        absent = np.isnan(self._first)
        if absent.all():
            return
        if absent.any() and self._windowing.gaps == "error":
            names = ", ".join(f'"{self._sensors[sensor]}"' for sensor in np.flatnonzero(absent).tolist())
            raise DataError(
                '{where} has no value at all of {names}. Leave the group out, or take `gaps="leave"`.',
                where=self._where(),
                names=names,
            )
        yield from self._samples(int((self._end - self._start) * self._rate + SLACK) + 1, ended=True)

    def state(self) -> dict[str, Any]:
        """What it has to remember from piece to piece."""
        return {
            "knots": [list(knots) for knots in self._knots],
            "first": self._first,
            "used": self._used,
            "base": None if self._base is None else np.asarray(self._base),
            "end": self._end,
            "given": self._given,
            "files": [list(file) for file in self._files],
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, perhaps in another process."""
        self._knots = [(times, values) for times, values in state["knots"]]
        self._first, self._used = state["first"], state["used"]
        self._base = None if state["base"] is None else state["base"][()]
        self._end, self._given = state["end"], state["given"]
        self._files = [(first, file) for first, file in state["files"]]

    def _by_sensor(self, piece: Piece) -> Iterator[tuple[int, slice | Int[np.ndarray, " rows"]]]:
        """Every sensor with its rows."""
        if piece.sensor is None:
            yield from ((sensor, slice(None)) for sensor in range(len(self._sensors)))
            return
        order = np.argsort(piece.sensor, kind="stable")
        bounds = np.searchsorted(piece.sensor[order], np.arange(len(self._sensors) + 1))
        for sensor, (start, stop) in enumerate(pairwise(bounds)):
            yield sensor, order[start:stop]

    @property
    def _start(self) -> float:
        return float(np.nanmax(self._first))

    def _keep(self, sensor: int, seconds: Float[np.ndarray, " rows"], values: Float[np.ndarray, " rows"]) -> None:
        good = ~np.isnan(values)
        times = np.concatenate([self._knots[sensor][0], seconds[good]])
        kept = np.concatenate([self._knots[sensor][1], values[good]])
        latest = np.append(times[1:] != times[:-1], True)[: len(times)]  # of equal stamps the last row counts
        self._knots[sensor] = (times[latest], kept[latest])

    def _certain(self) -> int:
        """How many samples, from the start of the group, a later row cannot change."""
        limit = self._end
        if self._windowing.gaps != "hold":
            latest = np.array([self._settled(times) for times, _ in self._knots])
            hopeless = np.isnan(latest) | (self._end - latest > self._oldest)
            limit = float(np.where(hopeless, self._end, latest).min())
        if limit <= self._start:
            return 0
        count = int(np.ceil((limit - self._start) * self._rate))
        while count and self._start + (count - 1) / self._rate + self._slack >= limit:
            count -= 1
        return count

    def _settled(self, times: Float[np.ndarray, " knots"]) -> float:
        """The latest value's stamp; a row with the same stamp could still replace the very last."""
        if not len(times):
            return np.nan
        if times[-1] < self._end:
            return float(times[-1])
        return float(times[-2]) if len(times) > 1 else -np.inf

    def _samples(self, until: int, *, ended: bool) -> Iterator[Samples]:
        """Samples that are not yet given out, up to number `until`."""
        firsts, files = zip(*self._files, strict=True)
        for first in range(self._given, until, SAMPLES_AT_ONCE):
            self._given = min(until, first + SAMPLES_AT_ONCE)
            now = self._start + np.arange(first, self._given) / self._rate
            values = np.column_stack([self._read_off(sensor, now, ended=ended) for sensor in range(len(self._sensors))])
            at = self._stamps(now)
            self._check(values, at)
            file = np.array(files)[np.searchsorted(firsts, now + self._slack, side="right") - 1]
            yield Samples(values, at, file, *self._beside.read_off(now + self._slack))

    def _read_off(self, sensor: int, now: Float[np.ndarray, " samples"], *, ended: bool) -> np.ndarray:
        times, known = self._knots[sensor]
        if not len(times):
            self._tally.missing[sensor] += len(now)
            return np.full(len(now), np.nan)
        place = np.searchsorted(times, now + self._slack, side="right") - 1
        since = np.where(place < 0, np.nan, times[place])
        value = known[place]
        repeats = since == np.append(self._used[sensor], since[:-1])
        if self._windowing.gaps == "hold":
            there, drawn = now - since <= self._oldest, np.zeros(len(now), dtype=bool)
        else:
            there, drawn, value = self._between(now, times, known, place, since, ended=ended)
        self._tally.interpolated[sensor] += np.count_nonzero(drawn & repeats)
        self._tally.held[sensor] += np.count_nonzero(there & ~drawn & repeats)
        self._tally.missing[sensor] += np.count_nonzero(~there)
        self._used[sensor] = since[-1]
        needed = max(0, int(place[-1]))
        self._knots[sensor] = (times[needed:], known[needed:])
        return np.where(there, value, np.nan)

    def _between(
        self,
        now: Float[np.ndarray, " samples"],
        times: Float[np.ndarray, " knots"],
        known: Float[np.ndarray, " knots"],
        place: Int[np.ndarray, " samples"],
        since: Float[np.ndarray, " samples"],
        *,
        ended: bool,
    ) -> tuple[Bool[np.ndarray, " samples"], Bool[np.ndarray, " samples"], Float[np.ndarray, " samples"]]:
        """Which samples have a value, which of them lie on a line to the next, and the values."""
        found = place + 1 < len(times)
        following = np.minimum(place + 1, len(times) - 1)
        exact = now - since <= self._slack
        gap = np.where(found, times[following], self._end) - since
        bridged = (gap <= self._oldest) & (found | ended)
        drawn = bridged & found & ~exact & self._linear
        share = np.divide(now - since, gap, out=np.zeros(len(now)), where=drawn)
        line = known[place] + (known[following] - known[place]) * share
        return exact | bridged, drawn, np.where(drawn, line, known[place])

    def _check(self, values: Float[np.ndarray, "samples sensors"], at: Shaped[np.ndarray, " samples"]) -> None:
        if self._windowing.gaps == "error" and np.isnan(values).any():
            assert self._piece is not None
            sample, sensor = np.argwhere(np.isnan(values))[0]
            stamp = pa.array(at[sample : sample + 1]).cast(self._piece.time_type).cast(pa.string())[0]
            raise DataError(
                '{where} has a gap at {stamp}: no two good values of "{sensor}" around it are '
                'within {oldest:g} s. Bridge gaps with `gaps="hold"` or "linear", or keep them: "leave".',
                where=self._where(),
                stamp=stamp,
                sensor=self._sensors[sensor],
                oldest=self._windowing.oldest,
            )

    def _stamps(self, now: Float[np.ndarray, " samples"]) -> Shaped[np.ndarray, " samples"]:
        assert self._piece is not None
        assert self._base is not None
        if pa.types.is_timestamp(self._piece.time_type):
            return np.asarray(self._base + np.rint(now * TICKS).astype(np.int64))
        return np.asarray(self._base + now)

    def _where(self) -> str:
        assert self._piece is not None
        return self._piece.name if self._piece.group is None else f"{self._piece.name}, group {self._piece.group}"
