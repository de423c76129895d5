"""Every key of the address and of the session, in one place.

In the address: `experiment` and `run` (picked by hand, shared by the pages), `t_...` the targets as the viewer adjusted
them, `f_...` how something is shown. A key whose value equals its default is left out of the address.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import streamlit as st

from kitedash.domain.experiment import Targets

EXPERIMENT: Final = "experiment"
RUN: Final = "run"
TARGET_TTFT: Final = "t_ttft_p90_ms"
TARGET_COST: Final = "t_cost_usd"
TARGET_PASS_RATE: Final = "t_pass_rate_pct"  # noqa: S105 (a share of passed items, not a password)
COST_SCALE: Final = "f_cost"
TARGET_KEYS: Final = (TARGET_TTFT, TARGET_COST, TARGET_PASS_RATE)

EXPERIMENT_BOX: Final = "_experiment_box"
RUN_BOX: Final = "_run_box"
_TARGETS_OF: Final = "_targets_of"
_POLLING: Final = "_polling"


@dataclass(frozen=True)
class TargetChanges:
    """The viewer's adjustments; None stands for the value that was written down."""

    ttft_p90_ms: float | None = None
    cost_per_1000_requests_usd: float | None = None
    pass_rate: float | None = None


def picked(key: str) -> str | None:
    """The id under `key` in the address, else the one last picked in this session (pages share it)."""
    return st.query_params.get(key) or st.session_state.get(f"_last_{key}")


def pick(key: str, chosen: str) -> None:
    """Writes an id to the address, so that it can be shared, and to the session, for the other page."""
    if st.query_params.get(key) != chosen:
        st.query_params[key] = chosen
    st.session_state[f"_last_{key}"] = chosen


def forget(key: str) -> None:
    st.query_params.pop(key, None)
    st.session_state.pop(f"_last_{key}", None)


def target_changes(experiment_id: str | None) -> TargetChanges:
    """What the inputs, or on the first run the address, say of the targets. Adjustments belong to the experiment that
    they were made for: another one starts from its own. Values that no target may have are ignored."""
    before = st.session_state.get(_TARGETS_OF)
    if before is not None and before != experiment_id:
        return TargetChanges()
    passing = _number(TARGET_PASS_RATE)
    return TargetChanges(
        ttft_p90_ms=_number(TARGET_TTFT),
        cost_per_1000_requests_usd=_number(TARGET_COST),
        pass_rate=round(passing / 100, 9) if passing is not None and passing <= 100 else None,
    )


def keep_targets_of(experiment_id: str, written: Targets) -> None:
    """Called before the inputs are drawn: when the experiment has changed, they start from its written-down values."""
    if st.session_state.get(_TARGETS_OF) not in (None, experiment_id):
        reset_targets(written)
    st.session_state[_TARGETS_OF] = experiment_id


def reset_targets(written: Targets) -> None:
    """Back to what was written down. Setting the values, and not dropping them, also clears them from the address."""
    st.session_state[TARGET_TTFT] = written.ttft_p90_ms
    st.session_state[TARGET_COST] = written.cost_per_1000_requests_usd
    st.session_state[TARGET_PASS_RATE] = per_cent(written.pass_rate)


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


def _number(key: str) -> float | None:
    raw = st.session_state.get(key, st.query_params.get(key, ""))
    try:
        value = float(raw)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) and value > 0 else None
