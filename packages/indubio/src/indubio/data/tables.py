"""Tables: rows of a file or frame, parted into features, columns to pass through, and labels."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Shaped

from indubio.data.examples import Examples, Which
from indubio.data.labels import AnomalyValues, anomaly_labels, partial_labels
from indubio.data.numeric_rows import Rows
from indubio.data.row_places import RowPlaces
from indubio.data.schema import Categories, Schema
from indubio.data.spoilt_numbers import refuse_spoilt, spoilt_number
from indubio.errors import ConfigError, DataError, quoted
from indubio.io import ROWS_AT_ONCE, FileFormat, Place, Source, is_number, is_text, opened
from indubio.settings import Settings
from indubio.texts import english


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Examples):
    """Rows with what is known of their columns.

    Args:
        features: the columns to learn from.
        categorical: which of them are categories, and which categories there are (None to learn them).
        passed: columns that are only passed through to the output, such as ids and times.
        labels: True for an anomaly, where there are labels.
        unlabelled: which rows have no label yet, where they were asked for; None where all have one.
        time: which of the columns that are passed through is the time.
        group: which of them names the group that an example is calibrated with.
        places: where each row is, for error messages; None numbers the rows.
    """

    features: pa.Table
    categorical: Categories = field(default_factory=dict)
    passed: pa.Table | None = None
    labels: Bool[np.ndarray, " rows"] | None = None
    unlabelled: Bool[np.ndarray, " rows"] | None = None
    time: str | None = None
    group: str | None = None
    places: RowPlaces | None = None

    def __len__(self) -> int:
        return int(self.features.num_rows)

    def select(self, which: Which) -> Self:
        """Some of the rows: by a mask, or by their numbers, in the order of these."""
        chosen = self._numbers(which)
        rows, ascending = pa.array(chosen), bool((np.diff(chosen) > 0).all())
        return replace(
            self,
            features=self.features.take(rows),
            passed=None if self.passed is None else self.passed.take(rows),
            labels=None if self.labels is None else self.labels[chosen],
            unlabelled=None if self.unlabelled is None else self.unlabelled[chosen],
            places=None if self.places is None or not ascending else self.places.select(chosen),
        )

    def _joined_with(self, others: Sequence[Self]) -> Self:
        parts = [self, *others]
        labels = [part.labels for part in parts if part.labels is not None]
        passed = [part.passed for part in parts if part.passed is not None]
        return replace(
            self,
            features=pa.concat_tables([part.features for part in parts], promote_options="permissive"),
            passed=pa.concat_tables(passed, promote_options="permissive") if passed else None,
            labels=np.concatenate(labels) if labels else None,
            unlabelled=_joined_masks(parts),
            places=RowPlaces.joined([part.places for part in parts]),
        )

    def training_schema(self) -> Schema:
        """Names, kinds, ranges and categories of the columns, to train with; refused where some rows are not good."""
        self._require_good("rows", "table.inliers()")
        return Schema.of(self.features, self.categorical)

    def rows(self, schema: Schema) -> Rows:
        """The rows as numbers, their columns in the order of the schema, and one for each category."""
        if not len(self):
            raise DataError("there are no rows.")
        encoded = schema.encode(self.features)
        return Rows(
            values=encoded.values,
            names=schema.encoded_names,
            columns_of=encoded.columns,
            unseen=encoded.unseen,
            place=self.places,
        )

    def without_labels(self) -> Self:
        """These rows, nothing being known of which are good."""
        return replace(self, labels=None, unlabelled=None)

    def bare(self) -> Self:
        """This table with its features alone."""
        return replace(self, passed=None, labels=None, unlabelled=None)

    @property
    def beside(self) -> pa.Table | None:
        """The columns that are passed through."""
        return self.passed

    @property
    def columns(self) -> pa.Table:
        """The columns of the features, by name."""
        return self.features

    @property
    def missing(self) -> Counter[str]:
        """How many values are missing, of each feature that lacks any."""
        counts: Counter[str] = Counter()
        for name, column in zip(self.features.column_names, self.features.columns, strict=True):
            counts[name] += pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0
        return +counts

    @property
    def groups(self) -> Shaped[np.ndarray, " rows"] | None:
        """The name of each row's group; None without a group column."""
        if self.group is None or self.passed is None:
            return None
        return np.array([str(name) for name in self.passed.column(self.group).to_pylist()], dtype=object)

    @property
    def runs(self) -> Shaped[np.ndarray, " rows"] | None:
        """The number of the file that each row is from; None where that is not known."""
        if self.places is None:
            return None
        files = {id(source): place for place, (source, _) in reversed(list(enumerate(self.places.parts)))}
        numbers = [np.full(len(rows), files[id(source)]) for source, rows in self.places.parts]
        found: Shaped[np.ndarray, " rows"] = np.concatenate(numbers)
        return found if len(found) == len(self) else None

    @property
    def days(self) -> Shaped[np.ndarray, " rows"] | None:
        """The calendar day of each row; None without a time column that holds dates or times."""
        if self.time is None or self.passed is None:
            return None
        times = self.passed.column(self.time)
        if not (pa.types.is_timestamp(times.type) or pa.types.is_date(times.type)) or times.null_count:
            return None
        return np.asarray(pc.cast(times, pa.date32()).to_numpy())


