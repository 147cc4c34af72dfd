"""The rows that the audit trail implies for versions, activations, jobs, alarms and people, to compare the tables with.

A job's progress changes while it runs and is nobody's word, so it is not compared.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, select

from indubio.server.store.audit_trail import AuditEntry, canonical
from indubio.server.store.tables import activations, alarm_events, alarms, jobs, model_versions, people

COLUMNS: dict[Table, tuple[str, ...]] = {
    model_versions: ("name", "version", "sha256", "rule", "rule_content", "origin", "parent", "evaluation", "at", "by"),
    activations: ("name", "version", "note", "at", "by"),
    jobs: ("id", "kind", "model", "status", "parameters", "result", "by", "at", "finished"),
    alarm_events: ("machine", "kind", "anomalies", "of", "at"),
    alarms: ("machine", "ringing", "since"),
    people: ("name", "issuer", "subject", "at"),
}
JSON = ("rule_content", "evaluation", "parameters", "result")
Columns = tuple[Any, ...]


class ExpectedRows:
    """Collects, entry by entry, the rows that the tables must have."""

    def __init__(self) -> None:
        self._added: dict[Table, dict[Columns, list[int]]] = {table: {} for table in COLUMNS}
        self._jobs: dict[int, tuple[int, dict[str, Any]]] = {}
        self._alarms: dict[str, tuple[int, dict[str, Any]]] = {}

    def note(self, entry: AuditEntry) -> None:
        """Take one more entry into account; entries about other things change nothing."""
        seq, at, said = entry.seq, {"at": entry.at}, entry.content
        match entry.kind:
            case "version added":
                self._add(seq, model_versions, said | at | {"by": entry.actor})
            case "activated":
                self._add(seq, activations, said | at | {"by": entry.actor})
            case "alarm raised" | "alarm cleared":
                self._add(seq, alarm_events, said | at | {"kind": entry.kind.removeprefix("alarm ")})
                ringing = entry.kind == "alarm raised"
                self._alarms[said["machine"]] = seq, {**said, "ringing": ringing, "since": entry.at}
            case "person added":
                self._add(seq, people, said | at)
            case "job started":
                open_yet = {"status": "running", "result": None, "finished": None}
                self._jobs[said["job"]] = seq, said | at | open_yet | {"id": said["job"], "by": entry.actor}
            case "job ended" if said["job"] in self._jobs:
                ended = {"status": said["status"], "result": said.get("result"), "finished": entry.at}
                self._jobs[said["job"]] = seq, self._jobs[said["job"]][1] | ended

    def findings(self, connection: Connection) -> Iterator[str]:
        """Compare the tables with the expected rows; a sentence for each difference."""
        for seq, job in self._jobs.values():
            self._add(seq, jobs, job)
        for seq, alarm in self._alarms.values():
            self._add(seq, alarms, alarm)
        for table, names in COLUMNS.items():
            there = Counter(_columns(row, names) for row in connection.execute(select(table)).mappings())
            for columns, seqs in self._added[table].items():
                left = max(0, len(seqs) - there.pop(columns, 0))
                for seq in seqs[:left]:
                    yield f"a row of {table.name} was changed or removed: it is not as entry {seq} has it."
            if there:
                yield f"{there.total()} rows of {table.name} are covered by no entry: they were changed or added."

    def _add(self, seq: int, table: Table, row: dict[str, Any]) -> None:
        self._added[table].setdefault(_columns(row, COLUMNS[table], plain=True), []).append(seq)


def _columns(row: Any, names: tuple[str, ...], *, plain: bool = False) -> Columns:
    """Columns to compare; what is kept as JSON is compared by its content."""
    return tuple(_json(row.get(name), plain=plain) if name in JSON else row[name] for name in names)


def _json(value: Any, *, plain: bool) -> bytes:
    return canonical(value if plain or value is None else msgspec.json.decode(value))
