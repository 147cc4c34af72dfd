"""Where tables and recordings come from: CSV and Parquet files, one, many or a folder, and tables in memory.

Files are read batch by batch, and only the columns that are asked for. They may be remote: see `io.remote`. What the
columns mean is not known here.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from indubio.errors import DataError, quoted
from indubio.io.remote import RemotePath, is_remote, local_path

ROWS_AT_ONCE = 2**16
CSV_BLOCK = 2**20  # bytes
PARQUET_BUFFER = 2**20  # bytes of a column, so that a large row group is not read whole

_CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+).*?: invalid value '(.*)'"
)
_PARSING = re.compile(r"CSV parse error: (?:Row #(\d+): )?(.*)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Source(ABC):
    """One file, or one table in memory.

    Args:
        name: for error messages.
        label: for the origin of a window; None for a table in memory.
    """

    name: str
    label: str | None

    row_word = "row"
    first_row = 0

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns and their types; those of a CSV file are what its first block looks like."""
        return self._read_schema()

    @abstractmethod
    def _read_schema(self) -> pa.Schema: ...

    @abstractmethod
    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named, in that order.

        Args:
            types: by column; what a CSV file is read as. Other sources have their own types, and None leaves it open.
        """

    def tables(self, types: Mapping[str, pa.DataType | None], rows: int) -> Iterator[pa.Table]:
        """The same as tables of so many rows; the last has what is left."""
        waiting = self.schema.empty_table()
        for batch in self.batches(types):
            arrived = pa.Table.from_batches([batch])
            waiting = pa.concat_tables([waiting, arrived]) if waiting.num_rows else arrived
            while waiting.num_rows >= rows:
                yield waiting.slice(0, rows)
                waiting = waiting.slice(rows)
        if waiting.num_rows:
            yield waiting

    def units(self) -> "list[Source]":
        """What can be read alone: the whole, or the row groups of a Parquet file."""
        return [self]

    def place(self, row: int) -> str:
        """Where a row is, as a person would look it up."""
        return f"{self.name}: {self.row_word} {row + self.first_row}"

    def require(self, columns: Sequence[str]) -> None:
        """Refuse a source without some of these columns, or with several of one name."""
        names = self.schema.names
        missing = [name for name in dict.fromkeys(columns) if name not in names]
        if missing:
            raise DataError(f"{self.name}: no column {quoted(missing)}; there are {quoted(names) or 'none'}.")
        double = [name for name in dict.fromkeys(columns) if names.count(name) > 1]
        if double:
            raise DataError(f"{self.name}: more than one column is called {quoted(double)}. Rename them.")


@dataclass(frozen=True, eq=False)
class CsvSource(Source):
    """A CSV file with a header."""

    path: Path | RemotePath

    row_word = "line"
    first_row = 2  # the header is line 1

    def _read_schema(self) -> pa.Schema:
        return self._opened(arrow_csv.ConvertOptions(strings_can_be_null=True)).schema

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named, read as the types given."""
        known = {name: kind for name, kind in types.items() if kind is not None}
        options = arrow_csv.ConvertOptions(
            include_columns=list(types), column_types=known, strings_can_be_null=True, quoted_strings_can_be_null=True
        )
        reader = self._opened(options)
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise self._explained(error) from None
            yield batch

    def _opened(self, options: arrow_csv.ConvertOptions) -> Any:
        # One thread: it is the one way to learn the line of an error.
        reading = arrow_csv.ReadOptions(block_size=CSV_BLOCK, use_threads=False)
        try:
            return arrow_csv.open_csv(_content(self.path), read_options=reading, convert_options=options)
        except pa.ArrowInvalid as error:
            raise self._explained(error) from None
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.name}: cannot be read: {error}") from None

    def _explained(self, error: Exception) -> DataError:
        text = str(error)
        if match := _CONVERSION.search(text):
            column, line, wanted, value = match.groups()
            kind = "a time" if wanted == "timestamp" else "a number" if wanted == "double" else wanted
            at = f"line {line}, " if line else ""
            return DataError(f'{self.name}: {at}column "{self.schema.names[int(column)]}": {value!r} is not {kind}.')
        if match := _PARSING.search(text):
            at = f"line {match[1]}: " if match[1] else ""
            return DataError(f"{self.name}: {at}{match[2].strip()}")
        if "Empty CSV" in text:
            return DataError(f"{self.name}: the file is empty.")
        return DataError(f"{self.name}: {text}")


