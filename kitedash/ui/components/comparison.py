"""The picked candidate: its three numbers, what it gains and loses against another one, the items fixed and broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.domain.comparison import Difference
from kitedash.domain.results import Estimate
from kitedash.services.compare import ComparisonView, SuiteComparison
from kitedash.services.tradeoff_page import Picked
from kitedash.services.views import CandidateView, Status, TradeoffView
from kitedash.ui import address, formats, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown, printable


def card(view: TradeoffView, picked: Picked, *, hidden: bool) -> None:
    """The candidate in a column beside the chart; `hidden` says that the filters leave it out of chart and table."""
    one = picked.candidate
    with st.container(border=True, gap="xsmall", key=address.PICKED_CARD):
        baseline = " (baseline)" if one.is_baseline else ""
        st.markdown(f"**{markdown(one.name)}**{baseline} · {_sign(one.status)}")
        if hidden:
            st.caption(":material/filter_alt_off: Hidden by the filters in chart and table.")
        found = (
            {difference.dimension: difference for difference in picked.comparison.differences}
            if (picked.comparison is not None)
            else {}
        )
        point = one.point.summary if one.point is not None else None
        at = f"at {formats.rate(point.rate_per_s)}" if point is not None else ""
        _number(
            "P90 TTFT", point.ttft_p90_ms if point else None, formats.ms, one.ttft_status, found.get("P90 TTFT"), at
        )
        deployed, per = one.cost.deployed_usd if one.cost is not None else None, "per 1,000 requests"
        _number("Deployed cost", deployed, formats.usd, one.cost_status, found.get("deployed cost"), per)
        _number("Pass rate", one.pass_rate, formats.share, one.pass_rate_status, found.get("pass rate"))
        if picked.comparison is not None:
            _against(view, one, picked.comparison.other)
        _links(view, one)


def _number(
    term: str,
    estimate: Estimate | None,
    write: Callable[[float], str],
    status: Status,
    difference: Difference | None,
    of: str = "",
) -> None:
    """`of` follows the value: at which rate, or per what."""
    with st.container(gap=None):
        st.markdown(f"{term} · {_sign(status)}", help=DEFINITIONS[term])
        lines = [f"**{formats.MISSING}**"]
        if estimate is not None and estimate.value is not None:
            bounds = markdown(_bounds(estimate, write)).replace("≥ ", "≥\u00a0").replace("≤ ", "≤\u00a0")
            interval = f":small[(95 %: {bounds}; n = {estimate.n:,})]"
            lines = [" ".join(part for part in (f"**{write(estimate.value)}**", of, interval) if part)]
        if difference is not None:
            lines.append(f":small[{markdown(change_words(difference))}]")
        st.markdown("  \n".join(lines))


def change_words(difference: Difference) -> str:
    """Such as "▲ better: -15.5 % [-26.7 to -2.6], established"; the whole sentence stands below the chart."""
    sign, change = theme.sign(theme.OUTCOME_SIGN, difference.outcome), difference.change
    if change is None or change.value is None:
        return f"{sign}: {difference.sentence.split('not comparable. ')[-1]}"
    unit = " points" if difference.dimension == "pass rate" else " %"
    sure = ", established" if difference.established else ", not established"
    sure = "" if difference.outcome in ("equal", "noise") else sure
    return f"{sign}: {_signed(change.value)}{unit} [{_bounds(change, _signed)}]{sure}"


def _bounds(estimate: Estimate, write: Callable[[float], str]) -> str:
    """The interval; where its ends are written alike, as with whole replicas, once."""
    ends = [None if end is None else write(end) for end in (estimate.low, estimate.high)]
    return f"both ends {ends[0]}" if ends[0] is not None and ends[0] == ends[1] else formats.interval(estimate, write)


def _against(view: TradeoffView, one: CandidateView, other: str) -> None:
    names = [candidate.name for candidate in view.candidates if candidate.name != one.name]
    baselines = {candidate.name for candidate in view.candidates if candidate.is_baseline}
    st.session_state[address.box(address.AGAINST)] = other
    st.selectbox(
        "Compared with",
        names,
        format_func=lambda name: printable(name) + (" (baseline)" if name in baselines else ""),
        key=address.box(address.AGAINST),
        on_change=_compare_with,
        help=DEFINITIONS["Difference"],
    )


def _compare_with() -> None:
    address.put(address.AGAINST, st.session_state[address.box(address.AGAINST)])


def _links(view: TradeoffView, one: CandidateView) -> None:
    with st.container(horizontal=True):
        st.page_link(
            "pages/run.py",
            label="Run detail",
            icon=":material/troubleshoot:",
            query_params=address.view_of(view.experiment_id, run=one.run_id),
        )
        st.page_link(
            "pages/decide.py",
            label="Decide for this one",
            icon=":material/how_to_vote:",
            query_params=address.view_of(view.experiment_id, candidate=one.name),
        )


def details(found: ComparisonView) -> None:
    """The settings that differ and every suite item by item, folded away below the chart."""
    settings = f"{len(found.settings)} setting{'' if len(found.settings) == 1 else 's'} differ"
    settings += "s" if len(found.settings) == 1 else ""
    counts = [
        f"{one.suite}: {len(one.fixed)} fixed, {len(one.broken)} broken" for one in found.suites if one.comparable
    ]
    head = f"{markdown(found.name)} against {markdown(found.other)}: {' · '.join([settings, *map(markdown, counts)])}"
    with st.expander(head, icon=":material/compare_arrows:"):
        for difference in found.differences:
            st.markdown(f"- {markdown(difference.sentence)}")
        if found.settings:
            rows = [dict(zip(_heads(found), map(printable, row), strict=True)) for row in found.settings]
            st.dataframe(pd.DataFrame(rows), hide_index=True, alt="Settings that differ between the two candidates")
        else:
            st.caption("No setting differs.")
        if found.suites:
            st.dataframe(
                pd.DataFrame([_suite_row(one) for one in found.suites]),
                hide_index=True,
                placeholder=formats.MISSING,
                alt="Items of every suite that were fixed, broken, or fail in both",
                column_config={
                    "Fixed": st.column_config.NumberColumn(help=DEFINITIONS["Fixed and broken items"]),
                    "Broken": st.column_config.NumberColumn(help=DEFINITIONS["Fixed and broken items"]),
                    "Change (points, 90 % interval)": st.column_config.TextColumn(help=DEFINITIONS["Difference"]),
                    "In words": st.column_config.TextColumn(width=380),
                },
            )
            _items(found)


def _heads(found: ComparisonView) -> tuple[str, str, str]:
    return "Setting", printable(found.name), printable(found.other)


def _suite_row(one: SuiteComparison) -> dict[str, Any]:
    change = one.change
    return {
        "Suite": f"{one.suite} ({one.role})" if one.role else one.suite,
        "Items": one.n or None,
        "Fixed": len(one.fixed) if one.comparable else None,
        "Broken": len(one.broken) if one.comparable else None,
        "Both fail": len(one.both_fail) if one.comparable else None,
        "Both pass": one.both_pass if one.comparable else None,
        "Change (points, 90 % interval)": (
            formats.MISSING
            if change is None or change.value is None
            else f"{_signed(change.value)} [{_bounds(change, _signed)}]"
        ),
        "In words": printable(one.sentence),
    }


def _items(found: ComparisonView) -> None:
    """The ids of the items, for one group at a time, when asked for."""
    groups = {
        f"{one.suite}: {group} ({len(ids)})": ids
        for one in found.suites
        for group, ids in (("fixed", one.fixed), ("broken", one.broken), ("both fail", one.both_fail))
        if ids
    }
    if not groups:
        return
    chosen = st.selectbox("Items", list(groups), index=None, placeholder="Show the ids of …", key=address.ITEMS_BOX)
    if chosen in groups:
        st.code(
            printable("\n".join(groups[chosen])), language=None, height=240 if len(groups[chosen]) > 9 else "content"
        )


def _sign(status: Status) -> str:
    """On one line: the sign must not part from its word."""
    return theme.sign(theme.STATUS_SIGN, status).replace(" ", "\u00a0")


def _signed(share: float) -> str:
    """A share in hundredths, such as -15.5; what rounds to nothing has no sign."""
    written = f"{100 * share:+.1f}"
    return "0.0" if written in ("+0.0", "-0.0") else written
