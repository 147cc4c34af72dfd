"""The tables, as SQLAlchemy knows them. Changes go through a new file in `migrations/versions`, never by editing one.

Rows of `cases`, `reviews`, `audit`, `activations` and `alarm_events` are only ever added; `cases.status` is the one
column of a case that changes, and it follows from the reviews.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from indubio.errors import StoreError
from indubio.io import json_text
from indubio.message import Message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Moment(TypeDecorator[datetime]):
    """A time in UTC, kept as whole microseconds since 1970: the same number, and the same order, in every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> int | None:  # noqa: ARG002
        """Turn a time into a number for the database."""
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Any) -> datetime | None:  # noqa: ARG002
        """Turn a number of the database into a time."""
        return None if value is None else EPOCH + value * MICROSECOND


def as_json(text: str) -> str:
    """A text with its template and values, where it is a message, as it is kept."""
    return json_text(Message.of(text).plain() if text else "")


class Told(TypeDecorator[str]):
    """A text that a page tells in its language, kept as JSON of the English with its template and values."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:  # noqa: ARG002
        """Turn a text into JSON for the database."""
        return None if value is None else as_json(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Message | None:  # noqa: ARG002
        """Turn JSON of the database into a text."""
        try:
            return None if value is None else Message.of(json.loads(value))
        except ValueError as error:
            raise StoreError(f"the database holds a text that is none: {error}.") from None


metadata = MetaData()
Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only what is called INTEGER

model_versions = Table(
    "model_versions",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("version", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("rule", String(16), nullable=False),
    Column("rule_content", Text, nullable=False),
    Column("origin", String(20), nullable=False),
    Column("parent", Integer),
    Column("evaluation", Text),
    Column("at", Moment, nullable=False),
    Column("by", String(200), nullable=False),
    UniqueConstraint("name", "version"),
)

version_files = Table(
    "version_files",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

activations = Table(
    "activations",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", Moment, nullable=False),
    Column("by", String(200), nullable=False),
    Column("note", Text, nullable=False),
)

cases = Table(
    "cases",
    metadata,
    Column("id", Number, primary_key=True),
    Column("reference", String(32), nullable=False, unique=True),
    Column("at", Moment, nullable=False),
    Column("model", String(200), nullable=False),
    Column("version", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("rule", String(16), nullable=False),
    Column("machine", String(200), nullable=False),
    Column("external_id", String(200)),
    Column("verdict", String(10), nullable=False),
    Column("reason", String(30), nullable=False),
    Column("prediction", Boolean, nullable=False),
    Column("probability", Float(53), nullable=False),
    Column("epistemic", Float(53), nullable=False),
    Column("aleatoric", Float(53), nullable=False),
    Column("total", Float(53), nullable=False),
    Column("exceed", Float(53), nullable=False),
    Column("var_nll", Float(53), nullable=False),
    Column("nll", Float(53), nullable=False),
    Column("novelty", Float(53)),
    Column("p_value", Float(53)),
    Column("notes", Told, nullable=False),
    Column("input", LargeBinary, nullable=False),
    Column("input_hash", String(64), nullable=False),
    Column("overflow", Boolean, nullable=False),
    Column("audit", Number, nullable=False, index=True),
    Column("status", String(10), nullable=False),
    Index("cases_by_age", "status", "overflow", "at"),
    Index("cases_by_uncertainty", "status", "overflow", "total"),
    Index("cases_by_machine", "machine", "status", "overflow", "at"),
    Index("cases_by_budget", "verdict", "overflow", "at"),
)

reviews = Table(
    "reviews",
    metadata,
    Column("id", Number, primary_key=True),
    Column("case_id", Number, ForeignKey("cases.id"), nullable=False, index=True),
    Column("reviewer", String(200), nullable=False),
    Column("label", String(1)),
    Column("comment", Text, nullable=False),
    Column("withdraws", Number, ForeignKey("reviews.id"), unique=True),
    Column("at", Moment, nullable=False),
    Column("audit", Number, nullable=False, index=True),
    Index("reviews_by_reviewer", "reviewer", "at"),
)

claims = Table(
    "claims",
    metadata,
    Column("case_id", Number, ForeignKey("cases.id"), primary_key=True),
    Column("reviewer", String(200), nullable=False, index=True),
    Column("until", Moment, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("role", String(10), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("at", Moment, nullable=False),
    Column("revoked", Moment),
    Column("sites", Text),  # a list in JSON; NULL for all
)

people = Table(
    "people",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("issuer", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("at", Moment, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("key_id", Number, ForeignKey("keys.id")),  # of who logged in with a key; the rest is NULL then
    Column("person_id", Number, ForeignKey("people.id")),
    Column("provider", String(64)),
    Column("role", String(10)),
    Column("sites", Text),
    Column("id_token", Text),
    Column("until", Moment, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Number, primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("model", String(200), nullable=False),
    Column("status", String(12), nullable=False),
    Column("progress", Float(53), nullable=False),
    Column("message", Told, nullable=False),
    Column("parameters", Text, nullable=False),
    Column("result", Text),
    Column("by", String(200), nullable=False),
    Column("at", Moment, nullable=False),
    Column("finished", Moment),
)

job_leases = Table(
    "job_leases",
    metadata,
    Column("job_id", Number, primary_key=True, autoincrement=False),
    Column("until", Moment, nullable=False),
)

alarms = Table(
    "alarms",
    metadata,
    Column("machine", String(200), primary_key=True),
    Column("ringing", Boolean, nullable=False),
    Column("since", Moment, nullable=False),
)

alarm_events = Table(
    "alarm_events",
    metadata,
    Column("id", Number, primary_key=True),
    Column("machine", String(200), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("anomalies", Integer, nullable=False),
    Column("unfamiliar", Integer, nullable=False),
    Column("of", Integer, nullable=False),
    Column("at", Moment, nullable=False),
    Index("alarm_events_by_machine", "machine", "at"),
)

alarm_windows = Table(
    "alarm_windows",
    metadata,
    Column("machine", String(200), primary_key=True),
    Column("verdicts", Text, nullable=False),
)

drift_states = Table(
    "drift_states",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    Column("state", Text, nullable=False),
)

live_machines = Table(
    "live_machines",
    metadata,
    Column("model", String(200), primary_key=True),
    Column("machine", String(200), primary_key=True),
    Column("until", BigInteger, nullable=False),
    Column("alarm", Text),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Number, primary_key=True),
    Column("event", String(32), nullable=False),
    Column("channel", String(10), nullable=False),
    Column("model", String(200), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("machine", String(200), nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due", Moment, nullable=False),
    Column("dead", Boolean, nullable=False),
    Column("error", Text, nullable=False),
    UniqueConstraint("event", "channel"),
    Index("outbox_by_due", "channel", "model", "dead", "due"),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False, index=True),
    Column("kind", String(30), nullable=False),
    Column("actor", String(200), nullable=False),
    Column("body", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)

audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", Number, nullable=False),
    Column("hash", String(64), nullable=False),
)
