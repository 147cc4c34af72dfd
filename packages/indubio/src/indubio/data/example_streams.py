"""Examples in files that are larger than memory: read block by block, as often as there are passes.

A table is read by units that can be read alone, the row groups of Parquet files or whole CSV files. A pass takes the
units in their order, or in a random one with several open at a time, so that rows far apart in the files come close.
Windows are cut in the order of the recording.

Every example has a place that does not depend on the order of reading, and every place has random numbers: by these,
and not by when it is read, it is decided what an example is for.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt64

from indubio.data.examples import Examples
from indubio.data.reading import Reading
from indubio.data.schema import Column, Schema
from indubio.data.tables import Roles, stream_file
from indubio.data.windows import WindowReport
from indubio.errors import ConfigError, DataError
from indubio.io import ROWS_AT_ONCE, FileSource, Source, ending

BUFFER_VALUES = 2**25  # 128 MB as the network gets them
UNITS_AT_ONCE = 4  # open at a time in a shuffled pass
UNIT = 2**40  # more rows than a unit has
CSV_BYTES = 8  # of a value in a CSV file, roughly
PACKED = 4  # times larger is a compressed file of numbers, roughly


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamBlock:
    """Some examples that are read together.

    Args:
        data: the examples, good ones only.
        places: which of all they are; ascending.
        unit: number of the unit they are from.
        name: says where they are, for messages; a line is looked for only then.
    """

    data: Examples
    places: UInt64[np.ndarray, " examples"]
    unit: int
    name: Callable[[], str]


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What a first pass over a stream finds.

    Args:
        schema: names, kinds, ranges and categories of the columns or sensors.
        examples: how many there are.
        shape: of one example.
        report: what was left out or repaired on the way to windows; None for a table.
        missing: values that are missing in a table, of each column that lacks any.
        word: what several examples are called.
    """

    schema: Schema
    examples: int
    shape: tuple[int, ...]
    report: WindowReport | None
    missing: Mapping[str, int]
    word: str


