"""Every key of the address and of the session, in one place.

In the address: `experiment`, `run` and what else is picked (pages share it), `t_...` and `g_...` the targets and
guardrails as the viewer adjusted them, `f_...` how something is shown. A key whose value equals its default is left out
of the address. All of them are written by hand here; session keys begin with "_".
"""

from __future__ import annotations

import math
from typing import Final

import streamlit as st

from kitedash.domain.experiment import MOST_MS, MOST_USD, Targets
from kitedash.services.limits import AskedLimits

EXPERIMENT: Final = "experiment"
RUN: Final = "run"
CANDIDATE: Final = "candidate"  # picked on the trade-off page, or to be decided for
CLONE: Final = "clone"  # the experiment that a launch begins from
DRAFT: Final = "draft"
RECORD: Final = "record"
TARGET_TTFT: Final = "t_ttft_p90_ms"
TARGET_COST: Final = "t_cost_usd"
TARGET_PASS_RATE: Final = "t_pass_rate_pct"  # noqa: S105 (a share of passed items, not a password)
GUARDRAIL_TPOT: Final = "g_tpot_p90_ms"
GUARDRAIL_ERRORS: Final = "g_errors_pct"
PRESET: Final = "f_preset"
AGAINST: Final = "f_against"  # the candidate that the picked one is compared with
COST_SCALE: Final = "f_cost"
FILTER_STATUS: Final = "f_status"
FILTER_FRONT: Final = "f_front"
FILTER_FORMAT: Final = "f_format"
FILTER_TEXT: Final = "f_text"
FILTER_KEYS: Final = (FILTER_STATUS, FILTER_FRONT, FILTER_FORMAT, FILTER_TEXT)
SECTION: Final = "f_section"  # of the run page, as are those up to the item
LATENCY: Final = "f_latency"
ALL_CHECKS: Final = "f_checks"
RATE: Final = "f_rate"  # whose requests are looked at
BLOCK: Final = "f_block"
SLOWEST: Final = "f_slowest"
REQUEST: Final = "request"  # one that is shown in full, as block.index
SUITE: Final = "f_suite"
ANSWERS: Final = "f_answers"
ITEM: Final = "item"  # an answer that is shown in full
LIMIT_KEYS: Final = (TARGET_TTFT, TARGET_COST, TARGET_PASS_RATE, GUARDRAIL_TPOT, GUARDRAIL_ERRORS)
# All that a person sets on the trade-off page, beside the experiment itself.
VIEW_KEYS: Final = (CANDIDATE, *LIMIT_KEYS, PRESET, AGAINST, COST_SCALE, *FILTER_KEYS)

PICKED_CARD: Final = "_picked_card"  # no state: a mark for the card of the picked candidate
EXPERIMENT_BOX: Final = "_experiment_box"
RUN_BOX: Final = "_run_box"
RUN_ACTION: Final = "_run_action"  # beginning of the keys of the runs page's buttons
CONFIRM: Final = "_confirm"  # what is asked about before it is done: a run or an experiment
REFUSED: Final = "_refused"  # why the last action was not done, by what it was asked of
REQUEST_BOX: Final = "_request_box"
ITEMS_BOX: Final = "_items_box"
ITEM_BOX: Final = "_item_box"
CANDIDATE_BOX: Final = "_candidate_box"
DRAFT_BOX: Final = "_draft_box"
RECORD_BOX: Final = "_record_box"
EXPORT_BOX: Final = "_export_box"
LAUNCH: Final = "_launch"  # the launch form as it was left, and where it began
FINDINGS: Final = "_findings"  # of the verification that was last asked for
_DECISION: Final = "_decision"
_GO_TO: Final = "_go_to"
_LAST_VIEW: Final = "_last_view"
_POLLING: Final = "_polling"


def picked(key: str) -> str | None:
    """The id under `key` in the address, else the one last picked in this session (pages share it)."""
    return st.query_params.get(key) or st.session_state.get(f"_last_{key}")


def pick(key: str, chosen: str) -> None:
    """Writes an id to the address, so that it can be shared, and to the session, for the other page."""
    if st.query_params.get(key) != chosen:
        st.query_params[key] = chosen
    st.session_state[f"_last_{key}"] = chosen


def picked_together(*keys: str) -> tuple[str | None, ...]:
    """What the address holds under `keys`. Only where it holds none of them: what was last picked in this session."""
    if any(key in st.query_params for key in keys):
        return tuple(st.query_params.get(key) or None for key in keys)
    return tuple(picked(key) for key in keys)


def go_to(page: str, **query: str) -> None:
    """For a button's callback, which runs before pages can be switched: `follow` then leads there."""
    st.session_state[_GO_TO] = (page, query)


def follow() -> None:
    """Called before a page draws anything: goes where the last button led to."""
    if (found := st.session_state.pop(_GO_TO, None)) is not None:
        page, query = found
        st.switch_page(page, query_params=query)


