"""Alarms in the store: which machines ring, and when each alarm began and ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, delete, insert, select

from indubio.server.store.audit_trail import append
from indubio.server.store.tables import alarm_events, alarms

AlarmChange = Literal["raised", "cleared"]


@dataclass(frozen=True, kw_only=True)
class AlarmEvent:
    """The beginning or the end of a machine's alarm.

    Args:
        machine: whose.
        kind: raised or cleared.
        anomalies: so many of the last verdicts were anomalies.
        of: so many verdicts were looked at.
        at: when.
    """

    machine: str
    kind: AlarmChange
    anomalies: int
    of: int
    at: datetime


def record_alarm(connection: Connection, event: AlarmEvent) -> None:
    """Write an event, and whether the machine rings now."""
    connection.execute(insert(alarm_events), event.__dict__)
    connection.execute(delete(alarms).where(alarms.c.machine == event.machine))
    ringing = {"machine": event.machine, "ringing": event.kind == "raised", "since": event.at}
    connection.execute(insert(alarms), ringing)
    body = {"machine": event.machine, "anomalies": event.anomalies, "of": event.of}
    append(connection, f"alarm {event.kind}", body, at=event.at)


def ringing(connection: Connection) -> dict[str, datetime]:
    """The machines that ring, and since when."""
    rows = connection.execute(select(alarms).where(alarms.c.ringing).order_by(alarms.c.since))
    return {row.machine: row.since for row in rows}


def alarm_history(connection: Connection, *, machine: str | None = None, limit: int = 100) -> list[AlarmEvent]:
    """The latest events, the newest first."""
    wanted = select(alarm_events).order_by(alarm_events.c.id.desc()).limit(limit)
    if machine is not None:
        wanted = wanted.where(alarm_events.c.machine == machine)
    return [
        AlarmEvent(machine=row.machine, kind=row.kind, anomalies=row.anomalies, of=row.of, at=row.at)
        for row in connection.execute(wanted)
    ]
