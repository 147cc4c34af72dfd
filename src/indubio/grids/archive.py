"""The records of many cells in one text file: what is kept of a run where its other files are too many or too large.

    cells-odds-authors.jsonl      a line for each cell: what it is, what it cost, what was found

A cell that has its line here is done: tables and tests are made of it, and a run on another machine goes on from there.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from indubio.errors import DataError
from indubio.io.json_text import json_text
from indubio.io.whole_files import whole_file

Plain = dict[str, Any]  # a cell's record as plain values, as its own file has it
Repack = Callable[[Plain], Plain]


def read_archive(path: Path, unpacked: Repack) -> dict[str, Plain]:
    """The records in a file, by the description of their cells; none where there is no file."""
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            plain = unpacked(json.loads(line))
            found[key(plain["cell"])] = plain
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path}, line {number}: this is not the result of a cell ({error}). Delete the line, and the cell is "
                "run again."
            ) from None
    return found


def write_archive(path: Path, records: Iterable[Plain], *, packed: Repack, unpacked: Repack) -> None:
    """Put records into a file, in the place of what it had of the same cells; the others stay."""
    kept = read_archive(path, unpacked) | {key(plain["cell"]): plain for plain in records}
    with whole_file(path) as stream:
        stream.writelines(f"{json_text(packed(kept[name]), compact=True)}\n".encode() for name in sorted(kept))


def key(described: dict[str, Any]) -> str:
    """A cell, as text to find it by."""
    return json_text(described)
