"""The upper part of the decide page: which candidate, its numbers against the targets, what speaks for or against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import streamlit as st

from kitedash.domain.recommend import RecommendationKind
from kitedash.domain.results import Estimate
from kitedash.domain.targets import Status
from kitedash.services.decide import DraftView
from kitedash.services.decide_page import DecidePage
from kitedash.services.views import CandidateView, TradeoffView
from kitedash.ui import address, formats, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown

_NEW: Final = ""  # in the box of drafts: a decision that is not saved yet


def head(page: DecidePage) -> None:
    """Which candidate, which draft, and the way to the trade-off."""
    assert page.view is not None
    assert page.candidate is not None
    chosen, draft, link = st.columns([3, 3, 1.6], vertical_alignment="bottom")
    by_name = {candidate.name: candidate for candidate in page.measured}
    st.session_state[address.CANDIDATE_BOX] = page.candidate.name
    chosen.selectbox(
        "Decide for",
        [*by_name],
        format_func=lambda name: _candidate_title(by_name[name], page.view) if name in by_name else name,
        key=address.CANDIDATE_BOX,
        on_change=_candidate_picked,
    )
    by_id = {one.id: one for one in page.drafts}
    st.session_state[address.DRAFT_BOX] = page.draft.id if page.draft is not None else _NEW
    draft.selectbox(
        f"Draft ({len(by_id)} open)",
        [_NEW, *by_id],
        format_func=lambda key: _draft_title(by_id[key]) if key in by_id else "a new decision",
        key=address.DRAFT_BOX,
        on_change=_draft_picked,
    )
    with link:
        tradeoff_link(page.view, "Back to the trade-off", page.candidate.name)


def tradeoff_link(view: TradeoffView, label: str, candidate: str | None = None) -> None:
    """To this experiment's trade-off; what was set there goes along, and the targets that hold here."""
    query = address.view_of(view.experiment_id, **({address.CANDIDATE: candidate} if candidate else {}))
    query |= address.target_query(view.targets, view.spec.targets)
    st.page_link("pages/tradeoff.py", label=label, icon=":material/scatter_plot:", query_params=query)


def recommendation(page: DecidePage) -> None:
    """The rule's sentence, and what a reader must know of this choice before any number."""
    assert page.view is not None
    assert page.candidate is not None
    found, name = page.view.recommendation, page.candidate.name
    text = f"**{markdown(found.sentence)}**" + "".join(
        f"  \n{line}" for line in choice_remarks(page.view, page.candidate)
    )
    if found.established and found.candidate == name:
        st.success(text, icon=":material/verified:")
    else:
        st.warning(text, icon=":material/help:")
    if page.guardrails_asked:
        st.caption(
            f":material/info: Guardrails that were adjusted do not count here: a decision goes by those written down "
            f"(P90 TPOT ≤ {formats.ms(page.view.guardrails.tpot_p90_ms)}, errors ≤ "
            f"{formats.share(page.view.guardrails.error_rate)})."
        )
    if page.asked:
        st.warning(
            f"{markdown(page.asked)} has not been measured, so it cannot be decided for; {markdown(name)} is shown.",
            icon=":material/block:",
        )


def choice_remarks(view: TradeoffView, candidate: CandidateView) -> list[str]:
    """Markdown lines: how the choice stands to the recommendation, what it misses, whether targets were moved, and
    what is still being measured."""
    found, name = view.recommendation, markdown(candidate.name)
    lines = []
    if found.candidate == candidate.name:
        if not found.established:
            lines.append(f"{name} leads, but that is not established: the record will say so.")
    elif found.candidate is not None:
        what = "recommended" if found.established else "the leading one, not established"
        lines.append(
            f"You choose {name}; {markdown(found.candidate)} is {what}. The record will say that they differ: say why."
        )
    elif found.kind is RecommendationKind.NEAREST and found.nearest:
        lines.append(f"You choose {name}, which is not recommended. The record will say so: say why.")
    statuses = zip(
        ("P90 TTFT", "deployed cost", "pass rate"),
        (candidate.ttft_status, candidate.cost_status, candidate.pass_rate_status),
        strict=True,
    )
    missed = [word for word, status in statuses if status == Status.MISSES]
    if missed:
        lines.append(f"{theme.STATUS_SIGN[Status.MISSES]}: {name} misses its target of {' and '.join(missed)}.")
    if moved := moved_targets(view):
        lines.append(f"Targets differ from those written down: {moved}.")
    if view.runs_active:
        runs = "1 run is" if view.runs_active == 1 else f"{view.runs_active} runs are"
        lines.append(
            f"Results are still coming ({runs} queued or under way). Accepting freezes what is there at that moment; "
            "this page does not refresh itself while you write."
        )
    return lines


def moved_targets(view: TradeoffView) -> str:
    """Such as `P90 TTFT ≤ 700 ms (written: 800 ms)`, as Markdown; "" when all are as written down."""
    written, used = view.spec.targets, view.targets
    numbers: list[tuple[str, float, float, Callable[[float], str]]] = [
        ("P90 TTFT ≤", used.ttft_p90_ms, written.ttft_p90_ms, lambda value: f"{formats.plain(value)} ms"),
        (
            "deployed cost ≤",
            used.cost_per_1000_requests_usd,
            written.cost_per_1000_requests_usd,
            lambda value: f"{formats.plain(value)} USD",
        ),
        ("pass rate ≥", used.pass_rate, written.pass_rate, lambda value: f"{formats.plain(100 * value)} %"),
    ]
    return ", ".join(
        f"{name} {write(now)} (written: {write(then)})" for name, now, then, write in numbers if now != then
    )


