"""Where the rows of a table are: the line of a CSV file, or the row of another file."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from indubio.io import Source


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """Rows of some sources, one after the other.

    Args:
        parts: a source, and the numbers of its rows.
    """

    parts: tuple[tuple[Source, range | Int[np.ndarray, " rows"]], ...]

    def __call__(self, row: int) -> str:
        """Where a row is, as a person would look it up."""
        for source, rows in self.parts:
            if row < len(rows):
                return source.place(int(rows[row]))
            row -= len(rows)
        raise IndexError(row)

    def select(self, chosen: Int[np.ndarray, " chosen"]) -> "RowPlaces":
        """Those of the rows with these numbers, which are ascending."""
        parts, first = [], 0
        for source, rows in self.parts:
            own = chosen[(chosen >= first) & (chosen < first + len(rows))] - first
            parts.append((source, np.asarray(rows)[own]))
            first += len(rows)
        return RowPlaces(tuple(parts))

    @classmethod
    def joined(cls, parts: Sequence["RowPlaces | None"]) -> "RowPlaces | None":
        """Several as one; None where some are not known."""
        known = [part for part in parts if part is not None]
        return cls(tuple(one for part in known for one in part.parts)) if len(known) == len(parts) else None
