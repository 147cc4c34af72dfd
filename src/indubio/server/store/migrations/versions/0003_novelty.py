"""Adds the novelty of a case; those kept before have none."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the column."""
    op.add_column("cases", sa.Column("novelty", sa.Float(53)))
