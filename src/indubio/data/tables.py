"""Tables: rows of a file or frame, parted into features, columns to pass through, and labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from indubio.data.schema import Categories
from indubio.errors import ConfigError, DataError, quoted


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Rows with what is known of their columns.

    Args:
        features: the columns to learn from.
        categorical: which of them are categories, and which categories there are (None to learn them).
        passed: columns that are only passed through to the output, such as ids and times.
        labels: True for an anomaly, where there are labels.
    """

    features: pa.Table
    categorical: Categories = field(default_factory=dict)
    passed: pa.Table | None = None
    labels: Bool[np.ndarray, " rows"] | None = None

    def __len__(self) -> int:
        return int(self.features.num_rows)

    def select(self, chosen: Bool[np.ndarray, " rows"]) -> "Table":
        """The chosen rows."""
        mask = pa.array(chosen)
        return replace(
            self,
            features=self.features.filter(mask),
            passed=None if self.passed is None else self.passed.filter(mask),
            labels=None if self.labels is None else self.labels[chosen],
        )

    def inliers(self) -> "Table":
        """The rows that are not labelled as anomalies."""
        return self if self.labels is None else self.select(~self.labels)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What the columns of a table are for.

    Args:
        columns: features, in this order; None takes every column that has no other role.
        ids: columns passed through, such as serial numbers.
        time: a time column, passed through.
        label: column of labels, 1 or True for an anomaly.
        anomaly_values: values of the label column that mean anomaly, when it holds something else.
        categorical: columns that hold categories: names, or a mapping from names to the categories there are.
    """

    columns: Sequence[str] | None = None
    ids: Sequence[str] = ()
    time: str | None = None
    label: str | None = None
    anomaly_values: Sequence[Any] | None = None
    categorical: Sequence[str] | Mapping[str, Sequence[str] | None] = ()

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the columns that are passed through."""
        return (*self.ids, *([self.time] if self.time else []))

    def needed(self) -> list[str] | None:
        """Every column to read, None for all."""
        if self.columns is None:
            return None
        return [*self.columns, *self.passed, *([self.label] if self.label else [])]

    def part(self, table: pa.Table, where: str = "the table") -> Table:
        """The table parted by role."""
        names = table.column_names
        asked = [*(self.columns or ()), *self.passed, *([self.label] if self.label else []), *self.categorical]
        unknown = [name for name in dict.fromkeys(asked) if name not in names]
        if unknown:
            raise DataError(f"{where} has no column {quoted(unknown)}; it has {quoted(names)}.")
        taken = {*self.passed, self.label}
        features = list(self.columns) if self.columns is not None else [name for name in names if name not in taken]
        if not features:
            raise ConfigError(f"no feature columns are left in {where}: it has {quoted(names)}.")
        given = self.categorical if isinstance(self.categorical, Mapping) else dict.fromkeys(self.categorical)
        return Table(
            features=table.select(features),
            categorical={name: None if values is None else tuple(values) for name, values in given.items()},
            passed=table.select(list(self.passed)) if self.passed else None,
            labels=None if self.label is None else self.labels(table, where),
        )

    def labels(self, table: pa.Table, where: str = "the table") -> Bool[np.ndarray, " rows"]:
        """The label column as True for an anomaly."""
        if self.label not in table.column_names:
            raise DataError(f"{where} has no column {quoted([self.label])}; it has {quoted(table.column_names)}.")
        values = table.column(self.label)
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy()))
            raise DataError(f'{where}: label column "{self.label}" has {values.null_count} gaps (first: row {row}).')
        if self.anomaly_values is not None:
            named = {str(value) for value in self.anomaly_values}
            return np.array([str(value) in named for value in values.to_pylist()])
        if not pa.types.is_boolean(values.type):
            other = [value for value in pc.unique(values).to_pylist() if value not in (0, 1)]
            if other:
                raise DataError(
                    f'{where}: label column "{self.label}" must hold 0 and 1, but has {quoted(other[:5])}. '
                    "Say which values mean anomaly with `anomaly_values`."
                )
        return np.asarray(values.to_numpy()).astype(bool)


def as_arrow(frame: Any) -> pa.Table:
    """A DataFrame (pandas, polars, any that speaks Arrow), a mapping of columns, or an Arrow table, as Arrow."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, Mapping):
        return pa.table(dict(frame))
    if type(frame).__module__.startswith("pandas"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    if hasattr(frame, "__arrow_c_stream__"):
        return _without_views(pa.table(frame))
    raise DataError(f"cannot read {type(frame).__name__} as a table. Give a path, a DataFrame or an Arrow table.")


def _without_views(table: pa.Table) -> pa.Table:
    # polars hands its text over as views, which many of Arrow's functions cannot take.
    kinds = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))
