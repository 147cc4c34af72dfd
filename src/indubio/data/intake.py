"""From raw rows to what the network gets, with notes on what was wrong with them.

A bad value is never scored silently: it is an error, or it is filled in and noted, or the example is referred.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Shaped

from indubio.data.checks import require_finite
from indubio.data.missing import filled, medians
from indubio.data.scaling import FittedMinMax, MinMax
from indubio.errors import DataError

Missing = Literal["error", "median", "refer"]
Unseen = Literal["error", "refer"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Examples as they came in, as numbers.

    Args:
        values: (N, D) or (N, L, K), NaN where a value is missing.
        names: of the features or sensors, where they have names.
        unseen: per example, the categories that were not in the training data, else "".
    """

    values: Float[np.ndarray, "examples ..."]
    names: tuple[str, ...] | None = None
    unseen: Shaped[np.ndarray, " examples"] | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Examples as the network gets them.

    Args:
        values: scaled, without missing values, float32.
        notes: per example, what was wrong with its data, else "".
        bad: which examples must be referred for it.
    """

    values: Float[np.ndarray, "examples ..."]
    notes: Shaped[np.ndarray, " examples"]
    bad: Bool[np.ndarray, " examples"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Intake:
    """What was learned of the training rows before any network saw them.

    Args:
        scaling: the ranges of the training rows.
        medians: of each feature or sensor; None when missing values are an error.
        missing: what happens to missing values.
        unseen: what happens to new categories.
    """

    scaling: FittedMinMax
    medians: Float[np.ndarray, " features"] | None
    missing: Missing
    unseen: Unseen

    @classmethod
    def fit(cls, rows: Rows, *, scaling: MinMax, missing: Missing, unseen: Unseen) -> "Intake":
        """Learn ranges and medians."""
        require_finite(rows.values, rows.names, missing_allowed=missing != "error")
        middle = None if missing == "error" else medians(rows.values)
        return cls(scaling=scaling.fit(rows.values), medians=middle, missing=missing, unseen=unseen)

    def prepare(self, rows: Rows) -> Prepared:
        """Fill in, scale, and note what was wrong."""
        require_finite(rows.values, rows.names, missing_allowed=self.missing != "error")
        notes, bad = np.full(len(rows), "", dtype=object), np.zeros(len(rows), dtype=bool)
        values = rows.values
        if self.medians is not None:
            notes, bad = self._missing(rows)
            values = filled(values, self.medians)
        if rows.unseen is not None and (new := rows.unseen != "").any():
            self._refuse_unseen(rows.unseen)
            notes = joined_notes(notes, np.where(new, "unseen: " + rows.unseen, ""))
            bad = bad | new
        return Prepared(values=self.scaling.scaled(values), notes=notes, bad=bad)

    def _missing(self, rows: Rows) -> tuple[Shaped[np.ndarray, " examples"], Bool[np.ndarray, " examples"]]:
        absent = np.isnan(rows.values)
        absent = absent if absent.ndim == 2 else absent.any(axis=1)
        notes = named_flags(absent, rows.names, "missing")
        return notes, (notes != "") if self.missing == "refer" else np.zeros(len(rows), dtype=bool)

    def _refuse_unseen(self, unseen: Shaped[np.ndarray, " examples"]) -> None:
        if self.unseen == "error":
            row = int(np.argmax(unseen != ""))
            raise DataError(
                f"{np.count_nonzero(unseen)} of {len(unseen)} rows hold a category that the training data did not have "
                f'(first: row {row}, {unseen[row]}). Train with it, or pass unseen="refer".'
            )


def named_flags(
    flags: Bool[np.ndarray, "examples features"], names: Sequence[str] | None, word: str
) -> Shaped[np.ndarray, " examples"]:
    """Which features are flagged, as text: "missing: pressure, flow"; "" where none is."""
    known = [str(place) for place in range(flags.shape[1])] if names is None else list(names)
    notes = np.full(len(flags), "", dtype=object)
    some = flags.any(axis=1)
    if some.any():  # few distinct patterns, even among many examples
        patterns, which = np.unique(flags[some], axis=0, return_inverse=True)
        texts = [f"{word}: {', '.join(known[i] for i in np.flatnonzero(pattern))}" for pattern in patterns]
        notes[some] = np.array(texts, dtype=object)[which.ravel()]
    return notes


def joined_notes(
    first: Shaped[np.ndarray, " examples"], second: Shaped[np.ndarray, " examples"]
) -> Shaped[np.ndarray, " examples"]:
    """Two notes per example as one."""
    separator = np.where((first != "") & (second != ""), "; ", "")
    return np.asarray(first + separator.astype(object) + second, dtype=object)
