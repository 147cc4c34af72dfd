"""The schema of the training data: names, order, kinds, ranges and categories of the columns.

New tables are matched by name: another order is put right, what is missing, extra or of another kind is an error that
lists it. Categories become one column each (one-hot), in the order of the schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Shaped

from indubio.errors import DataError, ShapeError, quoted
from indubio.io import is_number
from indubio.message import joined
from indubio.texts import english

Kind = Literal["number", "category"]
EXTRA = english("not in the training data: {names} (leave out, or pass through as ids)")
Categories = Mapping[str, tuple[str, ...] | None]  # column -> its categories, None to learn them


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the training data.

    Args:
        name: as in the file or frame.
        kind: a number, or one of some categories.
        smallest: smallest training value of a number; None where it is not known.
        largest: largest training value.
        categories: of a category, in the order of the one-hot columns.
    """

    name: str
    kind: Kind = "number"
    smallest: float | None = None
    largest: float | None = None
    categories: tuple[str, ...] = ()

    @cached_property
    def encoded(self) -> tuple[str, ...]:
        """Names of the matrix columns that this column becomes."""
        return (self.name,) if self.kind == "number" else tuple(f"{self.name}={c}" for c in self.categories)


@dataclass(frozen=True)
class Encoded:
    """A table as a matrix.

    Args:
        values: numbers and one-hot columns; NaN where a value is missing.
        unseen: per example, the categories that the training data did not have, such as "colour=green"; else "".
        columns: of the table, which each feature is of.
    """

    values: Float[np.ndarray, "examples features"]
    unseen: Shaped[np.ndarray, " examples"]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Schema:
    """Columns of the training data, in order."""

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, table: pa.Table, categorical: Categories) -> "Schema":
        """The schema of a training table.

        Args:
            table: feature columns only.
            categorical: columns to read as categories.
        """
        _refuse_text(table, categorical)
        unknown = [name for name in categorical if name not in table.column_names]
        if unknown:
            raise DataError(
                f"categorical columns {quoted(unknown)} are not there; there are {quoted(table.column_names)}."
            )
        return cls(tuple(_column(name, table.column(name), categorical) for name in table.column_names))

    @classmethod
    def of_values(cls, values: Float[np.ndarray, "examples ..."], names: tuple[str, ...] | None) -> "Schema":
        """The schema of an array: features of (N, D), sensors of (N, L, K) or channels of (N, H, W, C).

        Without names they are x0, x1, ...
        """
        axes = tuple(range(values.ndim - 1))
        known = np.isfinite(values)
        smallest = np.where(known, values, np.inf).min(axis=axes, initial=np.inf)
        largest = np.where(known, values, -np.inf).max(axis=axes, initial=-np.inf)
        called = names or tuple(f"x{place}" for place in range(values.shape[-1]))
        return cls(
            tuple(
                Column(name=name, smallest=float(low), largest=float(high)) if low <= high else Column(name=name)
                for name, low, high in zip(called, smallest, largest, strict=True)
            )
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of training."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the matrix columns: numbers keep theirs, categories become one column each."""
        return tuple(name for column in self.columns for name in column.encoded)

    @cached_property
    def encoded_columns(self) -> tuple[str, ...]:
        """The column of the table that each matrix column is of."""
        return tuple(column.name for column in self.columns for _ in column.encoded)

    def encode(self, table: pa.Table) -> Encoded:
        """The table as a matrix with the columns of the training data."""
        self._check(table)
        values = np.empty((table.num_rows, len(self.encoded_names)))
        unseen = np.full(table.num_rows, "", dtype=object)
        at, columns = 0, list[str]()
        for column in self.columns:
            width = len(column.encoded)
            columns += [column.name] * width
            if column.kind == "number":
                values[:, at] = _numbers(table.column(column.name))
            else:
                new = _one_hot(table.column(column.name), column, values[:, at : at + width])
                _note(unseen, new)
            at += width
        return Encoded(values, unseen, tuple(columns))

    def _check(self, table: pa.Table) -> None:
        known, types = [c.name for c in self.columns], dict(zip(table.column_names, table.schema.types, strict=True))
        missing = [name for name in known if name not in types]
        extra = sorted(types.keys() - set(known), key=table.column_names.index)
        changed = [
            english('"{column}" was a number and is now {kind}', column=column.name, kind=types[column.name])
            for column in self.columns
            if column.kind == "number" and column.name in types and not is_number(types[column.name])
        ]
        problems = [
            *([english("missing: {names}", names=quoted(missing))] if missing else []),
            *([english(EXTRA, names=quoted(extra))] if extra else []),
            *changed,
        ]
        if problems:
            raise ShapeError(
                english("the columns do not match those of the training data: {why}.", why=joined(problems))
            )


def _column(name: str, values: pa.ChunkedArray, categorical: Categories) -> Column:
    if name not in categorical:
        bounds = pc.min_max(values)
        smallest, largest = bounds["min"].as_py(), bounds["max"].as_py()
        if smallest is None:
            return Column(name=name)
        return Column(name=name, smallest=float(smallest), largest=float(largest))
    given = categorical[name]
    found = sorted(value for value in pc.unique(_text(values)).to_pylist() if value is not None)
    if given is None:
        return Column(name=name, kind="category", categories=tuple(found))
    new = [value for value in found if value not in given]
    if new:
        raise DataError(f'column "{name}" holds {quoted(new)}, not among the categories given: {quoted(given)}.')
    return Column(name=name, kind="category", categories=tuple(given))


def _numbers(values: pa.ChunkedArray) -> Float[np.ndarray, " examples"]:
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _one_hot(
    values: pa.ChunkedArray, column: Column, out: Float[np.ndarray, "examples categories"]
) -> Shaped[np.ndarray, " examples"]:
    """Fill `out`; give the new category of each example as text, "" where it is known or missing."""
    text = _text(values)
    place = pc.index_in(text, value_set=pa.array(column.categories, pa.string())).fill_null(-1).to_numpy()
    absent = text.is_null().to_numpy()
    known = np.flatnonzero(place >= 0)
    out[:] = 0.0
    out[known, place[known]] = 1.0
    out[absent] = np.nan
    new = np.full(len(place), "", dtype=object)
    for row in np.flatnonzero((place < 0) & ~absent):
        new[row] = f"{column.name}={text[int(row)].as_py()}"
    return new


def _note(notes: np.ndarray, new: np.ndarray) -> None:
    both: Bool[np.ndarray, " examples"] = (notes != "") & (new != "")
    notes[both] += ", "
    notes += new


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = pc.cast(values, values.type.value_type)
    return pc.cast(values, pa.string())


def _refuse_text(table: pa.Table, categorical: Categories) -> None:
    text = [field.name for field in table.schema if not is_number(field.type) and field.name not in categorical]
    if text:
        raise DataError(
            english(
                "columns {names} do not hold numbers. Leave them out by `exclude`, name them in `categorical`, or pass "
                "them through as `ids` or `time`.",
                names=quoted(text),
            )
        )
