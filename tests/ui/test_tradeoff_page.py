"""The trade-off page in each of its states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import NumberInput

from kitedash.domain.recommend import RecommendationKind
from kitedash.services.limits import AskedLimits
from kitedash.services.views import Recommendation
from kitedash.ui import address
from kitedash.ui.components import watch
from kitedash.ui.escape import markdown
from tests.ui import builders
from tests.ui.conftest import Show, candidate_table, texts

pytestmark = pytest.mark.ui


def asked(tradeoff: Show) -> AskedLimits:
    """The limits that the service was asked for last."""
    return tradeoff.asked[-1]  # type: ignore[attr-defined,no-any-return]


def box(at: AppTest, key: str) -> NumberInput:
    return at.number_input(key=address.box(key))


def test_an_empty_installation_says_how_to_get_a_first_result(tradeoff: Show) -> None:
    at = tradeoff(None)
    said = texts(at)
    assert "`make quickstart`" in said
    assert "`kitedash launch FILE`" in said
    assert not at.dataframe
    assert not at.get("vega_lite_chart")


def test_one_candidate_is_drawn_and_listed(tradeoff: Show) -> None:
    at = tradeoff(builders.one())
    assert len(at.get("vega_lite_chart")) == 1
    table = candidate_table(at)
    assert list(table["Candidate"]) == ["float32 (baseline)"]
    assert table["Rate held"][0] == 1.0
    assert table["TTFT"][0] == 600.0
    assert table["TTFT interval"][0] == "540 to 660"
    assert table["TTFT n"][0] == 240


def test_many_candidates_come_after_the_answer(tradeoff: Show) -> None:
    at = tradeoff(builders.many())
    assert len(candidate_table(at)) == 8
    (answer,) = at.warning
    assert "Not established" in answer.value
    assert markdown("about 310 items in all would settle it") in answer.value
    order = [element.type for element in at.main if element.type in ("warning", "number_input", "dataframe")]
    assert order.index("warning") < order.index("number_input") < order.index("dataframe")


def test_targets_statuses_and_verdicts_are_told_by_word_and_sign(tradeoff: Show) -> None:
    table = candidate_table(tradeoff(builders.many()))
    assert list(table["Targets"])[:4] == ["● meets", "▼ misses", "▼ misses", "◆ uncertain"]
    assert table["Quality"][0] == "kitedash_repo: = baseline, hellaswag_100: = baseline"
    assert table["Quality"][3] == "kitedash_repo: ? inconclusive, hellaswag_100: ✓ pass"
    assert table["Kernel"][3] == "CPUInt8LinearKernel"


def test_a_candidate_without_a_held_rate_keeps_its_row(tradeoff: Show) -> None:
    table = candidate_table(tradeoff(builders.many()))
    row = table[table["Candidate"] == "float32, no prefix cache"].iloc[0]
    assert row.isna()["Rate held"]
    assert row["Deployed interval"] == "–"


def test_cpu_results_say_what_carries_over(tradeoff: Show) -> None:
    sentence = "format speeds don't carry over to a GPU; quality differences do"
    assert sentence in texts(tradeoff(builders.one()))
    assert sentence not in texts(tradeoff(replace(builders.one(), device_kind="gpu")))


def test_running_shows_points_pending_quality_and_the_failed_one(tradeoff: Show) -> None:
    at = tradeoff(builders.running())
    assert len(at.get("vega_lite_chart")) == 1
    assert "6 runs are queued or under way" in texts(at)
    assert any("float8 is not supported on this CPU" in error.value.replace("\\", "") for error in at.error)
    table = candidate_table(at)
    assert table["Targets"][1] == "■ pending"
    assert table["Pass rate"].isna()[1]


@pytest.mark.parametrize(("state", "every_s"), [("running", 2), ("many", 10)])
def test_asks_often_only_while_runs_are_active(
    tradeoff: Show, monkeypatch: pytest.MonkeyPatch, state: str, every_s: int
) -> None:
    asked_every: list[float] = []
    real = st.fragment

    def fragment(function: Callable[[], None], *, run_every: float) -> Callable[[], None]:
        asked_every.append(run_every)
        return real(function, run_every=run_every)

    monkeypatch.setattr(watch.st, "fragment", fragment)
    tradeoff(getattr(builders, state)())
    assert set(asked_every) == {every_s}


def test_all_failed_gives_each_reason_and_no_chart(tradeoff: Show) -> None:
    at = tradeoff(builders.failed())
    assert not at.get("vega_lite_chart")
    assert "Nothing was measured" in texts(at)
    assert texts(at).count(markdown("not enough memory for 2 GiB of KV cache.")) == 4
    assert len(candidate_table(at)) == 4


def test_an_established_recommendation_is_a_success(tradeoff: Show) -> None:
    found = Recommendation("float32", True, "float32 is recommended.", (), RecommendationKind.ESTABLISHED)
    at = tradeoff(replace(builders.many(), recommendation=found))
    assert "float32 is recommended" in at.success[0].value
    assert not at.warning


def test_limits_come_from_the_address_and_go_back_as_written_down(tradeoff: Show) -> None:
    at = tradeoff(builders.many(), t_ttft_p90_ms="450", t_pass_rate_pct="40", g_tpot_p90_ms="60", g_errors_pct="0")
    assert asked(tradeoff) == AskedLimits(ttft_p90_ms=450, pass_rate=0.4, tpot_p90_ms=60, error_rate=0)
    assert box(at, address.TARGET_TTFT).value == 450.0
    assert box(at, address.GUARDRAIL_TPOT).value == 60.0
    assert box(at, address.GUARDRAIL_TPOT).label == "P90 TPOT ≤ ms (written: 150)"
    (reset,) = [button for button in at.button if button.label == "As written"]
    assert not reset.disabled
    reset.click().run()
    assert box(at, address.TARGET_TTFT).value == 800.0
    assert asked(tradeoff) == AskedLimits()
    assert not [key for key in at.query_params if key.startswith(("t_", "g_"))]
    assert next(b for b in at.button if b.label == "As written").disabled


def test_an_edited_limit_stands_in_the_address_and_reaches_the_service(tradeoff: Show) -> None:
    at = tradeoff(builders.many())
    box(at, address.TARGET_COST).set_value(0.25).run()
    box(at, address.GUARDRAIL_ERRORS).set_value(2.5).run()
    assert asked(tradeoff) == AskedLimits(cost_per_1000_requests_usd=0.25, error_rate=0.025)
    assert at.query_params["t_cost_usd"] == "0.25"
    assert at.query_params["g_errors_pct"] == "2.5"
    box(at, address.TARGET_COST).set_value(0.6).run()  # as written down: nothing to keep
    assert "t_cost_usd" not in at.query_params


@pytest.mark.parametrize("value", ["-5", "0", "nan", "inf", "abc", "1e999"])
def test_a_senseless_limit_in_the_address_is_ignored(tradeoff: Show, value: str) -> None:
    at = tradeoff(builders.many(), t_ttft_p90_ms=value, g_tpot_p90_ms=value)
    assert asked(tradeoff) == AskedLimits()
    assert box(at, address.TARGET_TTFT).value == 800.0


@pytest.mark.parametrize("value", ["1000000", "1e-9"])
def test_a_far_target_in_the_address_is_drawn(tradeoff: Show, value: str) -> None:
    at = tradeoff(builders.many(), t_ttft_p90_ms=value, t_cost_usd=value)
    assert not at.exception
    assert "lies off this scale" in texts(at)


def test_the_saturated_scale_has_no_cost_target(tradeoff: Show) -> None:
    assert "so it has no line here" in texts(tradeoff(builders.many(), f_cost="saturated"))
    assert "so it has no line here" not in texts(tradeoff(builders.many()))


def test_an_unknown_experiment_is_named_and_offers_the_newest(tradeoff: Show) -> None:
    at = tradeoff(builders.many(), experiment="nope*")
    assert markdown("nope*") in at.error[0].value
    (button,) = at.button
    button.click().run()
    assert not at.error
    assert at.query_params["experiment"] == builders.EXPERIMENT
    assert len(candidate_table(at)) == 8


HOSTILE = "**x** :red[y] <b>z</b> [a](http://evil.example) `c` $d$ :material/home: ![i](http://evil.example/i.png)"


def test_hostile_text_reaches_markdown_only_escaped(tradeoff: Show) -> None:
    view = builders.running()
    bad = replace(view.candidates[2], name=HOSTILE, error=HOSTILE, settles=HOSTILE)
    answer = replace(view.recommendation, sentence=HOSTILE, settles=(HOSTILE,))
    facts = replace(builders.facts(HOSTILE), device_name=HOSTILE)
    at = tradeoff(
        replace(
            view,
            candidates=(replace(view.candidates[0], facts=facts), bad),
            recommendation=answer,
            notes=(HOSTILE,),
        )
    )
    rendered = [e.value for kind in (at.markdown, at.caption, at.error, at.warning, at.info) for e in kind]
    assert sum(markdown(HOSTILE) in text for text in rendered) >= 4
    for fragment in ("**x**", ":red[", "<b>", "](http", "`c`", "$d$", ":material/home:", "!["):
        assert not any(fragment in text for text in rendered), fragment
    assert candidate_table(at)["Candidate"][1] == HOSTILE  # a grid cell is plain text: nothing to escape
