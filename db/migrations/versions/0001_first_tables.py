"""The first tables: experiments, runs with their results, workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_sha256", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_experiments_name", "experiments", ["name"])
    op.create_index("ix_experiments_spec_sha256", "experiments", ["spec_sha256"])

    op.create_table(
        "package_schemas",
        sa.Column("package", sa.String(length=80), nullable=False),
        sa.Column("version", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("package"),
    )
    op.create_table(
        "workers",
        sa.Column("slot", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("queue", sa.String(length=40), nullable=False),
        sa.Column("devices", sa.JSON(), nullable=False),
        sa.Column("device_name", sa.String(length=200), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("slot"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("candidate_name", sa.String(length=80), nullable=False),
        sa.Column("candidate", sa.JSON(), nullable=False),
        sa.Column("is_baseline", sa.Boolean(), nullable=False),
        sa.Column("queue", sa.String(length=40), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=200), nullable=False),
        sa.Column("log_path", sa.String(length=500), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("server_facts", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_runs_experiment_id", "runs", ["experiment_id"])
    op.create_index("ix_runs_experiment_position", "runs", ["experiment_id", "position"])
    op.create_index("ix_runs_status", "runs", ["status"])

    op.create_table(
        "answers",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("suite", sa.String(length=60), nullable=False),
        sa.Column("item_id", sa.String(length=200), nullable=False),
        sa.Column("cluster", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("finish_reason", sa.String(length=40), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("prompt_sha256", sa.String(length=64), nullable=False),
        sa.Column("tokens_out", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("run_id", "suite", "item_id"),
    )
    op.create_table(
        "load_blocks",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("rate_per_s", sa.Float(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("checks", sa.JSON(), nullable=False),
        sa.Column("n_requests", sa.Integer(), nullable=False),
        sa.Column("n_failed", sa.Integer(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("schedule_sha256", sa.String(length=64), nullable=False),
        sa.Column("requests_blob", sa.LargeBinary(), nullable=False),
        sa.Column("server_counters", sa.JSON(), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("run_id", "rate_per_s", "block"),
    )
    op.create_table(
        "load_levels",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("rate_per_s", sa.Float(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("blocks", sa.Integer(), nullable=False),
        sa.Column("n_requests", sa.Integer(), nullable=False),
        sa.Column("n_failed", sa.Integer(), nullable=False),
        sa.Column("ttft_p50_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p50_low_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p50_high_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p90_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p90_low_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p90_high_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p90_note", sa.String(length=200), nullable=False),
        sa.Column("ttft_p99_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p99_low_ms", sa.Double(), nullable=True),
        sa.Column("ttft_p99_high_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p50_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p50_low_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p50_high_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p90_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p90_low_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p90_high_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p99_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p99_low_ms", sa.Double(), nullable=True),
        sa.Column("tpot_p99_high_ms", sa.Double(), nullable=True),
        sa.Column("e2e_p90_ms", sa.Double(), nullable=True),
        sa.Column("e2e_p90_low_ms", sa.Double(), nullable=True),
        sa.Column("e2e_p90_high_ms", sa.Double(), nullable=True),
        sa.Column("error_rate", sa.Double(), nullable=False),
        sa.Column("delivered_rate_per_s", sa.Double(), nullable=False),
        sa.Column("output_tokens_per_s", sa.Double(), nullable=False),
        sa.Column("prefix_hit_rate", sa.Double(), nullable=True),
        sa.Column("running_max", sa.Double(), nullable=True),
        sa.Column("parts_ms", sa.JSON(), nullable=False),
        sa.Column("estimate_details", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("run_id", "rate_per_s"),
    )
    op.create_table(
        "stages",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("executions", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("run_id", "name"),
    )
    op.create_table(
        "suites",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("role", sa.String(length=12), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("chance", sa.Float(), nullable=False),
        sa.Column("n_items", sa.Integer(), nullable=False),
        sa.Column("n_passed", sa.Integer(), nullable=False),
        sa.Column("n_truncated", sa.Integer(), nullable=False),
        sa.Column("n_failed", sa.Integer(), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("run_id", "name"),
    )


def downgrade() -> None:
    op.drop_table("suites")
    op.drop_table("stages")
    op.drop_table("load_levels")
    op.drop_table("load_blocks")
    op.drop_table("answers")
    op.drop_index("ix_runs_status", "runs")
    op.drop_index("ix_runs_experiment_position", "runs")
    op.drop_index("ix_runs_experiment_id", "runs")

    op.drop_table("runs")
    op.drop_table("workers")
    op.drop_table("package_schemas")
    op.drop_index("ix_experiments_spec_sha256", "experiments")
    op.drop_index("ix_experiments_name", "experiments")

    op.drop_table("experiments")
