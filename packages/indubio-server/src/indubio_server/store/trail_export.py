"""Exports of the trail: a run of entries as JSON lines, which can be verified by itself.

The first line has the head before the run, the last one how many entries there are and the head at their end: an
export that lost its end shows. A run has no holes, whatever the clock did: a period of time is the shortest run that
has all of its entries.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from indubio.errors import DataError, NotFoundError
from indubio_server.store.audit_trail import START, AuditEntry, Head, entries
from indubio_server.store.tables import EPOCH, MICROSECOND, audit
from indubio_server.store.verification import MOST_FINDINGS, chain_findings

UNFINISHED = "the export has no closing line: it was cut off."


class _Before(msgspec.Struct, forbid_unknown_fields=True):
    before: Head


class _End(msgspec.Struct):
    entries: int
    end: Head


def export(
    connection: Connection,
    *,
    after: int = 0,
    until: int | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
) -> Iterator[bytes]:
    """Write a run of entries as JSON lines, between the head before them and that at their end.

    Args:
        connection: to read with.
        after: only entries with a higher number.
        until: only entries up to this number.
        since: begin with the first entry of this time or later.
        before: end with the last entry before this time.
    """
    first, last = _run(connection, after, until, since, before)
    end = _head_at(connection, first - 1)
    yield msgspec.json.encode({"before": end}) + b"\n"
    count = 0
    for entry in entries(connection, after=first - 1):
        if entry.seq > last:
            break
        yield msgspec.json.encode(entry.plain()) + b"\n"
        end, count = Head(seq=entry.seq, hash=entry.hash), count + 1
    yield msgspec.json.encode({"entries": count, "end": end}) + b"\n"


def verify_export(lines: Iterable[bytes]) -> tuple[int, tuple[str, ...]]:
    """Verify an export by itself: how many entries, and what is wrong.

    Args:
        lines: of the export.
    """
    last: Head | None = None
    end: _End | None = None
    count = 0
    findings: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            if last is None:
                last = msgspec.json.decode(line, type=_Before).before
                continue
            if end is not None:
                findings.append(f"line {number} follows the closing line.")
                break
            if line.startswith(b'{"entries":'):
                end = msgspec.json.decode(line, type=_End)
                continue
            entry = msgspec.json.decode(line, type=AuditEntry)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if last is None:
                raise DataError(f"line {number} is no beginning of an export: {error}.") from None
            findings.append(f"line {number} is no entry: {error}.")
            continue
        findings += chain_findings(last, _raw(entry))
        last, count = Head(seq=entry.seq, hash=entry.hash), count + 1
    if last is None:
        raise DataError("the export is empty.")
    if end is None:
        findings.append(UNFINISHED)
    elif (end.entries, end.end) != (count, last):
        findings.append(
            f"the closing line says {end.entries} entries up to {end.end.seq}, and there are {count} up to {last.seq}."
        )
    return count, tuple(findings[:MOST_FINDINGS])


def _raw(entry: AuditEntry) -> dict[str, Any]:
    return asdict(entry) | {"at": (entry.at - EPOCH) // MICROSECOND}


def _run(
    connection: Connection, after: int, until: int | None, since: datetime | None, before: datetime | None
) -> tuple[int, int]:
    """The first and the last number of the shortest run that has all entries which are asked for."""
    wanted = select(func.min(audit.c.seq), func.max(audit.c.seq)).where(audit.c.seq > after)
    if until is not None:
        wanted = wanted.where(audit.c.seq <= until)
    if since is not None:
        wanted = wanted.where(audit.c.at >= since)
    if before is not None:
        wanted = wanted.where(audit.c.at < before)
    first, last = connection.execute(wanted).one()
    return (after + 1, after) if first is None else (first, last)


def _head_at(connection: Connection, seq: int) -> Head:
    if seq == 0:
        return Head(seq=0, hash=START)
    found = connection.execute(select(audit.c.hash).where(audit.c.seq == seq)).scalar_one_or_none()
    if found is None:
        raise NotFoundError(f"the trail has no entry {seq}.")
    return Head(seq=seq, hash=found)
