"""What a text file is written in, by its first block: encoding, separator, lines around the header, style of numbers.

Where the plain reading works (UTF-8, commas, decimal points) nothing else is tried.
"""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.csv as arrow_csv

from indubio.errors import DataError
from indubio.io.file_format import SEPARATORS, FileFormat
from indubio.io.header_lines import header_of, looks_like_value, possible_header, records_of, units_lines
from indubio.io.number_styles import StyleFound, style_of
from indubio.message import Message, joined
from indubio.texts import english

SAMPLE = 2**20  # bytes that are looked at
HEAD = 2**16  # characters of them in which separators are looked for
MOST_RAGGED = 1 / 3  # share of lines that may have another number of fields; they are refused later, by name

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_SEPARATOR_LINE = re.compile(r"^\ufeff?sep=(.)\r?\n", re.IGNORECASE)  # Excel's own
_ONE_DECIMAL = re.compile(r"^[+-]?\d+,\d+$")
_NAMES = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'", " ": "spaces"}
_MARKS = {".": "point", ",": "comma"}


@dataclass(frozen=True)
class Dialect:
    """How a text file is written.

    Args:
        separator: of fields.
        encoding: of characters.
        skip_lines: before the header.
        units_lines: below the header.
        quotes: whether there are any, so that a field may hold line ends.
        found: style of the numbers.
        perhaps: lines before what may be the header instead; 0 for none.
    """

    separator: str = ","
    encoding: str = "utf-8"
    skip_lines: int = 0
    units_lines: int = 0
    quotes: bool = False
    found: StyleFound = field(default_factory=StyleFound)
    perhaps: int = 0

    @property
    def said(self) -> str | None:
        """What differs from the plain way, in words; None for nothing."""
        style, words, changed = self.found.style, [], []
        if self.separator != ",":
            words.append(_NAMES.get(self.separator, repr(self.separator)))
            changed.append(Message("`separator`"))
        if style.decimal != ".":
            words.append(f"decimal {_MARKS[style.decimal]}")
            changed.append(Message("`decimal`"))
        if style.thousands:
            words.append(f"{style.thousands!r} between thousands")
            changed.append(Message("`thousands`"))
        if self.encoding != "utf-8":
            words.append(f"encoding {self.encoding}")
            changed.append(Message("`encoding`"))
        if self.skip_lines:
            words.append(f"{self.skip_lines} line{'s'[: self.skip_lines > 1]} before the header left out")
            changed.append(Message("`skip_lines`"))
        if self.units_lines:
            words.append(f"{self.units_lines} line{'s'[: self.units_lines > 1]} below the header left out")
            changed.append(Message("`units_lines`"))
        if self.found.words:
            words.append(f"{', '.join(map(repr, self.found.words))} as missing")
        if not words:
            return None
        change = Message("; {settings} to change", settings=_joined(changed)) if changed else ""
        return Message("read with {words}{change}.", words=_joined(words), change=change)

    @property
    def format(self) -> FileFormat:
        """What was found, as settings of a file."""
        style = self.found.style
        return FileFormat(
            separator=self.separator,
            decimal=style.decimal,  # type: ignore[arg-type]
            thousands=style.thousands,  # type: ignore[arg-type]
            encoding=self.encoding,
            skip_lines=self.skip_lines,
            units_lines=self.units_lines,
        )


PLAIN = Dialect()


def sniffed(sample: bytes, wanted: FileFormat, name: str, *, whole: bool) -> Dialect:
    """What a file is written in.

    Args:
        sample: its first block.
        wanted: what was asked for, and first guesses.
        name: of the file, for messages.
        whole: the block is all there is.
    """
    if not sample.strip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n"):
        raise DataError(english("{file}: the file is empty.", file=name))
    if all(wanted.asked(setting) is None for setting in wanted.given) and _reads_plainly(sample, whole):
        return Dialect(quotes=b'"' in sample)
    encoding = wanted.asked("encoding") or encoding_of(sample, wanted.encoding, name)
    text = decoded(sample, encoding, name)
    if not whole:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    separator, skip = _structure(text, wanted)
    records = records_of(_head(text), separator)
    units = units_lines([one for one in records if one[0] >= skip], wanted, name, "line")
    style = style_of(_columns(text, separator, skip, units), wanted)
    perhaps = 0 if skip else possible_header([one for one in records if one[1]])
    return Dialect(separator, encoding, skip, units, '"' in text, style, perhaps)


def encoding_of(content: bytes, guess: str | None = None, name: str = "the file") -> str:
    """UTF-8 where it is that, UTF-16 where it says so, else the guess or the code page of Western Europe."""
    for mark, encoding in _BOMS.items():
        if content.startswith(mark):
            return encoding
    if b"\x00" in content[:1000]:
        raise DataError(
            "{name}: there are zero bytes in it, so it is no text, or UTF-16 without a mark: then pass "
            '`encoding="utf-16-le"`.',
            name=name,
        )
    for encoding in dict.fromkeys(("utf-8", guess or "cp1252", "cp1252")):
        if _decodes(content, encoding):
            return encoding
    return "latin-1"


