"""Where results go: CSV, Parquet or JSON lines, written table by table, appearing only when they are whole.

A target may be a URL that fsspec knows. "-" is standard output.
"""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Literal

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from indubio.errors import ConfigError
from indubio.io.whole_files import whole_file

Format = Literal["csv", "parquet", "jsonl"]
FORMATS: dict[str, Format] = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class Sink(ABC):
    """Takes tables of one schema, one after the other."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Add the rows of a table."""

    def close(self) -> None:  # noqa: B027 - most formats have nothing to finish
        """Finish the format; the stream stays open."""


class _CsvSink(Sink):
    _headed = False

    def write(self, table: pa.Table) -> None:
        arrow_csv.write_csv(table, self._stream, arrow_csv.WriteOptions(include_header=not self._headed))
        self._headed = True


class _ParquetSink(Sink):
    _writer: parquet.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            # A dictionary of numbers that hardly ever repeat takes twice the time and more room.
            text = [field.name for field in table.schema if pa.types.is_string(field.type)]
            self._writer = parquet.ParquetWriter(self._stream, table.schema, use_dictionary=text)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _JsonLinesSink(Sink):
    def write(self, table: pa.Table) -> None:
        lines = (json.dumps(row, default=str, allow_nan=False) for row in table.to_pylist())
        self._stream.write("".join(f"{line}\n" for line in lines).encode())


_SINKS: dict[Format, type[Sink]] = {"csv": _CsvSink, "parquet": _ParquetSink, "jsonl": _JsonLinesSink}


def format_of(target: str | Path, chosen: Format | None = None) -> Format:
    """The format to write: the chosen one, else that of the file's ending, else CSV for standard output."""
    if chosen is not None:
        return chosen
    if str(target) == "-":
        return "csv"
    ending = Path(target).suffix.lower()
    if ending not in FORMATS:
        raise ConfigError(f"{target}: unknown file type {ending!r}. Known are {', '.join(FORMATS)}.")
    return FORMATS[ending]


@contextmanager
def sink(target: str | Path, chosen: Format | None = None) -> Iterator[Sink]:
    """A sink for the target, which appears (or is replaced) at the end of the block, or not at all."""
    make = _SINKS[format_of(target, chosen)]
    if str(target) == "-":
        with closing(make(sys.stdout.buffer)) as out:
            yield out
        sys.stdout.buffer.flush()
        return
    with whole_file(target) as stream, closing(make(stream)) as out:
        yield out
