"""Windows of many machines scored together, and their verdicts written exactly once.

One transaction has the audit entry, the cases, the alarms, the events for the outside, and how far each machine is now.
A window that starts no later than where its machine is has been written before, and is left out: so the same windows
may be offered again after a crash, and nothing is doubled. What an alarm goes by is read from the store in the same
transaction, so there is nothing in memory that could say otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import Connection

from indubio_server.live.machine_stream import MachineExamples
from indubio_server.live.settings_of_live import LiveSettings
from indubio_server.models import Contributors, ExampleBatch, ExampleOrigin, Loaded, ScoredBatch, VerdictEntry
from indubio_server.store import (
    AlarmEvent,
    Channel,
    MachineProgress,
    Touched,
    add_events,
    canonical,
    digest,
    keep_progress,
    live_machines,
    machine_progress,
    outbox,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BY = "live"
NOTHING_YET = MachineProgress(until=-(2**63))


def moment(nanoseconds: int) -> str:
    """A time stamp as text, in ISO 8601 with microseconds."""
    return (EPOCH + timedelta(microseconds=nanoseconds // 1000)).isoformat()


class LiveBatch(ScoredBatch):
    """Scored windows; a case has a reference that follows from its window, so it can be in the store only once.

    Args:
        loaded: the version that scores them.
        examples: the windows, of any machines; those of one machine in order.
        settings: of `indubio live`.
    """

    def __init__(self, loaded: Loaded, examples: Sequence[MachineExamples], settings: LiveSettings) -> None:
        values = np.concatenate([one.values for one in examples])
        machines = [one.machine for one in examples for _ in one.start]
        self.start = [int(start) for one in examples for start in one.start]
        self.end = [int(end) for one in examples for end in one.end]
        pauses = np.concatenate([one.pauses for one in examples])
        whole: ExampleBatch = replace(loaded.model.input.from_values(values), pauses=pauses if pauses.any() else None)
        explain = settings.publish.verdicts or (settings.webhook is not None and settings.webhook.verdicts)
        wanted = settings.publish.top if explain else 0
        assessment, self.top = loaded.model.assess(whole, machines, [wanted] * len(machines))
        origins = [
            ExampleOrigin(machine=machine, external_id=moment(start), by=BY)
            for machine, start in zip(machines, self.start, strict=True)
        ]
        super().__init__(loaded, assessment, whole.inputs, origins, settings.control_share)
        self.columns["case"] = [
            reference and self.identity(row, "case") for row, reference in enumerate(self.columns["case"])
        ]

    def identity(self, row: int, kind: str) -> str:
        """An id that follows from what it is about: a case, verdict or alarm of one window."""
        return digest([kind, self.loaded.name, self.origins[row].machine, self.start[row]])[:32]

    def record(self, row: int) -> dict[str, Any]:
        """What the audit trail says of one verdict."""
        return super().record(row) | {"start": moment(self.start[row]), "end": moment(self.end[row])}

    def told(self, row: int) -> dict[str, Any]:
        """A verdict as it is published."""
        names = ("verdict", "reason", "probability", "epistemic", "aleatoric", "total", "notes", "case")
        top: Contributors | None = self.top[row]
        return {
            "id": self.identity(row, "verdict"),
            "model": self.loaded.name,
            "version": self.loaded.version,
            "machine": self.origins[row].machine,
            "start": moment(self.start[row]),
            "end": moment(self.end[row]),
            **{name: self.columns[name][row] for name in names},
            **{name: _number(self.columns[name][row]) for name in ("novelty", "p_value")},
            "top_features": top or [],
        }

    def alarm(self, row: int, event: AlarmEvent) -> tuple[str, dict[str, Any]]:
        """An alarm that begins or ends with a window, as it is published, with its id."""
        known = self.identity(row, f"alarm {event.kind}")
        return known, {
            "id": known,
            "alarm": event.kind,
            "model": self.loaded.name,
            "machine": event.machine,
            "anomalies": event.anomalies,
            "unfamiliar": event.unfamiliar,
            "of": event.of,
            "start": moment(self.start[row]),
            "end": moment(self.end[row]),
            "at": event.at.isoformat(),
        }


def _number(value: float) -> float | None:
    """A number as JSON has it: none where the model cannot tell."""
    return None if value != value else value


def usable(loaded: Loaded, examples: Sequence[MachineExamples]) -> list[MachineExamples]:
    """The windows that the model can take: with missing values only where it refers or replaces them."""
    if loaded.model.input.missing != "error":
        return list(examples)
    found = []
    for one in examples:
        whole = ~np.isnan(one.values).any(axis=tuple(range(1, one.values.ndim)))
        if whole.all():
            found.append(one)
        elif whole.any():
            kept = {name: getattr(one, name)[whole] for name in ("values", "start", "end", "pauses")}
            found.append(replace(one, **kept))
    return found


@dataclass(frozen=True, kw_only=True)
class Written:
    """What was new of a batch.

    Args:
        rows: the windows that were not in the store before.
        events: alarms that began or ended.
        overflow: referrals beyond the budget.
    """

    rows: list[int]
    events: list[AlarmEvent]
    overflow: int


def write_batch(connection: Connection, batch: LiveBatch, settings: LiveSettings) -> Written:
    """Write what is new of a batch, in the present transaction."""
    machines = list(dict.fromkeys(origin.machine for origin in batch.origins))
    entry = VerdictEntry(
        connection,
        machines,
        rule=settings.alarm,
        referrals_per_hour=settings.referrals_per_hour,
        at=batch.at,
    )
    known = machine_progress(connection, batch.loaded.name, machines)
    progress = {machine: known.get(machine, NOTHING_YET) for machine in machines}
    rows, alarmed = [], []
    for row, (origin, start) in enumerate(zip(batch.origins, batch.start, strict=True)):
        before = progress[origin.machine]
        if start <= before.until:
            continue
        rows.append(row)
        event, alarm = entry.add(batch, row), before.alarm
        if event is not None:
            alarmed.append(batch.alarm(row, event))
            alarm = canonical(alarmed[-1][1]).decode()
        progress[origin.machine] = MachineProgress(until=start, alarm=alarm)
    if rows:
        touched: Touched = {
            live_machines: keep_progress(connection, batch.loaded.name, progress),
            outbox: _add_events(connection, batch, settings, rows, alarmed),
        }
        entry.write(batch, at=batch.at, rows=touched)
    return Written(rows=rows, events=entry.events, overflow=entry.overflow)


def _add_events(
    connection: Connection,
    batch: LiveBatch,
    settings: LiveSettings,
    rows: Sequence[int],
    alarmed: Sequence[tuple[str, dict[str, Any]]],
) -> list[int]:
    """Write what the outside is to be told; the numbers of the events."""
    channels: list[Channel] = []
    numbers: list[int] = []
    if settings.publish.alarms:
        channels.append("mqtt")
    if settings.webhook is not None:
        channels.append("webhook")
        wanted = [row for row in rows if batch.columns["verdict"][row] in settings.webhook.verdicts]
        told = [(batch.identity(row, "verdict"), batch.told(row)) for row in wanted]
        numbers += add_events(connection, ["webhook"], "verdict", told)
    return numbers + add_events(connection, channels, "alarm", alarmed)