def decision_key(scope: str, field: str) -> str:
    """Of what is typed about a decision. `scope` is a draft's id, or names the experiment of an unsaved decision."""
    return f"{_DECISION}_{scope}_{field}"


def launch_box(field: str) -> str:
    """Of an input of the launch form, by the field that it shows."""
    return f"{LAUNCH}_{field}"


def forget(key: str) -> None:
    st.query_params.pop(key, None)
    st.session_state.pop(f"_last_{key}", None)


def target_changes(experiment_id: str | None) -> AskedLimits:
    """The limits that the address asks for; see `asked_limits`. They belong to the experiment in the address: another
    one, which a page falls back on, starts from its own."""
    named = st.query_params.get(EXPERIMENT)
    return asked_limits() if named is None or named == experiment_id else AskedLimits()


def asked_limits() -> AskedLimits:
    """Targets and guardrails in the address. Values that no target may have are ignored."""
    passing, errors = _number(TARGET_PASS_RATE, most=100), _number(GUARDRAIL_ERRORS, zero=True)
    return AskedLimits(
        ttft_p90_ms=_number(TARGET_TTFT, most=MOST_MS),
        cost_per_1000_requests_usd=_number(TARGET_COST, most=MOST_USD),
        pass_rate=round(passing / 100, 9) or None if passing is not None else None,
        tpot_p90_ms=_number(GUARDRAIL_TPOT, most=MOST_MS),
        error_rate=round(errors / 100, 9) if errors is not None and errors < 100 else None,
    )


def reset_limits() -> None:
    """Back to what was written down."""
    for key in LIMIT_KEYS:
        st.query_params.pop(key, None)


def value(key: str) -> str:
    """What the address says under `key`; "" where it says nothing."""
    return st.query_params.get(key, "")


def listed(key: str) -> tuple[str, ...]:
    """A list in the address, such as `f_status=meets,uncertain`."""
    return tuple(part for part in value(key).split(",") if part)


def put(key: str, new: str, default: str = "") -> None:
    """Writes to the address; the default is left out of it."""
    if new == default:
        st.query_params.pop(key, None)
    elif value(key) != new:
        st.query_params[key] = new


def box(key: str) -> str:
    """The session key of the input that shows and writes `key`. Inputs are not bound to the address by Streamlit: it
    takes a bound key out of the address of every other page, and a link to a page must be able to carry it."""
    return f"_box_{key}"


def view_of(experiment_id: str, **more: str) -> dict[str, str]:
    """The address of this view for a link to another page, and back: all that a person set, and `more`."""
    kept = {key: st.query_params[key] for key in VIEW_KEYS if key in st.query_params}
    return {EXPERIMENT: experiment_id} | kept | more


def restore_view() -> None:
    """Called first on the trade-off page: opened through the menu, which keeps no address, it shows what it showed
    last, unless another experiment has been picked on another page since."""
    last: dict[str, str] = st.session_state.get(_LAST_VIEW, {})
    if EXPERIMENT not in st.query_params and last and last[EXPERIMENT] == picked(EXPERIMENT):
        for key, kept in last.items():
            put(key, kept)


def keep_view(experiment_id: str) -> None:
    """Called when the page is drawn: what `restore_view` goes back to."""
    st.session_state[_LAST_VIEW] = view_of(experiment_id)


def switch_experiment(chosen: str) -> None:
    """Another experiment starts from its own targets, with nothing picked and nothing filtered."""
    for key in VIEW_KEYS:
        st.query_params.pop(key, None)
    pick(EXPERIMENT, chosen)


def pick_candidate(name: str) -> None:
    """A person picked a point or a row: it stands in the address, in place of a preset."""
    put(PRESET, "")
    put(CANDIDATE, name)


def pick_preset(key: str) -> None:
    put(CANDIDATE, "")
    put(PRESET, key)


def target_query(targets: Targets, written: Targets) -> dict[str, str]:
    """Of a link to another page: the targets that differ from what was written down."""
    numbers = {
        TARGET_TTFT: (targets.ttft_p90_ms, written.ttft_p90_ms),
        TARGET_COST: (targets.cost_per_1000_requests_usd, written.cost_per_1000_requests_usd),
        TARGET_PASS_RATE: (per_cent(targets.pass_rate), per_cent(written.pass_rate)),
    }
    return {key: f"{now:g}" for key, (now, then) in numbers.items() if now != then}


def per_cent(share: float) -> float:
    return round(share * 100, 7)


def polling_key(page: str) -> str:
    return f"{_POLLING}_{page}"


def polling(page: str) -> bool:
    return bool(st.session_state.get(polling_key(page), False))


def set_polling(page: str, active: bool) -> None:
    """Starts or ends the page's own refreshing when runs start or end; a change draws the page anew."""
    if polling(page) != active:
        st.session_state[polling_key(page)] = active
        st.rerun()


def _number(key: str, *, zero: bool = False, most: float = math.inf) -> float | None:
    try:
        found = float(value(key))
    except ValueError:
        return None
    possible = math.isfinite(found) and found <= most and (found > 0 or (zero and found == 0))
    return found if possible else None
