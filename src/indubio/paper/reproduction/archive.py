"""The judgements of many cells in one small text file: what is kept of a run where its raw scores are too large.

    cells-odds-authors.jsonl      a line for each cell: what it is, what it cost, W and Base of everything judged

A cell that has its line here is done: tables and tests are made of it, and a run on another machine goes on from there.
Only figures of single examples need raw scores. Numbers are rounded to a thousandth of a percent.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from indubio.errors import DataError
from indubio.io.json_text import json_text
from indubio.io.whole_files import whole_file

DIGITS = 5
Plain = dict[str, Any]  # a cell's record as plain values, as its own file has it


def read_archive(path: Path) -> dict[str, Plain]:
    """The records in a file, by the description of their cells; none where there is no file."""
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            plain = _unpacked(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path}, line {number}: this is not the result of a cell ({error}). Delete the line, and the cell is "
                "run again."
            ) from None
        found[key(plain["cell"])] = plain
    return found


def write_archive(path: Path, records: Iterable[Plain]) -> None:
    """Put records into a file, in the place of what it had of the same cells; the others stay."""
    kept = read_archive(path) | {key(plain["cell"]): plain for plain in records}
    with whole_file(path) as stream:
        stream.writelines(f"{json_text(_packed(kept[name]), compact=True)}\n".encode() for name in sorted(kept))


def key(described: dict[str, Any]) -> str:
    """A cell, as text to find it by."""
    return json_text(described)


def _packed(plain: Plain) -> Plain:
    """W by metric and conversion as plain lists, Base before them: names of uncertainties would be most of the file."""
    names = list(dict.fromkeys(uncertainty for _, uncertainty, *_ in plain["judged"]))
    judged: dict[str, dict[str, list[float | None]]] = {}
    for conversion, uncertainty, metric, weighted_average, base in plain["judged"]:
        of = judged.setdefault(metric, {}).setdefault(conversion, [_rounded(base), *[None] * len(names)])
        of[1 + names.index(uncertainty)] = _rounded(weighted_average)
    return plain | {"uncertainties": names, "judged": judged}


def _unpacked(packed: Plain) -> Plain:
    names = packed["uncertainties"]
    judged = [
        [conversion, uncertainty, metric, weighted_average, base]
        for metric, conversions in packed["judged"].items()
        for conversion, (base, *averages) in conversions.items()
        for uncertainty, weighted_average in zip(names, averages, strict=True)
    ]
    return {name: value for name, value in packed.items() if name != "uncertainties"} | {"judged": judged}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
