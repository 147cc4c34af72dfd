"""The clock that every stored time is read from."""

from datetime import UTC, datetime


def now() -> datetime:
    """The present time, in UTC."""
    return datetime.now(UTC)
