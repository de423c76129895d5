"""What the command line prints: aligned tables of plain text, safe for a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from kitedash.domain.wording import minutes, time_range
from kitedash.services.run_views import AGAIN_IN_WORDS, ExperimentItem, RunsView, RunView

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
ID_LENGTH = 8  # of a UUID: enough to be typed, and any unambiguous beginning is understood
MAX_CELL = 100


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns as wide as their widest cell; what can't be shown on one line is made to."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(headers, *cells, strict=True)]
    lines = []
    for row in [list(headers), *cells]:
        padded = (cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True))
        lines.append(indent + "  ".join(padded).rstrip())
    return "\n".join(lines)


def one_line(text: str, limit: int = MAX_CELL) -> str:
    """Stored text in a cell: no control characters, which a terminal would obey, and no more than `limit` long."""
    text = CONTROL.sub(" ", text).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def duration(span: timedelta) -> str:
    """4:05, or 1:04:05 from an hour on."""
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def local_time(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def experiments_table(items: Sequence[ExperimentItem]) -> str:
    headers = ("EXPERIMENT", "NAME", "LAUNCHED", "RUNS", "FINISHED", "FAILED", "ACTIVE")
    return table(
        headers,
        [
            (
                item.id[:ID_LENGTH],
                item.name,
                local_time(item.created_at),
                *map(str, (item.runs, item.finished, item.failed, item.active)),
            )
            for item in items
        ],
    )


def runs_table(runs: Sequence[RunView]) -> str:
    headers = ("RUN", "CANDIDATE", "STATUS", "STAGE", "TIME", "WORKER", "")
    return table(headers, [_run_row(run) for run in runs])


def _run_row(run: RunView) -> tuple[str, ...]:
    taken = f"{run.worker}{f', attempt {run.attempts}' if run.attempts > 1 else ''}"
    return (run.id[:ID_LENGTH], run.title, status_of(run), stage_of(run), time_taken(run), taken, run.error)


def status_of(run: RunView) -> str:
    if run.cancelling:
        return "cancelling"
    if run.retried_by:
        return f"{run.status}, retried"
    return f"queued ({run.queue_position}. in {run.queue})" if run.queue_position else run.status


def stage_of(run: RunView) -> str:
    """The stage that is under way, or that the run ended in."""
    if not run.stages or run.status in ("finished", "queued"):
        return ""
    stage = run.stages[-1]
    return f"{stage.name} {stage.done}/{stage.total}" if stage.total else stage.name


def time_taken(run: RunView) -> str:
    if run.started_at is None:
        return ""
    return duration((run.finished_at or datetime.now(UTC)) - run.started_at)


def time_left(run: RunView) -> str:
    """Until it ends, with its range; "" where nothing is known."""
    if run.remaining is not None:
        return time_range(run.remaining)
    return f"at least {minutes(run.remaining_at_least)}" if run.remaining_at_least else ""


def runs_text(view: RunsView) -> str:
    if not view.experiments:
        return "No experiment has been launched: `kitedash launch FILE` or `kitedash quickstart` does."
    chosen = next(item for item in view.experiments if item.id == view.experiment_id)
    parts = [experiments_table(view.experiments), f"Runs of {chosen.name}:\n{runs_table(view.runs)}"]
    parts += [f"Warning: {warning}" for warning in view.warnings]
    return "\n\n".join(parts)


def run_text(run: RunView, log_lines: int) -> str:
    """One run: what it is, its stages, what the engine said of itself, the end of its log."""
    facts = [
        ("run", run.id),
        ("experiment", f"{run.experiment_name} ({run.experiment_id})"),
        ("candidate", run.title),
        ("status", status_of(run)),
        ("error", one_line(run.error, 2_000)),
        ("worker", f"{run.worker}, attempt {run.attempts}" if run.worker else f"none yet (queue {run.queue})"),
        ("launched", local_time(run.created_at)),
        ("time", time_taken(run)),
        ("left", time_left(run)),
        ("purpose", AGAIN_IN_WORDS if run.is_again else ""),
        ("retry of", run.retry_of or ""),
        ("retried as", run.retried_by or ""),
        *(("invalid", sentence) for sentence in run.invalid_levels),
    ]
    if run.facts is not None:
        facts += [
            ("device", run.facts.device_name),
            (
                "engine",
                f"{run.facts.engine_package} {run.facts.vllm_version}, ready after {run.facts.start_up_s:.0f} s",
            ),
            ("kernels", ", ".join(filter(None, (run.facts.linear_kernel, run.facts.attention_backend)))),
            ("note", run.facts.kernel_note),
            ("command", one_line(" ".join(run.facts.argv), 2_000)),
        ]
    parts = ["\n".join(f"{name:<10}  {value}" for name, value in facts if value)]
    if run.stages:
        rows = [
            (
                stage.name,
                stage.status,
                f"{stage.done}/{stage.total}" if stage.total else "",
                duration((stage.finished_at or datetime.now(UTC)) - stage.started_at),
                f"begun {stage.executions} times" if stage.executions > 1 else "",
                stage.note,
            )
            for stage in run.stages
        ]
        parts.append(table(("STAGE", "STATUS", "DONE", "TIME", "", ""), rows))
    if run.log_tail and log_lines:
        parts.append("Log:\n" + "\n".join(run.log_tail.split("\n")[-log_lines:]))
    return "\n\n".join(parts)
