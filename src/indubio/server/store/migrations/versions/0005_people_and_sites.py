"""Adds the sites of keys, and the people who log in without one.

Sessions get new columns, and one that was required no longer is; they live for hours, so the table is made anew and
everybody logs in again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the column, the table of people, and the new table of sessions."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.add_column("keys", sa.Column("sites", sa.Text))
    op.create_table(
        "people",
        sa.Column("id", number, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.drop_table("sessions")
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("key_id", number, sa.ForeignKey("keys.id")),
        sa.Column("person_id", number, sa.ForeignKey("people.id")),
        sa.Column("provider", sa.String(64)),
        sa.Column("role", sa.String(10)),
        sa.Column("sites", sa.Text),
        sa.Column("id_token", sa.Text),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
