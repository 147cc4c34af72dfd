"""Entries of the trail as the database has them, whatever somebody made of them; and what an entry must be."""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Connection

from indubio_server.store.row_seals import raw_rows
from indubio_server.store.tables import audit

AT_ONCE = 1000
ENTRY_FAULTS = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
TYPES = {"seq": int, "at": int, "kind": str, "actor": str, "body": str, "hash": str}


def raw_entries(connection: Connection) -> Iterator[dict[str, Any]]:
    """All entries in the order of their numbers, each column as the driver gives it."""
    conditions: list[Any] = []
    while rows := _some(connection, conditions):
        yield from rows
        conditions = [audit.c.seq > rows[-1]["seq"]]


def _some(connection: Connection, conditions: list[Any]) -> list[dict[str, Any]]:
    return list(raw_rows(connection, audit, *conditions, limit=AT_ONCE))


def entry_fault(entry: dict[str, Any]) -> str | None:
    """What makes a row no entry at all; None where it can be read."""
    for name, kind in TYPES.items():
        if type(entry[name]) is not kind:
            return f"its {name} is {type(entry[name]).__name__} instead of {kind.__name__}"
    try:
        body = msgspec.json.decode(entry["body"])
    except (ValueError, RecursionError) as error:
        return f"its body is no JSON ({error})"
    return None if type(body) is dict else "its body is no JSON object"
