"""What a source of rows is: one file, or one table in memory, read batch by batch and by the columns asked for."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from indubio.errors import DataError, quoted
from indubio.io.file_format import UNSAID, FileFormat
from indubio.io.remote import RemotePath
from indubio.texts import english

ROWS_AT_ONCE = 2**16
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


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

    def first_batch(self, types: Mapping[str, pa.DataType | None]) -> pa.RecordBatch | None:
        """The first of the batches, to look at; None where there is none."""
        return next(self.batches(types), None)

    def tables(self, types: Mapping[str, pa.DataType | None], rows: int) -> Iterator[pa.Table]:
        """The rows as tables of so many rows; the last has what is left."""
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
            told = {"file": self.name, "missing": quoted(missing), "names": quoted(names) or "none"}
            raise DataError(english("{file}: no column {missing}; there are {names}.", **told))
        double = [name for name in dict.fromkeys(columns) if names.count(name) > 1]
        if double:
            raise DataError(
                english(
                    "{file}: more than one column is called {names}. Rename them.", file=self.name, names=quoted(double)
                )
            )

    def refuse_doubtful(self, columns: Sequence[str]) -> None:  # noqa: B027 - most sources have no doubts
        """Refuse columns that are wanted as numbers and of which it cannot be told which numbers they are."""

    def number_text(self, column: pa.Array) -> pa.Array:
        """Text of numbers as this source spells them, spelled with a decimal point; other text as it is."""
        return column

    @property
    def said(self) -> str | None:
        """How it is read, in words, where that is not the plain way."""
        return None

    @property
    def found_format(self) -> FileFormat:
        """How it is read, as settings; those that are none of its kind are None."""
        return UNSAID


@dataclass(frozen=True, eq=False)
class FileSource(Source):
    """One file, on this machine or elsewhere."""

    path: Path | RemotePath

    @property
    def version(self) -> tuple[int, str]:
        """Size in bytes, and a text that changes when the file does."""
        if isinstance(self.path, RemotePath):
            return self.path.version()
        found = self.path.stat()
        return found.st_size, f"{found.st_size}-{found.st_mtime_ns}"

    @property
    def value_count(self) -> int | None:
        """How many values there are, where it can be told without reading them all; None for a guess by the size."""
        return None


def ending(name: str) -> tuple[str, str | None]:
    """The ending that tells the kind of a file, and the compression that another one after it names."""
    parts = name.lower().rsplit("/", 1)[-1].split(".")
    last = f".{parts[-1]}" if len(parts) > 1 else ""
    if last in COMPRESSIONS:
        return (f".{parts[-2]}" if len(parts) > 2 else ""), COMPRESSIONS[last]
    return last, None


def full_ending(name: str) -> str:
    """The ending of a name with that of its compression: .csv.gz."""
    kind, compression = ending(name)
    return kind + next((one for one, how in COMPRESSIONS.items() if how == compression), "")


def content_of(path: Path | RemotePath, compression: str | None = None) -> Any:
    """What Arrow's readers take: a path, or an open file."""
    raw = path.opened() if isinstance(path, RemotePath) else path
    return raw if compression is None else pa.input_stream(raw if hasattr(raw, "read") else str(raw), compression)
