"""Parts of the runs page: the table of runs, one run's stages, facts and log, the workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.domain.wording import listed
from kitedash.services.runs_page import RunsPage
from kitedash.services.views import AGAIN_IN_WORDS, RunsView, RunView, StageView, WorkerView
from kitedash.ui import address, definitions, formats, theme
from kitedash.ui.escape import markdown, printable

ACTIVE = ("queued", "running")
OPEN_LOG = ("running", "failed")  # the log is shown without being asked for
MOST_REASONS = 3
LOG_LINES = 15


def banners(page: RunsPage) -> None:
    """What keeps runs from going on, first of all that no worker is alive; and what goes on elsewhere."""
    view = page.view
    if view.warnings:
        st.warning("  \n".join(map(markdown, view.warnings)), icon=":material/power_off:")
    elif not any(worker.alive for worker in view.workers):
        waiting = any(run.status in ACTIVE for run in view.runs)
        text = "No worker is alive" + (
            ": queued runs wait until one is started with `kitedash worker`." if waiting else "."
        )
        (st.warning if waiting else st.info)(text, icon=":material/power_off:")
    if other := page.active_elsewhere:
        left = "1 run is" if other.active == 1 else f"{other.active} runs are"
        title = markdown(f"{other.name}, launched {formats.moment(other.created_at)}")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f":material/sync: {left} queued or under way in another experiment: {title}.")
            st.button("Show it", key=f"{address.RUN_ACTION}_show", on_click=address.switch_experiment, args=(other.id,))


def summary(view: RunsView) -> None:
    """How many runs are in which state, in the order in which a run goes through them, and when all are over."""
    counted = view.current_runs
    words = [run_state(run) for run in counted]
    counts = " · ".join(f"{sign} {words.count(state)}" for state, sign in theme.RUN_SIGN.items() if state in words)
    text = f"**{len(counted)} {'run' if len(counted) == 1 else 'runs'}**: {counts or 'none'}"
    if view.active_runs:
        text += f" · all over in {formats.time_range(view.all_over)}" if view.all_over else " · time left unknown"
    st.markdown(text, help=definitions.DEFINITIONS["Time left"] if view.active_runs else None)


def troubles(runs: Sequence[RunView]) -> frozenset[str]:
    """Failed runs and rates without a result, with their reasons; runs of one reason together. Returns the reasons that
    are said here."""
    current = [run for run in runs if run.retried_by is None]
    failed: dict[str, list[str]] = {}
    invalid: dict[str, list[str]] = {}
    for run in current:
        if run.status == "failed":
            failed.setdefault(run.error or "no reason is stored", []).append(run.candidate_name)
        for sentence in run.invalid_levels:
            invalid.setdefault(sentence, []).append(run.candidate_name)
    for by_reason, draw, icon in ((failed, st.error, ":material/error:"), (invalid, st.warning, ":material/rule:")):
        for reason, names in [*by_reason.items()][:MOST_REASONS]:
            unique = [*dict.fromkeys(names)]
            draw(f"**{markdown(listed(unique))}**: {markdown(reason)}", icon=icon)
        if (more := len(by_reason) - MOST_REASONS) > 0:
            draw(f"{more} more with other reasons: see the table.", icon=icon)
    return frozenset([*[*failed][:MOST_REASONS], *[*invalid][:MOST_REASONS]])


def run_state(run: RunView) -> str:
    """The status as it is shown: what is being stopped, or was replaced, is named so."""
    if run.retried_by is not None:
        return "retried"
    return "stopping" if run.cancelling else run.status


def time_left(run: RunView) -> str:
    """With its range, or that nothing is known."""
    if run.status not in ACTIVE or run.cancelling:
        return ""
    if run.remaining is not None:
        return formats.time_range(run.remaining)
    return f"at least {formats.minutes(run.remaining_at_least)}" if run.remaining_at_least else "unknown"


def run_rows(runs: Sequence[RunView], now: datetime) -> pd.DataFrame:
    """One row a run, those that were retried last. Progress is that of the stage under way, in units done."""
    rows: list[dict[str, Any]] = []
    for run in sorted(runs, key=lambda run: run.retried_by is not None):
        stage = None if run.status == "finished" else current_stage(run)
        rows.append(
            {
                "Status": theme.sign(theme.RUN_SIGN, run_state(run)),
                "Candidate": printable(run.title),
                "Stage": stage.name if stage else formats.MISSING,
                "Progress": None if stage is None or stage.total <= 0 else 100 * min(1.0, stage.done / stage.total),
                "Elapsed": elapsed(run.started_at, run.finished_at, now),
                "Left": time_left(run).removeprefix("about "),  # the heading says so
                "Queue": formats.MISSING if run.queue_position is None else f"{run.queue_position} in {run.queue}",
                "Now": _now(run, stage),
                "Worker": printable(run.worker) or formats.MISSING,
                "Starts": run.attempts,
            }
        )
    table = pd.DataFrame(rows)
    return table if any(run.status in ACTIVE for run in runs) else table.drop(columns=["Left", "Queue"])


def run_table(runs: Sequence[RunView], now: datetime) -> None:
    waiting = any(run.status in ACTIVE for run in runs)  # else their columns are not there, and reasons have the room
    st.dataframe(
        run_rows(runs, now),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Runs with status, stage, progress, elapsed time, time left and place in the queue",
        column_config={
            "Status": st.column_config.TextColumn(width=100, pinned=True),
            "Candidate": st.column_config.TextColumn(width=175, pinned=True),
            "Stage": st.column_config.TextColumn(width=150),
            "Progress": st.column_config.ProgressColumn(
                min_value=0, max_value=100, format="%.0f %%", width=105, help="Of the stage named at its left."
            ),
            "Elapsed": st.column_config.TextColumn(width=95),
            "Left": st.column_config.TextColumn(
                "Time left, about", width=230, help=definitions.DEFINITIONS["Time left"]
            ),
            "Queue": st.column_config.TextColumn("In line", width=75, help="Place in its queue, 1 for the next."),
            "Now": st.column_config.TextColumn("Now, or why it ended", width=230 if waiting else 520),
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
        width=340,
        format_func=lambda key: f"{by_id[key].title} · {run_state(by_id[key])} · {key[:8]}",
        key=address.RUN_BOX,
        on_change=_picked,
    )


def _picked() -> None:
    address.pick(address.RUN, st.session_state[address.RUN_BOX])


def details(run: RunView, now: datetime, said: Collection[str] = ()) -> None:
    """One run: where it stands, its stages with progress, the end of its log. `said`: reasons that are shown above."""
    for line in _standing(run):
        st.caption(line)
    if run.error and run.error not in said:
        st.error(markdown(run.error), icon=":material/error:")
    for sentence in run.invalid_levels:
        if sentence not in said:
            st.warning(markdown(sentence), icon=":material/rule:")
    _stages(run, now)
    with st.expander("End of the engine's log", icon=":material/terminal:", expanded=run.status in OPEN_LOG):
        if run.log_tail:
            st.code("\n".join(printable(run.log_tail).split("\n")[-LOG_LINES:]), language=None, wrap_lines=True)
            st.caption(f"The last {LOG_LINES} lines at most; `kitedash show {run.id[:8]} --log 200` prints more.")
        else:
            st.caption("The engine has not written anything yet.")


def _standing(run: RunView) -> list[str]:
    """What a person would ask first, as lines of Markdown."""
    lines = []
    if run.is_again:
        lines.append(
            f"{AGAIN_IN_WORDS.capitalize()}: what differs from the first time is brought about by no candidate."
        )
    if run.retried_by is not None:
        lines.append(f"It was retried as run {markdown(run.retried_by[:8])}, and counts no more.")
    if run.retry_of is not None:
        lines.append(f"It takes the place of run {markdown(run.retry_of[:8])}.")
    if run.cancelling:
        lines.append("Its cancellation was asked for: the worker stops the engine and ends the run.")
    if run.status == "queued":
        place = "" if run.queue_position is None else f", number {run.queue_position} in line"
        ends = "when it ends is unknown" if run.remaining is None else f"it ends in {markdown(time_left(run))}"
        lines.append(f"Waits in the queue {markdown(run.queue)}{place}; {ends}.")
    if run.status == "running":
        starts = f", begun {run.attempts} times" if run.attempts > 1 else ""
        left = "" if run.cancelling else f"; time left: {markdown(time_left(run))}"
        lines.append(f"On worker {markdown(run.worker)}{starts}{left}.")
    if run.facts is not None:
        facts = run.facts
        parts = [
            f"vLLM {facts.vllm_version}",
            f"ready after {facts.start_up_s:.0f} s",
            f"kernel {facts.linear_kernel or 'not named'}",
            facts.device_name,
            facts.kernel_note,
        ]
        lines.append(markdown(" · ".join(part for part in parts if part)))
    return lines


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
    note = printable(stage.note) if stage and run.status == "running" else ""
    return note or (AGAIN_IN_WORDS if run.is_again else "")


def _stages(run: RunView, now: datetime) -> None:
    """Those that ended as lines close together, the one under way with its progress and what it does."""
    ended = [stage for stage in run.stages if stage.status != "running"]
    if ended:
        st.markdown("  \n".join(_stage_line(stage, now) for stage in ended))
    for stage in run.stages:
        if stage.status == "running":
            line = _stage_line(stage, now)
            if stage.total > 0:
                st.progress(min(1.0, stage.done / stage.total), text=line)
            else:
                st.markdown(line)
        if stage.note and stage.status != "finished" and stage.note != run.error:
            st.text(printable(stage.note))


def _stage_line(stage: StageView, now: datetime) -> str:
    sign = {"running": ":material/play_arrow:", "finished": ":material/check:", "failed": ":material/close:"}
    counts = f" · {stage.done} of {stage.total}" if stage.total else ""
    again = f" · begun {stage.executions} times" if stage.executions > 1 else ""
    took = elapsed(stage.started_at, stage.finished_at, now)
    return f"{sign.get(stage.status, '')} **{markdown(stage.name)}** {stage.status}{counts} · {took}{again}"