@dataclass(frozen=True)
class ExampleStream:
    """Training examples that are read from files in every pass, for data larger than memory.

    Args:
        source: text (CSV), Parquet or spreadsheet: a file, folder, pattern or several paths; also a table in memory.
        reading: how the files are read; a table of features by default. Rows labelled as anomalies are left out.
        buffer: examples that are mixed in memory at a time, the more the better; None holds 2^25 values, 128 MB.
    """

    source: Any
    reading: Reading = field(default_factory=lambda: Reading(table=Roles()))
    buffer: int | None = None

    def __post_init__(self) -> None:
        if self.reading.images is not None:
            raise ConfigError("images are held in memory, not streamed: give what `reading.read(source)` gives.")
        if self.buffer is not None and self.buffer < 1:
            raise ConfigError("`buffer` must be at least 1, got {buffer}.", buffer=self.buffer)

    @property
    def window_shape(self) -> tuple[int, ...] | None:
        """Shape of a window, (L, K); None where these are rows of a table."""
        return None if self.reading.windowing is None else self.outline.shape

    def buffered(self, shape: tuple[int, ...]) -> int:
        """How many examples of this shape are mixed at a time."""
        return self.buffer or max(1, BUFFER_VALUES // prod(shape))

    def read(self) -> Examples:
        """All of it, in memory; good examples only."""
        data = self.reading.read(self.source)
        good = data.inliers()
        if len(data) and not len(good):
            raise DataError(
                "{source}: there are no good examples to learn from: all {count} are labelled as anomalies. "
                "Look at `label` and `anomaly_values`.",
                source=self.source,
                count=len(data),
            )
        return good

    @cached_property
    def units(self) -> Sequence[Source]:
        """What can be read alone, in order; windows may reach from one file into the next, and are one unit."""
        files = self.reading.files(self.source)
        return files[:1] if self.reading.table is None else [unit for file in files for unit in file.units()]

    def blocks(self, random: np.random.Generator | None = None) -> Iterator[StreamBlock]:
        """The examples, each once.

        Args:
            random: mixes the units; None reads them in order.
        """
        if random is None or len(self.units) == 1:
            for unit in range(len(self.units)):
                yield from self._unit(unit, ROWS_AT_ONCE)
            return
        waiting: list[int] = random.permutation(len(self.units)).tolist()
        readers: list[Iterator[StreamBlock]] = []
        while waiting or readers:
            while waiting and len(readers) < UNITS_AT_ONCE:
                readers.append(self._unit(waiting.pop(), ROWS_AT_ONCE // UNITS_AT_ONCE))
            for reader in list(readers):
                block = next(reader, None)
                if block is None:
                    readers.remove(reader)
                else:
                    yield block

    @cached_property
    def outline(self) -> Outline:
        """What there is, found in one pass."""
        schema, report, examples, word = None, None, 0, Examples.word
        missing: Counter[str] = Counter()
        for block in (block for unit in range(len(self.units)) for block in self._all_blocks(unit, ROWS_AT_ONCE)):
            data, missing = block.data, missing + block.data.missing
            if data.report is not None:
                report = data.report if report is None else report + data.report
            if not len(data):
                continue
            with named_errors(block):
                of_block = data.training_schema()
                schema = of_block if schema is None else _merged(schema, of_block)
            examples, word = examples + len(data), data.word
        if schema is None:
            raise DataError(f"{self.source}: there are no good examples to learn from.")
        windowing = self.reading.windowing
        width = len(schema.encoded_names)
        shape = (width,) if windowing is None else (windowing.length, width)
        return Outline(schema=schema, examples=examples, shape=shape, report=report, missing=missing, word=word)

    @property
    def fits(self) -> bool:
        """Whether the buffer holds all examples: then they are read once, and it is as if they had been in memory."""
        return self.outline.examples <= self.buffered(self.outline.shape)

    def places_of(self, numbers: Sequence[int]) -> list[int]:
        """The places of the examples with these ascending numbers, counted from 0 in the order of the files.

        That of the number after the last is behind all others.
        """
        found: list[int] = []
        seen = 0
        for block in self.blocks():
            while len(found) < len(numbers) and numbers[len(found)] < seen + len(block.places):
                found.append(int(block.places[numbers[len(found)] - seen]))
            seen += len(block.places)
        if len(found) + numbers.count(seen) < len(numbers):
            raise DataError(f"{self.source}: the files changed while they were read.")
        return found + [len(self.units) * UNIT] * numbers.count(seen)

    def value_count(self) -> int:
        """About how many values the files hold: exact for Parquet, guessed from the size of CSV files."""
        return sum(_values(file, self.reading.table) for file in self.reading.files(self.source))

    def _unit(self, unit: int, rows_at_once: int) -> Iterator[StreamBlock]:
        return (block for block in self._all_blocks(unit, rows_at_once) if len(block.data))

    def _all_blocks(self, unit: int, rows_at_once: int) -> Iterator[StreamBlock]:
        """Those without a good example too: what their report says counts."""
        start = 0
        for data in self._parts(self.units[unit], rows_at_once):
            places = np.arange(start, start + len(data), dtype=np.uint64) + np.uint64(unit * UNIT)
            name = partial(self._named, unit, start)
            start += len(data)
            if data.labels is not None:
                good: Bool[np.ndarray, " rows"] = ~data.labels
                data, places = data.inliers(), places[good]
            yield StreamBlock(data=data, places=places, unit=unit, name=name)

    def _named(self, unit: int, start: int) -> str:
        first = self.units[unit].place(start) if self.reading.windowing is None else f"window {start}"
        return f"{first} and what follows"

    def _parts(self, unit: Source, rows_at_once: int) -> Iterator[Examples]:
        if self.reading.table is None:
            return self.reading.stream(self.source)
        return stream_file(unit, self.reading.table, rows_at_once=rows_at_once)


def drawn(places: UInt64[np.ndarray, " examples"], key: int) -> Float[np.ndarray, " examples"]:
    """A random number in [0, 1) for every place."""
    return np.asarray((mixed(places, key) >> np.uint64(11)) * 2.0**-53)


def mixed(numbers: UInt64[np.ndarray, " examples"], key: int) -> UInt64[np.ndarray, " examples"]:
    """Every number as another one, none twice: SplitMix64 (Steele, Lea & Flood 2014)."""
    bits = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


@contextmanager
def named_errors(block: StreamBlock) -> Iterator[None]:
    """Put the place in front of what is found to be wrong with the data."""
    try:
        yield
    except DataError as error:
        raise type(error)("{block}: {error}", block=block.name(), error=error) from None


def _merged(first: Schema, second: Schema) -> Schema:
    if first.names != second.names:
        raise DataError(f"the columns differ from those before: {first.names} and {second.names}.")
    return Schema(tuple(map(_merged_column, first.columns, second.columns)))


def _merged_column(first: Column, second: Column) -> Column:
    if first.kind == "category":
        # Categories that are given are the same for all blocks, and in the order they were given.
        if set(second.categories) <= set(first.categories):
            return first
        together = sorted({*first.categories, *second.categories})
        return Column(name=first.name, kind="category", categories=tuple(together))
    known = [column for column in (first, second) if column.smallest is not None and column.largest is not None]
    if not known:
        return first
    smallest = min(column.smallest for column in known if column.smallest is not None)
    largest = max(column.largest for column in known if column.largest is not None)
    return Column(name=first.name, smallest=smallest, largest=largest)


def _values(file: Source, roles: Roles | None) -> int:
    if not isinstance(file, FileSource):
        return 0
    known, there = file.value_count, file.schema.names
    columns = len(there if roles is None else roles.needed(there))
    if known is not None:
        return known // max(len(there), 1) * columns
    return file.version[0] * (PACKED if ending(file.path.name)[1] else 1) // CSV_BYTES
