"""Options that the commands around the server share: the database, and choices that are words."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from indubio.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from indubio_server.store import ServerStore

DATABASE = typer.Option(
    "--db",
    envvar="INDUBIO_DB",
    help="postgresql://USER:PASSWORD@HOST/NAME or sqlite:///FILE, or @FILE that holds it; default: a file in --state.",
)
STATE = typer.Option(
    "--state",
    envvar="INDUBIO_STATE",
    help="Folder for the database, copies of the models, and anchors of the audit trail.",
)


class RoleChoice(StrEnum):
    """The role of a key, as an option."""

    METRICS = "metrics"
    SCORER = "scorer"
    REVIEWER = "reviewer"
    ADMIN = "admin"


@contextmanager
def require_server() -> Iterator[None]:
    """Ask for the extra where an import within fails for want of it."""
    try:
        import prometheus_client  # noqa: F401 - one of the extra's packages stands for all

        yield
    except ImportError:
        raise MissingExtraError('the server needs the server extra: pip install "indubio[server]".') from None


@contextmanager
def opened(db: str | None, state: Path, *, existing: bool = False) -> "Iterator[ServerStore]":
    """Open the server's store, and close it at the end.

    Args:
        db: URL of the database; None for the one in the state folder.
        state: the server's folder.
        existing: refuse a file that is not there, instead of making it.
    """
    with require_server():
        from indubio_server.store import ServerStore
    url = database_url(db, state)
    if existing and url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        raise typer.BadParameter(f"there is no database {url.removeprefix('sqlite:///')}: give --state or --db.")
    with ServerStore(url) as store:
        yield store


def database_url(db: str | None, state: Path) -> str:
    """The URL of the server's database.

    Args:
        db: the URL, or @FILE whose first line it is: a password does not belong into a list of processes.
        state: the folder with the database where no URL is given.
    """
    if not db:
        return f"sqlite:///{state / 'indubio.sqlite'}"
    if not db.startswith("@"):
        return db
    try:
        url = Path(db[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--db {db}: {db[1:]} cannot be read: {error}. Give @FILE that holds the URL.") from None
    if not url or "\n" in url:
        raise ConfigError(f"--db {db}: the file must hold one line, the URL of the database.")
    return url


def who() -> str:
    """The name of whoever runs the command, for the audit trail."""
    import getpass

    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a container's user may have no name; before Python 3.13 it is a KeyError
        return "command line"
