"""Adds the last verdicts of every machine, and an index for the referral budget; `Database.migrate` seals old rows."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table and the index."""
    op.create_table(
        "alarm_windows",
        sa.Column("machine", sa.String(200), primary_key=True),
        sa.Column("verdicts", sa.Text, nullable=False),
    )
    op.create_index("cases_by_budget", "cases", ["verdict", "overflow", "at"])
