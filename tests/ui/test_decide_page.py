"""The decide page on the real services and a real database: what it shows in each state, and to whom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kitedash.services.tradeoff import tradeoff_view
from kitedash.settings import settings
from kitedash.ui import guard, theme
from kitedash.ui.escape import markdown
from tests.ui.conftest import opened, texts
from tests.ui.deciding import (
    CHOSEN,
    COST,
    HOSTILE,
    REST,
    TTFT,
    VIEWER,
    click,
    labels,
    the_draft,
    write,
    write_all,
)
from tests.ui.seed import Seeded

pytestmark = pytest.mark.ui


def test_empty_says_how_a_first_result_comes_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path))
    settings.cache_clear()
    try:
        at = opened("decide", {})
        assert "No experiment has been started yet." in texts(at)
        assert not at.text_area
    finally:
        settings.cache_clear()


def test_one_candidate_has_its_numbers_beside_the_targets_and_nothing_to_compare(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.one})
    assert [(metric.label, metric.value) for metric in at.metric] == [
        ("P90 TTFT", "485 ms"),  # 260 ms * 4 ** 0.45
        ("Deployed cost per 1,000 requests", "0.0418 USD"),  # 3 replicas * 0.116 USD * 24 h / 200
        ("Pass rate", "58.3 %"),  # 35 of 60
    ]
    said = texts(at)
    assert "95 %: 437 ms to 534 ms; n = 240 requests" in said
    assert "**● meets** target ≤ 700 ms" in said
    assert "**● meets** target ≤ 0.1 USD" in said
    assert "**◆ uncertain** target ≥ 50 %" in said
    assert "n = 60 items" in said
    assert "float32 leads, but that is not established: the record will say so." in said
    assert "No other candidate is on the front, and this one is the baseline" in said
    assert not at.table


def test_many_say_what_is_given_up_against_each_other_member_of_the_front(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    table = at.table[0].value
    assert [str(name).split("**")[1] for name in table.index] == [markdown(name) for name in REST]
    # 265 * 2 ** 0.45 = 362 ms at 2/s against 260 * 4 ** 0.45 = 485 ms at 4/s; 6 replicas against 3 cost twice as much
    against_float32 = table.iloc[0]
    assert against_float32[TTFT].startswith(theme.OUTCOME_SIGN["better"] + markdown(": -25.4 %"))
    assert against_float32[TTFT].endswith(markdown(", established"))
    assert against_float32[COST].startswith(theme.OUTCOME_SIGN["worse"] + markdown(": +100.0 %"))
    against_twin = table.iloc[2]  # the same cost, and a latency whose interval holds no change
    assert against_twin[COST].startswith(markdown("= equal"))
    assert against_twin[TTFT].endswith(markdown(", not established"))
    said = texts(at)
    assert markdown("deployed cost against float32 (100.0 % higher)") in said
    assert f"You choose {markdown(CHOSEN)}; float32 is the leading one, not established." in said
    assert [box.label for box in at.text_area if box.label.startswith("Why not")] == [
        f"Why not {markdown(name)}?" for name in REST
    ]


def test_the_recommended_or_leading_candidate_is_chosen_when_none_is_named(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many})
    leading = tradeoff_view(own_database.many).recommendation.candidate
    assert leading is not None
    assert at.query_params["candidate"] == leading
    assert f"{leading} leads, but that is not established" in texts(at)


def test_running_says_that_accepting_freezes_what_is_there(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.running})
    said = texts(at)
    assert "Results are still coming (6 runs are queued or under way). Accepting freezes what is there" in said
    assert "Not measured, so not to be decided for: bfloat16" in said
    box = next(box for box in at.selectbox if box.label == "Decide for")
    assert [option.split(" · ")[0] for option in box.options] == ["float32", "int8"]


def test_a_candidate_that_is_not_measured_is_refused_by_name(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.running, "candidate": "bfloat16"})
    assert "bfloat16 has not been measured, so it cannot be decided for" in texts(at)
    assert "Review and accept" in labels(at)  # for the one that is shown in its place


def test_failed_says_what_is_missing_and_why(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.failed})
    said = texts(at)
    assert "A decision needs a measured candidate, and this experiment has none yet." in said
    assert said.count(markdown("not enough memory for 2 GiB of KV cache.")) == 4
    assert not at.text_area
    assert "Save draft" not in labels(at)


def test_an_unknown_experiment_and_an_unknown_draft(own_database: Seeded) -> None:
    assert "No experiment none" in texts(opened("decide", {"experiment": "none"}))
    at = opened("decide", {"draft": "gone"})
    assert "No draft gone is stored here" in texts(at)
    click(at, "Begin a new decision")
    assert "Review and accept" in labels(at)


def test_adjusted_targets_come_along_and_are_remarked(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": "int8", "t_ttft_p90_ms": "420"})
    said = texts(at)
    assert "Targets differ from those written down: P90 TTFT ≤ 420 ms (written: 800 ms)." in said
    assert "target ≤ 420 ms" in said
    write(at, title="With another target")
    click(at, "Save draft")
    assert the_draft().targets.ttft_p90_ms == 420
    again = opened("decide", {"draft": the_draft().id})  # the draft brings its targets, without any in the address
    assert "target ≤ 420 ms" in texts(again)


def test_guardrails_of_a_viewer_do_not_count(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": "int8", "g_tpot_p90_ms": "41"})
    assert "Guardrails that were adjusted do not count here" in texts(at)
    assert "no measured rate is held" not in texts(at).lower()


# ---- who may, and what is only text


def test_a_viewer_reads_and_is_told_why_not_more(own_database: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "current_user", lambda: VIEWER)
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    for label in ("Save draft", "Review and accept"):
        assert next(button for button in at.button if button.label == label).disabled
    assert "Vera is viewer and may not write or accept a decision" in texts(at)
    assert at.metric[0].value == "362 ms"


def test_hostile_text_is_only_text(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at, title=HOSTILE, why=HOSTILE + "\n\n# second", consequences=HOSTILE, deciders=HOSTILE.replace(",", ""))
    click(at, "Review and accept")
    assert not at.exception
    shown = [str(text.value) for kind in (at.markdown, at.caption, at.warning) for text in kind]
    assert any(markdown(HOSTILE.strip()) in text for text in shown)
    assert not any(re.search(r"(?<!\\)(<script|\]\(http|\*\*b\*\*|\$x|`c)|:red\[x", text) for text in shown)
    assert not any("\u202e" in text for text in (*shown, *(str(code.value) for code in at.code)))
    assert any(markdown("# second") in text for text in shown)
