"""Labels of a column: which rows are anomalies.

Numbers are compared as numbers: 1, 1.0 and "1.0" are one label, however a spreadsheet or a CSV file spells it. Texts
are compared as they are; one that differs from a named one by case or spaces only is an error, for it would pass as
good.
"""

from collections.abc import Sequence
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from indubio.errors import DataError, quoted
from indubio.io import Place, is_text, plain
from indubio.texts import english

Label = str | int | float | bool
AnomalyValues = tuple[Label, ...]
WORDS = {"false": False, "true": True}


def anomaly_labels(
    column: pa.Array, name: str, anomaly_values: Sequence[Label] | None, place: Place
) -> Bool[np.ndarray, " rows"]:
    """The column as True for an anomaly; a row without a label is refused.

    Args:
        column: 0 and 1, true and false, or any values where those that mean anomaly are named.
        name: of the column.
        anomaly_values: values that mean anomaly; None takes 1 and true.
        place: where a row is, for error messages.
    """
    labels, unlabelled = partial_labels(column, name, anomaly_values, place)
    if unlabelled is not None:
        raise DataError(
            english(
                '{place}: label column "{name}" is empty ({rows:d} rows are), and what is not labelled is not known '
                'to be good. Fill it, leave these rows out, or do without labels: no `label`, or --label "" where a '
                "model knows the column.",
                place=place(int(np.argmax(unlabelled))),
                name=name,
                rows=np.count_nonzero(unlabelled),
            )
        )
    return labels


def partial_labels(
    column: pa.Array, name: str, anomaly_values: Sequence[Label] | None, place: Place
) -> tuple[Bool[np.ndarray, " rows"], Bool[np.ndarray, " rows"] | None]:
    """Which rows are anomalies, and which have no label; None where all have one."""
    values = label_texts(column)
    encoded = values.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False))
    there = encoded.dictionary.to_pylist()
    means = [_is_anomaly(value, anomaly_values) for value in there]
    for code, (value, meant) in enumerate(zip(there, means, strict=True)):
        if meant is None:
            where = place(int(np.argmax(codes == code)))
            raise DataError(_unclear(where, name, there, means, value, anomaly_values))
    labels = np.array([*map(bool, means), False])[codes]  # what has no code, -1, is the last
    return labels, codes < 0 if values.null_count else None


def label_texts(column: pa.Array) -> pa.Array:
    """The labels of a column, blank ones as null."""
    values = plain(column)
    if not is_text(values.type):
        return values
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(values), ""), None, values)


def is_named(value: Label, anomaly_values: Sequence[Label]) -> bool:
    """Whether a label is one of these."""
    return _key(value) in {_key(one) for one in anomaly_values}


def _is_anomaly(value: Label, anomaly_values: Sequence[Label] | None) -> bool | None:
    """Whether a label means anomaly; None where that is not clear."""
    if anomaly_values is None:
        key = _key(value.strip().lower() if isinstance(value, str) else value)
        return bool(key) if key in (0.0, 1.0) else None
    if is_named(value, anomaly_values):
        return True
    return None if _alike(value, anomaly_values) else False


def _unclear(
    where: str,
    name: str,
    there: Sequence[Label],
    means: Sequence[bool | None],
    value: Label,
    anomaly_values: Sequence[Label] | None,
) -> str:
    if anomaly_values is None:
        return english(
            '{place}: label column "{name}" must hold 0 and 1, but has {values}. Say which values mean anomaly '
            "with `anomaly_values`.",
            place=where,
            name=name,
            values=quoted([one for one, meant in zip(there, means, strict=True) if meant is None][:5]),
        )
    return english(
        '{place}: label column "{name}" has {value}, and `anomaly_values` has {named}, which differs by case or '
        "spaces only. Name both if both mean anomaly, or spell them alike.",
        place=where,
        name=name,
        value=quoted([value]),
        named=quoted(_alike(value, anomaly_values)),
    )


def _alike(value: Label, anomaly_values: Sequence[Label]) -> list[Label]:
    """Named values that differ from this one by case or spaces only."""
    loose = "".join(str(value).casefold().split())
    return [one for one in anomaly_values if "".join(str(one).casefold().split()) == loose]


def _key(value: Label) -> str | float:
    """What is the same for labels that are the same: a number for all that spell it, true and false as 1 and 0."""
    if isinstance(value, str):
        if value.lower() in WORDS:
            return float(WORDS[value.lower()])
        try:
            number = float(value)
        except ValueError:
            return value
        return number if isfinite(number) else value
    return float(value) if isinstance(value, bool | int | float) else str(value)
