"""Options that the commands around the server share: the database, and choices that are words."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from indubio.errors import MissingExtraError

if TYPE_CHECKING:
    from indubio.server.store import ServerStore

DATABASE = typer.Option(
    "--db", help="postgresql://USER:PASSWORD@HOST/NAME or sqlite:///FILE; default: a file in --state."
)
STATE = typer.Option("--state", help="Folder for the database, copies of the models, and anchors of the audit trail.")


class AfterChoice(StrEnum):
    """What must be durable before an answer is given."""

    REFERRALS = "referrals"
    ALL = "all"


class PageLanguageChoice(StrEnum):
    """The language of the review pages."""

    AUTO = "auto"
    ENGLISH = "en"
    GERMAN = "de"


class FailureChoice(StrEnum):
    """What the server does when its database fails."""

    REFUSE = "refuse"
    SCORE = "score"


class RoleChoice(StrEnum):
    """The role of a key, as an option."""

    SCORER = "scorer"
    REVIEWER = "reviewer"
    ADMIN = "admin"


@contextmanager
def opened(db: str | None, state: Path) -> "Iterator[ServerStore]":
    """Open the server's store, and close it at the end."""
    try:
        import prometheus_client  # noqa: F401 - one of the extra's packages stands for all

        from indubio.server.store import ServerStore
    except ImportError:
        raise MissingExtraError('the server needs the server extra: pip install "indubio[server]".') from None
    with ServerStore(db or f"sqlite:///{state / 'indubio.sqlite'}") as store:
        yield store


def who() -> str:
    """The name of whoever runs the command, for the audit trail."""
    import getpass

    try:
        return f"{getpass.getuser()} (command line)"
    except OSError:
        return "command line"
