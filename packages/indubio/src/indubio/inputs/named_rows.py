"""`Table`, `Windows` and `Images` as rows of numbers, matched by name with what was trained on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped

from indubio.errors import DataError, ShapeError, quoted
from indubio.inputs.images import Images
from indubio.inputs.preparation import Beside, Rows
from indubio.inputs.schema import Schema
from indubio.inputs.tables import Table
from indubio.inputs.windows import Windows

NamedExamples = Table | Windows | Images  # examples that know the names of their columns, sensors or channels


def training_schema(data: NamedExamples) -> Schema:
    """The schema of training data, which must hold good examples only."""
    if isinstance(data, Images):
        return Schema.of_values(data.values, data.channels)
    if isinstance(data, Windows):
        _require_good(data.labels, "windows with samples", "windows.inliers()")
        return Schema.of_values(data.values, data.sensors)
    _require_good(data.labels, "rows", "table.inliers()")
    if data.unlabelled is not None and data.unlabelled.any():
        raise DataError(
            f"the training data has {np.count_nonzero(data.unlabelled)} rows without a label, which are not known to "
            "be good: pass table.inliers()."
        )
    return Schema.of(data.features, data.categorical)


def _require_good(labels: Bool[np.ndarray, " examples"] | None, what: str, way_out: str) -> None:
    if labels is not None and labels.any():
        raise DataError(
            f"the training data has {np.count_nonzero(labels)} {what} labelled as anomalies, "
            f"and a detector learns from good examples only: pass {way_out}."
        )


def named_rows(data: NamedExamples, schema: Schema) -> Rows:
    """The rows, windows or images, their columns, sensors or channels in the order of the schema."""
    if isinstance(data, Table):
        if not data.features.num_rows:
            raise DataError("there are no rows.")
        encoded = schema.encode(data.features)
        return Rows(
            values=encoded.values,
            names=schema.encoded_names,
            columns=encoded.columns,
            unseen=encoded.unseen,
            place=data.places,
        )
    called, what = (data.channels, "channels") if isinstance(data, Images) else (data.sensors, "sensors")
    if sorted(called) != sorted(schema.names):
        raise ShapeError(
            f"the {what} do not match those of the training data: {quoted(schema.names)} then, {quoted(called)} now."
        )
    if not len(data.values):
        raise DataError(f"there are no {'images' if isinstance(data, Images) else 'windows'}.")
    order = [called.index(name) for name in schema.names]
    pauses = data.pauses if isinstance(data, Windows) else None
    return Rows(values=data.values[..., order], names=schema.names, pauses=pauses)


def named_examples(data: NamedExamples, schema: Schema) -> Rows:
    """The same, with what came beside them."""
    rows = named_rows(data, schema)
    if isinstance(data, Windows | Images):
        return replace(rows, beside=Beside(passed=passed_through(data)))
    if data.group is None and data.time is None:
        return replace(rows, beside=Beside(passed=data.passed))
    return replace(rows, beside=Beside(groups=data.groups, days=data.days, passed=data.passed))


def passed_through(data: Any) -> pa.Table | None:
    """Columns of the input that belong beside the verdicts: ids and times, or where a window or image came from."""
    if isinstance(data, Windows):
        return data.beside
    if isinstance(data, Images):
        return data.origin
    return data.passed if isinstance(data, Table) else None


def groups_of(data: Any, given: Any = None) -> Shaped[np.ndarray, " examples"] | None:
    """The group of each example, as text: those given, else those of a table with a group column."""
    if given is None:
        return data.groups if isinstance(data, Table) else None
    return np.array([str(name) for name in given], dtype=object)


def training_groups(data: Any, given: Any, examples: int) -> Shaped[np.ndarray, " examples"] | None:
    """The group of each training example, checked."""
    groups = groups_of(data, given)
    if groups is not None and groups.shape != (examples,):
        raise ShapeError(
            "`groups` must have one name per example ({examples}), got {count}.", examples=examples, count=len(groups)
        )
    return groups


def joined(first: Any, second: Any) -> Any:
    """Two sets of examples of the same form as one."""
    if isinstance(first, Table) and isinstance(second, Table):
        return Table.concatenated([first, second])
    if isinstance(first, Windows) and isinstance(second, Windows):
        return Windows.concatenated([first, second])
    if isinstance(first, Images) and isinstance(second, Images):
        return Images.concatenated([first, second])
    if isinstance(first, NamedExamples) or isinstance(second, NamedExamples):
        raise DataError(
            f"examples of one form are needed to put them together, got {type(first).__name__} and "
            f"{type(second).__name__}."
        )
    if hasattr(first, "iloc") and hasattr(second, "iloc"):
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    if hasattr(first, "vstack") and hasattr(second, "vstack"):
        return first.vstack(second)
    try:
        return np.concatenate([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)])
    except (TypeError, ValueError) as error:
        raise ShapeError(f"the examples cannot be put together: {error}.") from None
