"""Decisions: drafts and immutable records. Launches that happen once, and runs that replace another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

REFUSAL = "an accepted decision record is never changed: supersede it"


def upgrade() -> None:
    # Plain columns and indexes: SQLite can't add a constraint without copying the table, which drops rows' parents.
    op.add_column("experiments", sa.Column("launch_key", sa.String(length=64), nullable=True))
    op.create_index("ix_experiments_launch_key", "experiments", ["launch_key"], unique=True)
    op.add_column("runs", sa.Column("retry_of", sa.String(length=36), nullable=True))
    op.create_index("ix_runs_retry_of", "runs", ["retry_of"], unique=True)

    op.create_table(
        "decision_records",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("candidate_name", sa.String(length=80), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("supersedes", sa.Integer(), nullable=True),
        sa.Column("accepted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("accepted_by", sa.String(length=200), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("previous_sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"]),
        sa.ForeignKeyConstraint(["supersedes"], ["decision_records.number"]),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("sha256"),
        sa.UniqueConstraint("supersedes"),
    )
    op.create_index("ix_decision_records_experiment_id", "decision_records", ["experiment_id"])
    op.create_table(
        "decision_drafts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("candidate_name", sa.String(length=80), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_by", sa.String(length=200), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("accepted_number", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["accepted_number"], ["decision_records.number"]),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("accepted_number"),
    )
    op.create_index("ix_decision_drafts_experiment_id", "decision_drafts", ["experiment_id"])
    _refuse_changes()


def downgrade() -> None:
    op.drop_index("ix_decision_drafts_experiment_id", "decision_drafts")
    op.drop_table("decision_drafts")
    op.drop_index("ix_decision_records_experiment_id", "decision_records")
    op.drop_table("decision_records")  # and its triggers with it
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_record_change()")
    op.drop_index("ix_runs_retry_of", "runs")
    op.drop_column("runs", "retry_of")
    op.drop_index("ix_experiments_launch_key", "experiments")
    op.drop_column("experiments", "launch_key")


def _refuse_changes() -> None:
    """The code never changes a record; these triggers refuse it to everything else that opens the database.

    On SQLite also the INSERT OR REPLACE that would delete a record without its DELETE trigger: one by number, hash or
    superseded record. On Postgres also the TRUNCATE, of this table or of one that this one refers to.
    """
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_record_change() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
        )
        op.execute(
            "CREATE TRIGGER decision_records_keep BEFORE UPDATE OR DELETE ON decision_records "
            "FOR EACH ROW EXECUTE FUNCTION refuse_record_change()"
        )
        op.execute(
            "CREATE TRIGGER decision_records_no_truncate BEFORE TRUNCATE ON decision_records "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_record_change()"
        )
        return
    for event in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER decision_records_no_{event.lower()} BEFORE {event} ON decision_records "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
    same = "number = NEW.number OR sha256 = NEW.sha256 OR supersedes = NEW.supersedes"
    taken = f"EXISTS (SELECT 1 FROM decision_records WHERE {same})"  # noqa: S608 (a text of our own)
    op.execute(
        f"CREATE TRIGGER decision_records_no_replace BEFORE INSERT ON decision_records WHEN {taken} "
        f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    )
