"""From the columns of a source to pieces: rows of one group, with times and values as numbers."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int, Shaped

from indubio.data.labels import anomaly_labels
from indubio.data.recordings.layouts import Long, Wide
from indubio.data.recordings.sampling import Piece
from indubio.errors import DataError
from indubio.io import Place, Source, first_null, is_text, numbers, plain, times

Values = tuple[  # values (T, K) or (T,), of a long recording the sensor of each, and which are unusable
    Float[np.ndarray, "rows ..."], Int[np.ndarray, " rows"] | None, Bool[np.ndarray, "rows ..."]
]


class Reader:
    """Reads the sources of a recording, piece by piece.

    Args:
        sources: files in order, or a table.
        layout: what their columns are.
        sensors: names of the columns or tags to take.
    """

    def __init__(self, sources: Sequence[Source], layout: Wide | Long, sensors: tuple[str, ...]) -> None:
        self._sources, self._layout, self._sensors = sources, layout, sensors
        self._clock: pa.DataType | None = None  # what the times are, once some were seen
        self._any_usable = False
        for source in sources:
            source.require(self._columns)
            source.refuse_doubtful([layout.value] if isinstance(layout, Long) else sensors)
        self.group_type = self._first_group_type()

    @property
    def time_type(self) -> pa.DataType:
        """The type of the time stamps, or of the sample numbers where there are none."""
        return self._clock or pa.int64()

    def group_sizes(self) -> dict[Hashable, int] | None:
        """How many rows every group has, so that its end is known where groups take turns; None without groups."""
        name = self._layout.group
        if name is None:
            return None
        sizes: Counter[Hashable] = Counter()
        for source in self._sources:
            first = 0
            for batch in source.batches({name: pa.string()}):
                group, ids = self._groups(batch, partial(_place_after, source, first))
                sizes.update(dict(zip(ids, np.bincount(group, minlength=len(ids)).tolist(), strict=True)))
                first += batch.num_rows
        return dict(sizes)

    def pieces(self) -> Iterator[Piece]:
        """All rows in order; of a file without rows an empty piece."""
        for number, source in enumerate(self._sources):
            empty = True
            for batch, rows in self._batches(source):
                if batch.num_rows:
                    empty = False
                    yield from self._parted(batch, rows, source, number)
            if empty:
                yield Piece(
                    file=number,
                    group=None,
                    key=None,
                    time=None,
                    time_type=self.time_type,
                    values=np.empty((0, len(self._sensors))),
                    sensor=None,
                    bad=np.zeros(len(self._sensors), dtype=np.int64),
                    place=source.place,
                    name=source.name,
                )

        if isinstance(self._layout, Long) and self._layout.quality is not None and not self._any_usable:
            self._refuse_all_bad(self._layout)

    def _refuse_all_bad(self, layout: Long) -> None:
        """Nothing at all is good: more likely a misunderstanding than a recording."""
        assert layout.quality is not None
        batch = next(self._sources[0].batches({layout.quality: pa.string()}), None)
        if batch is not None:
            seen = ", ".join(repr(value) for value in plain(batch.column(0)).unique().to_pylist()[:5])
            raise DataError(
                '{name}: no value has a good quality: column "{quality}" holds {seen}, '
                "and only {good} count as good. Name the good ones by `good`.",
                name=self._sources[0].name,
                quality=layout.quality,
                seen=seen,
                good=", ".join(map(repr, layout.good)),
            )

    @property
    def _columns(self) -> list[str]:
        layout = self._layout
        named = [layout.tag, layout.value, layout.quality] if isinstance(layout, Long) else self._sensors
        beside = (*layout.ids, layout.label)
        return list(dict.fromkeys(name for name in (layout.group, layout.time, *named, *beside) if name is not None))

    def _types(self, source: Source) -> dict[str, pa.DataType | None]:
        """The columns, and as what to read them from a CSV file: what its first block holds need not go on."""
        layout, known = self._layout, dict(zip(source.schema.names, source.schema.types, strict=True))
        types: dict[str, pa.DataType | None] = {}
        for name in self._columns:
            if name == layout.time and layout.time_format is None:
                types[name] = _time_in_csv(known[name])
            elif name == layout.label:
                types[name] = None
            elif (
                isinstance(layout, Long)
                or name in (layout.time, layout.group)
                or (name in layout.ids and name not in self._sensors)
            ):
                types[name] = pa.string()  # part numbers keep their leading zeros, values may be text where bad
            else:
                types[name] = pa.bool_() if pa.types.is_boolean(known[name]) else pa.float64()
        return types

    def _first_group_type(self) -> pa.DataType:
        if self._layout.group is None:
            return pa.string()
        batch = next(self._sources[0].batches({self._layout.group: pa.string()}), None)
        return pa.string() if batch is None else plain(batch.column(0)).type

    def _batches(self, source: Source) -> Iterator[tuple[pa.RecordBatch, Int[np.ndarray, " rows"]]]:
        """Batches with the row numbers of their rows."""
        batches = source.batches(self._types(source))
        if self._layout.ordered:
            first = 0
            for batch in batches:
                yield batch, np.arange(first, first + batch.num_rows)
                first += batch.num_rows
        elif found := list(batches):
            whole = pa.Table.from_batches(found).combine_chunks().to_batches()
            if whole:
                group, _ = self._groups(whole[0], source.place)
                time = self._times(whole[0], source.place)
                order = np.argsort(group, kind="stable") if time is None else np.lexsort((time, group))
                yield whole[0].take(pa.array(order)), order

    def _parted(
        self, batch: pa.RecordBatch, rows: Int[np.ndarray, " rows"], source: Source, number: int
    ) -> Iterator[Piece]:
        def place(row: int, first: int = 0) -> str:
            return source.place(int(rows[first + row]))

        group, ids = self._groups(batch, place)
        time = self._times(batch, place)
        if isinstance(self._layout, Long):
            values, sensor, unusable = _long(batch, self._layout, self._sensors, place, source.number_text)
        else:
            values, sensor, unusable = _wide(batch, self._sensors, place)
        labelled, passed = self._beside(batch, place)
        all_usable = not unusable.any()
        self._any_usable = self._any_usable or all_usable or not np.isnan(values).all()
        changes = np.flatnonzero(group[1:] != group[:-1]) + 1
        bounds = [0, *changes.tolist(), len(group)]
        for start, stop in pairwise(bounds):
            part = slice(start, stop)
            own = None if sensor is None else sensor[part]
            group_id = ids[group[start]]
            yield Piece(
                file=number,
                group=group_id,
                key=(number,) if self._layout.group is None else group_id,
                time=None if time is None else time[part],
                time_type=self.time_type,
                values=values[part],
                sensor=own,
                bad=_per_sensor(unusable[part] & (not all_usable), own, len(self._sensors)),
                place=partial(place, first=start),
                name=source.name,
                labelled=None if labelled is None else labelled[part],
                passed=None if passed is None else passed.slice(start, stop - start),
            )

    def _beside(self, batch: pa.RecordBatch, place: Place) -> tuple[Bool[np.ndarray, " rows"] | None, pa.Table | None]:
        """Which rows are labelled as anomalies, and the columns to pass through."""
        layout = self._layout
        labelled = (
            None
            if layout.label is None
            else anomaly_labels(batch.column(layout.label), layout.label, layout.anomaly_values, place)
        )
        if not layout.ids:
            return labelled, None
        return labelled, pa.table({name: plain(batch.column(name)) for name in dict.fromkeys(layout.ids)})

    def _groups(self, batch: pa.RecordBatch, place: Place) -> tuple[Int[np.ndarray, " rows"], list[Any]]:
        """The number of each row's group, by appearance in the batch, and the ids of the groups."""
        name = self._layout.group
        if name is None:
            return np.zeros(batch.num_rows, dtype=np.int64), [None]
        column = plain(batch.column(name))
        if column.null_count:
            raise DataError(f'{place(first_null(column))}: column "{name}" has no group id.')
        try:
            column = column.cast(self.group_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f'{place(0)}: column "{name}" holds {column.type}, but it began with {self.group_type}.'
            ) from None
        encoded = column.dictionary_encode()
        return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()

    def _times(self, batch: pa.RecordBatch, place: Place) -> Shaped[np.ndarray, " rows"] | None:
        if self._layout.time is None:
            return None
        stamps, self._clock = times(
            batch.column(self._layout.time),
            self._layout.time,
            place,
            expected=self._clock,
            time_format=self._layout.time_format,
        )
        return stamps


