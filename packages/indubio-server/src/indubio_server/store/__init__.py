"""The server's database: cases, reviews, model versions, keys, jobs, alarms, and the audit trail over all of them.

    tables          the tables; `migrations` makes them
    database        SQLite or PostgreSQL, opened and migrated
    writer          group commit: everything that waits becomes durable in one transaction
    unanswered      a database that hangs is made one that fails
    statements      statements for the driver itself, where time counts
    audit_trail     the trail: entries that are only added; `trail_export` writes runs of them
    row_seals       what entries have of the rows that they wrote: their columns, or a hash over them
    verification    looks for tampering: `expected_seals` and `version_files` are what it compares with
    anchors         heads of the trail, kept elsewhere; `time_stamps` has them stamped
    clock           the time
    cases, reviews, imported_labels, versions, keys, sessions, jobs, alarms, drift_states, live_machines, outbox
                    functions of a connection

Whoever writes to a table of `row_seals.SEALED_TABLES` adds an entry in the same transaction that names the rows, after
they were written: `append(connection, "key added", body, rows={keys: [number]})`. A row that no entry names is a
finding. A new column needs nothing more, if it may be NULL or has a `server_default`.

`ServerStore` ties them together: `store.read(cases_waiting)`, `store.write(lambda c: review(c, 7, "ada", "A"))`.
"""

from collections.abc import Callable
from typing import Self, TypeVar

from sqlalchemy import Connection

from indubio_server.store.database import Database
from indubio_server.store.writer import Writer

__all__ = ["ServerStore"]

T = TypeVar("T")


class ServerStore:
    """The database, brought to the present tables, with the one thread that writes to it.

    Args:
        url: sqlite:///file or postgresql://user:password@host/name.
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.database.migrate()
        self.writer = Writer(self.database)
        self.read, self.look_up = self.database.read, self.database.look_up
        self.submit = self.writer.submit

    def write(self, function: Callable[[Connection], T]) -> T:
        """Do the work in one of the next transactions, verdicts first, and wait until it is durable; its result."""
        return self.submit(function, page=True).result()

    def close(self) -> None:
        """Write what waits, and close the database."""
        self.writer.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
