"""Parts of the runs page: the table of runs, one run's stages, facts and log, the workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.services.views import RunsView, RunView, StageView, WorkerView
from kitedash.ui import address, formats, theme
from kitedash.ui.escape import markdown, printable

ACTIVE = ("queued", "running")


def banners(view: RunsView) -> None:
    """What keeps runs from going on, first of all that no worker is alive."""
    for warning in view.warnings:
        st.warning(markdown(warning), icon=":material/warning:")
    if not view.warnings and not any(worker.alive for worker in view.workers):
        waiting = any(run.status in ACTIVE for run in view.runs)
        text = "No worker is alive" + (
            ": queued runs wait until one is started with `kitedash worker`." if waiting else "."
        )
        (st.warning if waiting else st.info)(text, icon=":material/power_off:")


def summary(runs: Sequence[RunView]) -> None:
    """How many runs are in which state, in the order in which a run goes through them."""
    counts = {status: sum(run.status == status for run in runs) for status in theme.RUN_SIGN}
    words = " · ".join(f"{theme.RUN_SIGN[status]} {n}" for status, n in counts.items() if n)
    st.markdown(f"**{len(runs)} {'run' if len(runs) == 1 else 'runs'}**: {words or 'none'}")


def run_rows(runs: Sequence[RunView], now: datetime) -> pd.DataFrame:
    """One row a run. Progress is that of the stage under way, in units done."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        stage = current_stage(run)
        rows.append(
            {
                "Status": theme.sign(theme.RUN_SIGN, run.status),
                "Candidate": printable(run.candidate_name) + (" (baseline)" if run.is_baseline else ""),
                "Stage": stage.name if stage else formats.MISSING,
                "Progress": None if stage is None or stage.total <= 0 else 100 * min(1.0, stage.done / stage.total),
                "Now": _now(run, stage),
                "Elapsed": elapsed(run.started_at, run.finished_at, now),
                "Queue": formats.MISSING if run.queue_position is None else f"{run.queue_position} in {run.queue}",
                "Starts": run.attempts,
                "Kernel": printable(run.facts.linear_kernel or "not named") if run.facts else formats.MISSING,
            }
        )
    return pd.DataFrame(rows)


def run_table(runs: Sequence[RunView], now: datetime) -> None:
    st.dataframe(
        run_rows(runs, now),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Runs with status, stage, progress, elapsed time and place in the queue",
        column_config={
            "Status": st.column_config.TextColumn(width=100, pinned=True),
            "Candidate": st.column_config.TextColumn(width=190, pinned=True),
            "Progress": st.column_config.ProgressColumn(
                min_value=0, max_value=100, format="%.0f %%", width=120, help="Of the stage named at its left."
            ),
            "Stage": st.column_config.TextColumn(width=150),
            "Elapsed": st.column_config.TextColumn(width=95),
            "Now": st.column_config.TextColumn("Now, or why it ended", width=300),
            "Queue": st.column_config.TextColumn("Place in queue"),
            "Starts": st.column_config.NumberColumn(
                help="How often a worker began this run; more than 1 after a restart."
            ),
        },
    )


def chooser(runs: Sequence[RunView], chosen: RunView) -> None:
    """A box with the runs; picking one writes it to the address."""
    by_id = {run.id: run for run in runs}
    st.session_state[address.RUN_BOX] = chosen.id
    st.selectbox(
        "Details of",
        [*by_id],
        format_func=lambda key: f"{by_id[key].candidate_name} · {by_id[key].status} · {key[:8]}",
        key=address.RUN_BOX,
        on_change=_picked,
    )


def _picked() -> None:
    address.pick(address.RUN, st.session_state[address.RUN_BOX])


