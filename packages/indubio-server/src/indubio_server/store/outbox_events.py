"""The outbox: events that were written with what they tell of, and wait until somebody outside has taken them.

An event has an id that follows from what it tells of, so it is in the outbox once, and whoever gets it twice can see
it. What could not be delivered so many times is put aside as dead, until a person asks for another try. The audit trail
seals what an event says and has when it was taken, given up or tried again; how often it was tried meanwhile is not in
the trail.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from indubio_server.store.audit_trail import append
from indubio_server.store.canonical_json import canonical
from indubio_server.store.clock import now
from indubio_server.store.tables import outbox

Channel = Literal["mqtt", "webhook"]
LONGEST_PUT_OFF = timedelta(days=1)  # longer than any two attempts are apart


@dataclass(frozen=True, kw_only=True)
class OutboxEvent:
    """One event on its way out.

    Args:
        event: its id, the same at every attempt.
        channel: by which way it goes.
        kind: "alarm" or "verdict".
        model: whose verdict it is. machine: which it is about.
        body: JSON.
        at: when it happened.
        attempts: how often it was tried.
        due: when it is tried next.
        dead: given up.
        error: why the last attempt failed.
    """

    event: str
    channel: str
    kind: str
    model: str
    machine: str
    body: str
    at: datetime
    attempts: int = 0
    due: datetime
    dead: bool = False
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class OutboxCount:
    """How many events of a channel wait, how many are dead, and when the oldest waiting one happened."""

    waiting: int
    dead: int
    oldest: datetime | None


def add_events(
    connection: Connection, channels: Sequence[Channel], kind: str, events: Sequence[tuple[str, Any]]
) -> list[int]:
    """Write events, each for all channels; the numbers of the rows, for the audit entry to seal.

    Args:
        connection: with the transaction that also writes what they tell of.
        channels: by which ways they go.
        kind: "alarm" or "verdict".
        events: id and content of each; the content names the model and the machine.
    """
    at = now()
    rows = [
        OutboxEvent(
            event=event,
            channel=channel,
            kind=kind,
            model=body["model"],
            machine=body["machine"],
            body=canonical(body).decode(),
            at=at,
            due=at,
        ).__dict__
        for event, body in events
        for channel in channels
    ]
    if not rows:
        return []
    return list(connection.execute(insert(outbox).returning(outbox.c.id), rows).scalars())


def due_events(connection: Connection, channel: Channel, model: str, *, limit: int = 100) -> list[OutboxEvent]:
    """The events of a model and channel that are to be tried now, in the order they happened."""
    these = and_(outbox.c.channel == channel, outbox.c.model == model)
    at = now()  # what a clock put off that was ahead is due too
    due = or_(outbox.c.due <= at, outbox.c.due > at + LONGEST_PUT_OFF)
    wanted = select(outbox).where(these, outbox.c.dead.is_(False), due)
    return _events(connection, wanted.order_by(outbox.c.id).limit(limit))


def all_events(connection: Connection, *, dead: bool | None = None, limit: int = 100) -> list[OutboxEvent]:
    """What is in the outbox, the oldest first."""
    wanted = select(outbox).order_by(outbox.c.id).limit(limit)
    return _events(connection, wanted if dead is None else wanted.where(outbox.c.dead.is_(dead)))


def dead_events(connection: Connection, channel: Channel, model: str) -> list[str]:
    """The ids of a model's events that were given up."""
    these = and_(outbox.c.channel == channel, outbox.c.model == model, outbox.c.dead.is_(True))
    return list(connection.execute(select(outbox.c.event).where(these)).scalars())


def delivered(connection: Connection, events: Sequence[OutboxEvent]) -> None:
    """Somebody took them: they leave the outbox."""
    numbers = [
        number
        for one in events
        for number in connection.execute(delete(outbox).where(_is(one)).returning(outbox.c.id)).scalars()
    ]
    if numbers:
        body = {"events": [[one.event, one.channel] for one in events]}
        append(connection, "events delivered", body, rows={outbox: numbers})


def failed(connection: Connection, one: OutboxEvent, error: str, due: datetime, *, dead: bool) -> None:
    """An attempt failed; `dead` gives the event up."""
    this = update(outbox).where(_is(one)).values(attempts=one.attempts + 1, error=error[:500], due=due, dead=dead)
    numbers = list(connection.execute(this.returning(outbox.c.id)).scalars())
    if dead and numbers:
        body = {"event": one.event, "channel": one.channel, "attempts": one.attempts + 1, "error": error[:500]}
        append(connection, "event given up", body, rows={outbox: numbers})


def retry_dead(connection: Connection, event: str | None = None, *, actor: str) -> int:
    """Give dead events, or one of them, all their attempts again; how many."""
    these = update(outbox).where(outbox.c.dead.is_(True))
    these = these if event is None else these.where(outbox.c.event == event)
    again = these.values(dead=False, attempts=0, due=now()).returning(outbox.c.id)
    numbers = list(connection.execute(again).scalars())
    if numbers:
        append(connection, "events tried again", {"event": event}, actor=actor, rows={outbox: numbers})
    return len(numbers)


def count_outbox(connection: Connection, model: str) -> dict[str, OutboxCount]:
    """How much of a model is in the outbox, by channel."""
    counted = select(outbox.c.channel, outbox.c.dead, func.count(), func.min(outbox.c.at)).where(
        outbox.c.model == model
    )
    counted = counted.group_by(outbox.c.channel, outbox.c.dead)
    rows = {(row[0], bool(row[1])): (row[2], row[3]) for row in connection.execute(counted)}
    return {
        channel: OutboxCount(
            waiting=rows.get((channel, False), (0, None))[0],
            dead=rows.get((channel, True), (0, None))[0],
            oldest=rows.get((channel, False), (0, None))[1],
        )
        for channel in {channel for channel, _ in rows}
    }


def _is(one: OutboxEvent) -> Any:
    return and_(outbox.c.event == one.event, outbox.c.channel == one.channel)


def _events(connection: Connection, wanted: Any) -> list[OutboxEvent]:
    return [
        OutboxEvent(**{name: value for name, value in row.items() if name != "id"})
        for row in connection.execute(wanted).mappings()
    ]
