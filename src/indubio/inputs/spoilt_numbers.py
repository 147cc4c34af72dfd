"""A column of numbers with a word among them is a column of text to Arrow: it must not get lost for that."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from indubio.errors import DataError
from indubio.io.arrow_columns import plain
from indubio.io.sources import Source

NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def refuse_spoilt(source: Source, text: Sequence[str], otherwise: str) -> None:
    """Refuse columns of text most of which are numbers in the first rows, and name the row that is none.

    Args:
        source: to look at.
        text: its columns that hold text.
        otherwise: what to do other than to replace the word.
    """
    batch = next(source.batches(dict.fromkeys(text, pa.string())), None) if text else None
    if batch is None:
        return
    for name in text:
        column = plain(batch.column(name))
        spelled = pc.match_substring_regex(column, NUMBER)
        if 2 * (pc.sum(spelled).as_py() or 0) > len(column) - column.null_count and not pc.all(spelled).as_py():
            row = pc.index(spelled, False).as_py()
            raise DataError(
                f'{source.place(row)}: column "{name}" holds {column[row].as_py()!r} among numbers. '
                f"Replace it, or {otherwise}."
            )
