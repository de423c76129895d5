"""The head of a run's page: which run, how it stands, and the numbers that its candidate counts with."""

from __future__ import annotations

from datetime import datetime

import streamlit as st

from kitedash.domain.results import Estimate
from kitedash.services import run_page
from kitedash.services.run_page import RunDetail
from kitedash.services.views import AGAIN_IN_WORDS, RunItem, RunView, StageView
from kitedash.ui import address, formats, theme
from kitedash.ui.components import glossary
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown

ACTIVE = ("queued", "running")


def nothing_chosen() -> None:
    st.info("No run has been launched yet, so there is none to show.", icon=":material/list_alt:")
    _link("pages/launch.py", "Launch an experiment", ":material/rocket_launch:")


def missing(run_id: str) -> None:
    st.error(f"No run {markdown(run_id)} is stored here.", icon=":material/link_off:")
    _link("pages/runs.py", "All runs", ":material/list_alt:")


def watch(detail: RunDetail) -> None:
    """While the run goes on: asks every 2 s, with one small query, and draws the page anew only when something was
    stored, so that what is opened or picked stays as it is meanwhile."""
    if detail.run.status not in ACTIVE:
        return

    def ask() -> None:
        if run_page.change_token(detail.run.experiment_id) != detail.token:
            st.rerun()

    st.fragment(ask, run_every=2)()


def head(detail: RunDetail, now: datetime) -> None:
    """Candidate, status and experiment; a box with the other runs; when and where it ran."""
    run = detail.run
    name, box = st.columns([3, 2], vertical_alignment="center")
    with name:
        role = run.title.removeprefix(run.candidate_name).strip()
        st.markdown(f"### {markdown(run.candidate_name)}{f' :gray[{role}]' if role else ''} · {_standing(run)}")
    with box:
        _picker(detail)
    with st.container(horizontal=True, vertical_alignment="center"):
        _link(
            "pages/tradeoff.py",
            f"Trade-off of {markdown(run.experiment_name)}",
            ":material/scatter_plot:",
            address.view_of(run.experiment_id),
        )
        _link(
            "pages/runs.py",
            "All its runs",
            ":material/list_alt:",
            {address.EXPERIMENT: run.experiment_id, address.RUN: run.id},
        )
        glossary.popover("run", width="content")
    st.caption(" · ".join(_when_and_where(detail, now)))


def state(detail: RunDetail, now: datetime) -> None:
    """What a run that has not simply finished needs to say: its place in the queue, its progress, why it ended."""
    run = detail.run
    if run.error:
        st.error(markdown(run.error), icon=":material/error:")
    if run.retried_by is not None:
        st.warning("It was retried: the run that replaces it counts in its place.", icon=":material/redo:")
        _link("pages/run.py", "The run that replaces it", ":material/redo:", {address.RUN: run.retried_by})
    if run.status == "queued":
        place = "" if run.queue_position is None else f", number {run.queue_position} in line"
        st.info(
            f"It waits in the queue {markdown(run.queue)}{place}: nothing has been measured yet.{_time_left(run)}",
            icon=":material/hourglass_empty:",
        )
    if run.status == "cancelled":
        st.warning("It was cancelled; what it had stored until then is below.", icon=":material/block:")
    if run.status == "running":
        if run.cancelling:
            st.caption("Its cancellation was asked for: the worker stops the engine and ends the run.")
        for stage in run.stages:
            if stage.status == "running":
                _progress(stage, now)
        if left := _time_left(run):
            st.caption(left.strip())


def numbers(detail: RunDetail) -> None:
    """The five numbers of the candidate against their limits: value, interval, sample size, status."""
    view, candidate = detail.view, detail.candidate
    if not candidate.levels and candidate.pass_rate is None:
        return
    point, cost, targets = candidate.point, candidate.cost, view.targets
    not_held = "no measured rate is held" if candidate.levels else "no rate is measured yet"
    columns = st.columns(5)
    held = candidate.held_rate_per_s
    with columns[0]:
        _number("Highest rate held", held, formats.rate, "" if held else not_held)
    with columns[1]:
        ttft = point.summary.ttft_p90_ms if point else None
        limit = f"{theme.sign(theme.STATUS_SIGN, candidate.ttft_status)} ≤ {formats.ms(targets.ttft_p90_ms)}"
        _number("P90 TTFT", ttft, formats.ms, limit)
    with columns[2]:
        tpot = point.summary.tpot_p90_ms if point else None
        kept = _within(tpot, view.guardrails.tpot_p90_ms)
        _number("P90 TPOT", tpot, formats.ms, f"{kept} guardrail ≤ {formats.ms(view.guardrails.tpot_p90_ms)}")
    with columns[3]:
        limit = (
            f"{theme.sign(theme.STATUS_SIGN, candidate.cost_status)} "
            f"≤ {formats.usd(targets.cost_per_1000_requests_usd)} per 1,000"
        )
        _number("Deployed cost", cost.deployed_usd if cost else None, formats.usd, limit)
    with columns[4]:
        limit = f"{theme.sign(theme.STATUS_SIGN, candidate.pass_rate_status)} ≥ {formats.share(targets.pass_rate)}"
        _number("Pass rate", candidate.pass_rate, formats.share, limit)
    _what_they_rest_on(detail)


