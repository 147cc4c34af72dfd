"""Versions of models in the store, which of them is active, and the history of activations."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, func, insert, select

from indubio.errors import NotFoundError
from indubio.texts import english
from indubio_server.store.audit_trail import append
from indubio_server.store.clock import now
from indubio_server.store.row_seals import Touched
from indubio_server.store.tables import activations, model_versions, version_files
from indubio_server.store.version_files import keep_files

Origin = Literal["given", "recalibrated", "learned", "retrained"]


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of a model.

    Args:
        name: of the model.
        version: 1 for the first.
        sha256: of its files.
        rule: short name of the referral rule, the beginning of the hash of `rule_content`.
        rule_content: thresholds of the rule.
        origin: given on the command line, recalibrated, learned (from labels) or retrained.
        parent: the version it was made from.
        evaluation: what was measured of it beside its parent.
        at: when it was added. by: who added it.
    """

    name: str
    version: int
    sha256: str
    rule: str
    rule_content: dict[str, Any]
    origin: str
    parent: int | None
    evaluation: dict[str, Any] | None
    at: datetime
    by: str


@dataclass(frozen=True, kw_only=True)
class VersionActivation:
    """The activation of a version: when, and by whom."""

    name: str
    version: int
    at: datetime
    by: str
    note: str


def add_version(
    connection: Connection,
    name: str,
    *,
    sha256: str,
    rule: str,
    rule_content: dict[str, Any],
    files: bytes,
    origin: Origin = "given",
    parent: int | None = None,
    evaluation: dict[str, Any] | None = None,
    by: str,
) -> Version:
    """Register a version; one with the same files and rule is not registered twice. It is not active yet.

    Args:
        connection: to write with.
        name: of the model.
        sha256: of its files.
        rule: short name of the referral rule.
        rule_content: thresholds of the rule.
        files: all of them, as `version_files.packed` gives them.
        origin: how it was made.
        parent: the version it was made from.
        evaluation: what was measured of it beside its parent.
        by: who adds it.
    """
    for known in versions(connection, name):
        if (known.sha256, known.rule) == (sha256, rule):
            return known
    last = connection.execute(select(func.max(model_versions.c.version)).where(model_versions.c.name == name)).scalar()
    added = Version(
        name=name,
        version=(last or 0) + 1,
        sha256=sha256,
        rule=rule,
        rule_content=rule_content,
        origin=origin,
        parent=parent,
        evaluation=evaluation,
        at=now(),
        by=by,
    )
    columns = {field: getattr(added, field) for field in added.__dataclass_fields__}
    texts = {
        "rule_content": json.dumps(rule_content),
        "evaluation": None if evaluation is None else json.dumps(evaluation),
    }
    number = connection.execute(insert(model_versions).returning(model_versions.c.id), columns | texts).scalar_one()
    rows: Touched = {model_versions: [number], version_files: keep_files(connection, sha256, files)}
    append(connection, "version added", {}, actor=by, at=added.at, rows=rows)
    return added


def versions(connection: Connection, name: str) -> list[Version]:
    """Read every version of a model."""
    wanted = select(model_versions).where(model_versions.c.name == name).order_by(model_versions.c.version)
    return [_version(row) for row in connection.execute(wanted)]


def version_of(connection: Connection, name: str, version: int) -> Version:
    """Read one version of a model."""
    wanted = select(model_versions).where(model_versions.c.name == name, model_versions.c.version == version)
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise NotFoundError(english("there is no version {version:d} of a model {name!r}.", version=version, name=name))
    return _version(row)


def activate(connection: Connection, name: str, version: int, *, by: str, note: str = "") -> VersionActivation:
    """Make a version the active one; a rollback is the activation of an older one."""
    version_of(connection, name, version)
    done = VersionActivation(name=name, version=version, at=now(), by=by, note=note)
    number = connection.execute(insert(activations).returning(activations.c.id), done.__dict__).scalar_one()
    append(connection, "activated", {}, actor=by, at=done.at, rows={activations: [number]})
    return done


def active_version(connection: Connection, name: str) -> Version | None:
    """Read the version that scores; None before the first activation."""
    wanted = select(activations.c.version).where(activations.c.name == name).order_by(activations.c.id.desc()).limit(1)
    number = connection.execute(wanted).scalar_one_or_none()
    return None if number is None else version_of(connection, name, number)


def active_numbers(connection: Connection) -> dict[str, int]:
    """Which version of each model scores."""
    last = select(func.max(activations.c.id)).group_by(activations.c.name)
    rows = connection.execute(select(activations.c.name, activations.c.version).where(activations.c.id.in_(last)))
    return {row.name: row.version for row in rows}


def activation_history(connection: Connection, name: str) -> list[VersionActivation]:
    """Read every activation, the oldest first."""
    wanted = select(activations).where(activations.c.name == name).order_by(activations.c.id)
    return [
        VersionActivation(name=row.name, version=row.version, at=row.at, by=row.by, note=row.note)
        for row in connection.execute(wanted)
    ]


def _version(row: Row[Any]) -> Version:
    columns = dict(row._mapping)
    del columns["id"]
    evaluation = columns["evaluation"]
    columns["rule_content"] = json.loads(columns["rule_content"])
    columns["evaluation"] = None if evaluation is None else json.loads(evaluation)
    return Version(**columns)
