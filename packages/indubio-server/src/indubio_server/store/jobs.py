"""Jobs in the store: what was started, how far it is, and how it ended.

A job belongs to the server that started it, which renews its lease; several servers may have one store. A lease decides
nothing but when a job is told as interrupted, and is not in the trail.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from indubio.errors import NotFoundError
from indubio.texts import english
from indubio_server.store.audit_trail import append
from indubio_server.store.clock import now
from indubio_server.store.tables import job_leases, jobs

LEASE = timedelta(seconds=20)  # how long a job is taken for running after its server last said so


class JobStatus(StrEnum):
    """Whether a job runs, and how it ended."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job that makes a new version.

    Args:
        id: its number.
        kind: "recalibrate", "retrain", ...
        model: name of the model.
        status: how it stands.
        progress: share done, from 0 to 1.
        message: what it is doing, or why it failed.
        parameters: what it was started with.
        result: what came out, None before the end.
        by: who started it. at: when. finished: when it ended.
    """

    id: int
    kind: str
    model: str
    status: JobStatus
    progress: float
    message: str
    parameters: dict[str, Any]
    result: dict[str, Any] | None
    by: str
    at: datetime
    finished: datetime | None


def add_job(connection: Connection, kind: str, model: str, parameters: dict[str, Any], *, by: str) -> int:
    """Write a job that starts now; its number."""
    at = now()
    columns = {
        "kind": kind,
        "model": model,
        "status": JobStatus.RUNNING,
        "progress": 0.0,
        "message": "",
        "parameters": json.dumps(parameters),
        "by": by,
        "at": at,
    }
    number = int(connection.execute(insert(jobs).returning(jobs.c.id), columns).scalar_one())
    connection.execute(insert(job_leases), {"job_id": number, "until": at + LEASE})
    append(connection, "job started", {}, actor=by, at=at, rows={jobs: [number]})
    return number


def job_progress(connection: Connection, job_id: int, progress: float, message: str = "") -> None:
    """Write how far a running job is."""
    running = update(jobs).where(jobs.c.id == job_id, jobs.c.status == JobStatus.RUNNING)
    connection.execute(running.values(progress=progress, message=message))


def finish_job(connection: Connection, job_id: int, status: JobStatus, message: str, result: Any = None) -> None:
    """Write that a job has ended, and how."""
    at = now()
    values = {"status": status, "message": message, "finished": at, "result": json.dumps(result)}
    if status is JobStatus.DONE:
        values["progress"] = 1.0
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(**values))
    connection.execute(delete(job_leases).where(job_leases.c.job_id == job_id))
    append(connection, "job ended", {}, at=at, rows={jobs: [job_id]})


def renew_leases(connection: Connection, running: Iterable[int]) -> None:
    """Say that jobs still run here."""
    leased = update(job_leases).where(job_leases.c.job_id.in_(list(running)))
    connection.execute(leased.values(until=now() + LEASE))


def abandoned_jobs(connection: Connection, *, at: datetime | None = None) -> list[int]:
    """Jobs that nobody runs any more: whoever did has not renewed their lease. A clock may once have been ahead."""
    at = at or now()
    leased = select(job_leases.c.job_id).where(job_leases.c.until > at, job_leases.c.until <= at + LEASE)
    return list(
        connection.execute(
            select(jobs.c.id).where(jobs.c.status == JobStatus.RUNNING, jobs.c.id.not_in(leased)).order_by(jobs.c.id)
        ).scalars()
    )


def interrupt_jobs(connection: Connection, *, at: datetime | None = None) -> int:
    """Mark jobs as interrupted that nobody runs any more; how many."""
    abandoned = abandoned_jobs(connection, at=at)
    for job_id in abandoned:
        finish_job(connection, job_id, JobStatus.INTERRUPTED, english("the server stopped while it ran"))
    return len(abandoned)


def job_by_id(connection: Connection, job_id: int) -> Job:
    """Read one job by its number."""
    row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no job {job_id}.")
    return _job(row)


def all_jobs(connection: Connection, *, limit: int = 50) -> list[Job]:
    """The latest jobs, the newest first."""
    return [_job(row) for row in connection.execute(select(jobs).order_by(jobs.c.id.desc()).limit(limit))]


def _job(row: Row[Any]) -> Job:
    columns = dict(row._mapping)
    result = columns["result"]
    return Job(
        **columns
        | {
            "status": JobStatus(columns["status"]),
            "parameters": json.loads(columns["parameters"]),
            "result": None if result is None else json.loads(result),
        }
    )
