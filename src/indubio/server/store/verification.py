"""Verification: is the audit trail whole, and do the tables still agree with it?

The chain itself shows changed, removed and reordered entries. Heads that were kept elsewhere show a cut-off end and a
trail that was made anew. The entries seal cases, reviews, keys, versions, activations, jobs and alarms in turn, so a
changed label, a removed case or an activation that nobody did shows too.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from indubio.errors import DataError
from indubio.server.store.audit_trail import START, AuditEntry, Head, entries, head, sealed
from indubio.server.store.cases import SEALED, seal
from indubio.server.store.clock import now
from indubio.server.store.expected_rows import ExpectedRows
from indubio.server.store.keys import sites_of
from indubio.server.store.reviews import review_body
from indubio.server.store.tables import cases, keys, reviews

MOST_FINDINGS = 20


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of a verification.

    Args:
        head: the end of the chain.
        verdicts: how many verdicts it covers.
        cases: how many stored cases were compared.
        reviews: how many reviews.
        findings: what is wrong, in words; nothing where all is well. At most `MOST_FINDINGS`.
    """

    head: Head
    verdicts: int
    cases: int
    reviews: int
    findings: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify(connection: Connection, anchors: Iterable[Head] = ()) -> Verification:
    """Walk the whole chain, and compare what is stored with it.

    Args:
        connection: to read with.
        anchors: heads that were kept elsewhere.
    """
    kept: dict[int, list[str]] = {}
    for anchor in anchors:
        kept.setdefault(anchor.seq, []).append(anchor.hash)
    walk = _Walk(connection, kept)
    findings = []
    for finding in walk.findings():
        findings.append(finding)
        if len(findings) == MOST_FINDINGS:
            findings.append("... and perhaps more.")
            break
    return Verification(
        head=head(connection),
        verdicts=walk.verdicts,
        cases=walk.cases,
        reviews=walk.reviews,
        findings=tuple(findings),
    )


class _Walk:
    def __init__(self, connection: Connection, anchors: dict[int, list[str]]) -> None:
        self._connection, self._anchors = connection, anchors
        self._keys: dict[str, tuple[Any, ...]] = {}  # role, hash, sites, whether it was revoked
        self._ledger = ExpectedRows()
        self.verdicts = self.cases = self.reviews = 0

    def findings(self) -> Iterator[str]:
        end = head(self._connection)
        last = Head(seq=0, hash=START)
        for entry in entries(self._connection):
            yield from _entry_findings(last, entry)
            if any(kept != entry.hash for kept in self._anchors.pop(entry.seq, ())):
                yield f"entry {entry.seq} is not the one that was anchored: the trail was made anew."
            yield from self._stored(entry)
            last = Head(seq=entry.seq, hash=entry.hash)
        if last != end:
            yield f"the trail ends at entry {last.seq}, and its head says {end.seq}: entries were removed or added."
        beyond = [seq for seq in self._anchors if seq > last.seq]
        if beyond:
            yield f"the trail ends at entry {last.seq}, and entry {max(beyond)} was anchored: its end was cut off."
        yield from self._uncovered()

    def _stored(self, entry: AuditEntry) -> Iterator[str]:
        self._ledger.note(entry)
        if entry.kind == "verdicts":
            yield from self._stored_cases(entry)
        elif entry.kind in ("reviewed", "commented", "undone"):
            yield from self._stored_reviews(entry)
        elif entry.kind == "key added":
            self._keys[entry.content["name"]] = _key_columns(entry.content, revoked=False)
        elif entry.kind == "key revoked" and entry.content["name"] in self._keys:
            self._keys[entry.content["name"]] = (*self._keys[entry.content["name"]][:-1], True)

    def _stored_cases(self, entry: AuditEntry) -> Iterator[str]:
        records = entry.content["records"]
        self.verdicts += len(records)
        sealed_cases = {record["case"]: record["seal"] for record in records if record.get("case")}
        there = self._connection.execute(select(cases).where(cases.c.audit == entry.seq)).mappings().all()
        self.cases += len(there)
        for row in there:
            if sealed_cases.pop(row["reference"], None) != seal({name: row[name] for name in SEALED}):
                yield f"case {row['id']} was changed: it is not as entry {entry.seq} sealed it."
            elif type(row["input"]) is not bytes or hashlib.sha256(row["input"]).hexdigest() != row["input_hash"]:
                yield f"the input of case {row['id']} was changed."
        for reference in sealed_cases:
            yield f"case {reference} of entry {entry.seq} was removed."

    def _stored_reviews(self, entry: AuditEntry) -> Iterator[str]:
        wanted = select(reviews, cases.c.reference).join(cases, isouter=True).where(reviews.c.audit == entry.seq)
        there = self._connection.execute(wanted).mappings().all()
        self.reviews += len(there)
        if len(there) != 1:
            yield f"entry {entry.seq} has {len(there)} reviews instead of one."
        for row in there:
            said = review_body(row["reference"], row["label"], row["comment"], row["withdraws"])
            if (said, row["reviewer"], row["at"]) != (entry.content, entry.actor, entry.at):
                yield f"review {row['id']} was changed: it is not as entry {entry.seq} has it."

    def _uncovered(self) -> Iterator[str]:
        for table, seen in ((cases, self.cases), (reviews, self.reviews)):
            count = self._connection.execute(select(func.count()).select_from(table)).scalar_one()
            if count != seen:
                yield f"{count - seen} of {count} {table.name} are covered by no entry."
        there = {
            row["name"]: _key_columns(
                {**row, "sites": None if row["sites"] is None else sorted(sites_of(row["sites"]) or ())},
                revoked=row["revoked"] is not None,
            )
            for row in self._connection.execute(select(keys)).mappings()
        }
        for name in sorted(there.keys() | self._keys.keys()):
            if there.get(name) != self._keys.get(name):
                yield f"the key {name!r} is not as the trail has it."
        yield from self._ledger.findings(self._connection)


