"""Suspects: the training examples that a person should look at first, and what the person said of them.

A table is written with the examples that lie furthest outside of the bulk of all; somebody fills its column `bad` with
1 or 0, and what is bad is left out of training and calibration. Examples are known by their values, so the
training data may be put in another order, or added to, between the two.
"""

import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from indubio.data import Examples, examples_of
from indubio.detector.detector import Detector
from indubio.errors import ConfigError, DataError, quoted
from indubio.io import dict_rows
from indubio.prepare import TrainingExamples

KEY, BAD, SCORE = "suspect", "bad", "score"
SAID = {"1": True, "true": True, "yes": True, "bad": True, "0": False, "false": False, "no": False, "good": False}


def suspects(detector: Detector, X: Any, most: int = 20) -> pa.Table:
    """The training examples that look most like anomalies, the worst first, as a table to label.

    Args:
        detector: its settings say how examples are read and filled in; it need not be fitted, and stays as it is.
        X: the training examples, but for a stream.
        most: how many.

    Returns:
        The columns `suspect` (what the example is known by), `bad` (empty, to be filled in) and `score`, then ids and
        times or where a window came from, then the features of a table.

    Examples:
        >>> import numpy as np
        >>> from indubio import Detector
        >>> rows = np.random.default_rng(0).normal(size=(60, 3))
        >>> rows[17] = 30
        >>> found = suspects(Detector(), rows, most=2)
        >>> found.column_names, found["x0"][0].as_py()
        (['suspect', 'bad', 'score', 'x0', 'x1', 'x2'], 30.0)
    """
    if most < 1:
        raise ConfigError("`most` must be at least 1, got {most}.", most=most)
    scores = detector.suspicion(X)
    places = np.argsort(-scores, kind="stable")[:most]
    examples = TrainingExamples.of(X, type(detector).__name__)
    chosen = examples.given.select(places)
    columns = {
        KEY: [row_digest(row) for row in examples.rows.values[places]],
        BAD: [""] * len(places),
        SCORE: scores[places],
    }
    for table in (chosen.beside, chosen.columns):
        columns |= {} if table is None else {name: table[name] for name in table.column_names if name not in columns}
    return pa.table(columns)


def found_bad(X: Any, labelled: str | Path) -> Bool[np.ndarray, " examples"]:
    """Which training examples a person found to be bad.

    Args:
        X: the training examples.
        labelled: a CSV file that `suspects` was written to, its column `bad` filled in; an empty field says nothing.
    """
    said = _read(Path(labelled))
    keys = np.array([row_digest(row) for row in TrainingExamples.of(X, "Detector").rows.values], dtype=object)
    lost = [key for key in said if key not in set(keys)]
    if lost:
        raise DataError(
            f"{labelled}: {len(lost)} of {len(said)} labelled examples are not among the training examples (first: "
            f"{lost[0]}). Give the data that they were found in."
        )
    bad = [key for key, is_bad in said.items() if is_bad]
    return np.isin(keys, np.array(bad, dtype=object)) if bad else np.zeros(len(keys), dtype=bool)


def without_bad(X: Any, labelled: str | Path) -> Examples:
    """The training examples without those that a person found to be bad, as `fit` takes them; see `found_bad`."""
    examples = examples_of(X)
    return examples.select(~found_bad(examples, labelled))


def row_digest(row: np.ndarray) -> str:
    """Of all values of an example; the same values have the same key."""
    return hashlib.sha256(np.ascontiguousarray(row, np.float64).tobytes()).hexdigest()[:16]


def _read(path: Path) -> dict[str, bool]:
    """What was said of each key; empty fields say nothing."""
    try:
        lines = list(dict_rows(path.read_bytes(), str(path)))
    except (OSError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None
    if not lines or not {KEY, BAD} <= set(lines[0]):
        raise DataError(f'{path}: there must be rows with the columns "{KEY}" and "{BAD}", as `suspects` wrote them.')
    said = {line[KEY]: (line[BAD] or "").strip().lower() for line in lines}
    other = sorted({text for text in said.values() if text and text not in SAID})
    if other:
        raise DataError(f'{path}: the column "{BAD}" must hold 1, 0 or nothing, but has {quoted(other[:5])}.')
    return {key: SAID[text] for key, text in said.items() if text}
