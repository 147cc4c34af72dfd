"""Cases: the examples that were kept for people, each as it was assessed, and the queue of those that wait."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    false,
    func,
    insert,
    not_,
    or_,
    select,
    true,
)

from indubio.errors import NotFoundError
from indubio.texts import english
from indubio_server.plant import MachinePattern
from indubio_server.store.clock import now
from indubio_server.store.statements import PreparedStatement
from indubio_server.store.tables import EPOCH, MICROSECOND, as_json, cases, claims, reviews

QueueOrder = Literal["age", "uncertainty"]
CLAIMED_FOR = timedelta(minutes=10)
_add = PreparedStatement(insert(cases).inline(), cases.c.keys())
_last = PreparedStatement(select(func.max(cases.c.id)))
# As plain text: to look something up by SQLAlchemy's own kind of names takes several times as long.
ASSESSED = tuple(str(column.name) for column in cases.c if column.name not in ("id", "audit", "status"))


class Status(StrEnum):
    """Whether a person must still look at a case."""

    WAITING = "waiting"
    DECIDED = "decided"


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """An assessed example that is to be kept; the numbers are those of `Assessment`.

    Args:
        reference: what the answer calls the case.
        at: when it was assessed.
        model: name of the model. version: of it. sha256: of its files. rule: version of the referral rule.
        machine: where it comes from, "" where that was not said.
        external_id: what the client calls it.
        input: the example as it came, see `indubio_server.models.model_inputs`.
        overflow: whether it was referred beyond the referral budget of its hour.
    """

    reference: str
    at: datetime
    model: str
    version: int
    sha256: str
    rule: str
    machine: str
    external_id: str | None
    verdict: str
    reason: str
    prediction: bool
    probability: float
    epistemic: float
    aleatoric: float
    total: float
    exceed: float
    var_nll: float
    nll: float
    novelty: float | None
    p_value: float | None
    notes: str
    input: bytes
    overflow: bool = False

    @property
    def input_hash(self) -> str:
        """The sha256 of the stored input."""
        return hashlib.sha256(self.input).hexdigest()

    def row(self) -> dict[str, Any]:
        """The case as columns of the table."""
        return {name: getattr(self, name) for name in ASSESSED} | {"notes": as_json(self.notes)}


@dataclass(frozen=True, kw_only=True)
class Case(Assessed):
    """A case as it is in the store.

    Args:
        id: its number; higher is newer.
        audit: number of the audit entry that covers its verdict.
        status: waiting or decided.
    """

    id: int
    audit: int
    status: str


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which cases to read; None means any.

    Args:
        model: name of the model.
        version: of the model.
        machine: where they come from.
        reason: why they were referred, as `indubio.decision.Reason` says it, or "" for cases kept for control.
        verdict: INLIER, ANOMALY or REFER.
        since: assessed at this time or later.
        until: assessed before.
        overflow: only those within (False) or beyond (True) the referral budget.
        machines: only those of machines that are meant here; what somebody may not see is left out so.
    """

    model: str | None = None
    version: int | None = None
    machine: str | None = None
    reason: str | None = None
    verdict: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    overflow: bool | None = None
    machines: tuple[MachinePattern, ...] | None = None

    def conditions(self) -> list[Any]:
        """The filters as conditions on the table."""
        equal = ("model", "version", "machine", "reason", "verdict", "overflow")
        conditions = [cases.c[name] == getattr(self, name) for name in equal if getattr(self, name) is not None]
        if self.since is not None:
            conditions.append(cases.c.at >= self.since)
        if self.until is not None:
            conditions.append(cases.c.at < self.until)
        if self.machines is not None:
            conditions.append(of_machines(cases.c.machine, self.machines))
        return conditions


EVERYTHING = Filters()


def of_machines(column: Column[str], patterns: Sequence[MachinePattern]) -> ColumnElement[bool]:
    """The condition that a column names one of these machines, the same as `MachinePattern.matches`."""
    whole = [one.start for one in patterns if one.end is None]
    return or_(column.in_(whole), *(_matches(column, one.start, one.end) for one in patterns if one.end is not None))


def _matches(column: Column[str], start: str, end: str) -> ColumnElement[bool]:
    # LIKE knows no difference between small and capital letters in SQLite, and > goes by the language in PostgreSQL.
    length = func.length(column)
    return and_(
        length >= max(1, len(start) + len(end)),
        func.substr(column, 1, len(start)) == start,
        func.substr(column, length - (len(end) - 1)) == end,
    )


