"""What `fit` would refuse of some files and find odd in them, all at once, and the flags that mend it.

Nothing is judged anew: files are read as `fit` reads them; what it refuses is told, mended, and they are read again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indubio.cli.by_flags import by_flags
from indubio.data import Examples, Reading, Roles, spoilt_number
from indubio.errors import DataError, quoted
from indubio.io import Source, is_number, is_text, plain
from indubio.message import Message
from indubio.prepare import BAD, DataFinding, data_findings, fit_quality, words_of

MOST_CATEGORIES, ROWS_PER_CATEGORY = 20, 5  # texts of which there are more are no categories
NAMED = 5  # columns in a line
EMPTY = 0.5  # a column that lacks more of its values is better left out than filled in
ROLES = {
    "time": "times",
    "ids": "another text in every row, as ids have",
    "categorical": "a few texts, as categories have",
    "exclude": "texts that are no categories, or nothing at all",
}
MENDED_BY = {  # kinds of findings
    "id": "ids",
    "label": "exclude",
    "constant": "exclude",
    "repeated": "exclude",
    "categories": "exclude",
}


@dataclass
class ColumnCheck:
    """What is known of some files so far.

    Args:
        reading: how they are read; what mends them is put into it.
        missing: what `fit` is told to do with missing values.
        refused: what `fit` would refuse, and what mends it.
        odd: what it would find odd.
        left: what no flag mends; None where all is mended.
    """

    reading: Reading
    missing: str
    refused: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    left: str | None = None

    def run(self, files: Sequence[Source]) -> None:
        """Look at the files."""
        if self.reading.table is not None:
            self._look_at_texts(files)
        examples = self._read(files)
        if examples is None:
            return
        if self.missing == "error":
            self._look_for_gaps(examples)
            examples = self._read(files) or examples
        for finding in _findings(examples):
            self._tell_odd(finding, examples)
        self._read(files)  # what is said to mend it does

    def flags(self) -> list[str]:
        """What `fit` is given, of which column is what."""
        place, flags = self._columns, list[str]()
        for name, flag in (("ids", "--id"), ("categorical", "--categorical"), ("exclude", "--exclude")):
            flags += [part for column in getattr(place, name, ()) for part in (flag, column)]
        for name in ("time", "group", "label"):
            if value := getattr(place, name):
                flags += [f"--{name}", value]
        flags += [part for value in place.anomaly_values or () for part in ("--anomaly", str(value))]
        if isinstance(place, Roles) and place.columns is not None:
            flags += ["--columns", ",".join(place.columns)]
        return flags + ([] if self.missing == "error" else ["--missing", self.missing])

    def _look_at_texts(self, files: Sequence[Source]) -> None:
        """Columns of texts and times, which `fit` must be told the role of."""
        first, roles = files[0], self._columns
        names = first.schema.names
        known = {*roles.passed, *roles.exclude, roles.label, *roles.categorical}
        found: dict[str, list[str]] = {role: [] for role in ROLES}
        for name in roles.needed(names):
            if name in known or names.count(name) != 1 or is_number(kind := first.schema.field(name).type):
                continue
            if pa.types.is_temporal(kind):
                found["ids" if roles.time or found["time"] else "time"].append(name)
            elif not is_text(kind) or not spoilt_number(first, [name]):
                found[_role(files, name)].append(name)
        for role, columns in found.items():
            if columns:
                self.refused.append(f"{_listed(columns)}: {ROLES[role]} ({_flags(role, columns)}).")
                self._give(role, columns)

    def _read(self, files: Sequence[Source]) -> Examples | None:
        """The examples as `fit` takes them; a column that it refuses is told of and left out."""
        while True:
            try:
                examples = self.reading.read(files, unlabelled=True).inliers()
                examples.rows(examples.training_schema())
            except DataError as error:
                told, column = by_flags(str(error)), _column(error, files[0].schema.names)
                if column is None or column in self._columns.exclude:
                    self.left = told
                    return None
                self.refused.append(f"{told} Or leave it out ({_flags('exclude', [column])}).")
                self._give("exclude", [column])
            else:
                return examples

    def _look_for_gaps(self, examples: Examples) -> None:
        rows = examples.rows(examples.training_schema())
        absent = np.isnan(rows.values)
        shares = absent.mean(axis=tuple(range(absent.ndim - 1)))
        lacking = {name: share for name, share in zip(_names(rows), shares.tolist(), strict=True) if share}
        empty = [name for name, share in lacking.items() if share > EMPTY]
        filled = [f'"{name}" {share:.2g}' for name, share in lacking.items() if share <= EMPTY]
        if empty:
            flags = _flags("exclude", empty)
            self.refused.append(f"{_listed(empty)}: more than half of the values are missing ({flags}).")
            self._give("exclude", empty)
        if filled:
            more = f" and {len(filled) - NAMED} more" if len(filled) > NAMED else ""
            self.refused.append(
                f"Values are missing, as shares of all: {', '.join(filled[:NAMED])}{more} (--missing median fills them "
                "in, --missing refer refers such examples)."
            )
            self.missing = "median"

    def _tell_odd(self, finding: DataFinding, examples: Examples) -> None:
        """One thing that is odd; what has a flag is mended."""
        self.odd.append(by_flags(str(finding)))
        columns = [name for name in finding.columns if name not in (*self._columns.exclude, *self._columns.ids)]
        if finding.kind == "label" and columns and self._columns.label is None:
            self._change(label=columns[0], anomaly_values=_anomaly_values(examples, columns.pop(0)))
        role = MENDED_BY.get(finding.kind)
        if role is not None and columns:
            self._give(role, columns)

    def _give(self, role: str, columns: Sequence[str]) -> None:
        place = self._columns
        if role == "time":
            self._change(time=columns[0])
            return
        self._change(**{role: (*getattr(place, role), *columns)})
        if role == "exclude" and isinstance(place, Roles) and place.columns is not None:
            self._change(columns=tuple(name for name in place.columns if name not in columns))

    def _change(self, **changes: Any) -> None:
        part = "table" if self.reading.table is not None else "layout"
        place = replace(self._columns, **changes)
        if isinstance(place, Roles):  # what has another role is no category any more
            others = {*place.passed, *place.exclude, place.label}
            place = replace(place, categorical=tuple(name for name in place.categorical if name not in others))
        self.reading = replace(self.reading, **{part: place})

    @property
    def _columns(self) -> Any:
        return self.reading.table or self.reading.layout


def _findings(examples: Examples) -> tuple[DataFinding, ...]:
    schema = examples.training_schema()
    values = examples.rows(schema).values
    quality = fit_quality(values) if values.ndim == 3 else None
    return data_findings(values, schema, by_range=True, quality=quality)


def _names(rows: Any) -> Sequence[str]:
    return list(rows.columns_of or rows.names)


def _role(files: Sequence[Source], name: str) -> str:
    """What a column of text is for, by how many different texts it has."""
    columns = [plain(batch.column(0)).cast(pa.string()) for file in files for batch in file.batches({name: None})]
    values = pa.chunked_array(columns, pa.string()).drop_null()
    different = pc.count_distinct(values).as_py() if len(values) else 0
    if different <= 1:
        return "exclude"
    if different == len(values):
        return "ids"
    few = different <= MOST_CATEGORIES and different * ROWS_PER_CATEGORY <= len(values)
    return "categorical" if few else "exclude"


def _anomaly_values(examples: Examples, label: str) -> tuple[str, ...] | None:
    """The categories of a label that mean anomaly; None where it has 0 and 1."""
    columns = examples.columns
    if columns is None or is_number(columns.schema.field(label).type):
        return None
    there = pc.unique(columns.column(label)).drop_null().to_pylist()
    return tuple(value for value in there if BAD.fullmatch("".join(words_of(str(value))))) or None


def _column(error: DataError, names: Sequence[str]) -> str | None:
    """The column that an error is about."""
    return next((value for value in _values(str(error)) if value in names), None)


def _values(text: object) -> Iterator[str]:
    """The values in a message, and in the messages in it."""
    if isinstance(text, Message) and text.fields:
        for value in text.fields.values():
            yield from _values(value)
    elif isinstance(text, str):
        yield text
        yield text.strip('"')


def _flags(role: str, columns: Sequence[str]) -> str:
    flag = {"ids": "--id"}.get(role, f"--{role}")
    more = " ..." if len(columns) > NAMED else ""
    return " ".join(f"{flag} {quote(name)}" for name in columns[:NAMED]) + more


def _listed(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
    return f"{quoted(columns[:NAMED])}{more}"
