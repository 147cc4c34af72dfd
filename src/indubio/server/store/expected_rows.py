"""The rows that the words of the entries imply, to compare the tables with.

A job's progress changes while it runs and is nobody's word, so it is not compared.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Table

from indubio.server.store.canonical_json import canonical
from indubio.server.store.row_seals import raw_rows
from indubio.server.store.tables import (
    EPOCH,
    MICROSECOND,
    activations,
    alarm_events,
    alarms,
    jobs,
    keys,
    model_versions,
    people,
)

COLUMNS: dict[Table, tuple[str, ...]] = {
    model_versions: ("name", "version", "sha256", "rule", "rule_content", "origin", "parent", "evaluation", "at", "by"),
    activations: ("name", "version", "note", "at", "by"),
    jobs: ("id", "kind", "model", "status", "parameters", "result", "by", "at", "finished"),
    alarm_events: ("machine", "kind", "anomalies", "of", "at"),
    alarms: ("machine", "ringing", "since"),
    keys: ("name", "role", "hash", "at", "revoked"),
    people: ("name", "issuer", "subject", "at"),
}
JSON = ("rule_content", "evaluation", "parameters", "result")
Columns = tuple[Any, ...]


class ExpectedRows:
    """Collects, entry by entry, the rows that the tables must have."""

    def __init__(self) -> None:
        self._added: dict[Table, dict[Columns, list[int]]] = {table: {} for table in COLUMNS}
        self._changing: dict[Table, dict[Any, tuple[int, dict[str, Any]]]] = {jobs: {}, alarms: {}, keys: {}}

    def note(self, seq: int, at: int, kind: str, actor: str, said: dict[str, Any]) -> None:
        """Take one more entry into account; entries about other things change nothing."""
        when = {"at": at}
        match kind:
            case "version added":
                self._add(seq, model_versions, said | when | {"by": actor})
            case "activated":
                self._add(seq, activations, said | when | {"by": actor})
            case "alarm raised" | "alarm cleared":
                self._add(seq, alarm_events, said | when | {"kind": kind.removeprefix("alarm ")})
                rings = {"ringing": kind == "alarm raised", "since": at}
                self._changing[alarms][said["machine"]] = seq, {**said, **rings}
            case "person added":
                self._add(seq, people, said | when)
            case "job started":
                open_yet = {"status": "running", "result": None, "finished": None}
                self._changing[jobs][said["job"]] = seq, said | when | open_yet | {"id": said["job"], "by": actor}
            case "job ended" if said["job"] in self._changing[jobs]:
                ended = {"status": said["status"], "result": said.get("result"), "finished": at}
                self._change(seq, jobs, said["job"], ended)
            case "key added":
                self._changing[keys][said["name"]] = seq, {"revoked": None} | said | when
            case "key revoked" if said["name"] in self._changing[keys]:
                self._change(seq, keys, said["name"], {"revoked": at})

    def findings(self, connection: Connection) -> Iterator[str]:
        """Compare the tables with the expected rows; a sentence for each difference."""
        for table, rows in self._changing.items():
            for seq, row in rows.values():
                self._add(seq, table, row)
        for table, names in COLUMNS.items():
            there = Counter(_columns(row, names) for row in raw_rows(connection, table))
            for columns, seqs in self._added[table].items():
                left = max(0, len(seqs) - there.pop(columns, 0))
                for seq in seqs[:left]:
                    yield f"a row of {table.name} was changed or removed: it is not as entry {seq} has it."
            if there:
                yield f"{there.total()} rows of {table.name} are covered by no entry: they were changed or added."

    def _change(self, seq: int, table: Table, key: Any, columns: dict[str, Any]) -> None:
        self._changing[table][key] = seq, self._changing[table][key][1] | columns

    def _add(self, seq: int, table: Table, row: dict[str, Any]) -> None:
        self._added[table].setdefault(_columns(row, COLUMNS[table], plain=True), []).append(seq)


def _columns(row: Any, names: tuple[str, ...], *, plain: bool = False) -> Columns:
    """Columns to compare; what is kept as JSON is compared by its content."""
    return tuple(_json(row.get(name), plain=plain) if name in JSON else _compared(row[name]) for name in names)


def _compared(value: Any) -> Any:
    return (value - EPOCH) // MICROSECOND if isinstance(value, datetime) else value


def _json(value: Any, *, plain: bool) -> Any:
    if plain or value is None:
        return canonical(value)
    try:
        return canonical(msgspec.json.decode(value))
    except (ValueError, TypeError, RecursionError):  # no JSON: equal to nothing that an entry says
        return "no JSON", value
