"""Labels of a column: which rows are anomalies."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from indubio.errors import DataError, quoted
from indubio.io.arrow_columns import Place, first_null, plain
from indubio.texts import english

AnomalyValues = tuple[str | int | float | bool, ...]
KNOWN = {0: False, 1: True, "0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


def anomaly_labels(
    column: pa.Array, name: str, anomaly_values: Sequence[str | int | float | bool] | None, place: Place
) -> Bool[np.ndarray, " rows"]:
    """The column as True for an anomaly.

    Args:
        column: 0 and 1, true and false, or any values where those that mean anomaly are named.
        name: of the column.
        anomaly_values: values that mean anomaly; None takes 1 and true.
        place: where a row is, for error messages.
    """
    values = plain(column)
    if values.null_count:
        raise DataError(
            english(
                '{place!s}: label column "{name}" is empty ({rows:d} rows are). Fill it, or leave these rows out.',
                place=place(first_null(values)),
                name=name,
                rows=values.null_count,
            )
        )
    if anomaly_values is not None:
        named = {str(value) for value in anomaly_values}
        return np.array([str(value) in named for value in values.to_pylist()], dtype=bool)
    if pa.types.is_boolean(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)
    texts = [value.strip().lower() if isinstance(value, str) else value for value in values.to_pylist()]
    other = [value for value in dict.fromkeys(texts) if value not in KNOWN]
    if other:
        raise DataError(
            english(
                '{place!s}: label column "{name}" must hold 0 and 1, but has {values}. Say which values mean anomaly '
                "with `anomaly_values`.",
                place=place(texts.index(other[0])),
                name=name,
                values=quoted(other[:5]),
            )
        )
    return np.array([KNOWN[value] for value in texts], dtype=bool)
