"""Reviews in the store: people claim cases, label them, comment and undo; nothing is ever erased.

Every action is a row of its own. A review counts until its reviewer gives another one for the case or takes it back;
taking back the second makes the first count again. A case is decided when one label of I or A counts; "unsure" leaves
it in the queue for others.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, insert, select, update
from sqlalchemy import case as when

from indubio.errors import ConfigError, ConflictError, NotFoundError
from indubio.texts import english
from indubio_server.store.assessed_cases import CLAIMED_FOR, EVERYTHING, Case, Filters, Status, case_by_id, is_held
from indubio_server.store.audit_trail import append, locked_head
from indubio_server.store.clock import now
from indubio_server.store.tables import cases, claims, reviews

Label = Literal["I", "A", "U"]
LABELS: dict[str, str] = {"I": "inlier", "A": "anomaly", "U": "unsure"}
DECIDING = ("I", "A")
LONGEST_COMMENT = 4000  # characters


@dataclass(frozen=True, kw_only=True)
class Review:
    """One action of a reviewer.

    Args:
        id: its number.
        case_id: of the case.
        reviewer: who.
        label: I, A or U; None for a comment alone and for an undo.
        comment: what they wrote.
        withdraws: number of the review that this one takes back.
        at: when.
        audit: number of the audit entry.
    """

    id: int
    case_id: int
    reviewer: str
    label: str | None
    comment: str
    withdraws: int | None
    at: datetime
    audit: int


def claim(
    connection: Connection,
    case_id: int,
    reviewer: str,
    *,
    hold: timedelta = CLAIMED_FOR,
    at: datetime | None = None,
) -> datetime:
    """Hold a case so that nobody else is given it; returns until when. A claim of one's own is renewed."""
    at = at or now()
    case = _locked(connection, case_id)
    there = connection.execute(select(claims).where(claims.c.case_id == case_id)).one_or_none()
    if there is not None and there.reviewer != reviewer and at < there.until <= at + CLAIMED_FOR:
        raise ConflictError(
            english(
                "case {case} is held by {holder} until {until} UTC. Take the next one.",
                case=case_id,
                holder=there.reviewer,
                until=f"{there.until:%H:%M:%S}",
            )
        )
    if there is not None:
        connection.execute(delete(claims).where(claims.c.case_id == case_id))
    connection.execute(insert(claims), {"case_id": case_id, "reviewer": reviewer, "until": at + hold})
    if there is None or there.reviewer != reviewer or there.until <= at:
        append(connection, "claimed", {"case": case.reference}, actor=reviewer, at=at)
    return at + hold


def release(connection: Connection, case_id: int, reviewer: str) -> None:
    """Give a claimed case back; nothing happens where it is not held by this person."""
    connection.execute(delete(claims).where(claims.c.case_id == case_id, claims.c.reviewer == reviewer))


def claimed_by(connection: Connection, case_id: int, *, at: datetime | None = None) -> str | None:
    """The name of who holds a case; None where nobody does."""
    held = select(claims.c.reviewer).where(claims.c.case_id == case_id, is_held(at or now()))
    return connection.execute(held).scalar_one_or_none()


def review(
    connection: Connection,
    case_id: int,
    reviewer: str,
    label: Label,
    comment: str = "",
    *,
    at: datetime | None = None,
) -> Review:
    """Label a case; the claim on it ends. Refused while somebody else holds it."""
    if label not in LABELS:
        raise ConfigError(english("`label` must be one of {known}, got {got!r}.", known=", ".join(LABELS), got=label))
    case, at = _locked(connection, case_id), at or now()
    holder = claimed_by(connection, case_id, at=at)
    if holder not in (None, reviewer):
        raise ConflictError(english("case {case} is held by {holder}. Take the next one.", case=case_id, holder=holder))
    added = _added(connection, case, reviewer, "reviewed", label=label, comment=comment, at=at)
    release(connection, case_id, reviewer)
    _settle(connection, case_id)
    return added


def comment_on(
    connection: Connection, case_id: int, reviewer: str, comment: str, *, at: datetime | None = None
) -> Review:
    """Write a comment without a label."""
    if not comment.strip():
        raise ConfigError(english("a comment must say something."))
    return _added(connection, _locked(connection, case_id), reviewer, "commented", comment=comment, at=at or now())


