"""Rows: examples as numbers, in the order of the columns that a model was trained on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, Shaped

from indubio.data.examples import Examples, Which, all_or_none
from indubio.data.schema import Schema
from indubio.errors import DataError, ShapeError, quoted
from indubio.io import Place


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows(Examples):
    """Examples as numbers: what arrays and frames are made into, and what tables, windows and images become.

    Args:
        values: (N, D), (N, L, K) or (N, H, W, C), NaN where a value is missing.
        names: of the features, sensors or channels, where they have names.
        columns_of: the column of a table that each feature is of; None where they are the features.
        unseen: per example, the categories that were not in the training data, else "".
        pauses: seconds of the longest pause within each window, 0 for none; None where times are not known.
        place: where the i-th is, for error messages; None numbers them.
    """

    values: Float[np.ndarray, "examples ..."]
    names: tuple[str, ...] | None = None
    columns_of: tuple[str, ...] | None = None
    unseen: Shaped[np.ndarray, " examples"] | None = None
    pauses: Float[np.ndarray, " examples"] | None = None
    place: Place | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def window_shape(self) -> tuple[int, ...] | None:
        """Shape of a window, (L, K); None where these are no windows."""
        return self.values.shape[1:] if self.values.ndim == 3 else None

    @property
    def columns(self) -> pa.Table | None:
        """The values as a table, where an example is a row of one."""
        if self.values.ndim != 2:
            return None
        return pa.table(dict(zip(self.training_schema().names, self.values.T, strict=True)))

    def select(self, which: Which) -> Self:
        """Some of them: by a mask, or by their numbers, in the order of these."""
        chosen = self._numbers(which)
        return replace(
            self,
            values=self.values[chosen],
            unseen=None if self.unseen is None else self.unseen[chosen],
            pauses=None if self.pauses is None else self.pauses[chosen],
            place=None if self.place is None else partial(_place_of, self.place, chosen),
        )

    def training_schema(self) -> Schema:
        """Names and ranges of their columns, to train with."""
        return Schema.of_values(self.values, self.names)

    def rows(self, schema: Schema) -> "Rows":
        """Themselves: they are in the order of the schema already."""
        del schema
        return self

    def _joined_with(self, others: Sequence[Self]) -> Self:
        for other in others:
            if other.values.shape[1:] != self.values.shape[1:]:
                raise ShapeError(
                    f"the examples cannot be joined: of shape {self.values.shape[1:]} and {other.values.shape[1:]}."
                )
            ours, theirs = self.names or (), other.names or ()
            if set(ours) != set(theirs):
                raise DataError(f"the examples cannot be joined: columns {quoted(ours)} and {quoted(theirs)}.")
        parts = [self, *others]
        return replace(
            self,
            values=np.concatenate([part._in_order_of(self) for part in parts]),
            unseen=all_or_none([part.unseen for part in parts], np.concatenate),
            pauses=all_or_none([part.pauses for part in parts], np.concatenate),
            place=None,
        )

    def _in_order_of(self, first: "Rows") -> Float[np.ndarray, "examples ..."]:
        if self.names is None or first.names is None or self.names == first.names:
            return self.values
        return self.values[..., [self.names.index(name) for name in first.names]]


def _place_of(place: Place, chosen: Int[np.ndarray, " chosen"], row: int) -> str:
    return place(int(chosen[row]))


def in_order_of(
    schema: Schema, values: Float[np.ndarray, "examples ..."], names: tuple[str, ...], what: str, examples: str
) -> Float[np.ndarray, "examples ..."]:
    """The values of windows or images, their sensors or channels in the order of a schema.

    Args:
        schema: of the training data.
        values: to put in order.
        names: of the sensors or channels.
        what: they are called in messages.
        examples: what the windows or images are called.
    """
    if sorted(names) != sorted(schema.names):
        raise ShapeError(
            f"the {what} do not match those of the training data: {quoted(schema.names)} then, {quoted(names)} now."
        )
    if not len(values):
        raise DataError(f"there are no {examples}.")
    return values[..., [names.index(name) for name in schema.names]]
