"""The tables. A run's results are keyed by run and stage, rate, block, suite or item, so that storing is an upsert."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, DateTime, Float, ForeignKey, Index, Integer, LargeBinary, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class UtcDateTime(TypeDecorator[datetime]):
    """Timezone-aware UTC on every database (SQLite drops the zone)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("times are timezone-aware UTC")
        return value.astimezone(UTC) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[Any, Any]] = {datetime: UtcDateTime, dict[str, Any]: JSON, list[Any]: JSON}


class Experiment(Base):
    __tablename__ = "experiments"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(String(80), index=True)
    created_at: Mapped[datetime]
    created_by: Mapped[str] = mapped_column(String(200))
    spec: Mapped[dict[str, Any]]  # ExperimentSpec as JSON, as it was launched
    spec_sha256: Mapped[str] = mapped_column(String(64), index=True)
    launch_key: Mapped[str | None] = mapped_column(String(64), unique=True, index=True)  # of the form that launched it

    runs: Mapped[list[Run]] = relationship(back_populates="experiment", lazy="raise", order_by="Run.position")


class Run(Base):
    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)  # also the workflow's id
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), index=True)
    position: Mapped[int] = mapped_column(Integer)  # order in the queue
    repeat: Mapped[int] = mapped_column(Integer, default=0)
    candidate_name: Mapped[str] = mapped_column(String(80))
    candidate: Mapped[dict[str, Any]]  # Candidate as JSON
    is_baseline: Mapped[bool]
    queue: Mapped[str] = mapped_column(String(40))
    status: Mapped[str] = mapped_column(String(12), index=True)
    error: Mapped[str] = mapped_column(Text, default="")
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    worker: Mapped[str] = mapped_column(String(200), default="")
    log_path: Mapped[str] = mapped_column(String(500), default="")  # relative to data_dir
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]  # set while a running run is being told to stop
    revision: Mapped[int] = mapped_column(Integer, default=0)  # grows with every write but progress: a cache key
    server_facts: Mapped[dict[str, Any] | None]
    retry_of: Mapped[str | None] = mapped_column(String(36), unique=True, index=True)  # the run that this one replaces
    purpose: Mapped[str] = mapped_column(String(12), default="candidate", server_default="candidate")  # run_plan.py

    experiment: Mapped[Experiment] = relationship(back_populates="runs", lazy="raise")
    stages: Mapped[list[Stage]] = relationship(lazy="raise", order_by="Stage.position")
    levels: Mapped[list[LoadLevel]] = relationship(lazy="raise", order_by="LoadLevel.rate_per_s")
    suites: Mapped[list[Suite]] = relationship(lazy="raise", order_by="Suite.name")


class Stage(Base):
    """prepare, load, quality:<suite>, memory. `done`/`total` count its units for the progress bar."""

    __tablename__ = "stages"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(80), primary_key=True)
    position: Mapped[int] = mapped_column(Integer)
    status: Mapped[str] = mapped_column(String(12))
    done: Mapped[int] = mapped_column(Integer, default=0)
    total: Mapped[int] = mapped_column(Integer, default=0)
    note: Mapped[str] = mapped_column(Text, default="")  # what it does right now, or why it failed
    executions: Mapped[int] = mapped_column(Integer, default=0)  # how often it was begun
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]


class LoadBlock(Base):
    """One block: its requests as one Parquet blob, its checks, the server's counters over it."""

    __tablename__ = "load_blocks"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    rate_per_s: Mapped[float] = mapped_column(Float, primary_key=True)
    block: Mapped[int] = mapped_column(Integer, primary_key=True)
    seed: Mapped[int] = mapped_column(Integer)
    status: Mapped[str] = mapped_column(String(12))
    reason: Mapped[str] = mapped_column(Text, default="")
    checks: Mapped[list[Any]]
    n_requests: Mapped[int] = mapped_column(Integer)
    n_failed: Mapped[int] = mapped_column(Integer)
    duration_s: Mapped[float] = mapped_column(Float)
    schedule_sha256: Mapped[str] = mapped_column(String(64))
    requests_blob: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    server_counters: Mapped[dict[str, Any]]
    timeline_blob: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    stored_at: Mapped[datetime]


class LoadLevel(Base):
    """A load level over its blocks, as columns: what charts need without opening a blob."""

    __tablename__ = "load_levels"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    rate_per_s: Mapped[float] = mapped_column(Float, primary_key=True)
    status: Mapped[str] = mapped_column(String(12))
    reason: Mapped[str] = mapped_column(Text, default="")
    blocks: Mapped[int] = mapped_column(Integer)
    n_requests: Mapped[int] = mapped_column(Integer)
    n_failed: Mapped[int] = mapped_column(Integer)
    ttft_p50_ms: Mapped[float | None]
    ttft_p50_low_ms: Mapped[float | None]
    ttft_p50_high_ms: Mapped[float | None]
    ttft_p90_ms: Mapped[float | None]
    ttft_p90_low_ms: Mapped[float | None]
    ttft_p90_high_ms: Mapped[float | None]
    ttft_p90_note: Mapped[str] = mapped_column(String(200), default="")
    ttft_p99_ms: Mapped[float | None]
    ttft_p99_low_ms: Mapped[float | None]
    ttft_p99_high_ms: Mapped[float | None]
    tpot_p50_ms: Mapped[float | None]
    tpot_p50_low_ms: Mapped[float | None]
    tpot_p50_high_ms: Mapped[float | None]
    tpot_p90_ms: Mapped[float | None]
    tpot_p90_low_ms: Mapped[float | None]
    tpot_p90_high_ms: Mapped[float | None]
    tpot_p99_ms: Mapped[float | None]
    tpot_p99_low_ms: Mapped[float | None]
    tpot_p99_high_ms: Mapped[float | None]
    e2e_p90_ms: Mapped[float | None]
    e2e_p90_low_ms: Mapped[float | None]
    e2e_p90_high_ms: Mapped[float | None]
    error_rate: Mapped[float]
    delivered_rate_per_s: Mapped[float]
    output_tokens_per_s: Mapped[float]
    prefix_hit_rate: Mapped[float | None]
    running_max: Mapped[float | None]
    parts_ms: Mapped[dict[str, Any]]
    estimate_details: Mapped[dict[str, Any]]  # sample size and note of each estimate, by the name of its column


