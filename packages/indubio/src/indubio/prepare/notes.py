"""Notes: what was wrong with each example's data, as short text; "" where nothing was."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Shaped

from indubio.message import joined
from indubio.texts import english


def named_flags(
    flags: Bool[np.ndarray, "examples features"], names: Sequence[str] | None, note: str
) -> Shaped[np.ndarray, " examples"]:
    """Which features are flagged, as text: "missing: pressure, flow" of "missing: {names}"; "" where none is."""
    known = [f"x{place}" for place in range(flags.shape[1])] if names is None else list(names)
    notes = np.full(len(flags), "", dtype=object)
    some = flags.any(axis=1)
    if some.any():  # few distinct patterns, even among many examples
        patterns, which = np.unique(flags[some], axis=0, return_inverse=True)
        texts = [english(note, names=", ".join(known[i] for i in np.flatnonzero(one))) for one in patterns]
        notes[some] = np.array(texts, dtype=object)[which.ravel()]
    return notes


def joined_notes(
    first: Shaped[np.ndarray, " examples"], second: Shaped[np.ndarray, " examples"]
) -> Shaped[np.ndarray, " examples"]:
    """Two notes per example as one."""
    noted, also = first != "", second != ""
    if not also.any():
        return np.asarray(first, dtype=object)
    notes = np.where(also, second, first)
    for place in np.flatnonzero(noted & also):
        notes[place] = joined((first[place], second[place]))
    return notes