def undo(
    connection: Connection,
    reviewer: str,
    case_id: int | None = None,
    *,
    filters: Filters = EVERYTHING,
    at: datetime | None = None,
) -> Review:
    """Take back the last review of this person, or the last one of a case; the review that was taken back.

    Args:
        connection: to write with.
        reviewer: who.
        case_id: the case; None for any that the filters leave in.
        filters: which cases.
        at: now.
    """
    undone = select(reviews.c.withdraws).where(reviews.c.withdraws.is_not(None))
    mine = select(reviews).where(
        reviews.c.reviewer == reviewer, reviews.c.label.is_not(None), reviews.c.id.not_in(undone)
    )
    if case_id is not None:
        mine = mine.where(reviews.c.case_id == case_id)
    mine = mine.where(*_of_cases(filters))
    last = connection.execute(mine.order_by(reviews.c.id.desc()).limit(1)).one_or_none()
    if last is None:
        raise NotFoundError(english("there is nothing to undo."))
    case = _locked(connection, last.case_id)
    _added(connection, case, reviewer, "undone", withdraws=last.id, at=at or now())
    _settle(connection, last.case_id)
    return Review(**last._mapping)


def history(connection: Connection, case_id: int) -> list[Review]:
    """Read everything that was said of a case, in order."""
    rows = connection.execute(select(reviews).where(reviews.c.case_id == case_id).order_by(reviews.c.id))
    return [Review(**row._mapping) for row in rows]


def all_reviews(connection: Connection, filters: Filters = EVERYTHING) -> list[Review]:
    """Read everything that was said of any case, or of some, in order."""
    wanted = select(reviews).where(*_of_cases(filters)).order_by(reviews.c.id)
    return [Review(**row._mapping) for row in connection.execute(wanted)]


def reviews_of(connection: Connection, numbers: Sequence[int], until: int) -> list[Review]:
    """What was said of some cases, in order, up to a number of reviews."""
    wanted = select(reviews).where(reviews.c.case_id.in_(numbers), reviews.c.id <= until).order_by(reviews.c.id)
    return [Review(**row._mapping) for row in connection.execute(wanted)]


def last_review(connection: Connection) -> int:
    """The number of the newest review, 0 where there is none."""
    return int(connection.execute(select(func.max(reviews.c.id))).scalar_one() or 0)


def _of_cases(filters: Filters) -> list[Any]:
    """The condition that a review is of one of these cases; none where all are meant."""
    conditions = filters.conditions()
    return [reviews.c.case_id.in_(select(cases.c.id).where(*conditions))] if conditions else []


def counting(actions: Iterable[Review]) -> dict[int, dict[str, Review]]:
    """The reviews that count: case -> reviewer -> review, from all actions in order."""
    stacks: dict[tuple[int, str], list[Review]] = {}
    for one in actions:
        stack = stacks.setdefault((one.case_id, one.reviewer), [])
        if one.label is not None:
            stack.append(one)
        elif one.withdraws is not None:
            stack[:] = [earlier for earlier in stack if earlier.id != one.withdraws]
    result: dict[int, dict[str, Review]] = {}
    for (case_id, reviewer), stack in stacks.items():
        if stack:
            result.setdefault(case_id, {})[reviewer] = stack[-1]
    return result


def verdict_of_people(counted: Sequence[Review]) -> str | None:
    """I or A: what most of the reviews that count say, the latest in a tie; None where nobody decided."""
    deciding = sorted((one for one in counted if one.label in DECIDING), key=lambda one: one.id)
    if not deciding:
        return None
    votes = [str(one.label) for one in deciding]
    most = max(votes.count(label) for label in DECIDING)
    return [label for label in votes if votes.count(label) == most][-1]


def final_labels(connection: Connection) -> dict[int, str]:
    """Read the final label, I or A, of every decided case."""
    by_case = counting(all_reviews(connection))
    labels = {case_id: verdict_of_people(list(said.values())) for case_id, said in by_case.items()}
    return {case_id: label for case_id, label in labels.items() if label is not None}


def require_comment(comment: str) -> None:
    """Refuse a comment that cannot be kept."""
    if len(comment) > LONGEST_COMMENT or "\x00" in comment:
        raise ConfigError(
            english("a comment must have at most {most} characters, and none that is zero.", most=LONGEST_COMMENT)
        )


def _locked(connection: Connection, case_id: int) -> Case:
    """The case; on PostgreSQL others wait here until this transaction ends, on SQLite they wait already."""
    connection.execute(select(cases.c.id).where(cases.c.id == case_id).with_for_update()).one_or_none()
    return case_by_id(connection, case_id)


def _added(
    connection: Connection,
    case: Case,
    reviewer: str,
    kind: str,
    *,
    label: str | None = None,
    comment: str = "",
    withdraws: int | None = None,
    at: datetime,
) -> Review:
    require_comment(comment)
    audit = locked_head(connection).seq + 1
    columns = {
        "case_id": case.id,
        "reviewer": reviewer,
        "label": label,
        "comment": comment,
        "withdraws": withdraws,
        "at": at,
        "audit": audit,
    }
    number = connection.execute(insert(reviews).returning(reviews.c.id), columns).scalar_one()
    append(connection, kind, {"case": case.reference}, actor=reviewer, at=at, rows={reviews: [number]})
    return Review(id=number, **columns)  # type: ignore[arg-type]