def _place_after(source: Source, first: int, row: int) -> str:
    return source.place(first + row)


def _wide(batch: pa.RecordBatch, sensors: Sequence[str], place: Place) -> Values:
    values = np.empty((batch.num_rows, len(sensors)))
    for number, name in enumerate(sensors):
        values[:, number] = numbers(batch.column(name), name, place)
    infinite = np.isinf(values)
    values[infinite] = np.nan
    return values, None, infinite


def _long(
    batch: pa.RecordBatch,
    layout: Long,
    sensors: Sequence[str],
    place: Place,
    spelled: Callable[[pa.Array], pa.Array],
) -> Values:
    tag = plain(batch.column(layout.tag)).cast(pa.string())
    if tag.null_count:
        raise DataError(f'{place(first_null(tag))}: column "{layout.tag}" names no sensor.')
    sensor = pc.index_in(tag, value_set=pa.array(sensors, type=pa.string())).fill_null(-1).to_numpy()
    asked = sensor >= 0
    good = asked if layout.quality is None else asked & _good_quality(batch.column(layout.quality), layout.good)
    # What is bad is not even looked at: it may be text such as "no data".
    value = plain(batch.column(layout.value))
    value = spelled(value) if is_text(value.type) else value
    values = numbers(value if good.all() else pc.if_else(pa.array(good), value, None), layout.value, place)
    finite = np.isfinite(values)
    return np.where(finite, values, np.nan), sensor, asked & ~finite


def _per_sensor(
    unusable: Bool[np.ndarray, "rows ..."], sensor: Int[np.ndarray, " rows"] | None, sensors: int
) -> Int[np.ndarray, " sensors"]:
    return unusable.sum(axis=0) if sensor is None else np.bincount(sensor[unusable], minlength=sensors)


def _time_in_csv(kind: pa.DataType) -> pa.DataType | None:
    """Finer than the first block may need: whole seconds may be followed by fractions."""
    if is_text(kind) or pa.types.is_time(kind):
        return kind
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.timestamp("ns", getattr(kind, "tz", None))
    return pa.float64()


def _good_quality(column: pa.Array, good: tuple[str | int, ...]) -> Bool[np.ndarray, " rows"]:
    """Which rows have a quality that counts as good; text is compared without regard to case."""
    column = plain(column)
    if pa.types.is_floating(column.type):  # whole numbers beside nulls, as pandas has them
        column = column.cast(pa.int64(), safe=False)
    text = pc.utf8_lower(pc.utf8_trim_whitespace(column.cast(pa.string())))
    listed = pc.is_in(text, value_set=pa.array([str(value).lower() for value in good], type=pa.string()))
    return np.asarray(listed.to_numpy(zero_copy_only=False), dtype=bool)
