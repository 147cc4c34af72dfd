"""The queue, and one case at a time: people claim, label, comment and undo."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, delete
from starlette.responses import Response

from indubio.decision import IN_SHORT, Reason
from indubio.errors import ConfigError, ConflictError, NotFoundError
from indubio.report import doubt_in_words, level_in_words, novelty_in_words, percent, verdict_in_words
from indubio.texts import english, gettext, marked
from indubio_server.http import is_whole_number, whole_number
from indubio_server.plant import MachinePattern
from indubio_server.review.page_request import PageRequest
from indubio_server.review.plots import assessment_of
from indubio_server.store import (
    LABELS,
    Case,
    Filters,
    QueueOrder,
    Status,
    case_by_id,
    cases_waiting,
    claim,
    claimed_by,
    claims,
    comment_on,
    count_waiting,
    counting,
    history,
    machines,
    next_to,
    review,
    second_opinions,
    undo,
)

AT_ONCE = 50  # cases on a page of the queue
ORDERS: tuple[QueueOrder, ...] = ("age", "uncertainty")
CONTROL = "control"  # in addresses, the reason of cases that were kept without being referred
REASONS: dict[str, str] = {reason.value: words for reason, words in IN_SHORT.items()} | {
    CONTROL: marked("kept for control")
}
TRIES = 5  # to claim a case before somebody else does


@dataclass(frozen=True, kw_only=True)
class QueueView:
    """Which cases a reviewer goes through, and in which order; it stays in the address.

    Args:
        order: by age or by uncertainty.
        machine: where they come from; None for all.
        reason: why they were referred; None for all.
        since: from this time on. until: before.
        second: decided cases that this person has not seen, in place of those that wait.
        site: only of this site, or of this line of one.
        machines: those that may be seen, of that site.
    """

    order: QueueOrder = "age"
    machine: str | None = None
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    second: bool = False
    site: str | None = None
    machines: tuple[MachinePattern, ...] | None = None

    @classmethod
    def of(cls, page: PageRequest) -> "QueueView":
        """Read the view from an address; refuse what makes no sense."""
        query = page.query
        order = query.get("order", "age")
        if order not in ORDERS:
            raise ConfigError(
                english("`order` must be one of {known}, got {got!r}.", known=", ".join(ORDERS), got=order)
            )
        reason = query.get("reason") or None
        if reason is not None and reason not in REASONS:
            raise ConfigError(
                english("`reason` must be one of {known}, got {got!r}.", known=", ".join(REASONS), got=reason)
            )
        return cls(
            order="age" if order == "age" else "uncertainty",
            machine=query.get("machine") or None,
            reason=reason,
            since=_time(query, "since"),
            until=_time(query, "until"),
            second=query.get("second") == "yes",
            site=page.place,
            machines=page.chosen.machines,
        )

    @property
    def filters(self) -> Filters:
        """The choice as the store filters by it."""
        reason = "" if self.reason == CONTROL else self.reason
        return Filters(machine=self.machine, reason=reason, since=self.since, until=self.until, machines=self.machines)

    @property
    def query(self) -> dict[str, str]:
        """The choice as an address has it."""
        times = {name: getattr(self, name) for name in ("since", "until")}
        said: dict[str, str | None] = {
            "order": self.order if self.order != "age" else None,
            "site": self.site,
            "machine": self.machine,
            "reason": self.reason,
            **{name: None if at is None else f"{at:%Y-%m-%dT%H:%M}" for name, at in times.items()},
            "second": "yes" if self.second else None,
        }
        return {name: value for name, value in said.items() if value}

    def beside(self, connection: Connection, case: Case, reviewer: str, *, before: bool = False) -> Case | None:
        """The case after or before this one; None at the end."""
        if not self.second:
            return next_to(connection, case, self.order, self.filters, reviewer=reviewer, before=before)
        unseen = second_opinions(connection, reviewer, self.filters, limit=1000)  # the newest first
        ids = [one.id for one in unseen]
        later = [place for place, one in enumerate(ids) if (one > case.id if before else one < case.id)]
        return unseen[later[-1] if before else later[0]] if later else None

    def first(self, connection: Connection, reviewer: str) -> Case | None:
        """The first case of the view; None where nothing waits."""
        if self.second:
            cases = second_opinions(connection, reviewer, self.filters, limit=1)
        else:
            cases = cases_waiting(connection, self.order, self.filters, reviewer=reviewer, limit=1)
        return cases[0] if cases else None


def queue(page: PageRequest) -> Response:
    """Show the cases that wait, with filters."""
    look = QueueView.of(page)
    start = whole_number(page.query.get("from", "0"), "from")

    def looked_up(connection: Connection) -> dict[str, Any]:
        if look.second:
            listed = second_opinions(connection, page.reviewer, look.filters, limit=AT_ONCE)
            total = len(listed)
        else:
            listed = cases_waiting(connection, look.order, look.filters, limit=AT_ONCE, offset=start)
            total = count_waiting(connection, look.filters)
        held = {one.id: claimed_by(connection, one.id) for one in listed}
        return {"cases": listed, "total": total, "held": held, "machines": machines(connection, page.chosen)}

    return page.render(
        "queue.html",
        look=look,
        reasons=REASONS,
        start=start,
        at_once=AT_ONCE,
        place_of=page.context.plant.place_of,
        control_share=page.context.settings.control_share,
        **page.read(looked_up),
        **_last_action(page),
    )


def next_case(page: PageRequest) -> Response:
    """Claim the first case that nobody else holds, and go there."""
    look = QueueView.of(page)
    return _show_claimed(page, look, lambda c: look.first(c, page.reviewer))


def one_case(page: PageRequest) -> Response:
    """Show a case with its plot. Looking at a case that waits claims it, and gives back the one held before."""
    look, number = QueueView.of(page), page.number("case")
    holder = page.write(lambda c: _claim_shown(c, number, page))

    def looked_up(connection: Connection) -> dict[str, Any]:
        case = case_by_id(connection, number, page.seen)
        said = history(connection, number)
        mine = counting(said).get(number, {}).get(page.reviewer)
        return {
            "case": case,
            "said": said,
            "mine": mine,
            "blind": case.status == Status.DECIDED and mine is None,
            "withdrawn": {one.withdraws for one in said},
            "following": look.beside(connection, case, page.reviewer),
            "earlier": look.beside(connection, case, page.reviewer, before=True),
        }

    shown = page.read(looked_up)
    case, following = shown["case"], shown["following"]
    picture = page.context.plots.of(case)
    if following is not None:
        page.context.plots.ahead(following)
    assessment = assessment_of(case)
    return page.render(
        "case.html",
        look=look,
        holder=holder,
        picture=picture,
        decision=verdict_in_words(assessment, 0),
        doubt=doubt_in_words(assessment, 0),
        novelty="" if case.reason == Reason.UNFAMILIAR else novelty_in_words(assessment, 0),
        level=level_in_words,
        stands=page.context.plant.place_of(case.machine),
        probability=percent(case.probability),
        reason=gettext(REASONS.get(case.reason or CONTROL, case.reason)),
        **shown,
        **_last_action(page),
    )


def label(page: PageRequest) -> Response:
    """Label a case, and go on with the next."""
    look, number, said = QueueView.of(page), page.number("case"), page.text("label")
    if said not in LABELS:
        raise ConfigError(english("`label` must be one of {known}, got {got!r}.", known=", ".join(LABELS), got=said))

    def labelled(connection: Connection) -> None:
        case_by_id(connection, number, page.seen)
        review(connection, number, page.reviewer, said, page.text("comment").strip())  # type: ignore[arg-type]

    page.write(labelled)

    def following(connection: Connection) -> Case | None:
        case = case_by_id(connection, number, page.seen)
        return look.beside(connection, case, page.reviewer) or look.first(connection, page.reviewer)

    return _show_claimed(page, look, following, said=f"{said}{number}")


def comment(page: PageRequest) -> Response:
    """Keep a comment without a label."""
    look, number, words = QueueView.of(page), page.number("case"), page.text("comment").strip()

    def commented(connection: Connection) -> None:
        case_by_id(connection, number, page.seen)
        comment_on(connection, number, page.reviewer, words)

    page.write(commented)
    return page.redirect(f"/review/cases/{number}", **look.query, said=f"C{number}")


def undo_label(page: PageRequest) -> Response:
    """Undo the last label of this person, and show its case again."""
    look = QueueView.of(page)
    try:
        undone = page.write(lambda c: undo(c, page.reviewer, filters=page.seen))
    except NotFoundError:
        return page.redirect("/review", **look.query, said="Z0")
    return page.redirect(f"/review/cases/{undone.case_id}", **look.query, said=f"Z{undone.case_id}")


def _show_claimed(
    page: PageRequest, look: QueueView, choose: Callable[[Connection], Case | None], said: str | None = None
) -> Response:
    """Choose a case and claim it in one transaction, so that two reviewers get two cases; then go there."""

    def chosen(connection: Connection) -> Case | None:
        case = choose(connection)
        if case is not None and case.status == Status.WAITING:
            claim(connection, case.id, page.reviewer)
        return case

    for _attempt in range(TRIES):
        try:
            case = page.write(chosen)
        except ConflictError:  # another server on the same database was faster
            continue
        if case is None:
            return page.redirect("/review", **look.query, said=said, end="yes")
        return page.redirect(f"/review/cases/{case.id}", **look.query, said=said)
    raise ConflictError(english("others are taking cases faster than they can be given out. Try again."))


def _claim_shown(connection: Connection, number: int, page: PageRequest) -> str | None:
    """Claim a case that waits and give back all others; the name of who holds it, where somebody else does."""
    case, reviewer = case_by_id(connection, number, page.seen), page.reviewer
    others = delete(claims).where(claims.c.reviewer == reviewer, claims.c.case_id != number)
    connection.execute(others)
    if case.status == Status.DECIDED:
        return None
    try:
        claim(connection, number, reviewer)
    except ConflictError:
        return claimed_by(connection, number)
    return None


def _last_action(page: PageRequest) -> dict[str, Any]:
    """What the reviewer just did, to be confirmed: a letter and a case, so that no address can put words into it."""
    said = page.query.get("said", "")
    done, number = said[:1], said[1:]
    known = {**LABELS, "C": "commented", "Z": "undone"}
    told = (known[done], int(number)) if done in known and is_whole_number(number) else None
    return {"told": told, "end": page.query.get("end") == "yes"}


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError(
            english("`{name}` must be a time such as 2030-01-31T08:00, got {got!r}.", name=name, got=text)
        ) from None
