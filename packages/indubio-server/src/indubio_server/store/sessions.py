"""Sessions of people in a browser: opened with a key, or by a provider of logins that the operator trusts.

A session of a key ends with the key, and has its role and sites. One of a person has those that the provider's claims
gave when they logged in, and counts only while the server runs with the same rules for them: whoever changes the rules
and starts the server again ends these sessions.

A person's name in the audit trail is `oidc:NAME`, which no key can have. It belongs to the first who logs in with it
(issuer and subject): a name that the provider gives to somebody else later is refused, so that nobody ever signs in
another's name.
"""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, func, insert, select

from indubio.errors import ConfigError, ConflictError, NotFoundError
from indubio.texts import english
from indubio_server.store.access_keys import (
    LONGEST_NAME,
    PERSON,
    ApiKey,
    Role,
    ended_sessions,
    hashed,
    key_of,
    sites_of,
    sites_plain,
    sites_text,
)
from indubio_server.store.audit_trail import append
from indubio_server.store.clock import now
from indubio_server.store.tables import keys, people, sessions

LASTS = timedelta(hours=12)


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody whom a provider vouches for.

    Args:
        name: as the provider has it.
        issuer: the provider.
        subject: what the provider never gives to anybody else.
        role: what they may do.
        sites: whose machines they see; None for all.
    """

    name: str
    issuer: str
    subject: str
    role: Role
    sites: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True)
class SessionOwner:
    """Whose session it is, with what they may do: the name is that of the audit trail."""

    name: str
    role: Role
    sites: frozenset[str] | None


def open_session(connection: Connection, key: ApiKey, *, lasts: timedelta = LASTS) -> str:
    """Open a session for the owner of a key; returns the secret for its cookie."""
    secret, changed = _opened(connection, {"key_id": key.id}, lasts)
    append(connection, "logged in", {}, actor=key.name, rows={sessions: changed})
    return secret


def open_person_session(
    connection: Connection, person: Person, *, provider: str, id_token: str, lasts: timedelta = LASTS
) -> str:
    """Open a session for a person whom a provider vouches for; returns the secret for its cookie.

    Args:
        connection: to write with.
        person: who.
        provider: names the rules that their role and sites come from.
        id_token: what the provider wants back when they log out.
        lasts: how long.
    """
    name = f"{PERSON}{person.name}"
    if not person.name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ConfigError(
            english("a person's name must be 1 to {most:d} printable characters.", most=LONGEST_NAME - len(PERSON))
        )
    sites = sites_plain(person.sites)
    said = {"role": person.role, "sites": sites_text(sites), "provider": provider, "id_token": id_token}
    secret, changed = _opened(connection, said | {"person_id": _known(connection, name, person)}, lasts)
    body = {"issuer": person.issuer, "subject": person.subject, "role": person.role, "sites": sites}
    append(connection, "logged in", body, actor=name, rows={sessions: changed})
    return secret


def session_owner(connection: Connection, secret: str, *, provider: str | None = None) -> SessionOwner | None:
    """Whose session it is; None where it has ended.

    Args:
        connection: to read with.
        secret: of the cookie.
        provider: the rules for people that are in force; None lets only owners of keys in.
    """
    at = now()  # a session of a clock that was ahead lasts no longer than any other
    at_work = sessions.c.hash == hashed(secret), sessions.c.until > at, sessions.c.until <= at + LASTS
    key = connection.execute(select(keys).join(sessions).where(*at_work, keys.c.revoked.is_(None))).one_or_none()
    if key is not None:
        owner = key_of(key)
        return SessionOwner(name=owner.name, role=owner.role, sites=owner.sites)
    if provider is None:
        return None
    wanted = select(people.c.name, sessions.c.role, sessions.c.sites).join(sessions)
    row = connection.execute(wanted.where(*at_work, sessions.c.provider == provider)).one_or_none()
    return None if row is None else SessionOwner(name=row.name, role=Role(row.role), sites=sites_of(row.sites))


def close_session(connection: Connection, secret: str) -> str | None:
    """End a session: somebody logs out. What their provider wants back then; None where there is none."""
    this = sessions.c.hash == hashed(secret)
    named = select(sessions.c.id_token, func.coalesce(keys.c.name, people.c.name).label("name"))
    row = connection.execute(named.outerjoin_from(sessions, keys).outerjoin(people).where(this)).one_or_none()
    if row is None:
        return None
    append(connection, "logged out", {}, actor=row.name, rows={sessions: ended_sessions(connection, this)})
    token: str | None = row.id_token
    return token


def end_sessions(connection: Connection, name: str, *, actor: str) -> int:
    """End all sessions of the owner of a key or of a person; how many there were.

    Args:
        connection: to write with.
        name: as the audit trail has it.
        actor: who ends them.
    """
    key = connection.execute(select(keys.c.id).where(keys.c.name == name)).scalar_one_or_none()
    person = connection.execute(select(people.c.id).where(people.c.name == name)).scalar_one_or_none()
    if key is None and person is None:
        raise NotFoundError(f"there is neither a key nor a person named {name!r}. A person is {PERSON}NAME.")
    whose = sessions.c.key_id == key if person is None else sessions.c.person_id == person
    ended = ended_sessions(connection, whose)
    body = {"name": name, "sessions": len(ended)}
    append(connection, "sessions ended", body, actor=actor, rows={sessions: ended})
    return len(ended)


def _opened(connection: Connection, whose: dict[str, object], lasts: timedelta) -> tuple[str, list[str]]:
    """The secret of a new session, and the hashes of all sessions that came or went: those that are over go."""
    secret, at = secrets.token_urlsafe(32), now()
    ended = ended_sessions(connection, sessions.c.until <= at)
    connection.execute(insert(sessions).values(hash=hashed(secret), until=at + lasts, **whose))
    return secret, [*ended, hashed(secret)]


def _known(connection: Connection, name: str, person: Person) -> int:
    """The number of a person; one who comes for the first time gets one."""
    there = connection.execute(select(people).where(people.c.name == name)).one_or_none()
    if there is not None:
        if (there.issuer, there.subject) != (person.issuer, person.subject):
            raise ConflictError(
                english(
                    "the name {name!r} belongs to somebody else who logged in with it before. Whoever runs the server "
                    "can take names from another claim.",
                    name=person.name,
                )
            )
        return int(there.id)
    at = now()
    columns = {"name": name, "issuer": person.issuer, "subject": person.subject, "at": at}
    number = connection.execute(insert(people).returning(people.c.id), columns).scalar_one()
    append(connection, "person added", {}, actor=name, at=at, rows={people: [number]})
    return int(number)
