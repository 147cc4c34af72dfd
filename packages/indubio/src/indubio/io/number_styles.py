r"""Which decimal mark and which mark of thousands the numbers of a text file have, by the evidence of many cells.

"1,5" can only be a decimal comma and "1,234.5" only a decimal point; "1,234" may be either. A file has one style, so
one certain cell decides for all columns. Where nothing is certain and the plain reading fails, nothing is guessed:
the column is doubtful, and is refused with a way out when it is wanted as numbers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from indubio.errors import DataError
from indubio.io.arrow_columns import Place
from indubio.io.file_format import MARKS, FileFormat
from indubio.message import Message
from indubio.texts import english

MISSING = ("", "-", "--", "---", "–", "—", "n.a.", "N.A.", "k.A.", "k. A.", "#NV", "#DIV/0!", "#WERT!", "#VALUE!")
_EXPONENT = r"([eE][+-]?\d+)?"
_THREES = r"[1-9]\d{0,2}(%s\d{3})+"
_ODD = "['’ \u00a0\u202f_]"  # marks of thousands that are no decimal marks
_LIKE = rf"^[+-]?(\d[\d.,'’ \x{{a0}}\x{{202f}}_]*|[.,]\d+){_EXPONENT}$"
_PYTHON_LIKE = re.compile(_LIKE.replace(r"\x{a0}", "\u00a0").replace(r"\x{202f}", "\u202f"))


def looks_like_number(text: str) -> bool:
    """Whether a cell is a number in any style."""
    return _PYTHON_LIKE.match(text) is not None


@dataclass(frozen=True)
class NumberStyle:
    """How numbers are spelled.

    Args:
        decimal: the decimal mark.
        thousands: the mark of thousands; "" for none.
    """

    decimal: str = "."
    thousands: str = ""

    @cached_property
    def pattern(self) -> str:
        """What a number looks like, as RE2 has it."""
        point = re.escape(self.decimal)
        whole = r"\d+" if not self.thousands else rf"(\d+|{_THREES % MARKS[self.thousands]})"
        return rf"^[+-]?({whole}({point}\d*)?|{point}\d+){_EXPONENT}$"

    def plain(self, text: pa.Array) -> pa.Array:
        """The texts of numbers with a decimal point and nothing else; other texts as they are."""
        trimmed = pc.utf8_trim_whitespace(text)
        spelled = trimmed
        if self.thousands:
            spelled = pc.replace_substring_regex(spelled, MARKS[self.thousands], "")
        if self.decimal != ".":
            spelled = pc.replace_substring(spelled, self.decimal, ".")
        return pc.if_else(pc.match_substring_regex(trimmed, self.pattern), spelled, text)

    def numbers(self, text: pa.Array, name: str, place: Place) -> pa.Array:
        """Texts as numbers; words for a missing value are null, other words are refused."""
        trimmed = pc.utf8_trim_whitespace(text)
        trimmed = pc.if_else(pc.is_in(trimmed, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), trimmed)
        wrong = pc.invert(pc.match_substring_regex(trimmed, self.pattern))
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            value = trimmed[row].as_py()
            raise DataError(
                '{place}, column "{name}": {value!r} is not a number.{way_out}',
                place=place(row),
                name=name,
                value=value,
                way_out=way_out(value),
            )
        return self.plain(trimmed).cast(pa.float64())


@dataclass(frozen=True)
class StyleFound:
    """What the cells of a file tell.

    Args:
        style: of its numbers.
        cleaned: columns of numbers that need more than the decimal mark: marks of thousands, words for missing values.
        words: for missing values, that were seen there.
        doubts: by column, why it cannot be told what its numbers are.
    """

    style: NumberStyle = NumberStyle()
    cleaned: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)


def way_out(value: str) -> str:
    """What may help where a text is not a number."""
    if not looks_like_number(value.strip()):
        return ""
    return english(" If it is one, pass `decimal` or `thousands`.")


def style_of(columns: Mapping[str, pa.Array], wanted: FileFormat) -> StyleFound:
    """The style of the numbers in columns of text.

    Args:
        columns: all of a sample, by name; null where nothing is.
        wanted: what was asked for, and guesses where the cells do not tell.
    """
    cells = {name: _Cells(column) for name, column in columns.items()}
    seen = {name: one for name, one in cells.items() if one.numeric}
    decimal, doubts = _decimal(seen, wanted)
    thousands = _thousands(seen, decimal, wanted) if not doubts else ""
    style = NumberStyle(decimal, thousands)
    whole = {name: one for name, one in seen.items() if one.all_match(style.pattern)}
    cleaned = tuple(name for name, one in whole.items() if thousands or one.missing)
    words = tuple(dict.fromkeys(word for name in cleaned for word in whole[name].missing))
    return StyleFound(style, cleaned, words, doubts)


class _Cells:
    """The cells of a column that are not empty."""

    def __init__(self, column: pa.Array) -> None:
        text = pc.utf8_trim_whitespace(column.drop_null())
        mute = pc.is_in(text, value_set=pa.array(MISSING))
        self.missing = [word for word in pc.unique(text.filter(mute)).to_pylist() if word]
        self.text = text.filter(pc.invert(mute))
        like = pc.sum(pc.match_substring_regex(self.text, _LIKE)).as_py() or 0
        self.numeric = 2 * like > len(self.text)

    def first(self, pattern: str, *, but: str | None = None) -> str | None:
        """The first cell that matches, and does not match another pattern."""
        found = pc.match_substring_regex(self.text, pattern)
        if but is not None:
            found = pc.and_(found, pc.invert(pc.match_substring_regex(self.text, but)))
        row = pc.index(found, True).as_py()
        return None if row < 0 else str(self.text[row].as_py())

    def all_match(self, pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(self.text, pattern)).as_py())

    def decimal(self, mark: str, other: str) -> str | None:
        """A cell in which `mark` can only be the decimal mark."""
        mark, other = re.escape(mark), re.escape(other)
        whole = rf"(\d*|{_THREES % _ODD}|{_THREES % other})"
        certain = self.first(rf"^[+-]?{whole}{mark}\d*{_EXPONENT}$", but=rf"^[+-]?{_THREES % mark}$")
        # Who writes 1234 without a mark does not write 1,234 for it elsewhere in the column.
        bare = self.first(r"^[+-]?[1-9]\d{3,}$")
        return certain or (self.first(rf"^[+-]?{_THREES % mark}$") if bare else None)

    def thousands(self, mark: str, other: str) -> str | None:
        """A cell in which `mark` can only be between thousands."""
        mark, other = re.escape(mark), re.escape(other)
        often = rf"[1-9]\d{{0,2}}({mark}\d{{3}}){{2,}}"
        return self.first(rf"^[+-]?({_THREES % mark}{other}\d*{_EXPONENT}|{often})$")


def _decimal(seen: Mapping[str, _Cells], wanted: FileFormat) -> tuple[str, dict[str, str]]:
    if wanted.asked("decimal") is not None:
        return str(wanted.decimal), {}
    if wanted.asked("thousands") in (",", "."):
        return "." if wanted.thousands == "," else ",", {}
    comma = {name: one.decimal(",", ".") or one.thousands(".", ",") for name, one in seen.items()}
    point = {name: one.decimal(".", ",") or one.thousands(",", ".") for name, one in seen.items()}
    commas = {name: cell for name, cell in comma.items() if cell is not None}
    points = {name: cell for name, cell in point.items() if cell is not None}
    if commas and points:
        other, written = next(iter(points.items()))
        return ".", {
            name: Message(
                "{cell!r} has a decimal comma, and {written!r} of column {other!r} a decimal point. Pass `decimal`.",
                cell=cell,
                written=written,
                other=other,
            )
            for name, cell in commas.items()
        }
    if commas or points:
        return "," if commas else ".", {}
    unclear = {name: one.first(rf"^[+-]?{_THREES % ','}$") for name, one in seen.items()}
    either = {name: cell for name, cell in unclear.items() if cell is not None}
    if not either:
        return ".", {}
    if wanted.decimal is not None:
        return wanted.decimal, {}
    return ".", {
        name: Message(
            '{cell!r} may be {point} or {bare}. Pass `decimal=","` or `thousands=","`.',
            cell=cell,
            point=cell.replace(",", "."),
            bare=cell.replace(",", ""),
        )
        for name, cell in either.items()
    }


def _thousands(seen: Mapping[str, _Cells], decimal: str, wanted: FileFormat) -> str:
    if wanted.asked("thousands") is not None:
        return str(wanted.thousands)
    point = re.escape(decimal)
    for mark in ("." if decimal == "," else ",", "'", " "):
        shape = rf"^[+-]?{_THREES % MARKS[mark]}({point}\d*)?{_EXPONENT}$"
        if any(one.first(shape) for one in seen.values()):
            return mark
    return ""
