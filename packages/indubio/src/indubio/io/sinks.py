"""Where results go: CSV, Parquet, JSON lines or Excel, written table by table, appearing only when they are whole.

A target may be a URL that fsspec knows. "-" is standard output. CSV and JSON lines are compressed where the name says
so (.csv.gz, .csv.zst); CSV is always written with commas, decimal points and UTF-8.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Literal

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from indubio.errors import ConfigError
from indubio.io.excel_sink import ExcelSink
from indubio.io.sink_base import Sink
from indubio.io.source_base import ending
from indubio.io.whole_files import whole_file

__all__ = ["FORMATS", "Format", "Sink", "format_of", "sink"]

Format = Literal["csv", "parquet", "jsonl", "xlsx"]
FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xlsx": "xlsx",
}
COMPRESSED = (".csv", ".jsonl", ".ndjson")  # may have the ending of a compression behind it


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


_SINKS: dict[Format, type[Sink]] = {
    "csv": _CsvSink,
    "parquet": _ParquetSink,
    "jsonl": _JsonLinesSink,
    "xlsx": ExcelSink,
}


def format_of(target: str | Path, chosen: Format | None = None) -> Format:
    """The format to write: the chosen one, else that of the file's ending, else CSV for standard output."""
    if chosen is not None:
        return chosen
    if str(target) == "-":
        return "csv"
    kind, compression = ending(str(target))
    if kind not in FORMATS or (compression and kind not in COMPRESSED):
        shown = Path(target).suffix.lower()
        raise ConfigError(
            f"{target}: unknown file type {shown!r}. Known are {', '.join(FORMATS)}, and .csv.gz, .csv.zst, .jsonl.gz."
        )
    return FORMATS[kind]


@contextmanager
def sink(target: str | Path, chosen: Format | None = None) -> Iterator[Sink]:
    """A sink for the target, which appears (or is replaced) at the end of the block, or not at all."""
    make = _SINKS[format_of(target, chosen)]
    if str(target) == "-":
        with closing(make(sys.stdout.buffer)) as out:
            yield out
        sys.stdout.buffer.flush()
        return
    compression = ending(str(target))[1] if make in (_CsvSink, _JsonLinesSink) else None
    with whole_file(target) as stream, _compressed(stream, compression) as packed, closing(make(packed)) as out:
        yield out


@contextmanager
def _compressed(stream: IO[bytes], compression: str | None) -> Iterator[IO[bytes]]:
    if compression is None:
        yield stream
        return
    with pa.PythonFile(_KeptOpen(stream), "w") as kept, pa.CompressedOutputStream(kept, compression) as packed:
        yield packed


class _KeptOpen:
    """A stream that is not closed with what writes to it: its owner syncs it before it is whole."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self.write, self.flush = stream.write, stream.flush

    def close(self) -> None:
        """Leave the stream open: its owner closes it."""
