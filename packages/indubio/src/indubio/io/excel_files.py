"""Spreadsheets as sources of rows: .xlsx, .xlsm, .xls, .xlsb and .ods, read by calamine.

A sheet is read whole, since that is how these files are made. Numbers, dates and times have the types that the sheet
gives them; text that spells numbers is read as in a text file.
"""

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from indubio.errors import DataError, MissingExtraError, quoted
from indubio.io.arrow_columns import is_text
from indubio.io.file_format import UNSAID, FileFormat
from indubio.io.header_lines import LOOKED_AT, Record, header_of, units_lines
from indubio.io.number_styles import StyleFound, style_of
from indubio.io.remote import RemotePath
from indubio.io.source_base import ROWS_AT_ONCE, FileSource, content_of
from indubio.message import Message, joined

EXCEL_ENDINGS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
ERRORS = {"#N/A", "#NV", "#DIV/0!", "#VALUE!", "#WERT!", "#REF!", "#BEZUG!", "#NAME?", "#NUM!", "#ZAHL!", "#NULL!"}
WORDS = {"", "NaN", "nan", "n/a", "N/A", "NA", "NULL", "null"}  # that are missing in a text file too
NOTHING = re.compile("|".join([*map(re.escape, ERRORS | WORDS), r"Err:\d{3}"]))  # the last are errors of LibreOffice


@dataclass(frozen=True)
class ReadSheet:
    """A sheet as a table.

    Args:
        table: its columns.
        rows: for every row of the table, which of the sheet it is, from 1.
        name: of the sheet.
        others: names of the other sheets.
        skipped: rows before the header.
        units: rows below the header that were left out.
        found: style of numbers that are text.
        texts: columns that are text in the sheet, as they are there.
    """

    table: pa.Table
    rows: tuple[int, ...]
    name: str
    others: tuple[str, ...]
    skipped: int
    units: int
    found: StyleFound = field(default_factory=StyleFound)
    texts: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ExcelSource(FileSource):
    """A sheet of a spreadsheet, with a header.

    Args:
        name: for error messages.
        label: for the origin of a window.
        path: the file.
        wanted: which sheet, rows before the header, style of numbers that are text.
    """

    wanted: FileFormat = UNSAID

    @property
    def sheet(self) -> ReadSheet:
        """The sheet, read; the last one is kept."""
        try:
            return _sheet(self.path, self.version[1], self.wanted, self.name)
        except OSError as error:
            raise DataError(f"{self.name}: cannot be read: {error.strerror or error}") from None

    def _read_schema(self) -> pa.Schema:
        return self.sheet.table.schema

    def batches(self, types: Mapping[str, pa.DataType | None]) -> Iterator[pa.RecordBatch]:
        """The columns that are named; what is wanted as text becomes that: 7 is "7"."""
        table, texts = self.sheet.table.select(list(types)), self.sheet.texts
        for place, (name, kind) in enumerate(types.items()):
            column = table.column(place)
            if kind == pa.string() and name in texts:  # an id such as 007
                table = table.set_column(place, name, texts[name])
            elif kind == pa.string() and not is_text(column.type):
                table = table.set_column(place, name, pa.array([_text(value) for value in column.to_pylist()]))
        yield from table.to_batches(max_chunksize=ROWS_AT_ONCE)

    def place(self, row: int) -> str:
        """Where a row is in the sheet."""
        sheet = self.sheet
        return f'{self.name}: row {sheet.rows[row]} of sheet "{sheet.name}"'

    def refuse_doubtful(self, columns: Sequence[str]) -> None:
        """Refuse text of which it cannot be told which numbers it is."""
        for name in columns:
            if name in self.sheet.found.doubts:
                doubt = self.sheet.found.doubts[name]
                raise DataError('{file}: column "{name}": {doubt}', file=self.name, name=name, doubt=doubt)

    @property
    def said(self) -> str | None:
        """Which sheet was taken, where there are several, and rows that were left out below the header."""
        sheet = self.sheet
        sheets, words = len(sheet.others) + 1, []
        if sheet.others:
            words.append(Message('read sheet "{name}" of {sheets}; `sheet` to change.', name=sheet.name, sheets=sheets))
        if sheet.units:
            rows = f"{sheet.units} row{'s'[: sheet.units > 1]}"
            words.append(Message("read with {rows} below the header left out; `units_lines` to change.", rows=rows))
        return joined(words, " ") if words else None

    @property
    def found_format(self) -> FileFormat:
        """The sheet, where there are several, and the rows that were left out."""
        sheet = self.sheet
        return FileFormat(
            sheet=sheet.name if sheet.others else None,
            skip_lines=sheet.skipped or None,
            units_lines=sheet.units or None,
        )

    @property
    def value_count(self) -> int:
        """How many values there are."""
        table = self.sheet.table
        return int(table.num_rows * table.num_columns)


