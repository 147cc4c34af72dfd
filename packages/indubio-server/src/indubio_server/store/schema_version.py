"""The version of the tables, which the database keeps in `alembic_version`: is it that of the tables that are there?"""

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

from indubio.errors import StoreError
from indubio_server.store.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config


class ChangedVersionError(StoreError):
    """The tables are those of this version of indubio, and `alembic_version` says another."""


def check_version(connection: Connection, config: "Config") -> None:
    """Refuse a database whose tables are up to date and whose version says that they are not.

    Args:
        connection: to read with.
        config: of alembic, which knows the newest version.
    """
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    newest = tuple(ScriptDirectory.from_config(config).get_heads())
    said = MigrationContext.configure(connection).get_current_heads()
    if said != newest and _up_to_date(connection):
        raise ChangedVersionError(
            f"alembic_version says {', '.join(map(repr, said)) or 'nothing'}, and the tables are those of "
            f"{', '.join(map(repr, newest))}: it was changed, or another version "
            "of indubio made the database. Update indubio."
        )


def _up_to_date(connection: Connection) -> bool:
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    return all(
        name in there and {column["name"] for column in inspector.get_columns(name)} == set(table.c.keys())
        for name, table in metadata.tables.items()
    )
