"""What the evaluation accepts, and what it says when it does not.

Every public function passes its arrays through here once, at the border; inside, labels are booleans and
everything else is float64.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Num
from numpy.typing import ArrayLike

from indubio.errors import ConfigError, DataError, ShapeError

Binary: TypeAlias = Bool[np.ndarray, " examples"] | Num[np.ndarray, " examples"] | Sequence[int]
"""0 or False: inlier, 1 or True: anomaly."""

Values: TypeAlias = Num[np.ndarray, " examples"] | Sequence[float]
"""One score or uncertainty for each example."""


def checked_binary(name: str, values: ArrayLike) -> Bool[np.ndarray, " examples"]:
    """Labels or predictions as booleans: True is an anomaly.

    Args:
        name: of the argument, for what is said of it.
        values: 0 and 1, or booleans.

    Example:
        >>> checked_binary("labels", [0, 1]).tolist()
        [False, True]
    """
    array = _numbers(name, values)
    if array.dtype == np.bool_:
        return array
    valid = (array == 0) | (array == 1)
    if not np.all(valid):
        first = int(np.argmin(valid))
        way_out = f" From scikit-learn's signs make it `{name} == -1`." if array[first] == -1 else ""
        raise DataError(f"`{name}` must be 0 (inlier) or 1 (anomaly), got {array[first]} at index {first}.{way_out}")
    return np.asarray(array == 1)


def checked_values(name: str, values: ArrayLike) -> Float[np.ndarray, " examples"]:
    """Uncertainties or scores as float64; infinities have a place in the order, NaN has none."""
    array = _numbers(name, values).astype(np.float64, copy=False)
    missing = np.isnan(array)
    if missing.any():
        raise DataError(
            f"`{name}`: {missing.sum()} of {array.size} values are NaN (first: index {np.argmax(missing)}). "
            f"Leave these examples out of every array."
        )
    return array


def check_same_length(**arrays: np.ndarray | None) -> None:
    """Refuse arrays of different lengths; those that are None are passed over."""
    lengths = {name: array.size for name, array in arrays.items() if array is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` has {length}" for name, length in lengths.items())
        raise ShapeError(f"every array must have one entry per example: {listed}.")


def check_at_least_one(**settings: int) -> None:
    """Refuse settings below 1, by name."""
    for name, value in settings.items():
        if value < 1:
            raise ConfigError(f"`{name}` must be at least 1, got {value}.")


def _numbers(name: str, values: ArrayLike) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ShapeError(f"`{name}` must have one dimension, one entry per example, got shape {array.shape}.")
    if array.size == 0:
        raise DataError(f"`{name}` is empty: there is nothing to evaluate.")
    if array.dtype.kind not in "biuf":
        raise DataError(f"`{name}` must be numbers, got an array of dtype {array.dtype}.")
    return array
