"""States of drift monitors, per version of a model, so that they go on after a restart."""

import json
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from indubio_server.store.audit_trail import append
from indubio_server.store.clock import now
from indubio_server.store.tables import drift_states


def drift_state(connection: Connection, name: str, version: int) -> dict[str, Any] | None:
    """Read the state of a version's monitor; None where none was kept."""
    wanted = select(drift_states.c.state).where(drift_states.c.name == name, drift_states.c.version == version)
    text = connection.execute(wanted).scalar_one_or_none()
    if text is None:
        return None
    plain: dict[str, Any] = json.loads(text)
    return plain


def keep_drift(
    connection: Connection, name: str, version: int, state: dict[str, Any], alarm: dict[str, Any] | None = None
) -> None:
    """Write a monitor's state; the audit trail seals it, and says it where there is a new alarm."""
    at = now()
    columns = {"name": name, "version": version, "at": at, "state": json.dumps(state)}
    connection.execute(delete(drift_states).where(drift_states.c.name == name, drift_states.c.version == version))
    connection.execute(insert(drift_states), columns)
    kind = "drift kept" if alarm is None else "drift alarm"
    body = {"name": name, "version": version} | (alarm or {})
    append(connection, kind, body, at=at, rows={drift_states: [(name, version)]})
