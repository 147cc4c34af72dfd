"""The database: SQLite in a file, or PostgreSQL by a URL; opening it brings its tables up to date.

SQLite runs in WAL mode with synchronous FULL, so that a committed transaction survives a power cut, and writers wait
for each other (BEGIN IMMEDIATE). PostgreSQL does both by itself; what is read there is one state too (REPEATABLE READ).

Whoever writes, whoever looks up keys and sessions, and whoever reads for a page have connections of their own: none of
them can use up those of another.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from indubio.errors import ConfigError, StoreError
from indubio_server.store.private_files import private_file, private_folder
from indubio_server.store.statements import PreparedStatement
from indubio_server.store.unanswered import UnansweredStatements, patient

T = TypeVar("T")
MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 20_260_801  # any number, the same in every process: PostgreSQL's advisory lock while tables change
WRITING = "indubio_writing"
_begin, _begin_writing = PreparedStatement(text("BEGIN")), PreparedStatement(text("BEGIN IMMEDIATE"))
BUSY = 10.0  # seconds that SQLite waits for another process's transaction
READERS, LOOKERS, WRITERS = 16, 3, 2  # connections, at most
FREE_WITHIN = 5.0  # seconds in which one of them must be free
READ_WITHIN, WRITE_WITHIN = 20, 5  # seconds that PostgreSQL has for a statement
GONE = {  # how psycopg finds out, within seconds, that a host is gone
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class Database:
    """Connections to one database, for reading and for writing.

    Args:
        url: as SQLAlchemy reads it: sqlite:///file or postgresql://user:password@host/name.
        read_only: for looking on: the database refuses every change, and no file is made.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self.url = url
        self._unanswered = UnansweredStatements()
        self._reading = self._looking_up = writing = self._opened(READERS, READ_WITHIN, read_only=read_only)
        if not read_only:
            self._looking_up = self._opened(LOOKERS, WRITE_WITHIN)
            writing = self._opened(WRITERS, WRITE_WITHIN)
        self._engines = {self._reading, self._looking_up, writing}
        self._writing = writing.execution_options(**{WRITING: True})
        if not self.is_sqlite:
            one_state = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            self._reading = self._reading.execution_options(**one_state)
            self._looking_up = self._looking_up.execution_options(**one_state)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file."""
        return self._reading.dialect.name == "sqlite"

    def migrate(self) -> None:
        """Bring the tables to those of this version; an older version refuses a newer database."""
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        from indubio_server.store.schema_version import check_version

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        try:
            with self.writing() as connection, patient(connection):
                if not self.is_sqlite:
                    connection.execute(text("SET LOCAL statement_timeout = 0"))
                    connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": MIGRATION_LOCK})
                config.attributes["connection"] = connection
                check_version(connection, config)
                command.upgrade(config, "head")
        except CommandError as error:
            raise StoreError(f"{self.shown}: made by another version of indubio ({error}). Update indubio.") from None

    def require_current(self) -> None:
        """Refuse a database whose tables are not those of this version: who only looks on cannot change them."""
        from alembic.script import ScriptDirectory

        version = self.read(lambda c: c.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none())
        if version != ScriptDirectory(str(MIGRATIONS)).get_current_head():
            raise StoreError(
                f"{self.shown}: its tables are those of another version of indubio ({version}). Use that version, or "
                "start `indubio serve` of this one, which brings them up to date."
            )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read with; it sees one state of the database."""
        with _told(self.shown), self._reading.begin() as connection:
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

    def look_up(self, function: Callable[[Connection], T]) -> T:
        """Read what every request needs, a key or a session: no page can keep it waiting."""
        with _told(self.shown), self._looking_up.begin() as connection:
            return function(connection)

    def close(self) -> None:
        """Close all connections to the database."""
        self._unanswered.close()
        for engine in self._engines:
            engine.dispose()

    def _opened(self, most: int, seconds: int, *, read_only: bool = False) -> Engine:
        """A pool of connections.

        Args:
            most: so many.
            seconds: that PostgreSQL has for a statement.
            read_only: the database refuses every change.
        """
        try:
            parsed = make_url(self.url)
            if parsed.get_backend_name() not in ("sqlite", "postgresql"):
                raise ConfigError(f"the database must be sqlite or postgresql, got {parsed.get_backend_name()!r}.")
            if parsed.get_backend_name() == "sqlite":
                return _sqlite_read_only(parsed) if read_only else _sqlite(parsed, most)
            engine = _postgresql(parsed, most, seconds)
        except (ArgumentError, NoSuchModuleError) as error:
            raise ConfigError(f"{self.url!r} is no URL of a database: {error}") from None
        self._unanswered.watch(engine, seconds + 1)
        return engine.execution_options(postgresql_readonly=True) if read_only else engine

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


def _postgresql(url: Any, most: int, seconds: int) -> Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    own = url.query.get("options", "")
    options = f"-c statement_timeout={seconds}s {own if isinstance(own, str) else ' '.join(own)}"
    connect = GONE | {"options": options}
    return create_engine(url, connect_args=connect, pool_size=most, max_overflow=0, pool_timeout=FREE_WITHIN)


def _sqlite(url: Any, most: int) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("a server's database must outlive it: give a file, as sqlite:///indubio.sqlite.")
    private_folder(Path(url.database).parent)
    try:
        private_file(Path(url.database))  # SQLite gives the files beside it the same mode
    except OSError as error:
        raise StoreError(f"{url.database} cannot be opened: {error.strerror}.") from None
    connect = {"timeout": BUSY, "check_same_thread": False}
    engine = create_engine(url, connect_args=connect, pool_size=most, max_overflow=0, pool_timeout=FREE_WITHIN)

    @event.listens_for(engine, "connect")
    def settle(connection: Any, record: Any) -> None:  # noqa: ARG001 - the event passes both
        connection.isolation_level = None  # we say BEGIN ourselves, for the driver says it too late
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "begin", _begin_as_asked)
    return engine


def _begin_as_asked(connection: Connection) -> None:
    writing = connection.get_execution_options().get(WRITING)
    (_begin_writing if writing else _begin).run(connection)


def _sqlite_read_only(url: Any) -> Engine:
    """Connections that cannot write, each opened for one read.

    While a server runs there is a log of writes (WAL) beside the database, which is read with it. Without one nobody
    writes, and the file is opened as one that does not change: otherwise SQLite would make a log to read it.
    """
    path = Path(url.database or "").absolute()
    if not path.is_file():
        raise StoreError(f"there is no database {path}: give the --state or --db of `indubio serve`.")

    def connected() -> sqlite3.Connection:
        mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, timeout=BUSY, check_same_thread=False)
        connection.isolation_level = None
        connection.execute("PRAGMA query_only=ON")
        return connection

    engine = create_engine("sqlite://", creator=connected, poolclass=NullPool)
    event.listen(engine, "begin", _begin_as_asked)
    return engine