def numbers(view: TradeoffView, candidate: CandidateView) -> None:
    """The three numbers with interval and sample size, each with its target and status beside it."""
    targets, point, cost = view.targets, candidate.point, candidate.cost
    ttft, deployed, passing = st.columns(3)
    with ttft:
        _card(
            "P90 TTFT",
            point.summary.ttft_p90_ms if point else None,
            formats.ms,
            "requests",
            f"≤ {formats.plain(targets.ttft_p90_ms)} ms",
            candidate.ttft_status,
            f"At {formats.rate(point.summary.rate_per_s)}, the highest rate held."
            if point
            else "No measured rate is held.",
        )
    with deployed:
        priced = (
            f"{cost.replicas} {'replica' if cost.replicas == 1 else 'replicas'} at "
            f"{formats.usd(cost.price_usd_per_hour)}/h, price of {markdown(cost.price_date)}."
            if cost
            else "No rate is held, or the device has no price."
        )
        _card(
            "Deployed cost",
            cost.deployed_usd if cost else None,
            formats.usd,
            "requests",
            f"≤ {formats.plain(targets.cost_per_1000_requests_usd)} USD",
            candidate.cost_status,
            priced,
            label="Deployed cost per 1,000 requests",
            source=f"Price: {markdown(cost.price_source)}" if cost else None,
        )
    with passing:
        verdicts = ", ".join(
            f"{markdown(s.name)} {theme.sign(theme.VERDICT_SIGN, s.verdict)}" for s in candidate.suites
        )
        _card(
            "Pass rate",
            candidate.pass_rate,
            formats.share,
            "items",
            f"≥ {formats.plain(100 * targets.pass_rate)} %",
            candidate.pass_rate_status,
            f"Verdicts: {verdicts}." if verdicts else "No suite has been answered.",
        )


def _card(
    name: str,
    estimate: Estimate | None,
    write: Callable[[float | None], str],
    what: str,
    target: str,
    status: Status,
    remark: str,
    *,
    label: str = "",
    source: str | None = None,
) -> None:
    value = estimate.value if estimate is not None else None
    with st.container(border=True, height="stretch", gap="xxsmall"):
        st.metric(label or name, write(value), help=DEFINITIONS[name])
        size = f"; n = {estimate.n:,} {what}" if estimate is not None and estimate.n else ""
        st.markdown(f"95 %: {formats.interval(estimate, write)}{size}" if value is not None else "not measured")
        st.markdown(f"**{theme.sign(theme.STATUS_SIGN, status)}** target {target}")
        st.caption(remark, help=source)


def nothing_measured(view: TradeoffView) -> None:
    """What is missing before anything can be decided, with what the runs said."""
    st.info(
        "A decision needs a measured candidate, and this experiment has none yet.", icon=":material/hourglass_empty:"
    )
    if view.runs_active:
        runs = "1 run is" if view.runs_active == 1 else f"{view.runs_active} runs are"
        st.markdown(f"{runs} queued or under way. Load this page again when the first load levels are stored.")
    failed = [candidate for candidate in view.candidates if candidate.error]
    st.markdown("".join(f"- **{markdown(one.name)}** failed: {markdown(one.error)}\n" for one in failed))
    st.page_link(
        "pages/runs.py",
        label="See the runs of this experiment",
        icon=":material/list_alt:",
        query_params={address.EXPERIMENT: view.experiment_id},
    )


def unmeasured(page: DecidePage) -> None:
    """Candidates that cannot be decided for are named, never hidden."""
    assert page.view is not None
    names = [c.name for c in page.view.candidates if c not in page.measured]
    if names and page.measured:
        st.caption(f"Not measured, so not to be decided for: {markdown(', '.join(names))}.")


def accepted_already(draft: DraftView) -> None:
    st.info(f"This draft was accepted as record {draft.accepted_number}.", icon=":material/gavel:")
    st.page_link(
        "pages/records.py",
        label=f"Show record {draft.accepted_number}",
        icon=":material/gavel:",
        query_params={address.RECORD: str(draft.accepted_number)},
    )
    st.button("Begin a new decision", on_click=address.forget, args=(address.DRAFT,))


def draft_missing(draft_id: str) -> None:
    st.error(
        f"No draft {markdown(draft_id)} is stored here: it was discarded, or never saved.", icon=":material/link_off:"
    )
    st.button("Begin a new decision", on_click=address.forget, args=(address.DRAFT,))


def _candidate_title(candidate: CandidateView, view: TradeoffView | None) -> str:
    words = [theme.sign(theme.STATUS_SIGN, candidate.status)]
    if view is not None and view.recommendation.candidate == candidate.name:
        words.append("recommended" if view.recommendation.established else "leads, not established")
    if candidate.is_baseline:
        words.append("baseline")
    if candidate.on_front:
        words.append("on the front")
    return f"{candidate.name} · {', '.join(words)}"


def _draft_title(draft: DraftView) -> str:
    title = draft.content.title or "no title yet"
    return f"{title} · {draft.candidate_name} · {draft.updated_by}, {formats.moment(draft.updated_at)}"


def _candidate_picked() -> None:
    address.pick(address.CANDIDATE, st.session_state[address.CANDIDATE_BOX])


def _draft_picked() -> None:
    """Another draft brings its own candidate."""
    address.forget(address.CANDIDATE)
    if chosen := st.session_state[address.DRAFT_BOX]:
        address.pick(address.DRAFT, chosen)
    else:
        address.forget(address.DRAFT)
