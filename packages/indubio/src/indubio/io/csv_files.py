"""Text files with a header as sources of rows: CSV as it is written in many countries, also compressed."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from indubio.errors import DataError
from indubio.io.file_format import UNSAID, FileFormat
from indubio.io.number_styles import way_out
from indubio.io.remote import RemotePath
from indubio.io.sniffing import SAMPLE, Dialect, in_arrow, not_decoded, sniffed
from indubio.io.source_base import FileSource, content_of, ending
from indubio.message import Message
from indubio.texts import english

CSV_BLOCK = 2**20  # bytes
BEGINNING = 2 * CSV_BLOCK  # bytes that are read to look at; smaller files are not opened again
TEXT_ENDINGS = (".csv", ".tsv", ".txt")

_CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+).*?: invalid value '(.*)'", re.DOTALL
)
_UTF8 = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to \w+: invalid UTF8 data")
_PARSING = re.compile(r"CSV parse error: (?:Row #(\d+): )?(.*)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class CsvSource(FileSource):
    """A text file with a header.

    Args:
        name: for error messages.
        label: for the origin of a window.
        path: the file; its name tells the compression.
        wanted: how it is read; what is not said is found out.
    """

    wanted: FileFormat = UNSAID

    row_word = "line"

    @cached_property
    def dialect(self) -> Dialect:
        """What it is written in, found out once."""
        wanted = self.wanted
        if wanted.separator is None and ending(self.path.name)[0] == ".tsv":
            wanted = wanted.replaced(separator="\t", guesses=(*wanted.guesses, "separator"))
        try:
            sample = _beginning(self)[:SAMPLE].to_pybytes()
            return sniffed(sample, wanted, self.name, whole=len(sample) < SAMPLE)
        except (OSError, pa.ArrowException, EOFError) as error:
            raise self._unreadable(error) from None

    @property
    def said(self) -> str | None:
        """How it is read, in words, where that is not the plain way."""
        return self.dialect.said

    @property
    def found_format(self) -> FileFormat:
        """How it is read, as settings."""
        return self.dialect.format

    def refuse_doubtful(self, columns: Sequence[str]) -> None:
        """Refuse columns that are wanted as numbers and of which it cannot be told which numbers they are."""
        for name in columns:
            if name in self.dialect.found.doubts:
                doubt = self.dialect.found.doubts[name]
                raise DataError('{file}: column "{name}": {doubt}', file=self.name, name=name, doubt=doubt)

    def number_text(self, column: pa.Array) -> pa.Array:
        """Text of numbers as this file spells them, spelled with a decimal point."""
        style = self.dialect.found.style
        return column if style.decimal == "." and not style.thousands else style.plain(column)

    def place(self, row: int) -> str:
        """The line on which a row begins."""
        return english("{file}: line {line:d}", file=self.name, line=self._line(row))

    def _read_schema(self) -> pa.Schema:
        found = self.dialect.found
        options = arrow_csv.ConvertOptions(strings_can_be_null=True, decimal_point=found.style.decimal)
        schema = self._opened(options, beginning=True).schema
        for place, field in enumerate(schema):
            if field.name in found.cleaned:
                schema = schema.set(place, field.with_type(pa.float64()))
        return schema

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named, read as the types given."""
        return self._batches(types)

    def first_batch(self, types: Mapping[str, pa.DataType | None]) -> pa.RecordBatch | None:
        """The first of the batches, without opening the file again; None where there is none."""
        return next(self._batches(types, beginning=True), None)

    def _batches(self, types: Mapping[str, pa.DataType | None], *, beginning: bool = False) -> Iterator[pa.RecordBatch]:
        found = self.dialect.found
        cleaned = [name for name, kind in types.items() if name in found.cleaned and kind != pa.string()]
        known = {name: kind for name, kind in types.items() if kind is not None}
        options = arrow_csv.ConvertOptions(
            include_columns=list(types),
            column_types=known | dict.fromkeys(cleaned, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            decimal_point=found.style.decimal,
        )
        reader, row = self._opened(options, beginning=beginning), 0
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise self._explained(error) from None
            except (OSError, UnicodeDecodeError) as error:
                raise self._unreadable(error) from None
            for name in cleaned:
                at = batch.schema.get_field_index(name)
                values = found.style.numbers(batch.column(at), name, partial(self._place_after, row))
                batch = batch.set_column(at, name, values)
            row += batch.num_rows
            yield batch

    @cached_property
    def _compression(self) -> str | None:
        return ending(self.path.name)[1]

    def _place_after(self, before: int, row: int) -> str:
        return self.place(before + row)

    def _opened(self, options: arrow_csv.ConvertOptions, *, beginning: bool) -> Any:
        """A reader of the file, or of its first block only where the beginning is all that is asked for."""
        dialect = self.dialect
        # One thread: it is the one way to learn the line of an error.
        reading = arrow_csv.ReadOptions(
            block_size=CSV_BLOCK,
            use_threads=False,
            skip_rows=dialect.skip_lines,
            skip_rows_after_names=dialect.units_lines,
            encoding=dialect.encoding,
        )
        parsing = arrow_csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=dialect.quotes)
        try:
            start = _beginning(self)
            # In UTF-8 the first block is within the beginning, and read as it would be from the file.
            kept = len(start) < BEGINNING or (beginning and dialect.encoding == "utf-8")
            content = in_arrow(start) if kept else content_of(self.path, self._compression)
            return arrow_csv.open_csv(content, read_options=reading, parse_options=parsing, convert_options=options)
        except pa.ArrowInvalid as error:
            raise self._explained(error) from None
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None

    def _line(self, row: int) -> int | str:
        """The line of the file on which a row begins; -1 is the header."""
        try:
            with (
                _stream(self.path) as stream,
                io.TextIOWrapper(stream, self.dialect.encoding, errors="replace") as lines,
            ):
                return line_of(lines, row + 1, self.dialect.skip_lines, self.dialect.units_lines)
        except (OSError, EOFError, pa.ArrowException):
            return "?"

    def _unreadable(self, error: Exception) -> DataError:
        if isinstance(error, UnicodeDecodeError):
            return not_decoded(self.name, self.dialect.encoding, error)
        if self._compression is not None and not isinstance(error, FileNotFoundError | PermissionError):
            return DataError(f"{self.name}: cannot be decompressed, the file is damaged or cut short ({error}).")
        return DataError(f"{self.name}: cannot be read: {error}")

    def _explained(self, error: Exception) -> DataError:
        text = str(error)
        if match := _CONVERSION.search(text):
            column, line, wanted, value = match.groups()
            kind = "a time" if wanted == "timestamp" else "a number" if wanted == "double" else wanted
            out = way_out(value) if wanted == "double" else ""
            return DataError(
                '{file}: {at}column "{name}": {value!r} is not {kind}.{out}',
                file=self.name,
                at=self._at(line, ", "),
                name=self._names[int(column)],
                value=value,
                kind=kind,
                out=out,
            )
        if match := _UTF8.search(text):
            return not_decoded(f"{self.name}: {self._at(match[2], ', ')}column {match[1]}", self.dialect.encoding)
        if match := _PARSING.search(text):
            where, why = f"{self.name}: {self._at(match[1], ': ')}", match[2].strip()
            return DataError("{where}{why}{fields}", where=where, why=why, fields=self._fields())
        if "Empty CSV" in text:
            return DataError(english("{file}: the file is empty.", file=self.name))
        return DataError(f"{self.name}: {text}")

    @property
    def _names(self) -> list[str]:
        """All columns of the file, in its order."""
        return list(self.schema.names)

    def _at(self, record: str | None, then: str) -> str:
        """The line of a record as Arrow counts them: with the lines that are skipped, and the header."""
        if record is None:
            return ""
        return f"line {self._line(int(record) - 2 - self.dialect.skip_lines - self.dialect.units_lines)}{then}"

    def _fields(self) -> Message:
        before = self.dialect.perhaps
        header = Message(" If line {line} is the header, pass `skip_lines={before}`.", line=before + 1, before=before)
        return Message(
            " (fields between {separator!r}; pass `separator` to change it).{header}",
            separator=self.dialect.separator,
            header=header if before else "",
        )


def _stream(path: Path | RemotePath) -> Any:
    """The file, decompressed, to be closed."""
    opened = content_of(path, ending(path.name)[1])
    return opened if hasattr(opened, "read") else pa.OSFile(str(opened))


@lru_cache(maxsize=8)
def _beginning(source: CsvSource) -> pa.Buffer:
    """The first bytes of a file, decompressed. Those of the sources that were looked at last are kept, and no more."""
    with _stream(source.path) as stream:
        return pa.py_buffer(stream.read(BEGINNING))


def line_of(lines: Iterable[str], record: int, skip: int, units: int = 0) -> int | str:
    """The line on which a record begins, counted from 1; records may go over lines where they are quoted.

    Args:
        lines: of the file.
        record: its number; the header is 0. Empty lines are none, and lines of units are none.
        skip: lines before the header.
        units: lines of units below the header, empty ones among them.
    """
    number, quoted = -1, False
    for place, line in enumerate(lines, start=1):
        if place <= skip:
            continue
        if not quoted and number == 0 and units:
            units -= 1
        elif not quoted:
            if not line.strip("\r\n"):
                continue
            number += 1
            if number == record:
                return place
        quoted ^= line.count('"') % 2 == 1
    return "?"