def decoded(content: bytes, encoding: str, name: str) -> str:
    """The text of a block, without the mark at its beginning; half a character at its end is left out."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(content)
    except UnicodeDecodeError as error:
        raise not_decoded(name, encoding, error) from None
    return text.removeprefix("\ufeff")


def not_decoded(name: str, encoding: str, error: UnicodeDecodeError | None = None) -> DataError:
    """What is said where bytes are not of the encoding."""
    at = "" if error is None else f" (byte {error.object[error.start]:#04x})"
    return DataError(
        '{name}: not all of it is {encoding}{at}. Pass its encoding, such as `encoding="cp1252"`.',
        name=name,
        encoding=encoding,
        at=at,
    )


def dict_rows(content: bytes, name: str = "the file") -> "csv.DictReader[str]":
    """The rows of a small table of text in any encoding and with any separator, as texts by column."""
    text = decoded(content, encoding_of(content, name=name), name)
    separator, skip = _structure(text, FileFormat(skip_lines=None if _SEPARATOR_LINE.match(text) else 0))
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    for _ in range(skip):
        rows.fieldnames = None
        next(rows.reader)
    return rows


def _reads_plainly(sample: bytes, whole: bool) -> bool:
    block = sample if whole else sample[: sample.rfind(b"\n") + 1] or sample
    try:
        reader = arrow_csv.open_csv(in_arrow(block), read_options=_reading())
        names, kinds = reader.schema.names, reader.schema.types  # names that are not UTF-8 fail here
        return bool(names) and not any(map(_is_text, kinds))
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return False


def in_arrow(content: bytes | pa.Buffer) -> pa.BufferReader:
    """The content in memory of Arrow's own, to be read.

    Arrow reads in a thread of its own and may let go of the memory only when this process is about to end. It needs
    Python to let go of bytes, and where Python has ended meanwhile, the process aborts.
    """
    stream = pa.BufferOutputStream()
    stream.write(content)
    return pa.BufferReader(stream.getvalue())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _reading(**options: int) -> arrow_csv.ReadOptions:
    return arrow_csv.ReadOptions(block_size=4 * SAMPLE, use_threads=False, **options)


def _decodes(content: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(content)
    except UnicodeDecodeError:
        return False
    return True


def _structure(text: str, wanted: FileFormat) -> tuple[str, int]:
    """The separator, and the lines before the header."""
    asked, skip = wanted.asked("separator"), wanted.asked("skip_lines")
    if skip is None and (line := _SEPARATOR_LINE.match(text)) and asked in (None, line[1]):
        return line[1], 1
    head = _head(text)
    candidates = dict.fromkeys([asked] if asked else [",", *filter(None, [wanted.separator]), *SEPARATORS])
    skips = [skip] if skip is not None else dict.fromkeys([None, wanted.skip_lines or None])
    found = [_outline(head, mark, lines) for lines in skips for mark in candidates]
    if best := _best(found, wanted):
        return best.separator, best.skip
    # Lines that are wider than the table: they are refused, and the separator of the table tells how.
    below = {mark: possible_header([one for one in records_of(head, mark) if one[1]]) for mark in candidates}
    if skip is None and (
        best := _best([_outline(head, mark, lines) for mark, lines in below.items() if lines], wanted)
    ):
        return best.separator, 0
    lines = head.splitlines()[(skip or 0) :]
    if asked is None and len(lines) > 1 and all(_ONE_DECIMAL.match(line.strip()) for line in lines[1:] if line.strip()):
        return ("," if "," in lines[0] else ";"), skip or 0
    return asked or ",", skip or 0


def _head(text: str) -> str:
    return text if len(text) <= HEAD else text[: text.rfind("\n", 0, HEAD) + 1] or text[:HEAD]


@dataclass(frozen=True)
class _Outline:
    separator: str
    skip: int
    even: bool  # every line has as many fields as the header
    numbers: float  # share of the cells that are numbers, dates or empty


def _best(found: Sequence[_Outline | None], wanted: FileFormat) -> _Outline | None:
    """The first of the best: a comma where nothing speaks against it."""
    outlines = [outline for outline in found if outline is not None]
    return max(outlines, key=lambda one: (one.even, one.numbers, one.separator == wanted.separator), default=None)


def _outline(head: str, separator: str, skip: int | None) -> _Outline | None:
    """How the text falls into fields; None where this separator does not give a table."""
    records = [one for one in records_of(head, separator) if one[1] and (skip is None or one[0] >= skip)]
    if not records:
        return None
    begin = 0 if skip is not None else header_of(records)
    table = [record for _, record in records[begin:]]
    width = len(table[0])
    if width < 2:
        return None
    ragged = sum(len(record) != width for record in table)
    if ragged > MOST_RAGGED * len(table):
        return None
    cells = [cell for record in table[1:] for cell in record]
    spelled = sum(not cell or looks_like_value(cell) for cell in cells)
    lines = skip if skip is not None else records[begin][0] if begin else 0
    return _Outline(separator, lines, not ragged, spelled / max(len(cells), 1))


def _columns(text: str, separator: str, skip: int, units: int) -> dict[str, pa.Array]:
    """The columns of a sample as text; lines of another length are left out."""
    content = in_arrow(text.encode())
    reading = _reading(skip_rows=skip, skip_rows_after_names=units)
    parsing = arrow_csv.ParseOptions(
        delimiter=separator, newlines_in_values='"' in text, invalid_row_handler=lambda _: "skip"
    )
    try:
        names = arrow_csv.open_csv(content, read_options=reading, parse_options=parsing).schema.names
        content.seek(0)
        read = arrow_csv.read_csv(
            content,
            read_options=reading,
            parse_options=parsing,
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:  # is told where the file is read
        return {}
    return {name: read.column(place).combine_chunks() for place, name in enumerate(names)}


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else joined([joined(words[:-1], ", "), words[-1]], " and ")
