"""Statements that every batch of verdicts needs, compiled once per kind of database and given to its driver.

To bring a statement to the driver SQLAlchemy needs several times as long as SQLite needs to run it, and the event loop
waits for Python's lock meanwhile. The values must be what the driver takes: times as numbers, see `tables.Moment`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement, Connection
from sqlalchemy.exc import DBAPIError


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
        dialect = connection.dialect
        if dialect.name not in self._compiled:
            compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._names or None)
            self._compiled[dialect.name] = str(compiled), compiled.positiontup
        text, order = self._compiled[dialect.name]
        cursor = connection.connection.cursor()
        try:
            if rows is None:
                cursor.execute(text)
                return [] if cursor.description is None else list(cursor.fetchall())
            values: list[Any] = [dict(row) if order is None else [row[name] for name in order] for row in rows]
            cursor.executemany(text, values)
            return []
        except dialect.loaded_dbapi.Error as error:
            raise DBAPIError.instance(text, None, error, dialect.loaded_dbapi.Error, dialect=dialect) from error
        finally:
            cursor.close()