class MemoryStep(Base):
    """One step of the memory stage: so many requests of so many prompt tokens at once, and what happened."""

    __tablename__ = "memory_steps"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    prompt_tokens: Mapped[int] = mapped_column(Integer, primary_key=True)
    concurrency: Mapped[int] = mapped_column(Integer, primary_key=True)
    outcome: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str] = mapped_column(Text, default="")
    facts: Mapped[dict[str, Any]]  # what was seen, by the names of kitedash/domain/memory.py
    stored_at: Mapped[datetime]


class Trace(Base):
    """A recorded trace, as it was imported: a name stands for one content."""

    __tablename__ = "traces"

    name: Mapped[str] = mapped_column(String(80), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    n_requests: Mapped[int] = mapped_column(Integer)
    span_s: Mapped[float] = mapped_column(Float)
    longest_request_tokens: Mapped[int] = mapped_column(Integer)
    content: Mapped[bytes] = mapped_column(LargeBinary)  # its canonical CSV, zlib
    imported_at: Mapped[datetime]
    imported_by: Mapped[str] = mapped_column(String(200))


class Suite(Base):
    """A suite's result over one run. Counts are kept so that a page needs no answers."""

    __tablename__ = "suites"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(60), primary_key=True)
    role: Mapped[str] = mapped_column(String(12))
    version: Mapped[str] = mapped_column(String(64))
    chance: Mapped[float] = mapped_column(Float, default=0.0)
    n_items: Mapped[int] = mapped_column(Integer)
    n_passed: Mapped[int] = mapped_column(Integer)
    n_truncated: Mapped[int] = mapped_column(Integer)
    n_failed: Mapped[int] = mapped_column(Integer)
    stored_at: Mapped[datetime]


class Answer(Base):
    __tablename__ = "answers"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    suite: Mapped[str] = mapped_column(String(60), primary_key=True)
    item_id: Mapped[str] = mapped_column(String(200), primary_key=True)
    cluster: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(40))
    text: Mapped[str] = mapped_column(Text)
    reference: Mapped[str] = mapped_column(Text, default="")
    finish_reason: Mapped[str] = mapped_column(String(40))
    score: Mapped[float] = mapped_column(Float)
    passed: Mapped[bool]
    error: Mapped[str] = mapped_column(Text, default="")
    prompt_sha256: Mapped[str] = mapped_column(String(64), default="")
    tokens_out: Mapped[int | None]


class Worker(Base):
    """One row a slot, kept alive by a heartbeat."""

    __tablename__ = "workers"

    slot: Mapped[str] = mapped_column(String(200), primary_key=True)
    host: Mapped[str] = mapped_column(String(200))
    pid: Mapped[int] = mapped_column(Integer)
    queue: Mapped[str] = mapped_column(String(40))
    devices: Mapped[list[Any]]
    device_name: Mapped[str] = mapped_column(String(200), default="")
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]


class DecisionDraft(Base):
    """A decision being written. `content` is what a person wrote; numbers are read anew until it is accepted."""

    __tablename__ = "decision_drafts"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), index=True)
    candidate_name: Mapped[str] = mapped_column(String(80))
    content: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    created_by: Mapped[str] = mapped_column(String(200))
    updated_at: Mapped[datetime]
    updated_by: Mapped[str] = mapped_column(String(200))
    revision: Mapped[int] = mapped_column(Integer, default=0)  # a save names the one it saw
    accepted_number: Mapped[int | None] = mapped_column(ForeignKey("decision_records.number"), unique=True)


class DecisionRecord(Base):
    """An accepted decision. Triggers of the database refuse every UPDATE and DELETE of a row."""

    __tablename__ = "decision_records"

    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)  # 1, 2, 3, ... without gaps
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id"), index=True)
    candidate_name: Mapped[str] = mapped_column(String(80))
    title: Mapped[str] = mapped_column(String(200))
    supersedes: Mapped[int | None] = mapped_column(ForeignKey("decision_records.number"), unique=True)
    accepted_at: Mapped[datetime]
    accepted_by: Mapped[str] = mapped_column(String(200))
    document: Mapped[str] = mapped_column(Text)  # canonical JSON, byte for byte what was hashed
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    previous_sha256: Mapped[str] = mapped_column(String(64))  # of the record numbered one below; "" for the first


class PackageSchema(Base):
    """A package that keeps tables of its own in this database, and the release that last migrated them."""

    __tablename__ = "package_schemas"

    package: Mapped[str] = mapped_column(String(80), primary_key=True)
    version: Mapped[str] = mapped_column(String(40))


Index("ix_runs_experiment_position", Run.experiment_id, Run.position)
