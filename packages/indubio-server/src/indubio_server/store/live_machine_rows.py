"""How far each live machine has been judged: the start of its last window; and what was last told of its alarm.

Both change in the transaction that writes the verdicts, and the entry of the verdicts seals them: so a window is judged
exactly once, whenever the process is killed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from indubio_server.store.tables import live_machines

AT_ONCE = 500  # names in a condition; SQLite takes some thousand


@dataclass(frozen=True, kw_only=True)
class MachineProgress:
    """How far a machine has been judged.

    Args:
        until: start of the last window that was judged, in nanoseconds since 1970.
        alarm: the last event of its alarm as JSON, None where it never rang.
    """

    until: int
    alarm: str | None = None


def machine_progress(connection: Connection, model: str, machines: Iterable[str]) -> dict[str, MachineProgress]:
    """Read how far some machines are; a new machine has none. The caller holds the trail, so that it stays so."""
    names, found = list(machines), {}
    for first in range(0, len(names), AT_ONCE):
        among = live_machines.c.machine.in_(names[first : first + AT_ONCE])
        for row in connection.execute(select(live_machines).where(live_machines.c.model == model, among)):
            found[row.machine] = MachineProgress(until=row.until, alarm=row.alarm)
    return found


def last_alarms(connection: Connection, model: str) -> dict[str, str]:
    """The last event of every machine's alarm, as JSON."""
    wanted = select(live_machines.c.machine, live_machines.c.alarm).where(
        live_machines.c.model == model, live_machines.c.alarm.is_not(None)
    )
    return {row.machine: row.alarm for row in connection.execute(wanted)}


def keep_progress(connection: Connection, model: str, progress: Mapping[str, MachineProgress]) -> list[tuple[str, str]]:
    """Write how far some machines are now; the keys of the rows, for the audit entry to seal."""
    names = list(progress)
    for first in range(0, len(names), AT_ONCE):
        among = live_machines.c.machine.in_(names[first : first + AT_ONCE])
        connection.execute(delete(live_machines).where(live_machines.c.model == model, among))
    rows = [{"model": model, "machine": name} | one.__dict__ for name, one in progress.items()]
    if rows:
        connection.execute(insert(live_machines), rows)
    return [(model, name) for name in names]
