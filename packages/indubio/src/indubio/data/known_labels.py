"""Labels beside training examples, as scikit-learn and PyOD write them: which rows are known to be bad."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Bool

from indubio.data.arrays import examples_of
from indubio.data.example_streams import ExampleStream
from indubio.data.examples import Examples
from indubio.errors import ConfigError, DataError, DataWarning, ShapeError
from indubio.message import Message


def good_ones(X: Any, y: Any, groups: Any, detector: str) -> tuple[Any, Any]:
    """The examples, and their groups, without those that labels call anomalies; a warning says how many these are.

    Args:
        X: training data in any form.
        y: labels of it, see `known_bad`; None for none.
        groups: the group of each example; None for none.
        detector: whose, for messages.
    """
    if y is None:
        return X, groups
    if isinstance(X, ExampleStream):
        raise ConfigError(Message("`y` is for examples in memory: name the label column of the files by `label`."))
    examples: Examples = examples_of(X, detector)
    bad = known_bad(y, len(examples))
    if not bad.any():
        return X, groups
    if bad.all():
        raise DataError(f"`y` calls all {len(bad)} rows anomalies, and a detector learns from good examples.")
    warnings.warn(
        f"left out {np.count_nonzero(bad)} of {len(bad)} rows that `y` calls anomalies.",
        DataWarning,
        stacklevel=3,  # of `fit`
    )
    return examples.select(~bad), None if groups is None else np.asarray(groups)[~bad]


def known_bad(y: Any, examples: int) -> Bool[np.ndarray, " examples"]:
    """Which examples labels call anomalies: 1 or True beside 0, or -1 beside 1; none where they say nothing of that.

    Args:
        y: of each example.
        examples: how many there are.

    Examples:
        >>> known_bad([0, 1, 0], 3).tolist(), known_bad([1, -1, 1], 3).tolist()
        ([False, True, False], [False, True, False])
    """
    labels = np.asarray(y)
    if labels.shape[:1] != (examples,):
        raise ShapeError(f"`y` must have one label for each of the {examples} examples, got {labels.shape}.")
    there = np.unique(labels) if labels.dtype.kind in "biuf" else np.array([np.nan])
    if labels.ndim == 1 and np.isin(there, (0, 1)).all():
        return np.asarray((labels == 1) & (0 in there))  # 1 alone is scikit-learn's inlier
    if labels.ndim == 1 and np.isin(there, (-1, 1)).all():
        return np.asarray(labels == -1)
    warnings.warn(
        "`y` is not used: labels are 1 for an anomaly and 0 for a good row, or -1 and 1.", DataWarning, stacklevel=4
    )
    return np.zeros(examples, dtype=bool)
