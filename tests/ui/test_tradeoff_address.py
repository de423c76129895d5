"""All that a person sets on the trade-off page stands in its address: on a real database."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from kitedash.ui import address
from kitedash.ui.escape import markdown
from tests.ui.conftest import candidate_table, opened, texts
from tests.ui.seed import Seeded
from tests.ui.test_tradeoff_picks import card, spec

pytestmark = pytest.mark.ui

EVERYTHING = {
    "candidate": "int8",
    "t_ttft_p90_ms": "700",
    "t_cost_usd": "0.2",
    "t_pass_rate_pct": "40",
    "g_tpot_p90_ms": "120",
    "g_errors_pct": "2",
    "f_against": "int8 no-prefix-cache",
    "f_cost": "saturated",
    "f_status": "meets,uncertain",
    "f_text": "int8",
}


def shown(at: AppTest) -> dict[str, Any]:
    return {
        "card": card(at),
        "table": candidate_table(at).to_dict(),
        "chart": spec(at),
        "said": texts(at),
        "boxes": [box.value for box in at.number_input],
    }


def test_back_from_a_runs_detail_the_same_view_stands(seeded: Seeded) -> None:
    query = {"experiment": seeded.many, **EVERYTHING}
    at = opened("tradeoff", query)
    assert dict(at.query_params) == query
    before = shown(at)
    (link,) = [found for found in at.get("page_link") if found.proto.label == "Run detail"]
    carried = dict(pair.split("=", 1) for pair in link.proto.query_string.split("&"))
    assert set(carried) == {*query, "run"}
    at.switch_page("pages/run.py")
    at.run()
    at.switch_page("pages/tradeoff.py")  # through the menu, which carries nothing
    for key in list(at.query_params):
        del at.query_params[key]
    at.run()
    assert dict(at.query_params) == query
    assert shown(at) == before


def test_a_link_opened_by_somebody_else_shows_the_same(seeded: Seeded) -> None:
    at = opened("tradeoff", {"experiment": seeded.many, **EVERYTHING})
    assert card(at).startswith("**int8** ·")
    boxes = (
        address.TARGET_TTFT,
        address.TARGET_COST,
        address.TARGET_PASS_RATE,
        address.GUARDRAIL_TPOT,
        address.GUARDRAIL_ERRORS,
    )
    assert [at.number_input(key=address.box(name)).value for name in boxes] == [700, 0.2, 40, 120, 2]
    assert at.selectbox(key=address.box(address.AGAINST)).value == "int8 no-prefix-cache"
    # At most 700 ms: int8 no-prefix-cache has 520 ms at 1/s and 710 ms at 2/s. At 1/s it takes 12 replicas.
    said = texts(at).replace("\\", "")
    assert "P90 TTFT 429 ms at 4/s against 520 ms at 1/s" in said
    assert "Deployed cost 0.0418 USD against 0.167 USD per 1,000 requests" in said
    table = candidate_table(at)
    assert list(table["Candidate"]) == ["int8", "int8 no-prefix-cache", "int8 max-num-seqs=2"]
    assert list(table["Rate held"]) == [4, 1, 2]
    assert list(table["Replicas"]) == [3, 12, 6]
    assert "**5 of 8 candidates hidden**" in texts(at)
    assert at.segmented_control(key=address.box(address.COST_SCALE)).value == "saturated"


def test_another_experiment_starts_with_nothing_set(seeded: Seeded) -> None:
    at = opened("tradeoff", {"experiment": seeded.many, **EVERYTHING})
    at.selectbox(key=address.EXPERIMENT_BOX).set_value(seeded.one).run()
    assert dict(at.query_params) == {"experiment": seeded.one}
    assert at.number_input(key=address.box(address.TARGET_TTFT)).value == 700  # as written down there


@pytest.mark.parametrize("key", [address.TARGET_TTFT, address.TARGET_COST, address.GUARDRAIL_TPOT])
@pytest.mark.parametrize("asked", ["1e308", "86400001", "inf", "-1", "0", "much"])
def test_a_limit_that_none_may_be_is_ignored(seeded: Seeded, key: str, asked: str) -> None:
    written = {address.TARGET_TTFT: 800, address.TARGET_COST: 0.1, address.GUARDRAIL_TPOT: 150}
    at = opened("tradeoff", {"experiment": seeded.many, key: asked})
    assert at.number_input(key=address.box(key)).value == written[key]


def test_the_largest_limits_count(seeded: Seeded) -> None:
    at = opened("tradeoff", {"experiment": seeded.many, "t_ttft_p90_ms": "86400000", "t_cost_usd": "1000000"})
    assert at.number_input(key=address.box(address.TARGET_TTFT)).value == 86_400_000
    assert at.number_input(key=address.box(address.TARGET_COST)).value == 1_000_000


@pytest.mark.parametrize("page", ["tradeoff", "runs", "decide"])
def test_an_experiment_with_control_characters_is_not_stored(seeded: Seeded, page: str) -> None:
    at = opened(page, {"experiment": "a\0b"})
    assert [error.value for error in at.error] == ["No experiment ab is stored here."]


def test_a_candidate_that_is_not_there_is_named(seeded: Seeded) -> None:
    at = opened("tradeoff", {"experiment": seeded.many, "candidate": "*no*", "f_against": "neither"})
    said = [warning.value for warning in at.warning]
    assert f"This experiment has no candidate {markdown('*no*')}." in said
    assert "This experiment has no candidate neither." in said
    assert card(at).startswith("**float32**")
