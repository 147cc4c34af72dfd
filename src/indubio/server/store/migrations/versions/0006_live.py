"""Adds how far every live machine has been judged, and the outbox of events that wait to be delivered."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the two tables."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "live_machines",
        sa.Column("model", sa.String(200), primary_key=True),
        sa.Column("machine", sa.String(200), primary_key=True),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("alarm", sa.Text),
    )
    op.create_table(
        "outbox",
        sa.Column("id", number, primary_key=True),
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
    )
    op.create_index("outbox_by_due", "outbox", ["channel", "model", "dead", "due"])
