"""Which record of a file is the header, and what stands around it: lines before it, lines of units below it.

A record is a row of texts with the number of lines before it. It has no cells where the line is empty.
"""

import csv
import io
import re
from collections.abc import Sequence

import pyarrow.csv as arrow_csv

from indubio.errors import DataError, quoted
from indubio.io.file_format import FileFormat
from indubio.io.number_styles import MISSING, looks_like_number
from indubio.message import Message

MOST_BEFORE = 50  # lines before a header that are found without being told
MOST_UNITS = 5  # lines below it that may hold units, methods or types
LOOKED_AT = 200  # rows that tell whether a column holds numbers
LISTED = 6  # cells in a message

Record = tuple[int, Sequence[str]]

_DATE = re.compile(r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?$|^\d{1,2}:\d\d(:\d\d.*)?$")
_INFINITE = re.compile(r"^[+-]?inf(inity)?$", re.IGNORECASE)
_NOTHING = {*MISSING, *arrow_csv.ConvertOptions().null_values}


def looks_like_value(cell: str) -> bool:
    """Whether a cell is a number in any style, a date or a time of day."""
    return looks_like_number(cell) or bool(_DATE.match(cell) or _INFINITE.match(cell))


def records_of(text: str, separator: str) -> list[Record]:
    """The records of a text; none where it does not fall into fields."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    records: list[Record] = []
    before = 0
    try:
        for record in reader:
            records.append((before, [cell.strip() for cell in record]))
            before = reader.line_num
    except csv.Error:
        return []
    return records


def header_of(records: Sequence[Record]) -> int:
    """Which record is the header: the first, or the first of full width after a few narrower lines or comments."""
    width = len(records[-1][1])
    begin = next((place for place, (_, record) in enumerate(records) if len(record) == _filled(record) == width), 0)
    while begin < len(records) - 1 and records[begin][1][0].startswith("#") and _commented(records[begin + 1][1]):
        begin += 1
    before = [record for _, record in records[:begin]]
    narrow = all(_filled(record) < width or record[0].startswith("#") for record in before)
    return begin if begin <= MOST_BEFORE and narrow and _is_header(records, begin) else 0


def possible_header(records: Sequence[Record]) -> int:
    """Lines before what may be the header further down, where lines of any width are before it; 0 where none may."""
    width = len(records[-1][1]) if records else 0
    begin = len(records)
    while begin and len(records[begin - 1][1]) == width:
        begin -= 1
    return records[begin][0] if begin <= MOST_BEFORE and _is_header(records, begin) else 0


def _is_header(records: Sequence[Record], place: int) -> bool:
    """Whether a record after the first one has names for columns of numbers below it, and no row is before it."""
    if not place or place >= len(records) - 1:
        return False
    header, rows = records[place][1], [record for _, record in records[place + 1 :]]
    named = _named(header) and len(set(header)) == len(header)
    if not named or any(map(_is_row, [record for _, record in records[:place]])):
        return False
    if not all(len(record) == len(header) for record in rows):
        return False
    rows = rows[unit_rows(rows) :]
    return any(
        any(column) and all(looks_like_number(cell) for cell in column if cell) for column in zip(*rows, strict=True)
    )


def unit_rows(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first rows below a header hold words only, one of them in a column of numbers."""
    count = next((place for place, row in enumerate(rows) if any(map(looks_like_value, row))), 0)
    if not 0 < count <= MOST_UNITS:
        return 0
    below = rows[count : count + LOOKED_AT]
    for place in range(len(rows[0])):
        cells = [row[place] for row in below if place < len(row) and row[place] not in _NOTHING]
        words = [row[place] for row in rows[:count] if place < len(row) and row[place] not in _NOTHING]
        if words and 2 * sum(map(looks_like_number, cells)) > len(cells):
            return count
    return 0


def units_lines(records: Sequence[Record], wanted: FileFormat, name: str, word: str) -> int:
    """How many lines below the header are left out; those that look like units are refused where nobody said it.

    Args:
        records: from the header on, with the empty ones.
        wanted: what was asked for. A guess, as of a model whose training files had such lines, is as good here.
        name: of the file.
        word: what a line is called in it.
    """
    asked = wanted.asked("units_lines")
    if asked is not None:
        return int(asked)
    at = [place for place, record in enumerate(records) if record[1]]
    rows = [records[place][1] for place in at]
    count = unit_rows(rows[1:])
    if not count or any(len(row) != len(rows[0]) for row in rows[1 : count + 1]):
        return 0
    lines = at[count] - at[0]
    if not wanted.units_lines:
        numbers = [records[place][0] + 1 for place in at[1 : count + 1]]
        question = _question(word, numbers, rows[1], rows[0], lines)
        raise DataError("{file}: {question}", file=name, question=question)
    return lines


def _question(word: str, numbers: Sequence[int], cells: Sequence[str], header: Sequence[str], lines: int) -> str:
    """What lines without a number may be, and the setting for each."""
    first, last = numbers[0], numbers[-1]
    where = f"{word} {first} holds" if first == last else f"{word}s {first} to {last} hold"
    before = Message("they are the header, pass `skip_lines={lines}`", lines=first - 1)
    if first < last:
        before = Message("one of them is the header, pass `skip_lines`")
    return Message(
        "{where} no number: {cells}. If they are units of {header}, pass `units_lines={lines}`; "
        "if {before}; if they are a row, pass `units_lines=0`.",
        where=where,
        cells=_listed(cells),
        header=_listed(header),
        lines=lines,
        before=before,
    )


def _listed(cells: Sequence[str]) -> str:
    return quoted(cells[:LISTED]) + (", ..." if len(cells) > LISTED else "")


def _filled(record: Sequence[str]) -> int:
    """Cells up to the last that is not empty: a spreadsheet saved as text has as many marks on every line."""
    return max((place for place, cell in enumerate(record, start=1) if cell), default=0)


def _is_row(record: Sequence[str]) -> bool:
    """Whether all that is in a record, and more than one cell, is values."""
    cells = [cell for cell in record if cell]
    return len(cells) > 1 and all(map(looks_like_value, cells))


def _named(record: Sequence[str]) -> bool:
    return all(cell and not looks_like_number(cell) for cell in record)


def _commented(record: Sequence[str]) -> bool:
    """Whether what follows a comment is a comment too, or a header of its own."""
    return record[0].startswith("#") or _named(record)
