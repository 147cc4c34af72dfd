"""The server's database: cases, reviews, model versions, keys, jobs, alarms, and the audit trail over all of them.

    tables          the tables; `migrations` makes them
    database        SQLite or PostgreSQL, opened and migrated
    writer          group commit: everything that waits becomes durable in one transaction
    unanswered      a database that hangs is made one that fails
    statements      statements for the driver itself, where time counts
    audit_trail     the trail: entries that are only added; `trail_export` writes runs of them
    row_seals       what entries have of the rows that they wrote: their columns, or a hash over them
    verification    looks for tampering: `expected_seals` and `version_files` are what it compares with
    anchors         heads of the trail, kept elsewhere; `time_stamps` has them stamped
    clock           the time
    assessed_cases, reviews, imported_labels, model_versions, access_keys, sessions, jobs, alarms, drift_states,
    live_machine_rows, outbox_events
                    functions of a connection

Whoever writes to a table of `row_seals.SEALED_TABLES` adds an entry in the same transaction that names the rows, after
they were written: `append(connection, "key added", body, rows={keys: [number]})`. A row that no entry names is a
finding. A new column needs nothing more, if it may be NULL or has a `server_default`.

`ServerStore` ties them together: `store.read(cases_waiting)`, `store.write(lambda c: review(c, 7, "ada", "A"))`.
"""

from collections.abc import Callable
from typing import Self, TypeVar

from sqlalchemy import Connection

from indubio_server.store.access_keys import (
    ApiKey,
    Role,
    add_key,
    all_keys,
    count_keys,
    first_key,
    hashed,
    keys_in_use,
    revoke_key,
    sites_plain,
)
from indubio_server.store.alarms import (
    AlarmEvent,
    alarm_history,
    alarmed_machines,
    keep_last_verdicts,
    last_verdicts,
    record_alarm,
    ringing,
)
from indubio_server.store.anchors import AnchorPlaces, read_anchors
from indubio_server.store.assessed_cases import (
    EVERYTHING,
    Assessed,
    Case,
    Filters,
    QueueOrder,
    Status,
    add_cases,
    case_by_id,
    case_by_reference,
    case_rows,
    cases_waiting,
    chosen_cases,
    count_by_machine,
    count_cases,
    count_waiting,
    input_values,
    last_case,
    machines,
    next_to,
    oldest_waiting,
    second_opinions,
    within_budget,
)
from indubio_server.store.audit_trail import SYSTEM, Head, append, has_entry, head, locked_head
from indubio_server.store.canonical_json import canonical, digest
from indubio_server.store.clock import now
from indubio_server.store.database import Database
from indubio_server.store.drift_states import drift_state, keep_drift
from indubio_server.store.imported_labels import ImportedLabel, blocks, one_by_case, require_free, write_block
from indubio_server.store.jobs import (
    JobStatus,
    abandoned_jobs,
    add_job,
    all_jobs,
    finish_job,
    interrupt_jobs,
    job_progress,
    renew_leases,
)
from indubio_server.store.live_machine_rows import MachineProgress, keep_progress, last_alarms, machine_progress
from indubio_server.store.model_versions import (
    Origin,
    Version,
    activate,
    activation_history,
    active_numbers,
    active_version,
    add_version,
    version_of,
    versions,
)
from indubio_server.store.outbox_events import (
    Channel,
    OutboxCount,
    OutboxEvent,
    add_events,
    all_events,
    count_outbox,
    dead_events,
    delivered,
    due_events,
    failed,
    retry_dead,
)
from indubio_server.store.private_files import private_folder, warn_of_others
from indubio_server.store.reviews import (
    LABELS,
    Label,
    Review,
    agreement,
    claim,
    claimed_by,
    comment_on,
    counting,
    final_labels,
    history,
    last_review,
    progress,
    review,
    reviews_of,
    undo,
    verdict_of_people,
)
from indubio_server.store.row_seals import Touched, row_seal
from indubio_server.store.schema_version import ChangedVersionError
from indubio_server.store.sessions import (
    Person,
    SessionOwner,
    close_session,
    end_sessions,
    open_person_session,
    open_session,
    session_owner,
)
from indubio_server.store.tables import cases, claims, live_machines, outbox
from indubio_server.store.time_stamps import stamp_finding, stamp_request, stamped_at
from indubio_server.store.trail_export import export, verify_export
from indubio_server.store.verification import verify
from indubio_server.store.version_files import packed, unpack
from indubio_server.store.writer import Writer

