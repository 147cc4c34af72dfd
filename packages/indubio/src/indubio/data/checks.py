"""Is this data fit for use: the checks at the border, with errors that name the row, the column and the way out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from indubio.errors import DataError, quoted
from indubio.io import Place
from indubio.texts import english


def require_numbers(frame: Any) -> None:
    """Refuse a DataFrame (pandas or polars) that has columns of text or other non-numbers, and name them."""
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        return
    text = [
        str(name)
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True)
        if str(dtype).lower() in {"string", "str", "utf8", "categorical", "category", "enum"}
        or str(dtype).lower().startswith(("datetime", "date", "time", "duration"))
    ]
    if text:
        raise DataError(
            f"columns {quoted(text)} do not hold numbers. Leave them out, or say what they are: read_table(frame, "
            "categorical=[...], ids=[...])."
        )


def require_finite(
    rows: Float[np.ndarray, "examples ..."],
    names: Sequence[str] | None,
    *,
    missing_allowed: bool,
    place: Place | None = None,
) -> None:
    """Refuse infinite values, and missing ones unless they are allowed; say how many and where the first is.

    Args:
        rows: to look at.
        names: of the columns.
        missing_allowed: whether NaN is.
        place: where the i-th row is; None numbers them.
    """
    if np.isfinite(rows.sum()):  # one pass and no copy when all is well, which is nearly always
        return
    infinite = np.isinf(rows)
    if infinite.any():
        where = _where(infinite, english("infinity (inf)"), names, place)
        raise DataError(english("{where}. Remove them or replace them by numbers.", where=where))
    missing = np.isnan(rows)
    if missing.any() and not missing_allowed:
        where = _where(missing, "NaN", names, place)
        raise DataError(english('{where}. Drop them, or fit with `missing="median"` or "refer".', where=where))


def _where(bad: np.ndarray, what: str, names: Sequence[str] | None, place_of: Place | None) -> str:
    rows = bad.reshape(len(bad), -1).any(axis=1)
    row, *place = np.argwhere(bad)[0]
    if len(place) == 2:
        at = english("step {step:d}, sensor {sensor:d}", step=place[0], sensor=place[1])
    elif len(place) == 3:
        at = english("pixel {x:d}, {y:d}, channel {channel:d}", x=place[0], y=place[1], channel=place[2])
    elif names is None:
        at = english("column {column:d}", column=place[0])
    else:
        at = english('column "{column}"', column=names[place[0]])
    return english(
        "{bad:d} of {rows:d} rows contain {what} (first: {where}, {at})",
        bad=np.count_nonzero(rows),
        rows=len(bad),
        what=what,
        where=english("row {row:d}", row=row) if place_of is None else place_of(int(row)),
        at=at,
    )