@dataclass(frozen=True, kw_only=True)
class Roles(Settings):
    """What the columns of a table are for.

    Args:
        columns: features, in this order; None takes every column that has no other role.
        exclude: of every column, those that are neither features nor passed through.
        ids: columns passed through, such as serial numbers.
        time: a time column, passed through.
        group: a column that names the machine, product or other group within which p-values hold; passed through.
        label: column of labels, 1 or True for an anomaly.
        anomaly_values: values of the label column that mean anomaly, when it holds something else.
        categorical: columns that hold categories: names, or a mapping from names to the categories there are.
    """

    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    time: str | None = None
    group: str | None = None
    label: str | None = None
    anomaly_values: AnomalyValues | None = None
    categorical: tuple[str, ...] | dict[str, tuple[str, ...] | None] = ()

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the columns that are passed through."""
        named = (name for name in (self.time, self.group) if name)
        return tuple(dict.fromkeys((*self.ids, *named)))

    def needed(self, there: Sequence[str]) -> list[str]:
        """Every column to read, of those that are there."""
        if self.columns is None:
            return [name for name in there if name not in self.exclude]
        return list(dict.fromkeys([*self.columns, *self.passed, *([self.label] if self.label else [])]))

    def read_as(self, name: str, looks_like: pa.DataType) -> pa.DataType | None:
        """What a column of a CSV file is read as, given what its first rows look like; None leaves it to the reader.

        Ids and categories are text: "007" is not 7. Whole numbers are read as numbers, for a later row may have digits.
        """
        if name in self.ids or name == self.group or name in self.categorical:
            return pa.string()
        if name in (self.time, self.label):
            return None
        return pa.float64() if pa.types.is_integer(looks_like) or pa.types.is_null(looks_like) else looks_like

    def part(
        self,
        table: pa.Table,
        where: str = "the table",
        places: "RowPlaces | None" = None,
        *,
        unlabelled: bool = False,
    ) -> Table:
        """The table with its columns divided by role: features, columns to pass through, labels.

        Args:
            table: all columns.
            where: it is from, for error messages.
            places: where each row is, for error messages.
            unlabelled: whether rows may have no label.
        """
        names = table.column_names
        asked = [*(self.columns or ()), *self.passed, *([self.label] if self.label else []), *self.categorical]
        unknown = [name for name in dict.fromkeys(asked) if name not in names]
        if unknown:
            raise DataError(f"{where} has no column {quoted(unknown)}; it has {quoted(names)}.")
        taken = {*self.passed, *self.exclude, self.label}
        features = list(self.columns) if self.columns is not None else [name for name in names if name not in taken]
        if not features:
            raise ConfigError(f"no feature columns are left in {where}: it has {quoted(names)}.")
        given = self.categorical if isinstance(self.categorical, dict) else dict.fromkeys(self.categorical)
        labels, without = None, None
        if self.label is not None:
            labels, without = self.partial_labels(table, where, places)
            if without is not None and not unlabelled:
                labels = self.labels(table, where, places)
        return Table(
            features=table.select(features),
            categorical=given,
            passed=table.select(list(self.passed)) if self.passed else None,
            labels=labels,
            unlabelled=without,
            time=self.time,
            group=self.group,
            places=places,
        )

    def labels(
        self, table: pa.Table, where: str = "the table", place: Place | None = None
    ) -> Bool[np.ndarray, " rows"]:
        """The label column as True for an anomaly.

        Args:
            table: with the column.
            where: it is from, for error messages.
            place: where a row is, for error messages; None numbers the rows.
        """
        return anomaly_labels(*self._label_column(table, where, place))

    def partial_labels(
        self, table: pa.Table, where: str = "the table", place: Place | None = None
    ) -> tuple[Bool[np.ndarray, " rows"], Bool[np.ndarray, " rows"] | None]:
        """Which rows are anomalies, and which have no label; None where all have one."""
        return partial_labels(*self._label_column(table, where, place))

    def _label_column(
        self, table: pa.Table, where: str, place: Place | None
    ) -> tuple[pa.Array, str, AnomalyValues | None, Place]:
        assert self.label is not None
        if self.label not in table.column_names:
            raise DataError(
                english(
                    "{file} has no column {name}; it has {names}.",
                    file=where,
                    name=quoted([self.label]),
                    names=quoted(table.column_names),
                )
            )
        column = table.column(self.label).combine_chunks()
        return column, self.label, self.anomaly_values, place or (lambda row: f"{where}: row {row}")


def read_table(source: Any, *, file_format: FileFormat | None = None, **roles: Any) -> Table:
    """A table from files or from memory.

    Args:
        source: a text (CSV), Parquet or spreadsheet file, a folder or pattern of them, several paths, a DataFrame
            (pandas, polars) or an Arrow table.
        file_format: separator, decimal mark, encoding, sheet; None finds them out.
        roles: fields of `Roles`: columns, ids, time, group, label, anomaly_values, categorical.
    """
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in roles.items()}
    files = opened(source, file_format)
    parts = list(stream_tables(files, Roles(**given)))
    if not parts:
        raise DataError(english("{file}: there are no rows.", file=str(files)))
    return Table.joined(parts)


def stream_tables(
    source: Any,
    roles: Roles,
    *,
    rows_at_once: int = ROWS_AT_ONCE,
    file_format: FileFormat | None = None,
    unlabelled: bool = False,
) -> Iterator[Table]:
    """Tables part by part, for what does not fit into memory; `unlabelled` takes rows without a label too."""
    files = opened(source, file_format)
    for file in files:
        _refuse_other_columns(files[0], file, roles)
        yield from stream_file(file, roles, rows_at_once=rows_at_once, unlabelled=unlabelled)


def stream_file(file: Source, roles: Roles, *, rows_at_once: int, unlabelled: bool = False) -> Iterator[Table]:
    """One file, so many rows at a time."""
    wanted = roles.needed(file.schema.names)
    file.require(wanted)
    if roles.columns is None and (unknown := [name for name in roles.exclude if name not in file.schema.names]):
        file.require(unknown)
    if "" in wanted and pa.types.is_null(file.schema.field("").type):
        raise DataError(
            "{name}: a column has no name and no values: lines end with a separator. Remove it, or name the "
            "other columns by `columns`.",
            name=file.name,
        )
    taken = {*roles.passed, roles.label, *roles.categorical}
    refuse_spoilt(
        file, [name for name in wanted if name not in taken], english("name the column in `categorical` or `ids`")
    )
    types = {name: roles.read_as(name, file.schema.field(name).type) for name in wanted}
    first = 0
    for table in file.tables(types, rows_at_once):
        places = RowPlaces(((file, range(first, first + table.num_rows)),))
        yield roles.part(table, file.name, places, unlabelled=unlabelled)
        first += table.num_rows


def _joined_masks(parts: Sequence[Table]) -> Bool[np.ndarray, " rows"] | None:
    """Which rows of several parts have no label; None where all have one."""
    if all(part.unlabelled is None for part in parts):
        return None
    masks = [np.zeros(len(part), dtype=bool) if part.unlabelled is None else part.unlabelled for part in parts]
    return np.concatenate(masks)


def _refuse_other_columns(first: Source, file: Source, roles: Roles) -> None:
    """Refuse a file that lacks columns of the first one, or has text for its numbers."""
    if file is first or roles.columns is not None:
        return
    there, others = file.schema, {*roles.passed, *roles.exclude, roles.label, *roles.categorical}
    for known in first.schema:
        if known.name in others:
            continue
        if known.name not in there.names:
            raise DataError(f'{file.name}: no column "{known.name}", which {first.name} has.')
        if is_number(known.type) and is_text(there.field(known.name).type) and not spoilt_number(file, [known.name]):
            raise DataError(f'{file.name}: column "{known.name}" holds text, and in {first.name} numbers.')
