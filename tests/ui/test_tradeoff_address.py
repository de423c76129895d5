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
    query = {"experiment": seeded.many, **EVERYTHING}
    assert shown(opened("tradeoff", query)) == shown(opened("tradeoff", query))


def test_another_experiment_starts_with_nothing_set(seeded: Seeded) -> None:
    at = opened("tradeoff", {"experiment": seeded.many, **EVERYTHING})
    at.selectbox(key=address.EXPERIMENT_BOX).set_value(seeded.one).run()
    assert dict(at.query_params) == {"experiment": seeded.one}
    assert at.number_input(key=address.box(address.TARGET_TTFT)).value == 700  # as written down there


def test_a_candidate_that_is_not_there_is_named(seeded: Seeded) -> None:
    at = opened("tradeoff", {"experiment": seeded.many, "candidate": "*no*", "f_against": "neither"})
    said = [warning.value for warning in at.warning]
    assert f"This experiment has no candidate {markdown('*no*')}." in said
    assert "This experiment has no candidate neither." in said
    assert card(at).startswith("**float32**")
