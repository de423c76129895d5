"""The server's timeline of a block, steps of the memory stage, and what a run is for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "runs", sa.Column("purpose", sa.String(length=12), nullable=False, server_default=sa.text("'candidate'"))
    )
    op.add_column("load_blocks", sa.Column("timeline_blob", sa.LargeBinary(), nullable=True))
    op.create_table(
        "memory_steps",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("run_id", "prompt_tokens", "concurrency"),
    )


def downgrade() -> None:
    op.drop_table("memory_steps")
    op.drop_column("load_blocks", "timeline_blob")
    op.drop_column("runs", "purpose")
