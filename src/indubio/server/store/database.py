"""The database: SQLite in a file, or PostgreSQL by a URL; opening it brings its tables up to date.

SQLite runs in WAL mode with synchronous FULL, so that a committed transaction survives a power cut, and writers wait
for each other (BEGIN IMMEDIATE). PostgreSQL does both by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from indubio.errors import ConfigError, StoreError
from indubio.server.store.private_files import private_file, private_folder
from indubio.server.store.statements import PreparedStatement

T = TypeVar("T")
MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 20_260_801  # any number, the same in every process: PostgreSQL's advisory lock while tables change
WRITING = "indubio_writing"
_begin, _begin_writing = PreparedStatement(text("BEGIN")), PreparedStatement(text("BEGIN IMMEDIATE"))
BUSY = 10.0  # seconds that SQLite waits for another process's transaction


class Database:
    """Connections to one database, for reading and for writing.

    Args:
        url: as SQLAlchemy reads it: sqlite:///file or postgresql://user:password@host/name.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = _engine(url)
        self._writing = self._engine.execution_options(**{WRITING: True})

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file."""
        return self._engine.dialect.name == "sqlite"

    def migrate(self) -> None:
        """Bring the tables to those of this version; an older version refuses a newer database."""
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        from indubio.server.store.old_rows import has_old_rows, seal_old_rows
        from indubio.server.store.schema_version import check_version

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        try:
            with self.writing() as connection:
                if not self.is_sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": MIGRATION_LOCK})
                config.attributes["connection"] = connection
                check_version(connection, config)
                old = has_old_rows(connection)
                command.upgrade(config, "head")
                if old:
                    seal_old_rows(connection)
        except CommandError as error:
            raise StoreError(f"{self.shown}: made by another version of indubio ({error}). Update indubio.") from None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read with; it sees one state of the database."""
        with _told(self.shown), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends."""
        with _told(self.shown), self._writing.begin() as connection:
            yield connection

    def read(self, function: Callable[[Connection], T]) -> T:
        """Call a function with a connection that reads; its result."""
        with self.reading() as connection:
            return function(connection)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @cached_property
    def shown(self) -> str:
        """The URL for messages, without the password."""
        return make_url(self.url).render_as_string(hide_password=True)


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:  # the statement and its values stay out of the message: they are people's data
        raise StoreError(f"{where}: {str(error.orig).strip()}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"{where}: {type(error).__name__}") from error


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise ConfigError(f"the database must be sqlite or postgresql, got {parsed.get_backend_name()!r}.")
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed)
        return create_engine(parsed, pool_pre_ping=True, connect_args={"connect_timeout": 5})
    except (ArgumentError, NoSuchModuleError) as error:
        raise ConfigError(f"{url!r} is no URL of a database: {error}") from None


def _sqlite(url: Any) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("a server's database must outlive it: give a file, as sqlite:///indubio.sqlite.")
    private_folder(Path(url.database).parent)
    try:
        private_file(Path(url.database))  # SQLite gives the files beside it the same mode
    except OSError as error:
        raise StoreError(f"{url.database} cannot be opened: {error.strerror}.") from None
    engine = create_engine(url, connect_args={"timeout": BUSY, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def settle(connection: Any, record: Any) -> None:  # noqa: ARG001 - the event passes both
        connection.isolation_level = None  # we say BEGIN ourselves, for the driver says it too late
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get(WRITING)
        (_begin_writing if writing else _begin).run(connection)

    return engine