def _settle(connection: Connection, case_id: int) -> None:
    said = counting(history(connection, case_id)).get(case_id, {})
    status = Status.WAITING if verdict_of_people(list(said.values())) is None else Status.DECIDED
    connection.execute(update(cases).where(cases.c.id == case_id).values(status=status))


@dataclass(frozen=True, kw_only=True)
class ReviewProgress:
    """How far the review is.

    Args:
        waiting: cases nobody has decided.
        decided: cases with a label.
        overflow: waiting cases beyond the referral budget.
        labels: how often each label counts.
        by_reviewer: reviews that count, by person.
        today: reviews of the last 24 hours, by person.
    """

    waiting: int
    decided: int
    overflow: int
    labels: dict[str, int]
    by_reviewer: dict[str, int]
    today: dict[str, int]


def progress(connection: Connection, filters: Filters = EVERYTHING, *, at: datetime | None = None) -> ReviewProgress:
    """Count what waits, what is decided, and who said what."""
    states = connection.execute(
        select(cases.c.status, cases.c.overflow, func.count())
        .where(*filters.conditions())
        .group_by(cases.c.status, cases.c.overflow)
    ).all()
    day_ago = (at or now()) - timedelta(days=1)
    recent = func.sum(when((reviews.c.at >= day_ago, 1), else_=0))
    said = connection.execute(
        select(reviews.c.reviewer, reviews.c.label, func.count(), recent)
        .where(*_that_count(), *_of_cases(filters))
        .group_by(reviews.c.reviewer, reviews.c.label)
    ).all()
    return ReviewProgress(
        waiting=sum(count for status, _, count in states if status == Status.WAITING),
        decided=sum(count for status, _, count in states if status == Status.DECIDED),
        overflow=sum(count for status, over, count in states if status == Status.WAITING and over),
        labels={label: sum(count for _, letter, count, _ in said if letter == label) for label in LABELS},
        by_reviewer=_summed((name, count) for name, _, count, _ in said),
        today=_summed((name, int(count)) for name, _, _, count in said),
    )


def _that_count() -> list[ColumnElement[bool]]:
    """The conditions that a review counts, as in `counting`: it was not taken back, and nothing came after it."""

    def stands(one: Any) -> ColumnElement[bool]:
        taken_back = reviews.alias()
        return and_(one.c.label.is_not(None), ~exists().where(taken_back.c.withdraws == one.c.id))

    later = reviews.alias()
    same = and_(later.c.case_id == reviews.c.case_id, later.c.reviewer == reviews.c.reviewer)
    return [stands(reviews), ~exists().where(same, later.c.id > reviews.c.id, stands(later))]


def _summed(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Counts by name, the largest first; none that is zero."""
    sums: Counter[str] = Counter()
    for name, count in counts:
        sums[name] += count
    return {name: count for name, count in sums.most_common() if count}


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far reviewers agree, over pairs of people who labelled the same case.

    Args:
        cases: labelled I or A by at least two people.
        pairs: pairs of labels on these.
        agreeing: share of the pairs that are the same; None without pairs.
        kappa: Fleiss' kappa for two labels over these pairs: 1 is full agreement, 0 is chance. None without pairs, or
            where all labels are the same and chance explains everything.
        disagreed: numbers of the cases that people disagree on.
    """

    cases: int
    pairs: int
    agreeing: float | None
    kappa: float | None
    disagreed: tuple[int, ...]


def agreement(connection: Connection, filters: Filters = EVERYTHING) -> Agreement:
    """Measure how far reviewers agree, on all cases or some."""
    votes = {
        case_id: [one.label for one in said.values() if one.label in DECIDING]
        for case_id, said in counting(all_reviews(connection, filters)).items()
    }
    shared = {case_id: labels for case_id, labels in votes.items() if len(labels) > 1}
    if not shared:
        return Agreement(cases=0, pairs=0, agreeing=None, kappa=None, disagreed=())
    pairs = sum(len(labels) * (len(labels) - 1) // 2 for labels in shared.values())
    same = sum(sum(labels.count(x) * (labels.count(x) - 1) // 2 for x in DECIDING) for labels in shared.values())
    total = sum(map(len, shared.values()))
    by_chance = sum((sum(labels.count(x) for labels in shared.values()) / total) ** 2 for x in DECIDING)
    observed = sum(
        sum(labels.count(x) * (labels.count(x) - 1) for x in DECIDING) / (len(labels) * (len(labels) - 1))
        for labels in shared.values()
    ) / len(shared)
    return Agreement(
        cases=len(shared),
        pairs=pairs,
        agreeing=same / pairs,
        kappa=None if by_chance == 1 else (observed - by_chance) / (1 - by_chance),
        disagreed=tuple(case_id for case_id, labels in shared.items() if len(set(labels)) > 1),
    )