@dataclass(frozen=True, eq=False)
class ParquetSource(Source):
    """A Parquet file, or some of its rows.

    Args:
        name: for error messages.
        label: for the origin of a window.
        path: the file.
        start: first row to read.
        stop: the row to end before; None for all.
    """

    path: Path | RemotePath
    start: int = 0
    stop: int | None = None

    def _read_schema(self) -> pa.Schema:
        with self._opened() as file:
            return file.schema_arrow

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named."""
        with self._opened() as file:
            groups, first = self._row_groups(file)
            if not groups:
                return
            batches = file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups, columns=list(types))
            while True:
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                except (pa.ArrowException, OSError) as error:
                    raise DataError(f"{self.name}: the file is damaged: {error}") from None
                begin, end = max(self.start - first, 0), batch.num_rows
                end = end if self.stop is None else min(end, self.stop - first)
                first += batch.num_rows
                if begin < end:
                    yield batch.slice(begin, end - begin).select(list(types))

    def units(self) -> list[Source]:
        """Its row groups."""
        with self._opened() as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        bounds = [0, *accumulate(sizes)]
        return [replace(self, start=start, stop=stop) for start, stop in pairwise(bounds)]

    def place(self, row: int) -> str:
        """Where a row is in the whole file."""
        return super().place(self.start + row)

    @property
    def rows(self) -> int:
        """How many rows the whole file has."""
        with self._opened() as file:
            return int(file.metadata.num_rows)

    def _row_groups(self, file: Any) -> tuple[list[int], int]:
        """The row groups that hold the rows asked for, and the first row of the first of them."""
        bounds = [0]
        for group in range(file.num_row_groups):
            bounds.append(bounds[-1] + file.metadata.row_group(group).num_rows)
        stop = bounds[-1] if self.stop is None else self.stop
        groups = [place for place, (a, b) in enumerate(pairwise(bounds)) if a < stop and b > self.start]
        return groups, bounds[groups[0]] if groups else 0

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            # With pre_buffer, what was read would be kept until the file is closed: all of it, in the end.
            file = parquet.ParquetFile(_content(self.path), pre_buffer=False, buffer_size=PARQUET_BUFFER)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{self.name}: not a Parquet file that can be read: {error}") from None
        with file:
            yield file


@dataclass(frozen=True, eq=False)
class TableSource(Source):
    """An Arrow table in memory."""

    table: pa.Table

    def _read_schema(self) -> pa.Schema:
        return self.table.schema

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named."""
        yield from self.table.select(list(types)).to_batches(max_chunksize=ROWS_AT_ONCE)


KINDS = {".csv": CsvSource, ".parquet": ParquetSource}


def opened(source: Any) -> list[Source]:
    """What a source names: a path, a folder, a pattern such as "runs/*.csv", several paths, or a table in memory.

    Paths may be URLs that fsspec knows, such as s3://bucket/runs. What was opened already is taken as it is.
    """
    if isinstance(source, Sequence) and source and all(isinstance(item, Source) for item in source):
        return list(source)
    if isinstance(source, str | Path):
        paths = files_of(source, tuple(KINDS), alike=True)
    elif isinstance(source, Sequence) and source and all(isinstance(item, str | Path) for item in source):
        paths = [path for item in source for path in files_of(item, tuple(KINDS), alike=True)]
    else:
        return [TableSource("the table", None, _as_table(source))]
    unknown = [path for path in paths if path.suffix.lower() not in KINDS]
    if unknown:
        raise DataError(f"{unknown[0]}: unknown file type {unknown[0].suffix!r}. Known are {', '.join(KINDS)}.")
    unique = len({path.name for path in paths}) == len(paths)
    return [KINDS[path.suffix.lower()](str(path), path.name if unique else str(path), path) for path in paths]


def _content(path: Path | RemotePath) -> Any:
    """What Arrow's readers take: a path, or an open file."""
    return path.opened() if isinstance(path, RemotePath) else path


def files_of(
    source: str | Path, suffixes: Sequence[str], *, called: str = "recordings", alike: bool = False
) -> Sequence[Path | RemotePath]:
    """The files that a path, folder or pattern names, in their natural order.

    Args:
        source: also a URL that fsspec knows.
        suffixes: of the files that are meant in a folder.
        called: what they are, for messages.
        alike: refuse a folder with files of several of these suffixes.
    """
    if is_remote(source):
        remote = RemotePath(str(source))
        there = remote.found()
        return (
            there if [one.url for one in there] == [remote.url] else _meant(there, str(source), suffixes, called, alike)
        )
    path = local_path(source)
    if path.is_dir():
        return _meant(list(path.iterdir()), str(path), suffixes, called, alike)
    if path.is_file():
        return [path]
    if re.search(r"[*?\[]", str(path)):
        root = Path(path.anchor)
        found = [item for item in root.glob(str(path.relative_to(root))) if item.is_file()]
        if not found:
            raise DataError(f"{source}: no file matches this pattern.")
        return sorted(found, key=natural_order)
    raise DataError(f"{path}: no such file or folder.")


def _meant(
    paths: Sequence[Path | RemotePath], folder: str, suffixes: Sequence[str], called: str, alike: bool
) -> Sequence[Path | RemotePath]:
    """Those of a folder that are meant by it, in their natural order."""
    found = [item for item in paths if item.suffix.lower() in suffixes and not item.name.startswith(".")]
    kinds = sorted({item.suffix.lower() for item in found})
    if alike and len(kinds) > 1:
        raise DataError(f'{folder}: holds {" and ".join(kinds)} files. Choose with a pattern: "{folder}/*{kinds[0]}".')
    if not found:
        raise DataError(f"{folder}: holds no {called} ({', '.join(suffixes)}).")
    return sorted(found, key=natural_order)


def natural_order(name: str | Path | RemotePath) -> list[str | int]:
    """A key that sorts run2 before run10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", str(name)))]


def _as_table(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if type(frame).__module__.split(".")[0] == "pandas":
        table = pa.Table.from_pandas(frame)  # a named index is a column like the others, a nameless one is none
        return table.select([name for name in table.column_names if not name.startswith("__index_level_")])
    if hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
        # polars hands text over as views, which many of Arrow's functions cannot take.
        kinds = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in table.schema]
        return table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))
    raise DataError(
        f"cannot read {type(frame).__name__} as a recording. Give paths, a folder, a DataFrame or an Arrow table."
    )
