"""Examples that arrays and frames are made into, checked as scikit-learn checks them; frames of more than numbers."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from indubio.data.checks import require_numbers
from indubio.data.examples import Examples
from indubio.data.frames import table_of_frame
from indubio.data.numeric_rows import Rows
from indubio.errors import DataError, ShapeError

_REORDERED = "must be in the same order"  # scikit-learn's words, which its contract wants an error for
_OTHER_ORDER = (
    " Put them in order: X[detector.feature_names_in_]; or pass read_table(X), whose columns are matched by name."
)


def examples_of(X: Any, detector: str = "Detector") -> Examples:
    """Training data in any form as examples: arrays and frames of numbers become `Rows`, other frames tables.

    Args:
        X: array, frame, `Table`, `Windows` or `Images`.
        detector: whose, for messages.
    """
    if isinstance(X, Examples):
        return X
    table = table_of_frame(X)
    if table is not None:
        return table
    checks = _checks(detector)
    values = _checked(checks, X, fitting=True)
    names = vars(checks).get("feature_names_in_")
    return Rows(values=values, names=None if names is None else tuple(names))


def checked_array(
    X: Any, names: tuple[str, ...] | None, features: int, detector: str
) -> Float[np.ndarray, "examples ..."]:
    """An array or frame as numbers, of the same features as the training data.

    Args:
        X: to check.
        names: of the features, where the training data came with names.
        features: how many there are.
        detector: whose, for messages.
    """
    checks = _checks(detector)
    checks.n_features_in_ = features
    if names is not None:
        checks.feature_names_in_ = np.array(names, dtype=object)
    return _checked(checks, X, fitting=False)


def _checks(detector: str) -> Any:
    """What scikit-learn's checks read names and numbers of features from, and write them to; called as the detector."""
    return type(detector, (BaseEstimator,), {})()


def _checked(checks: Any, X: Any, *, fitting: bool) -> Float[np.ndarray, "examples ..."]:
    require_numbers(X)
    if getattr(X, "ndim", 2) > 4:
        raise ShapeError(f"give rows (N, D), windows (N, L, K) or images (N, H, W, C), got {X.ndim} axes: {X.shape}.")
    try:
        values: np.ndarray = validate_data(
            checks, X, reset=fitting, dtype=np.float64, allow_nd=True, ensure_all_finite=False
        )
    except ValueError as error:
        raise DataError(f"{str(error).rstrip()}{_OTHER_ORDER if _REORDERED in str(error) else ''}") from error
    return values
