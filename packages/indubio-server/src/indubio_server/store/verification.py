"""Verification: is the audit trail whole, and do the tables still agree with it?

The chain itself shows changed, removed and reordered entries. Heads that were kept elsewhere show a cut-off end and a
trail that was made anew; without one the end is not proven. The entries seal the rows of the tables in turn, so a
changed label, a removed case or an activation that nobody did shows too. Whatever is found in the tables is read as it
is, so that nothing that somebody put there ends the verification.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from indubio_server.store.audit_trail import FIELDS, START, Head, sealed
from indubio_server.store.expected_seals import ExpectedSeals
from indubio_server.store.reviews import Review, counting, verdict_of_people
from indubio_server.store.row_seals import any_text, raw_rows, row_seal
from indubio_server.store.tables import audit_head, cases, reviews
from indubio_server.store.trail_entries import ENTRY_FAULTS, entry_fault, raw_entries
from indubio_server.store.version_files import file_findings

MOST_FINDINGS = 20


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of a verification.

    Args:
        head: the last entry of the chain.
        verdicts: how many verdicts it covers.
        cases: how many stored cases were compared.
        reviews: how many reviews.
        proven: the highest entry that a head kept elsewhere confirms, 0 without any. What came after it could have
            been cut off, and nothing would show.
        findings: what is wrong, in words; nothing where all is well. At most `MOST_FINDINGS`.
    """

    head: Head
    verdicts: int
    cases: int
    reviews: int
    proven: int
    findings: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify(
    connection: Connection, anchors: Iterable[Head] = (), *, files: bool = False, archive: Path | None = None
) -> Verification:
    """Walk the whole chain, and compare what is stored with it.

    Args:
        connection: to read with.
        anchors: heads that were kept elsewhere.
        files: whether to compare the files of all model versions too.
        archive: folder in which versions lie that were fetched, to compare those too.
    """
    kept: dict[int, list[str]] = {}
    for anchor in anchors:
        kept.setdefault(anchor.seq, []).append(anchor.hash)
    walk = _Walk(connection, kept)
    findings: list[str] = []
    with any_text(connection):
        for finding in chain(walk.findings(), file_findings(connection, archive) if files else ()):
            if finding not in findings:
                findings.append(finding)
            if len(findings) == MOST_FINDINGS:
                findings.append("... and perhaps more.")
                break
    return Verification(
        head=walk.last,
        verdicts=walk.verdicts,
        cases=walk.cases,
        reviews=walk.reviews,
        proven=walk.proven,
        findings=tuple(findings),
    )


class _Walk:
    def __init__(self, connection: Connection, anchors: dict[int, list[str]]) -> None:
        self._connection, self._anchors = connection, anchors
        self._expected = ExpectedSeals()
        self.last = Head(seq=0, hash=START)
        self.verdicts = self.cases = self.reviews = self.proven = 0

    def findings(self) -> Iterator[str]:
        for entry in raw_entries(self._connection):
            yield from self._entry(entry)
        last = self.last.seq
        yield from self._head()
        beyond = [seq for seq in self._anchors if seq > last]
        if beyond:
            yield f"the trail ends at entry {last}, and entry {max(beyond)} was anchored: its end was cut off."
        yield from (f"entry {seq} was anchored, and is not there." for seq in self._anchors if seq <= last)
        yield from self._uncovered()

    def _entry(self, entry: dict[str, Any]) -> Iterator[str]:
        seq = entry["seq"]
        fault = entry_fault(entry)
        if fault is not None:
            yield f"entry {seq} was changed: {fault}."
            self.last = Head(seq=seq, hash=str(entry["hash"]))
            return
        yield from chain_findings(self.last, entry)
        self.last = Head(seq=seq, hash=entry["hash"])
        anchored = self._anchors.pop(seq, [])
        if any(kept != entry["hash"] for kept in anchored):
            yield f"entry {seq} is not the one that was anchored: the trail was made anew."
        elif anchored:
            self.proven = seq
        try:
            said = msgspec.json.decode(entry["body"])
            yield from self._expected.note(seq, entry["kind"], said)
            if entry["kind"] == "verdicts":
                yield from self._stored_cases(seq, said)
        except ENTRY_FAULTS as error:
            yield f"entry {seq} cannot be read: {type(error).__name__} ({error})."

    def _stored_cases(self, seq: int, said: dict[str, Any]) -> Iterator[str]:
        records = said["records"]
        self.verdicts += len(records)
        expected = {record["case"]: record for record in records if record.get("case")}
        for row in raw_rows(self._connection, cases, cases.c.audit == seq):
            self.cases += 1
            record = expected.pop(row["reference"], None)
            if record is None or record["row"] != row_seal(cases, row):
                yield f"case {row['id']} was changed: it is not as entry {seq} sealed it."
        for reference in expected:
            yield f"case {reference} of entry {seq} was removed."

    def _head(self) -> Iterator[str]:
        heads = list(raw_rows(self._connection, audit_head))
        if len(heads) != 1 or heads[0]["id"] != 1:
            yield f"audit_head has {len(heads)} rows, and should have one with the id 1."
        for row in heads:
            if (row["seq"], row["hash"]) != (self.last.seq, self.last.hash):
                yield (
                    f"the trail ends at entry {self.last.seq}, and its head says {row['seq']}: entries or the head "
                    "were removed, added or changed."
                )

    def _uncovered(self) -> Iterator[str]:
        stored, self.reviews = (
            self._connection.execute(select(func.count()).select_from(table)).scalar_one() for table in (cases, reviews)
        )
        if stored != self.cases:
            yield f"{stored - self.cases} of {stored} cases are covered by no entry."
        for compare in (self._status(), self._expected.findings(self._connection)):
            try:
                yield from compare
            except ENTRY_FAULTS as error:
                yield f"the tables cannot be compared with the trail: {type(error).__name__} ({error})."

    def _status(self) -> Iterator[str]:
        """A case is decided when its reviews decide it, and waits otherwise."""
        said = counting(Review(**row) for row in raw_rows(self._connection, reviews))
        decided = {case for case, by in said.items() if verdict_of_people(list(by.values())) is not None}
        wanted = select(cases.c.id, cases.c.status).order_by(cases.c.id)
        for number, status in self._connection.execute(wanted):
            expected = "decided" if number in decided else "waiting"
            if status != expected:
                yield f"the status of case {number} was changed: it is {status!r}, and its reviews say {expected!r}."


def chain_findings(last: Head, entry: dict[str, Any]) -> Iterator[str]:
    """Whether an entry follows the one before it and has its hash."""
    seq = entry["seq"]
    if seq != last.seq + 1:
        yield f"entry {last.seq} is followed by entry {seq}: entries were removed or moved."
    if sealed(last.hash, *(entry[name] for name in FIELDS)) != entry["hash"]:
        yield f"entry {seq} does not match its hash: it, or the one before it, was changed."