def _key_columns(content: Mapping[str, Any], *, revoked: bool) -> tuple[Any, ...]:
    """What is compared of a key; entries from before there were sites say nothing of them, and the key has all."""
    return content["role"], content["hash"], content.get("sites"), revoked


def _entry_findings(last: Head, entry: AuditEntry) -> Iterator[str]:
    if entry.seq != last.seq + 1:
        yield f"entry {last.seq} is followed by entry {entry.seq}: entries were removed or moved."
    if sealed(last.hash, entry.seq, entry.at, entry.kind, entry.actor, entry.body) != entry.hash:
        yield f"entry {entry.seq} does not match its hash: it, or the one before it, was changed."


def verify_export(lines: Iterable[bytes]) -> tuple[int, tuple[str, ...]]:
    """Verify an exported period by itself: how many entries, and what is wrong.

    Args:
        lines: of the export, the first of which says what came before.
    """
    last: Head | None = None
    count = 0
    findings: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            if last is None:
                last = msgspec.json.decode(line, type=_Before).before
                continue
            entry = msgspec.json.decode(line, type=AuditEntry)
        except msgspec.DecodeError as error:
            raise DataError(f"line {number} of the export is no entry: {error}.") from None
        findings += _entry_findings(last, entry)
        last, count = Head(seq=entry.seq, hash=entry.hash), count + 1
    return count, tuple(findings[:MOST_FINDINGS])


class _Before(msgspec.Struct):
    before: Head


def export(connection: Connection, **period: Any) -> Iterator[bytes]:
    """Entries of a period as JSON lines, after a line with the head before them.

    Args:
        connection: to read with.
        period: `since` and `until`, as for `entries`.
    """
    before: Head | None = None
    for entry in entries(connection, **period):
        if before is None:
            before = _head_before(connection, entry.seq)
            yield msgspec.json.encode({"before": before}) + b"\n"
        yield msgspec.json.encode(entry.plain()) + b"\n"


def _head_before(connection: Connection, seq: int) -> Head:
    for entry in entries(connection, after=seq - 2):
        if entry.seq == seq - 1:
            return Head(seq=entry.seq, hash=entry.hash)
        break
    return Head(seq=0, hash=START)


def write_anchor(path: Path, end: Head) -> None:
    """Add a head to the anchor file."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode({"seq": end.seq, "hash": end.hash, "at": now().isoformat()}) + b"\n")


def read_anchors(path: Path) -> list[Head]:
    """The heads of an anchor file; a last line that was cut off by a crash is passed over."""
    heads = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                heads.append(msgspec.json.decode(line, type=Head))
        except msgspec.DecodeError as error:
            if number < len(lines):
                raise DataError(f"{path}, line {number} is no head of a trail: {error}.") from None
    return heads
