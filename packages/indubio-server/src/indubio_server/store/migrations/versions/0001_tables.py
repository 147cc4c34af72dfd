"""Makes the tables, and the beginning of the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables, and the beginning of the audit trail."""
    op.create_table(
        "model_versions",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("rule", sa.String(16), nullable=False),
        sa.Column("rule_content", sa.Text, nullable=False),
        sa.Column("origin", sa.String(20), nullable=False),
        sa.Column("parent", sa.Integer),
        sa.Column("evaluation", sa.Text),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.UniqueConstraint("name", "version"),
    )
    op.create_table(
        "version_files",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "activations",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_table(
        "cases",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("reference", sa.String(32), nullable=False, unique=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("rule", sa.String(16), nullable=False),
        sa.Column("machine", sa.String(200), nullable=False),
        sa.Column("external_id", sa.String(200)),
        sa.Column("verdict", sa.String(10), nullable=False),
        sa.Column("reason", sa.String(30), nullable=False),
        sa.Column("prediction", sa.Boolean, nullable=False),
        sa.Column("probability", sa.Float(53), nullable=False),
        sa.Column("epistemic", sa.Float(53), nullable=False),
        sa.Column("aleatoric", sa.Float(53), nullable=False),
        sa.Column("total", sa.Float(53), nullable=False),
        sa.Column("exceed", sa.Float(53), nullable=False),
        sa.Column("var_nll", sa.Float(53), nullable=False),
        sa.Column("nll", sa.Float(53), nullable=False),
        sa.Column("novelty", sa.Float(53)),
        sa.Column("p_value", sa.Float(53)),
        sa.Column("notes", sa.Text, nullable=False),
        sa.Column("input", sa.LargeBinary, nullable=False),
        sa.Column("input_hash", sa.String(64), nullable=False),
        sa.Column("overflow", sa.Boolean, nullable=False),
        sa.Column("audit", NUMBER, nullable=False, index=True),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Index("cases_by_age", "status", "overflow", "at"),
        sa.Index("cases_by_uncertainty", "status", "overflow", "total"),
        sa.Index("cases_by_machine", "machine", "status", "overflow", "at"),
        sa.Index("cases_by_budget", "verdict", "overflow", "at"),
    )
    op.create_table(
        "reviews",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("case_id", NUMBER, sa.ForeignKey("cases.id"), nullable=False, index=True),
        sa.Column("reviewer", sa.String(200), nullable=False),
        sa.Column("label", sa.String(1)),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("withdraws", NUMBER, sa.ForeignKey("reviews.id"), unique=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("audit", NUMBER, nullable=False, index=True),
        sa.Index("reviews_by_reviewer", "reviewer", "at"),
    )
    op.create_table(
        "claims",
        sa.Column("case_id", NUMBER, sa.ForeignKey("cases.id"), primary_key=True),
        sa.Column("reviewer", sa.String(200), nullable=False, index=True),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("revoked", sa.BigInteger),
        sa.Column("sites", sa.Text),
    )
    op.create_table(
        "people",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("key_id", NUMBER, sa.ForeignKey("keys.id")),
        sa.Column("person_id", NUMBER, sa.ForeignKey("people.id")),
        sa.Column("provider", sa.String(64)),
        sa.Column("role", sa.String(10)),
        sa.Column("sites", sa.Text),
        sa.Column("id_token", sa.Text),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("status", sa.String(12), nullable=False),
        sa.Column("progress", sa.Float(53), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.BigInteger),
    )
    op.create_table(
        "job_leases",
        sa.Column("job_id", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "alarms",
        sa.Column("machine", sa.String(200), primary_key=True),
        sa.Column("ringing", sa.Boolean, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "alarm_events",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("machine", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("anomalies", sa.Integer, nullable=False),
        sa.Column("unfamiliar", sa.Integer, nullable=False),
        sa.Column("of", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Index("alarm_events_by_machine", "machine", "at"),
    )
    op.create_table(
        "alarm_windows",
        sa.Column("machine", sa.String(200), primary_key=True),
        sa.Column("verdicts", sa.Text, nullable=False),
    )
    op.create_table(
        "drift_states",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_table(
        "live_machines",
        sa.Column("model", sa.String(200), primary_key=True),
        sa.Column("machine", sa.String(200), primary_key=True),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("alarm", sa.Text),
    )
    op.create_table(
        "outbox",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("channel", sa.String(10), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("machine", sa.String(200), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due", sa.BigInteger, nullable=False),
        sa.Column("dead", sa.Boolean, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.UniqueConstraint("event", "channel"),
        sa.Index("outbox_by_due", "channel", "model", "dead", "due"),
    )
    op.create_table(
        "audit",
        sa.Column("seq", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False, index=True),
        sa.Column("kind", sa.String(30), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", NUMBER, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    head = sa.table("audit_head", sa.column("id"), sa.column("seq"), sa.column("hash"))
    op.bulk_insert(head, [{"id": 1, "seq": 0, "hash": "0" * 64}])
