"""A column of numbers with a word among them is a column of text to Arrow: it must not get lost for that."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indubio.errors import DataError
from indubio.io import NumberStyle, Source, is_text, plain, way_out
from indubio.texts import english


def refuse_spoilt(source: Source, columns: Sequence[str], otherwise: str) -> None:
    """Refuse columns of numbers that cannot all be read as such, and name the row of the first that is none.

    Args:
        source: its first batch is looked at.
        columns: that are wanted, as numbers where most of them are.
        otherwise: what to do other than to replace the word.
    """
    source.refuse_doubtful(columns)
    if found := spoilt_number(source, columns):
        row, name, value = found
        raise DataError(
            english(
                '{place}: column "{name}" holds {value!r} among numbers. Replace it, or {otherwise}.{way_out}',
                place=source.place(row),
                name=name,
                value=value,
                otherwise=otherwise,
                way_out=way_out(value),
            )
        )


def spoilt_number(source: Source, columns: Sequence[str]) -> tuple[int, str, str] | None:
    """Row, column and text of the first word among numbers; None where there is none.

    Args:
        source: its first batch is looked at.
        columns: those of them that hold text, and most of it numbers, should be numbers.
    """
    known = dict(zip(source.schema.names, source.schema.types, strict=True))
    text = [name for name in columns if is_text(known[name])]
    batch = source.first_batch(dict.fromkeys(text, pa.string())) if text else None
    if batch is None:
        return None
    for name in text:
        column = plain(batch.column(name))
        spelled = pc.match_substring_regex(pc.utf8_trim_whitespace(source.number_text(column)), NumberStyle().pattern)
        if 2 * (pc.sum(spelled).as_py() or 0) > len(column) - column.null_count and not pc.all(spelled).as_py():
            row = pc.index(spelled, False).as_py()
            return row, name, column[row].as_py()
    return None
