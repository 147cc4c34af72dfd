"""The rows as the entries of the trail have them last, to compare the tables with."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection

from indubio_server.store.row_seals import SEALED_TABLES, raw_rows, row_key, row_seal, seal_of
from indubio_server.store.tables import alarm_windows, cases

# Of every table whose rows are written out: the kinds of entries that add a row, and those that change one.
WRITERS: dict[str, tuple[set[str], set[str]]] = {
    "model_versions": ({"version added"}, set()),
    "activations": ({"activated"}, set()),
    "keys": ({"key added"}, {"key revoked"}),
    "people": ({"person added"}, set()),
    "jobs": ({"job started"}, {"job ended"}),
    "alarms": ({"alarm raised", "alarm cleared"}, {"alarm raised", "alarm cleared"}),
    "alarm_events": ({"alarm raised", "alarm cleared"}, set()),
    "reviews": ({"reviewed", "commented", "undone", "imported"}, set()),
}


class ExpectedSeals:
    """Collects, entry by entry, which rows there must be and their seals. Cases are compared entry by entry."""

    def __init__(self) -> None:
        self._seals: dict[str, dict[str, tuple[int, str | None]]] = {
            table.name: {} for table in SEALED_TABLES if table is not cases
        }
        self._windows: dict[str, tuple[int, str]] = {}

    def note(self, seq: int, kind: str, body: Mapping[str, Any]) -> Iterator[str]:
        """Take one more entry into account; a sentence for each row that no entry of its kind writes."""
        for name, rows in body.get("rows", {}).items():
            seals = self._seals[name]
            for key, row in rows.items():
                if name in WRITERS and kind not in WRITERS[name][key in seals]:
                    done = "changes" if key in seals else "adds"
                    yield f"entry {seq} ({kind}) {done} row {key} of {name}, which no such entry does."
                seals[key] = seq, row if row is None or isinstance(row, str) else seal_of(name, row)
        for machine, verdicts in body.get("windows", {}).items():
            self._windows[machine] = seq, verdicts

    def findings(self, connection: Connection) -> Iterator[str]:
        """Compare the tables with the seals; a sentence for each difference."""
        for table in SEALED_TABLES:
            if table is cases:
                continue
            expected = {key: kept for key, kept in self._seals[table.name].items() if kept[1] is not None}
            for row in raw_rows(connection, table):
                key = row_key(table, row)
                seq, seal = expected.pop(key, (0, None))
                if seal is None:
                    yield f"row {key} of {table.name} is covered by no entry: it was added, or its key changed."
                elif row_seal(table, row) != seal:
                    yield f"row {key} of {table.name} was changed: it is not as entry {seq} sealed it."
            for key, (seq, _) in expected.items():
                yield f"row {key} of {table.name} was removed: it is not there as entry {seq} sealed it."
        yield from self._window_findings(connection)

    def _window_findings(self, connection: Connection) -> Iterator[str]:
        expected = dict(self._windows)
        for row in raw_rows(connection, alarm_windows):
            seq, verdicts = expected.pop(row["machine"], (0, None))
            if verdicts != row["verdicts"]:
                yield f"the last verdicts of {row['machine']!r} are not as entry {seq or 'of any number'} has them."
        for machine, (seq, _) in expected.items():
            yield f"the last verdicts of {machine!r} were removed: entry {seq} has them."
