"""Alarms in the store: which machines ring, and when each alarm began and ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, bindparam, insert, select, text

from indubio_server.plant import MachinePattern
from indubio_server.store.assessed_cases import of_machines
from indubio_server.store.audit_trail import Head, append
from indubio_server.store.row_seals import rows_in_entry
from indubio_server.store.statements import PreparedStatement
from indubio_server.store.tables import EPOCH, MICROSECOND, alarm_events, alarm_windows, alarms

AlarmChange = Literal["raised", "cleared"]
_keep_window = PreparedStatement(
    text(
        "INSERT INTO alarm_windows (machine, verdicts) VALUES (:machine, :verdicts) "
        "ON CONFLICT (machine) DO UPDATE SET verdicts = excluded.verdicts"
    )
)
FEW = 4  # machines that are looked up one by one: a prepared statement takes a fifth of the time of another
_last = select(alarm_windows, alarms.c.ringing).select_from(
    alarm_windows.outerjoin(alarms, alarms.c.machine == alarm_windows.c.machine)
)
_last_of_one = PreparedStatement(_last.where(alarm_windows.c.machine == bindparam("machine")))
_add_event = PreparedStatement(
    insert(alarm_events).returning(alarm_events.c.id), ("machine", "kind", "anomalies", "unfamiliar", "of", "at")
)
_keep_ringing = PreparedStatement(
    text(
        "INSERT INTO alarms (machine, ringing, since) VALUES (:machine, :ringing, :since) "
        "ON CONFLICT (machine) DO UPDATE SET ringing = excluded.ringing, since = excluded.since"
    )
)


@dataclass(frozen=True, kw_only=True)
class AlarmEvent:
    """The beginning or the end of a machine's alarm.

    Args:
        machine: whose.
        kind: raised or cleared.
        anomalies: so many of the last verdicts were anomalies.
        unfamiliar: so many others were unlike anything in training.
        of: so many verdicts were looked at.
        at: when.
    """

    machine: str
    kind: AlarmChange
    anomalies: int
    unfamiliar: int = 0
    of: int
    at: datetime


def record_alarm(connection: Connection, event: AlarmEvent, end: Head | None = None) -> Head:
    """Write an event, and whether the machine rings now; the new end of the trail.

    Args:
        connection: with the transaction.
        event: the beginning or the end of an alarm.
        end: of the trail, as `append` takes it.
    """
    moment = (event.at - EPOCH) // MICROSECOND
    row = event.__dict__ | {"at": moment}
    ((number,),) = _add_event.found(connection, row)
    ringing = {"machine": event.machine, "ringing": event.kind == "raised", "since": moment}
    _keep_ringing.run(connection, [ringing])
    body = {"rows": rows_in_entry({alarm_events: [row | {"id": number}], alarms: [ringing]})}
    return append(connection, f"alarm {event.kind}", body, at=event.at, end=end)


def last_verdicts(connection: Connection, machines: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """The last verdicts of some machines, and whether each rings; none for a machine without verdicts."""
    if len(machines) <= FEW:
        rows = [row for machine in machines for row in _last_of_one.found(connection, {"machine": machine})]
    else:
        rows = [tuple(row) for row in connection.execute(_last.where(alarm_windows.c.machine.in_(machines)))]
    return {machine: (verdicts, bool(rings)) for machine, verdicts, rings in rows}


def keep_last_verdicts(connection: Connection, windows: Mapping[str, str]) -> None:
    """Write the last verdicts of some machines; the audit entry of the verdicts has them too."""
    rows = [{"machine": machine, "verdicts": verdicts} for machine, verdicts in windows.items()]
    if rows:
        _keep_window.run(connection, rows)


def ringing(connection: Connection, machines: Sequence[MachinePattern] | None = None) -> dict[str, datetime]:
    """The machines that ring, all or some, and since when."""
    wanted = select(alarms).where(alarms.c.ringing).order_by(alarms.c.since)
    if machines is not None:
        wanted = wanted.where(of_machines(alarms.c.machine, machines))
    return {row.machine: row.since for row in connection.execute(wanted)}


def alarmed_machines(connection: Connection, machines: Sequence[MachinePattern] | None = None) -> list[str]:
    """The machines that ring or once rang, all or some."""
    wanted = select(alarms.c.machine).order_by(alarms.c.machine)
    if machines is not None:
        wanted = wanted.where(of_machines(alarms.c.machine, machines))
    return list(connection.execute(wanted).scalars())


def alarm_history(
    connection: Connection,
    *,
    machine: str | None = None,
    machines: Sequence[MachinePattern] | None = None,
    limit: int = 100,
) -> list[AlarmEvent]:
    """The latest events, the newest first: of all machines, of one, or of some."""
    wanted = select(alarm_events).order_by(alarm_events.c.id.desc()).limit(limit)
    if machine is not None:
        wanted = wanted.where(alarm_events.c.machine == machine)
    if machines is not None:
        wanted = wanted.where(of_machines(alarm_events.c.machine, machines))
    return [
        AlarmEvent(
            machine=row.machine,
            kind=row.kind,
            anomalies=row.anomalies,
            unfamiliar=row.unfamiliar,
            of=row.of,
            at=row.at,
        )
        for row in connection.execute(wanted)
    ]