def case_rows(connection: Connection, kept: Sequence[Assessed], audit: int) -> list[dict[str, Any]]:
    """Cases as rows that can be written, all waiting; the caller holds the trail, so nobody else takes their numbers.

    Args:
        connection: to read the last number with.
        kept: the cases.
        audit: number of the audit entry that covers them.
    """
    if not kept:
        return []
    ((last,),) = _last.run(connection)
    return [
        case.row()
        | {"id": number, "audit": audit, "status": Status.WAITING.value, "at": (case.at - EPOCH) // MICROSECOND}
        for number, case in enumerate(kept, (last or 0) + 1)
    ]


def add_cases(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write cases; the audit entry that seals these rows is added in the same transaction."""
    if rows:
        _add.run(connection, rows)


def case_by_id(connection: Connection, case_id: int, filters: Filters = EVERYTHING) -> Case:
    """Read one case by its number; one that the filters leave out is not there."""
    row = connection.execute(select(cases).where(cases.c.id == case_id, *filters.conditions())).one_or_none()
    if row is None:
        raise NotFoundError(english("there is no case {case}.", case=case_id))
    return _case(row)


def case_by_reference(connection: Connection, reference: str, filters: Filters = EVERYTHING) -> Case:
    """Read one case by the reference that the answer gave; one that the filters leave out is not there."""
    wanted = select(cases).where(cases.c.reference == reference, *filters.conditions())
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError(english("there is no case {case!r}.", case=reference))
    return _case(row)


def cases_waiting(
    connection: Connection,
    order: QueueOrder = "age",
    filters: Filters = EVERYTHING,
    *,
    reviewer: str | None = None,
    limit: int = 50,
    offset: int = 0,
    at: datetime | None = None,
) -> list[Case]:
    """Read the queue: cases that wait for a person.

    Args:
        connection: to read with.
        order: the oldest first, or the most uncertain first; cases within the referral budget always come first.
        filters: which cases.
        reviewer: leave out what this person said "unsure" to, and what others hold; None gives all.
        limit: at most so many.
        offset: leave out so many first.
        at: now; claims that end before do not count.
    """
    found: list[Case] = []
    by = _order(order)
    for half in _halves(_waiting(filters, reviewer, at or now())):
        some = half.order_by(*by).limit(limit - len(found)).offset(offset)
        found += [_case(row) for row in connection.execute(some)]
        if len(found) == limit:
            break
        if offset and not found:
            offset -= min(offset, _count(connection, half))
        else:
            offset = 0
    return found


def next_to(
    connection: Connection,
    case: Case,
    order: QueueOrder = "age",
    filters: Filters = EVERYTHING,
    *,
    reviewer: str | None = None,
    before: bool = False,
    at: datetime | None = None,
) -> Case | None:
    """The case after (or before) this one in the queue, whether or not this one still waits; None at the end.

    Args:
        connection: to read with.
        case: where to start from.
        order: as in `cases_waiting`.
        filters: which cases.
        reviewer: as in `cases_waiting`.
        before: look the other way.
        at: now.
    """
    within, beyond = _halves(_waiting(filters, reviewer, at or now()))
    here, other = (beyond, within) if case.overflow else (within, beyond)
    halves = [here.where(_further(case, order, before=before)), *([other] if case.overflow == before else [])]
    for half in halves:
        row = connection.execute(half.order_by(*_order(order, back=before)).limit(1)).one_or_none()
        if row is not None:
            return _case(row)
    return None


def _halves(wanted: Select[Any]) -> tuple[Select[Any], Select[Any]]:
    """The cases within the referral budget, and those beyond: each half is in the order of an index."""
    return wanted.where(cases.c.overflow == false()), wanted.where(cases.c.overflow == true())


def _order(order: QueueOrder, *, back: bool = False) -> list[ColumnElement[Any]]:
    by_age = order == "age"
    first = cases.c.at if by_age else cases.c.total
    return [first.asc() if by_age != back else first.desc(), cases.c.id.desc() if back else cases.c.id.asc()]


def _further(case: Case, order: QueueOrder, *, before: bool) -> ColumnElement[bool]:
    """The condition that a case of the same half comes after this one, or before it."""
    first: ColumnElement[Any] = cases.c.at if order == "age" else cases.c.total
    own = case.at if order == "age" else case.total
    upwards = (order == "age") != before
    later = cases.c.id < case.id if before else cases.c.id > case.id
    beyond = first >= own if upwards else first <= own
    return and_(beyond, or_(first != own, later))


def count_waiting(
    connection: Connection, filters: Filters = EVERYTHING, *, reviewer: str | None = None, at: datetime | None = None
) -> int:
    """How many cases are in the queue."""
    return _count(connection, _waiting(filters, reviewer, at or now()))


def chosen_cases(
    connection: Connection,
    filters: Filters = EVERYTHING,
    *,
    status: Status | None = None,
    limit: int | None = None,
    after: int = 0,
    until: int | None = None,
) -> list[Case]:
    """Cases in the order they came, waiting or not: for exports, curves and lists.

    Args:
        connection: to read with.
        filters: which cases.
        status: waiting or decided; None for both.
        limit: at most so many.
        after: only those with a higher number.
        until: only those up to this number.
    """
    wanted = select(cases).where(cases.c.id > after, *filters.conditions()).order_by(cases.c.id)
    if status is not None:
        wanted = wanted.where(cases.c.status == status)
    if until is not None:
        wanted = wanted.where(cases.c.id <= until)
    return [_case(row) for row in connection.execute(wanted if limit is None else wanted.limit(limit))]


def count_cases(connection: Connection, filters: Filters = EVERYTHING) -> int:
    """How many cases were kept."""
    return int(connection.execute(select(func.count()).select_from(cases).where(*filters.conditions())).scalar_one())


def last_case(connection: Connection) -> int:
    """The number of the newest case, 0 where there is none."""
    return int(connection.execute(select(func.max(cases.c.id))).scalar_one() or 0)


def second_opinions(
    connection: Connection, reviewer: str, filters: Filters = EVERYTHING, *, limit: int = 50
) -> list[Case]:
    """Decided cases that this person has not looked at, the newest first: what agreement is measured on."""
    own = select(reviews.c.case_id).where(reviews.c.reviewer == reviewer)
    wanted = select(cases).where(cases.c.status == Status.DECIDED, cases.c.id.not_in(own), *filters.conditions())
    return [_case(row) for row in connection.execute(wanted.order_by(cases.c.id.desc()).limit(limit))]


def machines(connection: Connection, filters: Filters = EVERYTHING) -> list[str]:
    """The machines that kept cases came from."""
    wanted = select(cases.c.machine).where(*filters.conditions()).distinct()
    return list(connection.execute(wanted.order_by(cases.c.machine)).scalars())


def oldest_waiting(connection: Connection, filters: Filters = EVERYTHING) -> datetime | None:
    """When the oldest waiting case was assessed."""
    waiting = select(cases.c.at).where(cases.c.status == Status.WAITING, *filters.conditions())
    first = [connection.execute(half.order_by(cases.c.at).limit(1)).scalar() for half in _halves(waiting)]
    return min((at for at in first if at is not None), default=None)


def within_budget(connection: Connection, since: datetime, until: datetime) -> int:
    """How many cases were referred in this time and are not marked as overflow; a clock may once have been ahead."""
    wanted = select(func.count()).where(
        cases.c.verdict == "REFER", cases.c.overflow == false(), cases.c.at >= since, cases.c.at <= until
    )
    return int(connection.execute(wanted.select_from(cases)).scalar_one())


def count_by_machine(
    connection: Connection, filters: Filters = EVERYTHING, *, status: Status | None = None
) -> dict[str, int]:
    """How many cases each machine has."""
    by = cases.c.machine, cases.c.status  # an index has both, so no case is read
    counts: dict[str, int] = {}
    for machine, found, count in connection.execute(
        select(*by, func.count()).where(*filters.conditions()).group_by(*by)
    ):
        if status in (None, found):
            counts[machine] = counts.get(machine, 0) + count
    return counts


def _waiting(filters: Filters, reviewer: str | None, at: datetime) -> Select[Any]:
    wanted = select(cases).where(cases.c.status == Status.WAITING, *filters.conditions())
    if reviewer is None:
        return wanted
    undone = select(reviews.c.withdraws).where(reviews.c.withdraws.is_not(None))
    unsure = select(reviews.c.case_id).where(
        reviews.c.reviewer == reviewer, reviews.c.label == "U", reviews.c.id.not_in(undone)
    )
    held = select(claims.c.case_id).where(claims.c.reviewer != reviewer, is_held(at))
    return wanted.where(not_(or_(cases.c.id.in_(unsure), cases.c.id.in_(held))))


def is_held(at: datetime) -> ColumnElement[bool]:
    """The condition that a claim holds now; one that a clock made which was ahead holds no longer than any other."""
    return and_(claims.c.until > at, claims.c.until <= at + CLAIMED_FOR)


def _count(connection: Connection, wanted: Select[Any]) -> int:
    return int(connection.execute(wanted.with_only_columns(func.count())).scalar_one())


def _case(row: Row[Any]) -> Case:
    columns = dict(row._mapping)
    columns.pop("input_hash")
    return Case(**columns)


def input_values(case: Case) -> Any:
    """The stored input as plain data: a mapping from columns to values, or from sensors to lists."""
    return msgspec.json.decode(case.input)
