"""Frames with columns of categories and of times, which are no numbers: taken as the commands take such columns."""

from collections.abc import Sequence
from typing import Any

from indubio.data.tables import Table, read_table

CATEGORIES, TIMES = ("category", "categorical", "enum"), ("datetime", "date")


def table_of_frame(frame: Any, categorical: Sequence[str] = ()) -> Table | None:
    """A DataFrame (pandas or polars) as a table: categories are learned, times are passed on to the verdicts.

    None for what is no frame, and for one of numbers, which goes by scikit-learn's contract.

    Args:
        frame: any data.
        categorical: columns that are categories whatever their type is.
    """
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        return None
    kinds = {str(name): str(kind).lower() for name, kind in zip(frame.columns, frame.dtypes, strict=True)}
    chosen = [name for name, kind in kinds.items() if kind.startswith(CATEGORIES) or name in categorical]
    times = [name for name, kind in kinds.items() if kind.startswith(TIMES)]
    if not chosen and not times:
        return None
    return read_table(frame, categorical=chosen, time=times[0] if times else None, ids=times[1:])