def _what_they_rest_on(detail: RunDetail) -> None:
    candidate = detail.candidate
    said = [f"All three targets: {theme.sign(theme.STATUS_SIGN, candidate.status)}."]
    if len(candidate.run_ids) > 1:
        said.append(f"These numbers are over {len(candidate.run_ids)} runs of the candidate; below is this run alone.")
    if detail.run.is_again:
        said.append(
            "They are of the baseline's other runs: this one counts for the noise floor alone, and has no answers."
        )
    elif not detail.counts:
        said.append("They are of the run that replaced this one.")
    said += [markdown(note) for note in candidate.notes]
    if candidate.settle_parts:
        more = len(candidate.settle_parts) - 1
        rest = f" (and {more} more, on the trade-off page)" if more else ""
        said.append(f"What would settle it: {markdown(candidate.settle_parts[0])}{rest}.")
    st.caption("  ".join(said))


def _number(label: str, estimate: Estimate | None, write: formats.Writer, limit: str) -> None:
    value = estimate.value if estimate is not None else None
    lines = [limit] if limit else []
    if estimate is not None and value is not None:
        one_end = estimate.low is not None and estimate.low == estimate.high
        bounds = f"both ends {write(value)}" if one_end else formats.interval(estimate, write)
        lines.insert(0, f"95 %: {bounds}; n = {estimate.n:,}")
    elif estimate is not None and estimate.note:
        lines.insert(0, markdown(estimate.note))
    with st.container(gap=None):
        st.metric(label, write(value) if value is not None else formats.MISSING, help=DEFINITIONS[label])
        st.caption("  \n".join(lines))


def _within(estimate: Estimate | None, limit: float) -> str:
    if estimate is None or estimate.value is None:
        return formats.MISSING
    return "✓ within" if estimate.value <= limit else "✗ above"


def _picker(detail: RunDetail) -> None:
    by_id: dict[str, RunItem | RunView] = {run.id: run for run in detail.runs}
    by_id.setdefault(detail.run.id, detail.run)
    st.session_state[address.RUN_BOX] = detail.run.id
    st.selectbox(
        "Run of this experiment",
        [*by_id],
        format_func=lambda key: _title(by_id[key]),
        key=address.RUN_BOX,
        on_change=_picked,
        label_visibility="collapsed",
        help="Another run of this experiment.",
    )


def _picked() -> None:
    address.pick(address.RUN, st.session_state[address.RUN_BOX])


def _title(run: RunItem | RunView) -> str:
    repeat = f" · repeat {run.repeat + 1}" if run.repeat else ""
    return f"{run.title or run.candidate_name}{repeat} · {_standing(run)} · {run.id[:8]}"


def _standing(run: RunItem | RunView) -> str:
    """The run's status; of one that was replaced, that it was."""
    sign = theme.sign(theme.RUN_SIGN, run.status)
    return f"{sign}, retried" if run.retried_by is not None else sign


def _time_left(run: RunView) -> str:
    if run.cancelling or run.remaining is None:
        return ""
    return f" It ends in {formats.time_range(run.remaining)}."


def _when_and_where(detail: RunDetail, now: datetime) -> list[str]:
    run = detail.run
    said = [f"Run {markdown(run.id)}"]
    if run.is_again:
        said.append(AGAIN_IN_WORDS)
    if run.repeat:
        said.append(f"repeat {run.repeat + 1}")
    if run.retry_of is not None:
        said.append(f"a retry of {markdown(run.retry_of[:8])}")
    said += [f"queued {formats.moment(run.created_at)}"]
    if run.started_at is not None:
        said.append(f"started {formats.moment(run.started_at)}")
        span = formats.duration((run.finished_at or now) - run.started_at)
        said.append(f"took {span}" if run.finished_at else f"for {span} now")
    if run.worker:
        again = f" (begun {run.attempts} times)" if run.attempts > 1 else ""
        said.append(f"on {markdown(run.worker)}{again}")
    if run.facts is not None:
        said.append(markdown(f"{run.facts.device_name} {run.facts.driver}".strip()))
    return said


def _progress(stage: StageView, now: datetime) -> None:
    note = f" · {markdown(stage.note)}" if stage.note else ""
    spent = formats.duration(now - stage.started_at)
    counts = f" · {stage.done} of {stage.total}" if stage.total else ""
    text = f"**{markdown(stage.name)}**{counts} · {spent}{note}"
    if stage.total:
        st.progress(min(1.0, stage.done / stage.total), text=text)
    else:
        st.markdown(text)


def _link(page: str, label: str, icon: str, query: dict[str, str] | None = None) -> None:
    st.page_link(page, label=label, icon=icon, query_params=query)
