"""Missing values: refused by default, or replaced by the training median of the feature or sensor."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from indubio.errors import DataError


def medians(
    rows: Float[np.ndarray, "examples ..."], columns: Sequence[str] | None = None
) -> Float[np.ndarray, " features"]:
    """Median of every feature, or of every sensor or channel over all time or pixels, of the values that are there.

    Args:
        rows: NaN where missing.
        columns: name of the column that each feature is of, for messages; None numbers them.
    """
    axes = tuple(range(rows.ndim - 1))
    absent = np.isnan(rows).all(axis=axes)
    if absent.any():
        place = int(np.argmax(absent))
        name = place if columns is None else f'"{columns[place]}"'
        raise DataError(f"column {name} has no value at all, so it has no median. Leave the column out.")
    return np.asarray(np.nanmedian(rows, axis=axes))


def filled(
    rows: Float[np.ndarray, "examples ..."], values: Float[np.ndarray, " features"]
) -> Float[np.ndarray, "examples ..."]:
    """The rows with every missing value replaced."""
    return np.where(np.isnan(rows), values, rows)
