"""API keys, shown once and kept only as a hash.

A key is 256 random bits, so its sha256 gives nothing away and cannot be guessed: the slow hashes that passwords need
would only make every request slow.
"""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from indubio.errors import ConfigError, ConflictError, NotFoundError
from indubio_server.plant import require_place
from indubio_server.store.audit_trail import append
from indubio_server.store.clock import now
from indubio_server.store.tables import keys, sessions

PREFIX = "indubio_"
PERSON = "oidc:"  # the names of people who log in without a key begin so, and those of keys never
LONGEST_NAME = 200


class Role(StrEnum):
    """What the owner of a key may do."""

    METRICS = "metrics"
    SCORER = "scorer"
    REVIEWER = "reviewer"
    ADMIN = "admin"

    def may(self, needed: "Role") -> bool:
        """Whether this role is enough: an admin may do everything, any other only what it is named after."""
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
        sites: whose machines it is for; None for all.
    """

    id: int
    name: str
    role: Role
    at: datetime
    revoked: datetime | None
    sites: frozenset[str] | None = None


def add_key(connection: Connection, name: str, role: Role, *, sites: Iterable[str] | None = None, actor: str) -> str:
    """Make a key; returns its secret, which is never shown again.

    Args:
        connection: to write with.
        name: who gets it.
        role: what it is for.
        sites: whose machines it is for; None for all.
        actor: who makes it.
    """
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name in ("system", "local"):
        raise ConfigError(f"a key's name must be 1 to {LONGEST_NAME} printable characters, not system or local.")
    if name.startswith(PERSON):
        raise ConfigError(f"a key's name must not begin with {PERSON!r}: people who log in without a key are named so.")
    if connection.execute(select(keys.c.id).where(keys.c.name == name)).first() is not None:
        raise ConflictError(f"there is a key named {name!r} already, perhaps a revoked one. Choose another name.")
    secret = PREFIX + secrets.token_urlsafe(32)
    at = now()
    columns = {"name": name, "role": role, "hash": hashed(secret), "at": at, "sites": sites_text(sites_plain(sites))}
    number = connection.execute(insert(keys).returning(keys.c.id), columns).scalar_one()
    append(connection, "key added", {}, actor=actor, at=at, rows={keys: [number]})
    return secret


def revoke_key(connection: Connection, name: str, *, actor: str) -> None:
    """Revoke a key, and end the sessions that were opened with it."""
    there = connection.execute(select(keys).where(keys.c.name == name, keys.c.revoked.is_(None))).one_or_none()
    if there is None:
        raise NotFoundError(f"there is no key named {name!r} in use.")
    at = now()
    connection.execute(update(keys).where(keys.c.id == there.id).values(revoked=at))
    ended = ended_sessions(connection, sessions.c.key_id == there.id)
    append(connection, "key revoked", {}, actor=actor, at=at, rows={keys: [there.id], sessions: ended})


def all_keys(connection: Connection) -> list[ApiKey]:
    """Read every key, revoked ones too."""
    return [key_of(row) for row in connection.execute(select(keys).order_by(keys.c.id))]


def keys_in_use(connection: Connection) -> dict[str, ApiKey]:
    """Read the keys that are not revoked, by the hash of their secret."""
    rows = connection.execute(select(keys).where(keys.c.revoked.is_(None)))
    return {row.hash: key_of(row) for row in rows}


def count_keys(connection: Connection) -> int:
    """Count the keys that are not revoked."""
    wanted = select(func.count()).select_from(keys).where(keys.c.revoked.is_(None))
    return int(connection.execute(wanted).scalar_one())


def first_key(connection: Connection, *, actor: str) -> str | None:
    """The secret of an admin's key where there never was any key; else None."""
    if connection.execute(select(keys.c.id).limit(1)).first() is not None:
        return None
    return add_key(connection, "admin", Role.ADMIN, actor=actor)


def hashed(secret: str) -> str:
    """The hash of a secret, as it is kept."""
    return hashlib.sha256(secret.encode()).hexdigest()


def sites_plain(sites: Iterable[str] | None) -> list[str] | None:
    """Sites as the audit trail has them: sorted, checked, None for all."""
    if sites is None:
        return None
    listed = sorted({require_place(site, "site") for site in sites})
    if not listed:
        raise ConfigError("`sites` must name at least one site, or be left out for all.")
    return listed


def sites_text(listed: list[str] | None) -> str | None:
    """Sites as a column keeps them."""
    return None if listed is None else msgspec.json.encode(listed).decode()


def sites_of(text: str | None) -> frozenset[str] | None:
    """Sites as a column keeps them, back again."""
    if text is None:
        return None
    plain: Any = msgspec.json.decode(text)
    return frozenset(plain)


def key_of(row: Row[Any]) -> ApiKey:
    """A row of the table as a key."""
    return ApiKey(
        id=row.id, name=row.name, role=Role(row.role), at=row.at, revoked=row.revoked, sites=sites_of(row.sites)
    )


def ended_sessions(connection: Connection, which: ColumnElement[bool]) -> list[str]:
    """Remove sessions; their hashes, for the audit entry that says so."""
    return list(connection.execute(delete(sessions).where(which).returning(sessions.c.hash)).scalars())
