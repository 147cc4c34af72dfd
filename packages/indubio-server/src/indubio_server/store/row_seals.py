"""Rows in the trail: an audit entry has every row that it wrote, with all of its columns or a hash over them.

Rows that are small and no secret are written out, so that the tables of them are what the trail says and nothing else.
Of the others, inputs of cases for example, the entry has the seal.

The columns are those of the table, so a new one is sealed by itself. A value that is the column's default
(NULL, or what the database fills in) is left out of the seal: the seals of rows that are older than a column still fit.
Three things change without an entry, and are put back to what they were at first before a row is sealed: the status of
a case, which follows from its reviews, how far a running job is, and the attempts to deliver an event.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, Table, select, tuple_, type_coerce
from sqlalchemy.types import NullType

from indubio_server.store.canonical_json import canonical, digest
from indubio_server.store.tables import (
    EPOCH,
    MICROSECOND,
    activations,
    alarm_events,
    alarms,
    cases,
    drift_states,
    jobs,
    keys,
    live_machines,
    model_versions,
    outbox,
    people,
    reviews,
    sessions,
    version_files,
)

Row = Mapping[str, Any]
Touched = Mapping[Table, Iterable[Any]]
SEALED_TABLES = (
    *(model_versions, activations, keys, people, sessions, jobs, alarms, alarm_events, drift_states, cases, reviews),
    *(version_files, live_machines, outbox),
)
WRITTEN_OUT = {model_versions, activations, keys, people, jobs, alarms, alarm_events, reviews}
SETTLED = ("waiting", "decided")  # the status of a case
AT_ONCE = 500


def row_columns(table: Table, row: Row) -> dict[str, Any]:
    """The columns of a row that have another value than their default, as JSON has them.

    Args:
        table: the row is of.
        row: the columns, as they are written or as `raw_rows` reads them.
    """
    defaults = _defaults(table)
    columns = {name: _plain(row[name]) if name in row else default for name, default in defaults.items()}
    if table is cases and columns["status"] in SETTLED:
        del columns["status"]
    elif table is jobs and columns["status"] == "running":
        columns |= {"progress": 0.0, "message": ""}
    elif table is outbox:
        columns |= {"attempts": 0, "due": columns["at"], "error": ""}
    return {name: value for name, value in columns.items() if value != defaults[name]}


def seal_of(table_name: str, columns: Row) -> str:
    """sha256 over what `row_columns` gives of a row."""
    return digest([table_name, columns])


def row_seal(table: Table, row: Row) -> str:
    """The seal of a row as it is written, or as `raw_rows` reads it."""
    return seal_of(str(table.name), row_columns(table, row))


def row_in_entry(table: Table, row: Row) -> dict[str, Any] | str:
    """What an entry has of a row: its columns, or its seal."""
    return row_columns(table, row) if table in WRITTEN_OUT else row_seal(table, row)


def row_key(table: Table, row: Row) -> str:
    """The primary key of a row, as entries name it."""
    return canonical([_plain(row[column.name]) for column in table.primary_key]).decode()


def rows_in_entry(written: Mapping[Table, Iterable[Row]]) -> dict[str, dict[str, Any]]:
    """What an entry has of rows as they are written: table -> key -> columns or seal."""
    return {
        str(table.name): {row_key(table, row): row_in_entry(table, row) for row in rows}
        for table, rows in written.items()
    }


def touched_rows(connection: Connection, touched: Touched) -> dict[str, dict[str, Any]]:
    """What an entry has of rows as the database has them now: table -> key -> columns or seal, None if it is gone.

    Args:
        connection: to read with.
        touched: primary keys by table; tuples where a key has several columns.
    """
    result: dict[str, dict[str, Any]] = {}
    for table, chosen in touched.items():
        columns = list(table.primary_key)
        wanted = [key if isinstance(key, tuple) else (key,) for key in chosen]
        names = [column.name for column in columns]
        rows: dict[str, Any] = {row_key(table, dict(zip(names, key, strict=True))): None for key in wanted}
        for start in range(0, len(wanted), AT_ONCE):
            among = tuple_(*columns).in_(wanted[start : start + AT_ONCE])
            there = _rows(connection, _raw(table).where(among))
            rows |= {row_key(table, row): row_in_entry(table, row) for row in there}
        if rows:
            result[str(table.name)] = rows
    return result


def raw_rows(
    connection: Connection, table: Table, *conditions: Any, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a table in the order of their keys, each value as the driver gives it, whatever it is.

    Args:
        connection: to read with.
        table: to read.
        conditions: that the rows meet.
        limit: at most so many.
    """
    return _rows(connection, _raw(table).where(*conditions).order_by(*table.primary_key).limit(limit))


@contextmanager
def any_text(connection: Connection) -> Iterator[None]:
    """Let SQLite give text that is no UTF-8 as bytes instead of failing; PostgreSQL keeps no such text."""
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name != "sqlite":
        yield
        return
    before, driver.text_factory = driver.text_factory, _text
    try:
        yield
    finally:
        driver.text_factory = before


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _raw(table: Table) -> Select[Any]:
    columns: list[Any] = [type_coerce(column, NullType()).label(column.name) for column in table.c]
    return select(*columns)


def _rows(connection: Connection, wanted: Select[Any]) -> Iterator[dict[str, Any]]:
    result = connection.execute(wanted)
    names: Sequence[str] = list(result.keys())
    for row in result:
        yield dict(zip(names, row, strict=True))


def _plain(value: Any) -> Any:
    """A value as JSON has it, the same before it is written and after it is read, in every database."""
    if value is None or type(value) is str or type(value) is int:  # most are
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else {"float": repr(value)}  # SQLite knows no negative zero
    if isinstance(value, bytes | memoryview):
        return {"sha256": hashlib.sha256(value).hexdigest()}
    return str(value) if isinstance(value, str) else value


@cache
def _defaults(table: Table) -> dict[str, Any]:
    """What each column has where nobody said anything."""
    return {str(column.name): _default(column) for column in table.c}


def _default(column: Any) -> Any:
    if column.server_default is None:
        return None
    said = column.server_default.arg
    text = str(said)
    if not isinstance(said, str) and text[:1] == "'" == text[-1:]:  # SQL, and not the value itself
        text = text[1:-1].replace("''", "'")
    kind = column.type.python_type
    if kind is bool:
        return int(text.lower() in ("1", "true"))
    return kind(text) if kind in (int, float) else text
