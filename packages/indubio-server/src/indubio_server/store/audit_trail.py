"""The audit trail: entries that are only added, each sealed with a hash over itself and the one before it.

    hash_n = sha256(JSON [hash_(n-1), n, time, kind, actor, body])        hash_0 = 64 zeros

A change, a removal or another order breaks every hash that follows. What a chain cannot show by itself is that its end
was cut off or that all of it was made anew: for that, heads (number and hash of the last entry) are kept elsewhere too,
in the anchor file or wherever the operator puts them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select, update

from indubio.errors import StoreError
from indubio_server.store.canonical_json import canonical, digest
from indubio_server.store.clock import now
from indubio_server.store.row_seals import Touched, touched_rows
from indubio_server.store.statements import PreparedStatement
from indubio_server.store.tables import EPOCH, MICROSECOND, audit, audit_head

START = "0" * 64
SYSTEM = "system"
AT_ONCE = 1000
FIELDS = ("seq", "at", "kind", "actor", "body")  # what the hash of an entry is over, after that of the one before
_head = PreparedStatement(select(audit_head.c.seq, audit_head.c.hash).with_for_update())
_add = PreparedStatement(insert(audit).inline(), audit.c.keys())
_move = PreparedStatement(update(audit_head), ("seq", "hash"))


@dataclass(frozen=True, kw_only=True)
class Head:
    """The end of the trail: how many entries there are, and the hash of the last."""

    seq: int
    hash: str


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One entry of the audit trail.

    Args:
        seq: 1 for the first.
        at: when, in UTC.
        kind: what happened: "verdicts", "reviewed", "activated", ...
        actor: who did it: the name of a key, or "system".
        body: what exactly, as canonical JSON.
        hash: seals the entry and all before it.
    """

    seq: int
    at: datetime
    kind: str
    actor: str
    body: str
    hash: str

    @property
    def content(self) -> dict[str, Any]:
        """The body decoded from its JSON."""
        plain: dict[str, Any] = msgspec.json.decode(self.body)
        return plain

    def plain(self) -> dict[str, Any]:
        """The entry for an export: the time in ISO 8601, all else as it is sealed."""
        return asdict(self) | {"at": self.at.isoformat()}


def sealed(before: str, seq: int, at: int, kind: str, actor: str, body: str) -> str:
    """The hash that seals an entry to the one before it; the time in microseconds since 1970."""
    return digest([before, seq, at, kind, actor, body])


def head(connection: Connection) -> Head:
    """Read the present end of the trail."""
    row = connection.execute(select(audit_head.c.seq, audit_head.c.hash)).one_or_none()
    return Head(seq=0, hash=START) if row is None else Head(seq=row.seq, hash=row.hash)


def locked_head(connection: Connection) -> Head:
    """Read the end of the trail; other writers, of any process, wait from here until the present transaction ends."""
    rows = _head.run(connection)
    if len(rows) != 1:
        raise StoreError(f"audit_head must have one row, it has {len(rows)}. `indubio audit verify` says more.")
    return Head(seq=int(rows[0][0]), hash=rows[0][1])


def has_entry(connection: Connection, entry: Head) -> bool:
    """Whether the trail has an entry of this number and hash."""
    return connection.execute(select(audit.c.hash).where(audit.c.seq == entry.seq)).scalar_one_or_none() == entry.hash


def append(
    connection: Connection,
    kind: str,
    body: Mapping[str, Any],
    *,
    actor: str = SYSTEM,
    at: datetime | None = None,
    rows: Touched | None = None,
    end: Head | None = None,
) -> Head:
    """Add an entry in the present transaction; the new end of the trail. Other writers wait for the transaction to end.

    Args:
        connection: to write with.
        kind: what happened.
        body: what exactly, beside the rows.
        actor: who did it.
        at: when; None is now.
        rows: primary keys of the rows that were written, changed or removed, by table. The entry has each of
            them, or its seal, with all of its columns as the database has it now: write first, then append.
        end: of the trail, where this transaction has read it by `locked_head` or moved it; None reads it.
    """
    at, end = at or now(), end or locked_head(connection)
    if rows is not None:
        body = {**body, "rows": touched_rows(connection, rows)}
    seq, moment, text = end.seq + 1, (at - EPOCH) // MICROSECOND, canonical(body).decode()
    seal = sealed(end.hash, seq, moment, kind, actor, text)
    entry = {"seq": seq, "at": moment, "kind": kind, "actor": actor, "body": text, "hash": seal}
    _add.run(connection, [entry])
    _move.run(connection, [{"seq": seq, "hash": seal}])
    return Head(seq=seq, hash=seal)


def entries(connection: Connection, *, after: int = 0) -> Iterator[AuditEntry]:
    """Read entries in order.

    Args:
        connection: to read with.
        after: only those with a higher number.
    """
    chosen = select(audit).order_by(audit.c.seq)
    while rows := connection.execute(chosen.where(audit.c.seq > after).limit(AT_ONCE)).mappings().all():
        yield from (AuditEntry(**row) for row in rows)
        after = rows[-1]["seq"]
