"""Labels that come in a file: checked as a whole, then written in blocks, so that verdicts come in between.

Nothing is written before all of the file is known to be right. A file whose upload was cut off between two blocks can
be given again: a label that counts already is not given twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from indubio.errors import DataError
from indubio.texts import english
from indubio_server.store.assessed_cases import CLAIMED_FOR, Filters, Status
from indubio_server.store.audit_trail import append, locked_head
from indubio_server.store.clock import now
from indubio_server.store.reviews import Label, counting, last_review, require_comment, reviews_of, verdict_of_people
from indubio_server.store.tables import cases, claims, reviews

BLOCK = 250  # labels that one transaction writes: some hundredths of a second


@dataclass(frozen=True, kw_only=True)
class ImportedLabel:
    """A label of a file.

    Args:
        place: where it stands, for messages.
        reference: of the case.
        label: I, A or U.
        comment: with it.
    """

    place: str
    reference: str
    label: Label
    comment: str


def one_by_case(labels: Sequence[ImportedLabel]) -> list[ImportedLabel]:
    """One label for each case: the first where several say the same; refused where they do not."""
    first: dict[str, ImportedLabel] = {}
    for one in labels:
        require_comment(one.comment)
        before = first.setdefault(one.reference, one)
        if before.label != one.label:
            raise DataError(
                english(
                    "{place}: case {case!r} has another label in {other}. Nothing was taken.",
                    place=one.place,
                    case=one.reference,
                    other=before.place,
                )
            )
    return list(first.values())


def require_free(connection: Connection, labels: Sequence[ImportedLabel], reviewer: str, seen: Filters) -> None:
    """Refuse labels of cases that are not there, or that somebody else looks at.

    Args:
        connection: to read with.
        labels: one for each case.
        reviewer: who brings them.
        seen: the cases that they may see.
    """
    at = now()
    wanted = select(cases.c.id, cases.c.reference, claims.c.reviewer, claims.c.until).select_from(
        cases.outerjoin(claims)
    )
    for block in blocks(labels):
        named = cases.c.reference.in_([one.reference for one in block])
        there = {row.reference: row for row in connection.execute(wanted.where(named, *seen.conditions()))}
        for one in block:
            row = there.get(one.reference)
            if row is None:
                raise DataError(
                    english(
                        "{place}: there is no case {case!r}. Nothing was taken.", place=one.place, case=one.reference
                    )
                )
            if row.reviewer not in (None, reviewer) and at < row.until <= at + CLAIMED_FOR:
                raise DataError(
                    english(
                        "{place}: {holder} is looking at case {case} now. Nothing was taken.",
                        place=one.place,
                        holder=row.reviewer,
                        case=row.id,
                    )
                )


def blocks(labels: Sequence[ImportedLabel]) -> Iterator[Sequence[ImportedLabel]]:
    """The labels in blocks, each for one `write_block`."""
    return (labels[start : start + BLOCK] for start in range(0, len(labels), BLOCK))


def write_block(connection: Connection, block: Sequence[ImportedLabel], reviewer: str) -> None:
    """Write labels of as many cases in the name of who brings them; those that count already are there."""
    wanted = select(cases.c.id, cases.c.reference).where(cases.c.reference.in_([one.reference for one in block]))
    numbers = {row.reference: int(row.id) for row in connection.execute(wanted.order_by(cases.c.id).with_for_update())}
    end, at = locked_head(connection), now()
    said = counting(reviews_of(connection, list(numbers.values()), last_review(connection)))
    rows: list[dict[str, Any]] = []
    for one in block:
        mine = said.get(numbers[one.reference], {}).get(reviewer)
        if mine is None or (mine.label, mine.comment) != (one.label, one.comment):
            rows.append(
                {
                    "case_id": numbers[one.reference],
                    "reviewer": reviewer,
                    "label": one.label,
                    "comment": one.comment,
                    "withdraws": None,
                    "at": at,
                    "audit": end.seq + 1,
                }
            )
    if not rows:
        return
    connection.execute(insert(reviews), rows)
    touched = [row["case_id"] for row in rows]
    connection.execute(delete(claims).where(claims.c.case_id.in_(touched), claims.c.reviewer == reviewer))
    known = reviews_of(connection, touched, last_review(connection))
    said, added = counting(known), [one.id for one in known if one.audit == end.seq + 1]
    decided = {number for number in touched if verdict_of_people(list(said[number].values())) is not None}
    for status, of in ((Status.DECIDED, decided), (Status.WAITING, {*touched} - decided)):
        connection.execute(update(cases).where(cases.c.id.in_(of)).values(status=status))
    append(connection, "imported", {"labels": len(rows)}, actor=reviewer, at=at, rows={reviews: added}, end=end)