@lru_cache(maxsize=1)  # a command opens the same file several times
def _sheet(path: Path | RemotePath, version: str, wanted: FileFormat, name: str) -> ReadSheet:
    del version  # for the cache
    chosen, others, cells = _cells(path, wanted, name)
    where = f'{name}: sheet "{chosen}"'
    skipped = wanted.asked("skip_lines") or 0
    if wanted.skip_lines and not skipped and _title(cells):
        skipped = wanted.skip_lines
    header, rows = _header(cells, skipped, where)
    units = units_lines(_records(cells[skipped : skipped + LOOKED_AT], skipped), wanted, where, "row")
    kept = [
        (number, row)
        for number, row in enumerate(rows[units:], start=skipped + units + 2)
        if any(cell != "" for cell in row)
    ]  # empty rows are none, as in a text file
    columns = {
        title: _column([row[place] for _, row in kept], title, where, [number for number, _ in kept])
        for place, title in header.items()
    }
    text = {title: column for title, column in columns.items() if is_text(column.type)}
    found = style_of(text, wanted)
    for title in text:
        if title in found.cleaned or _spelled(text[title], found):
            columns[title] = found.style.numbers(text[title], title, lambda row: f"{where}, row {kept[row][0]}")
    numbers = tuple(number for number, _ in kept)
    return ReadSheet(pa.table(columns), numbers, chosen, others, skipped, units, found, text)


def _spelled(column: pa.Array, found: StyleFound) -> bool:
    """Whether all of a column of text is numbers."""
    return bool(len(column.drop_null()) and pc.all(pc.match_substring_regex(column, found.style.pattern)).as_py())


