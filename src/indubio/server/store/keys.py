"""API keys, shown once and kept only as a hash; and the sessions of people who logged in with one.

A key is 256 random bits, so its sha256 gives nothing away and cannot be guessed: the slow hashes that passwords need
would only make every request slow.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from indubio.errors import ConfigError, ConflictError, NotFoundError
from indubio.server.store.audit_trail import SYSTEM, append
from indubio.server.store.clock import now
from indubio.server.store.tables import keys, sessions

PREFIX = "indubio_"
SESSION = timedelta(hours=12)
LONGEST_NAME = 200


class Role(StrEnum):
    """What the owner of a key may do."""

    SCORER = "scorer"
    REVIEWER = "reviewer"
    ADMIN = "admin"

    def may(self, needed: "Role") -> bool:
        """Whether this role is enough; an admin may do everything, a scorer only score, a reviewer only review."""
        return self in (needed, Role.ADMIN)


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """A key as the store knows it, without its secret.

    Args:
        id: its number.
        name: who has it; also the name in the audit trail.
        role: what it is for.
        at: when it was made.
        revoked: when it was taken back.
    """

    id: int
    name: str
    role: Role
    at: datetime
    revoked: datetime | None


def add_key(connection: Connection, name: str, role: Role, *, actor: str) -> str:
    """Make a key; returns its secret, which is never shown again."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name in ("system", "local"):
        raise ConfigError(f"a key's name must be 1 to {LONGEST_NAME} printable characters, not system or local.")
    if connection.execute(select(keys.c.id).where(keys.c.name == name)).first() is not None:
        raise ConflictError(f"there is a key named {name!r} already, perhaps a revoked one. Choose another name.")
    secret = PREFIX + secrets.token_urlsafe(32)
    at = now()
    columns = {"name": name, "role": role, "hash": hashed(secret), "at": at}
    number = connection.execute(insert(keys).returning(keys.c.id), columns).scalar_one()
    body = {"name": name, "role": role, "hash": hashed(secret)}
    append(connection, "key added", body, actor=actor, at=at, rows={keys: [number]})
    return secret


def revoke_key(connection: Connection, name: str, *, actor: str) -> None:
    """Revoke a key, and end the sessions that were opened with it."""
    there = connection.execute(select(keys).where(keys.c.name == name, keys.c.revoked.is_(None))).one_or_none()
    if there is None:
        raise NotFoundError(f"there is no key named {name!r} in use.")
    at = now()
    connection.execute(update(keys).where(keys.c.id == there.id).values(revoked=at))
    ended = _ended(connection, sessions.c.key_id == there.id)
    append(connection, "key revoked", {"name": name}, actor=actor, at=at, rows={keys: [there.id], sessions: ended})


def all_keys(connection: Connection) -> list[ApiKey]:
    """Read every key, revoked ones too."""
    return [_key(row) for row in connection.execute(select(keys).order_by(keys.c.id))]


def keys_in_use(connection: Connection) -> dict[str, ApiKey]:
    """Read the keys that are not revoked, by the hash of their secret."""
    rows = connection.execute(select(keys).where(keys.c.revoked.is_(None)))
    return {row.hash: _key(row) for row in rows}


def count_keys(connection: Connection) -> int:
    """Count the keys that are not revoked."""
    wanted = select(func.count()).select_from(keys).where(keys.c.revoked.is_(None))
    return int(connection.execute(wanted).scalar_one())


def hashed(secret: str) -> str:
    """The hash of a secret, as it is kept."""
    return hashlib.sha256(secret.encode()).hexdigest()


def open_session(connection: Connection, key: ApiKey, *, lasts: timedelta = SESSION) -> str:
    """Open a session; returns the secret for its cookie."""
    secret = secrets.token_urlsafe(32)
    at = now()
    ended = _ended(connection, sessions.c.until <= at)
    connection.execute(insert(sessions), {"hash": hashed(secret), "key_id": key.id, "until": at + lasts})
    append(connection, "logged in", {}, actor=key.name, at=at, rows={sessions: [*ended, hashed(secret)]})
    return secret


def session_key(connection: Connection, secret: str) -> ApiKey | None:
    """Read the key of a session; None where the session has ended."""
    wanted = (
        select(keys)
        .join(sessions, sessions.c.key_id == keys.c.id)
        .where(sessions.c.hash == hashed(secret), sessions.c.until > now(), keys.c.revoked.is_(None))
    )
    row = connection.execute(wanted).one_or_none()
    return None if row is None else _key(row)


def close_session(connection: Connection, secret: str) -> None:
    """End a session: somebody logs out."""
    key = session_key(connection, secret)
    if ended := _ended(connection, sessions.c.hash == hashed(secret)):
        append(connection, "logged out", {}, actor=SYSTEM if key is None else key.name, rows={sessions: ended})


def _ended(connection: Connection, which: ColumnElement[bool]) -> list[str]:
    """Remove sessions; their keys, for the audit entry that says so."""
    return list(connection.execute(delete(sessions).where(which).returning(sessions.c.hash)).scalars())


def _key(row: Row[tuple[object, ...]]) -> ApiKey:
    return ApiKey(id=row.id, name=row.name, role=Role(row.role), at=row.at, revoked=row.revoked)
