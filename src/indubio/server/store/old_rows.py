"""Rows from before entries sealed whole rows: sealed once, by the entry "sealed", when the database is migrated.

What their own entries say of them is compared as ever; this one covers the columns that those entries do not name, from
the migration on. There are many cases and reviews, and their rows never change, so one hash covers all of each.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, inspect

from indubio.server.store.audit_trail import append
from indubio.server.store.row_seals import SEALED_TABLES, raw_rows, row_seal, seals_of
from indubio.server.store.tables import cases, metadata, reviews

SEALED = "sealed"
TOGETHER = (cases, reviews)
FIRST_WITH_SEALS = "alarm_windows"  # came with the seals


def has_old_rows(connection: Connection) -> bool:
    """Whether this is a database from before there were seals; asked before it is migrated."""
    tables = inspect(connection).get_table_names()
    return "audit" in tables and FIRST_WITH_SEALS not in tables


def seal_old_rows(connection: Connection) -> None:
    """Seal all rows that are there; after the migration, in its transaction."""
    rows = seals_of({table: raw_rows(connection, table) for table in SEALED_TABLES if table not in TOGETHER})
    together = {str(table.name): _together(connection, table) for table in TOGETHER}
    append(connection, SEALED, {"rows": rows, "together": together})


def together_findings(connection: Connection, body: dict[str, Any]) -> Iterator[str]:
    """Compare the rows that were sealed together; a sentence for each table that differs."""
    for name, said in body["together"].items():
        table = metadata.tables[name]
        if _together(connection, table, said["until"]) != said:
            yield f"{name} from before row seals were changed: they are not as the entry {SEALED!r} has them."


def _together(connection: Connection, table: Table, until: int | None = None) -> dict[str, Any]:
    whole, count, last = hashlib.sha256(), 0, until or 0
    conditions = [] if until is None else [table.c.id <= until]
    for row in raw_rows(connection, table, *conditions):
        whole.update(row_seal(table, row).encode())
        count, last = count + 1, row["id"] if until is None else last
    return {"rows": count, "until": last, "sha256": whole.hexdigest()}