def _cells(path: Path | RemotePath, wanted: FileFormat, name: str) -> tuple[str, tuple[str, ...], list[list[Any]]]:
    """The name of the sheet, those of the others, and all of its cells."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise MissingExtraError(f'{name}: spreadsheets need the excel extra: pip install "indubio[excel]".') from None
    try:
        content = content_of(path)
        book = CalamineWorkbook.from_object(content if hasattr(content, "read") else str(content))
        chosen = _chosen(book.sheet_names, wanted, name)
        cells = book.get_sheet_by_name(chosen).to_python(skip_empty_area=False)
    except CalamineError as error:
        raise DataError(f"{name}: not a spreadsheet that can be read ({error}). Save it as .xlsx or .csv.") from None
    return chosen, tuple(other for other in book.sheet_names if other != chosen), cells


def _chosen(names: list[str], wanted: FileFormat, name: str) -> str:
    sheet = wanted.sheet
    if not names:
        raise DataError(f"{name}: there is no sheet in it.")
    if sheet is None or ("sheet" in wanted.guesses and sheet not in names):
        return names[0]
    if isinstance(sheet, str) and sheet in names:
        return sheet
    number = int(sheet) if isinstance(sheet, int) or sheet.isdecimal() else 0
    if 1 <= number <= len(names):
        return names[number - 1]
    raise DataError(f"{name}: there is no sheet {sheet!r}; there are {quoted(names)}, numbered from 1.")


def _title(cells: list[list[Any]]) -> bool:
    """Whether the first row is not a header: empty, or a title over the table."""
    return bool(cells) and sum(cell != "" for cell in cells[0]) <= 1 < len(cells[0])


def _header(cells: list[list[Any]], skipped: int, where: str) -> tuple[dict[int, str], list[list[Any]]]:
    """The names of the columns by their place, and the rows below."""
    cells = cells[skipped:]
    if not any(cell != "" for row in cells for cell in row):
        raise DataError(f"{where} is empty.")
    first = next(place for place, row in enumerate(cells) if sum(cell != "" for cell in row) > 1 or len(row) == 1)
    if first:
        words = [str(cell) for row in cells[:first] for cell in row if cell != ""]
        what = f"hold a title, {words[0]!r}, and no header" if words else "are empty"
        lines = skipped + first
        raise DataError(
            "{where}: the first {lines} rows {what}. Pass `skip_lines={lines}`.", where=where, lines=lines, what=what
        )
    below = cells[1:]
    header = {
        place: str(_text(title)).strip()
        for place, title in enumerate(cells[0])
        if title != "" or any(row[place] != "" for row in below)
    }
    nameless = [place for place, title in header.items() if not title or cells[0][place] == ""]
    if nameless:
        records = [record for record in _records(cells, skipped) if record[1]]
        before = records[header_of(records)][0]
        lower = Message(" If row {row} is the header, pass `skip_lines={before}`.", row=before + 1, before=before)
        raise DataError(
            "{where}: row {row} is the header, and column {column} has no name.{lower}",
            where=where,
            row=skipped + 1,
            column=_letters(nameless[0]),
            lower=lower if before > skipped else "",
        )
    titles = list(header.values())
    double = [title for title in dict.fromkeys(titles) if titles.count(title) > 1]
    if double:
        raise DataError(f"{where}: more than one column is called {quoted(double)}. Rename them.")
    return header, below


def _records(cells: list[list[Any]], skipped: int) -> list[Record]:
    """Rows from the header on as texts, each with the number of rows before it."""
    texts = ([str(_text(cell)).strip() for cell in row] for row in cells)
    return [(number, row if any(row) else []) for number, row in enumerate(texts, start=skipped)]


def _column(values: list[Any], title: str, where: str, rows: list[int]) -> pa.Array:
    """Cells of a column as the one type that they have; empty cells and errors of formulas are null."""
    cells = [None if isinstance(value, str) and NOTHING.fullmatch(value) else value for value in values]
    kinds = {_kind(cell) for cell in cells if cell is not None}
    if not kinds:
        return pa.nulls(len(cells))
    if kinds <= {"number"}:
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    if kinds <= {"date", "stamp"}:
        stamps = [
            cell if cell is None or isinstance(cell, datetime.datetime) else datetime.datetime(*cell.timetuple()[:3])
            for cell in cells
        ]
        return pa.array(stamps, pa.timestamp("us"))
    if len(kinds) == 1 and kinds != {"text"}:
        return pa.array(cells)
    if kinds <= {"text", "number"} or kinds == {"text"}:
        return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())
    first = _kind(next(cell for cell in cells if cell is not None))
    row = next(place for place, cell in enumerate(cells) if cell is not None and _kind(cell) != first)
    raise DataError(f'{where}, row {rows[row]}, column "{title}": {_text(cells[row])!r} among cells of another kind.')


def _kind(cell: Any) -> str:
    kinds = {
        bool: "truth",
        int: "number",
        float: "number",
        str: "text",
        datetime.datetime: "stamp",
        datetime.date: "date",
    }
    return kinds.get(type(cell), type(cell).__name__)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _letters(place: int) -> str:
    """The name that a spreadsheet has for a column."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