def details(run: RunView, now: datetime) -> None:
    """One run: its error, stages with progress, what the server said of itself, the end of its log."""
    if run.error:
        st.error(markdown(run.error), icon=":material/error:")
    if run.cancelling:
        st.caption("Its cancellation was asked for: the worker stops the engine and ends the run.")
    if run.status == "queued":
        place = "" if run.queue_position is None else f", number {run.queue_position} in line"
        st.caption(f"Waits in the queue {markdown(run.queue)}{place}.")
    for stage in run.stages:
        _stage(stage, run.error, now)
    if run.facts is not None:
        _facts(run)
    with st.expander("End of the engine's log", icon=":material/terminal:", expanded=run.status == "failed"):
        if run.log_tail:
            long = run.log_tail.count("\n") > 12
            st.code(printable(run.log_tail), language=None, wrap_lines=True, height=320 if long else "content")
        else:
            st.caption("The engine has not written anything yet.")


def workers(found: Sequence[WorkerView], now: datetime) -> None:
    alive = sum(worker.alive for worker in found)
    with st.expander(f"Workers ({alive} alive of {len(found)})", icon=":material/memory:"):
        if not found:
            st.caption("None has been started: `kitedash worker` starts one on this machine.")
            return
        rows = [
            {
                "Alive": "✓ alive" if w.alive else "✗ silent",
                "Slot": printable(w.slot),
                "Queue": printable(w.queue),
                "Device": printable(w.device_name),
                "Host": printable(w.host),
                "Process": w.pid,
                "Last heard of": f"{formats.duration(now - w.heartbeat_at)} ago",
            }
            for w in found
        ]
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            placeholder=formats.MISSING,
            alt="Worker slots and whether they are alive",
        )


def current_stage(run: RunView) -> StageView | None:
    """The stage under way, else the last one begun."""
    active = [stage for stage in run.stages if stage.status == "running"]
    begun = active or list(run.stages)
    return begun[-1] if begun else None


def elapsed(start: datetime | None, end: datetime | None, now: datetime) -> str:
    return formats.MISSING if start is None else formats.duration((end or now) - start)


def _now(run: RunView, stage: StageView | None) -> str:
    if run.error:
        return printable(" ".join(run.error.split()))
    return printable(stage.note) if stage and run.status == "running" else ""


def _stage(stage: StageView, error: str, now: datetime) -> None:
    sign = {"running": ":material/play_arrow:", "finished": ":material/check:", "failed": ":material/close:"}
    counts = f" · {stage.done} of {stage.total}" if stage.total else ""
    again = f" · begun {stage.executions} times" if stage.executions > 1 else ""
    head = f"{sign.get(stage.status, '')} **{markdown(stage.name)}** {stage.status}{counts}"
    head += f" · {elapsed(stage.started_at, stage.finished_at, now)}{again}"
    if stage.status == "running" and stage.total > 0:
        st.progress(min(1.0, stage.done / stage.total), text=head)
    else:
        st.markdown(head)
    if stage.note and stage.status != "finished" and stage.note != error:
        st.text(printable(stage.note))


def _facts(run: RunView) -> None:
    facts = run.facts
    assert facts is not None
    tokens = formats.MISSING if facts.kv_cache_tokens is None else f"{facts.kv_cache_tokens:,}"
    with st.container(horizontal=True):
        st.metric(
            "Start-up", f"{facts.start_up_s:.0f} s", width=130, help="From the start of the process until it answered."
        )
        st.metric("KV cache", f"{tokens} tokens", width=220, help="How many tokens of context fit in memory at once.")
        st.metric("vLLM", facts.vllm_version or formats.MISSING, width=150)
    pairs = {
        "Kernel": facts.linear_kernel or "not named",
        "Attention": facts.attention_backend or formats.MISSING,
        "Weights": facts.weight_dtype,
        "Note": facts.kernel_note,
        "Device": f"{facts.device_name} {facts.driver}".strip(),
        "Model": f"{facts.checkpoint} ({facts.model_sha256[:12]})",
    }
    lines = [f"{name:<10}{printable(value)}" for name, value in pairs.items() if value]
    st.code("\n".join(lines), language=None, wrap_lines=True)
    with st.expander("Command and environment", icon=":material/code:"):
        st.code(printable(" ".join(facts.argv)), language=None, wrap_lines=True)
        st.code(printable("\n".join(f"{k}={v}" for k, v in facts.environment.items())), language=None)
