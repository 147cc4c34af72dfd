"""Statements that every batch of verdicts needs, compiled once per kind of database and given to its driver.

To bring a statement to the driver SQLAlchemy needs several times as long as SQLite needs to run it, and the event loop
waits for Python's lock meanwhile. The values must be what the driver takes: times as numbers, see `tables.Moment`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ClauseElement, Connection
from sqlalchemy.exc import DBAPIError

from indubio_server.store.unanswered import asking


class PreparedStatement:
    """A statement of SQL, compiled at its first use.

    Args:
        statement: as SQLAlchemy writes it.
        names: of the columns that get values; none for a statement that takes none.
    """

    def __init__(self, statement: ClauseElement, names: Sequence[str] = ()) -> None:
        self._statement, self._names = statement, list(names)
        self._compiled: dict[str, tuple[str, Sequence[str] | None]] = {}

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]] | None = None) -> list[tuple[Any, ...]]:
        """Run it in the present transaction; the rows it selects, none for another statement.

        Args:
            connection: with the transaction.
            rows: values by column, where the statement takes some.
        """
        text, order = self._for(connection)
        with _driver(connection, text) as cursor:
            if rows is None:
                cursor.execute(text)
                return [] if cursor.description is None else list(cursor.fetchall())
            cursor.executemany(text, [_ordered(row, order) for row in rows])
            return []

    def found(self, connection: Connection, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows that it selects with these values."""
        text, order = self._for(connection)
        with _driver(connection, text) as cursor:
            cursor.execute(text, _ordered(values, order))
            return list(cursor.fetchall())

    def _for(self, connection: Connection) -> tuple[str, Sequence[str] | None]:
        """The text for this kind of database, and the order of its values where they have no names."""
        dialect = connection.dialect
        if dialect.name not in self._compiled:
            compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._names or None)
            self._compiled[dialect.name] = str(compiled), compiled.positiontup
        return self._compiled[dialect.name]


def _ordered(row: Mapping[str, Any], order: Sequence[str] | None) -> Any:
    return dict(row) if order is None else [row[name] for name in order]


@contextmanager
def _driver(connection: Connection, text: str) -> Iterator[Any]:
    """A cursor of the driver, whose errors are SQLAlchemy's."""
    dialect, cursor = connection.dialect, connection.connection.cursor()
    try:
        with asking(connection):
            yield cursor
    except dialect.loaded_dbapi.Error as error:
        raise DBAPIError.instance(text, None, error, dialect.loaded_dbapi.Error, dialect=dialect) from error
    finally:
        cursor.close()
