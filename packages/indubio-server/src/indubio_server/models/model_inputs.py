"""The input of a model, read strictly: columns by name, each a finite number or a category.

A column's rule is written once, as a type of msgspec, and is decoder, check and OpenAPI schema alike: text, booleans,
NaN, numbers too large, unknown and missing columns are refused with their place. The stored input, and what the audit
trail's input hash is taken of, is the row as JSON with the columns in the model's order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from indubio.data import Examples, Images, Rows, Schema, Table, Windows
from indubio.errors import ConfigError, DataError
from indubio.prepare import Missing
from indubio_server.outside_names import LONGEST_NAME, PRINTABLE, fault, unseen

LARGEST = float(np.finfo(np.float32).max)  # what does not fit a float32 would become infinity in the network
# The pattern is only described here and checked by `require_printable`: msgspec frees one too often where it is part of
# a union (seen with 0.22), and the process dies of it later.
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME, extra_json_schema={"pattern": PRINTABLE})]


@dataclass(frozen=True, kw_only=True, eq=False)
class ExampleBatch:
    """Examples that are ready for the model: those of one request, or of several together.

    Args:
        values: numbers (N, D), (N, L, K) or (N, H, W, C), NaN where one is missing; None where there are categories.
        columns: the columns, where there are categories.
        inputs: each example as it is stored.
        pauses: of windows whose times are known, seconds of the longest pause within each; None for no pauses.
    """

    values: Float[np.ndarray, "examples ..."] | None
    columns: pa.Table | None
    inputs: list[bytes]
    pauses: Float[np.ndarray, " examples"] | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    @classmethod
    def joined(cls, requests: "Sequence[ExampleBatch]") -> "ExampleBatch":
        """The examples of several requests as one batch."""
        if len(requests) == 1:
            return requests[0]
        arrays = [one.values for one in requests if one.values is not None]
        tables = [one.columns for one in requests if one.columns is not None]
        return cls(
            values=np.concatenate(arrays) if arrays else None,
            columns=pa.concat_tables(tables) if tables else None,
            inputs=[stored for one in requests for stored in one.inputs],
        )


class ModelInput:
    """Reads requests for one model.

    Args:
        schema: its columns or sensors.
        input_shape: of one example.
        missing: what it does with missing values.
        most_rows: rows a request may have.
    """

    def __init__(self, schema: Schema, input_shape: tuple[int, ...], missing: Missing, most_rows: int) -> None:
        self.schema, self.input_shape, self.missing = schema, input_shape, missing
        self.names, self.encoded_names = schema.names, schema.encoded_names
        self.sides = input_shape[:-1]  # of a window or image: its columns are lists
        self.kinds = {column.name: column.kind for column in schema.columns}
        self.numeric = all(kind == "number" for kind in self.kinds.values())
        self.Row = self._row_type()
        rows = Annotated[list[self.Row], msgspec.Meta(min_length=1, max_length=most_rows)]  # type: ignore[name-defined]
        names = Annotated[list[Name], msgspec.Meta(max_length=most_rows)]
        self.Request = msgspec.defstruct(
            "AssessRequest",
            [
                ("rows", rows),
                ("ids", names | msgspec.UnsetType, msgspec.UNSET),
                ("machine", Name | names | msgspec.UnsetType, msgspec.UNSET),
                ("top", Annotated[int, msgspec.Meta(ge=0, le=1000)] | msgspec.UnsetType, msgspec.UNSET),
            ],
            forbid_unknown_fields=True,
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(self.Request)
        self._row_decoder = msgspec.json.Decoder(self.Row)

    def _row_type(self) -> Any:
        rules = []
        for place, column in enumerate(self.schema.columns):
            one: Any = float if column.kind == "number" else Name
            one = one if self.missing == "error" else one | None
            for length in reversed(self.sides):
                one = Annotated[list[one], msgspec.Meta(min_length=length, max_length=length)]
            rules.append((f"f{place}", one))
        try:
            return msgspec.defstruct(
                "Row",
                rules,
                rename={f"f{place}": name for place, name in enumerate(self.schema.names)},
                forbid_unknown_fields=True,
                frozen=True,
                gc=False,
            )
        except ValueError as error:
            raise ConfigError(f"a column of the model has a name that cannot be served: {error}.") from None

    def decode(self, body: bytes) -> Any:
        """Decode a request's body. Raises msgspec's errors, which name the place."""
        request: Any = self._decoder.decode(body)
        unset = (request.ids, request.machine, request.top).count(msgspec.UNSET)
        if body.count(b":") != 4 - unset + len(request.rows) * len(self.names):
            refuse_doubles(body)
        return request

    def from_rows(self, rows: Sequence[Any]) -> ExampleBatch:
        """Turn decoded rows into examples."""
        inputs = list(map(msgspec.json.encode, rows))
        plain = list(map(msgspec.structs.astuple, rows))
        if self.numeric:
            values = np.array(plain, dtype=np.float64)
            values = np.moveaxis(values, 1, -1) if self.sides else values
            self._require_fitting(values)
            return ExampleBatch(values=values, columns=None, inputs=inputs)
        return ExampleBatch(values=None, columns=self._table(list(zip(*plain, strict=True))), inputs=inputs)

    def from_values(self, values: Float[np.ndarray, "examples ..."]) -> ExampleBatch:
        """Turn an array of numbers into examples; NaN is a missing value."""
        self._require_fitting(values)
        columns = (np.moveaxis(values, -1, 1) if self.sides else values).tolist()
        if self.missing != "error" and np.isnan(values).any():
            columns = [_without_nan(row) for row in columns]
        inputs = [msgspec.json.encode(dict(zip(self.names, row, strict=True))) for row in columns]
        return ExampleBatch(values=values, columns=None, inputs=inputs)

    def from_columns(self, columns: Sequence[Sequence[Any]]) -> ExampleBatch:
        """Turn columns, in the order of the schema, into examples."""
        rows = zip(*columns, strict=True)
        inputs = [msgspec.json.encode(dict(zip(self.names, row, strict=True))) for row in rows]
        return ExampleBatch(values=None, columns=self._table(columns), inputs=inputs)

    def from_input(self, stored: bytes) -> ExampleBatch:
        """Turn a stored input back into an example."""
        return self.from_rows([self._row_decoder.decode(stored)])

    def detector_data(self, examples: ExampleBatch, rate: float | None = None) -> Examples:
        """The examples as `Detector.assess` and `contributions` take them.

        Args:
            examples: that were read.
            rate: samples per second of windows, where it is known.
        """
        names = self.schema.names
        if examples.columns is not None:
            categorical = {c.name: c.categories for c in self.schema.columns if c.kind == "category"}
            return Table(features=examples.columns, categorical=categorical)
        values = examples.values
        assert values is not None
        if len(self.sides) == 2:
            return Images(values=values, channels=names, origin=_numbered("image", len(values)))
        if self.sides:
            return Windows(values=values, sensors=names, origin=_numbered("window", len(values)), rate=rate)
        return Table(features=pa.table({name: values[:, place] for place, name in enumerate(names)}))

    def scoring_data(self, examples: ExampleBatch) -> Examples:
        """Examples as they are scored: as numbers alone where all are, for a table takes most of the time."""
        if examples.values is None:
            return self.detector_data(examples)
        return Rows(values=examples.values, names=self.encoded_names, pauses=examples.pauses)

    def _table(self, columns: Sequence[Sequence[Any]]) -> pa.Table:
        arrays = {}
        for column, values in zip(self.schema.columns, columns, strict=True):
            if column.kind == "number":
                numbers = np.array(values, dtype=np.float64)
                self._require_number(numbers, column.name)
                arrays[column.name] = pa.array(numbers, from_pandas=True)
            else:
                for row, value in enumerate(values):
                    if (bad := unseen(value or "")) is not None:
                        raise DataError(f"a category {bad} - at `$.rows[{row}].{column.name}`")
                arrays[column.name] = pa.array(values, pa.string())
        return pa.table(arrays)

    def _require_number(self, values: Float[np.ndarray, " examples"], name: str) -> None:
        bad = self._bad(values)
        if bad.any():
            raise DataError(f"{_why(values[bad][0])} - at `$.rows[{int(np.argmax(bad))}].{name}`")

    def _require_fitting(self, values: Float[np.ndarray, "examples ..."]) -> None:
        if np.abs(values).max(initial=0.0) <= LARGEST:  # NaN compares false
            return
        bad = self._bad(values)
        if bad.any():
            row, *step, place = (int(number) for number in np.argwhere(bad)[0])
            at = f"$.rows[{row}].{self.schema.encoded_names[place]}{''.join(f'[{number}]' for number in step)}"
            raise DataError(f"{_why(values[bad][0])} - at `{at}`")

    def _bad(self, values: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        return np.asarray((np.abs(values) > LARGEST) | (np.isnan(values) if self.missing == "error" else False))


def require_printable(text: str, place: str) -> str:
    """Refuse a name that breaks the rule for names."""
    if (bad := fault(text)) is not None:
        raise DataError(f"a name {bad} - at `{place}`")
    return text


def refuse_doubles(body: bytes) -> None:
    """Refuse a JSON object that names a thing twice: one of the two would be scored silently."""
    import json

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = dict(pairs)
        if len(names) != len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise DataError(f"{twice!r} is there twice.")
        return names

    json.loads(body, object_pairs_hook=checked)


def _why(value: float) -> str:
    if np.isnan(value):
        return "NaN is no number, and this model takes no missing values"
    if np.isinf(value):
        return "Infinity is no measurement"
    return f"{value:g} is too large: a number must be within ±{LARGEST:.3g}"


def _without_nan(row: list[Any]) -> list[Any]:
    return [_without_nan(v) if isinstance(v, list) else (None if v != v else v) for v in row]


def _numbered(name: str, count: int) -> pa.Table:
    return pa.table({name: np.arange(count)})
