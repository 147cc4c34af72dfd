"""Statements that every group of verdicts needs, compiled once for each kind of database and given to its driver.

To bring a statement to the driver SQLAlchemy needs several times as long as SQLite needs to run it, and the event loop
waits for Python's lock meanwhile. The values must be what the driver takes: times as numbers, see `tables.Moment`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ClauseElement, Connection
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")


class Prepared:
    """A statement.

    Args:
        statement: as SQLAlchemy writes it.
        names: of the columns that get values; none for a statement that takes none.
    """

    def __init__(self, statement: ClauseElement, names: Sequence[str] = ()) -> None:
        self._statement, self._names = statement, list(names)
        self._compiled: dict[str, tuple[str, Sequence[str] | None]] = {}

    def all(self, connection: Connection) -> list[tuple[Any, ...]]:
        """The rows it finds."""
        return self._run(connection, None, lambda cursor: list(cursor.fetchall()))

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Run it in the present transaction, for each row of values where it takes some."""
        self._run(connection, rows, lambda _: None)

    def _run(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]] | None, result: Callable[[DBAPICursor], T]
    ) -> T:
        dialect = connection.dialect
        if dialect.name not in self._compiled:
            compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._names or None)
            self._compiled[dialect.name] = str(compiled), compiled.positiontup
        text, order = self._compiled[dialect.name]
        cursor = connection.connection.cursor()
        try:
            if rows is None:
                cursor.execute(text)
            else:
                values: list[Any] = [dict(row) if order is None else [row[name] for name in order] for row in rows]
                cursor.executemany(text, values)
            return result(cursor)
        except dialect.loaded_dbapi.Error as error:
            raise DBAPIError.instance(text, None, error, dialect.loaded_dbapi.Error, dialect=dialect) from error
        finally:
            cursor.close()