T = TypeVar("T")
__all__ = [
    "EVERYTHING",
    "LABELS",
    "SYSTEM",
    "AlarmEvent",
    "AnchorPlaces",
    "ApiKey",
    "Assessed",
    "Case",
    "ChangedVersionError",
    "Channel",
    "Database",
    "Filters",
    "Head",
    "ImportedLabel",
    "JobStatus",
    "Label",
    "MachineProgress",
    "Origin",
    "OutboxCount",
    "OutboxEvent",
    "Person",
    "QueueOrder",
    "Review",
    "Role",
    "ServerStore",
    "SessionOwner",
    "Status",
    "Touched",
    "Version",
    "Writer",
    "abandoned_jobs",
    "activate",
    "activation_history",
    "active_numbers",
    "active_version",
    "add_cases",
    "add_events",
    "add_job",
    "add_key",
    "add_version",
    "agreement",
    "alarm_history",
    "alarmed_machines",
    "all_events",
    "all_jobs",
    "all_keys",
    "append",
    "blocks",
    "canonical",
    "case_by_id",
    "case_by_reference",
    "case_rows",
    "cases",
    "cases_waiting",
    "chosen_cases",
    "claim",
    "claimed_by",
    "claims",
    "close_session",
    "comment_on",
    "count_by_machine",
    "count_cases",
    "count_keys",
    "count_outbox",
    "count_waiting",
    "counting",
    "dead_events",
    "delivered",
    "digest",
    "drift_state",
    "due_events",
    "end_sessions",
    "export",
    "failed",
    "final_labels",
    "finish_job",
    "first_key",
    "has_entry",
    "hashed",
    "head",
    "history",
    "input_values",
    "interrupt_jobs",
    "job_progress",
    "keep_drift",
    "keep_last_verdicts",
    "keep_progress",
    "keys_in_use",
    "last_alarms",
    "last_case",
    "last_review",
    "last_verdicts",
    "live_machines",
    "locked_head",
    "machine_progress",
    "machines",
    "next_to",
    "now",
    "oldest_waiting",
    "one_by_case",
    "open_person_session",
    "open_session",
    "outbox",
    "packed",
    "private_folder",
    "progress",
    "read_anchors",
    "record_alarm",
    "renew_leases",
    "require_free",
    "retry_dead",
    "review",
    "reviews_of",
    "revoke_key",
    "ringing",
    "row_seal",
    "second_opinions",
    "session_owner",
    "sites_plain",
    "stamp_finding",
    "stamp_request",
    "stamped_at",
    "undo",
    "unpack",
    "verdict_of_people",
    "verify",
    "verify_export",
    "version_of",
    "versions",
    "warn_of_others",
    "within_budget",
    "write_block",
]


class ServerStore:
    """The database, brought to the present tables, with the one thread that writes to it.

    Args:
        url: sqlite:///file or postgresql://user:password@host/name.
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.database.migrate()
        self.writer = Writer(self.database)
        self.read, self.look_up = self.database.read, self.database.look_up
        self.submit = self.writer.submit

    def write(self, function: Callable[[Connection], T]) -> T:
        """Do the work in one of the next transactions, verdicts first, and wait until it is durable; its result."""
        return self.submit(function, page=True).result()

    def close(self) -> None:
        """Write what waits, and close the database."""
        self.writer.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
