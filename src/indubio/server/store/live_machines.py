"""How far each live machine has been judged: the start of its last window, and its last verdicts for the alarm.

Both change in the transaction that writes the verdicts, so a window is judged exactly once and the alarm goes on
where it was, whenever the process is killed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from indubio.server.store.tables import live_machines

AT_ONCE = 500  # names in a condition; SQLite takes some thousand


@dataclass(frozen=True, kw_only=True)
class MachineProgress:
    """How far a machine has been judged.

    Args:
        until: start of the last window that was judged, in nanoseconds since 1970.
        recent: the last verdicts, the newest at the end: whether each is an anomaly.
    """

    until: int
    recent: tuple[bool, ...]


def machine_progress(connection: Connection, model: str, machines: Iterable[str]) -> dict[str, MachineProgress]:
    """Read how far some machines are, and hold their rows until the transaction ends; a new machine has none."""
    names, found = list(machines), {}
    for first in range(0, len(names), AT_ONCE):
        wanted = (
            select(live_machines)
            .where(live_machines.c.model == model, live_machines.c.machine.in_(names[first : first + AT_ONCE]))
            .with_for_update()
        )
        for row in connection.execute(wanted):
            found[row.machine] = MachineProgress(until=row.until, recent=tuple(flag == "1" for flag in row.recent))
    return found


def keep_progress(connection: Connection, model: str, progress: Mapping[str, MachineProgress]) -> None:
    """Write how far some machines are now."""
    names = list(progress)
    for first in range(0, len(names), AT_ONCE):
        old = delete(live_machines).where(
            live_machines.c.model == model, live_machines.c.machine.in_(names[first : first + AT_ONCE])
        )
        connection.execute(old)
    rows = [
        {"model": model, "machine": name, "until": one.until, "recent": "".join("01"[flag] for flag in one.recent)}
        for name, one in progress.items()
    ]
    if rows:
        connection.execute(insert(live_machines), rows)
