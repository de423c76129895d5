"""The printed table and its rows: every candidate, no number invented where none is known, JSON that any parser
reads.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kitedash.domain.results import Estimate, RunStatus
from kitedash.services.table import CPU_SENTENCE, render, rows
from kitedash.services.tradeoff import assemble
from kitedash.services.views import TradeoffView
from tests.unit.domain.levels import level
from tests.unit.services.evidence import FACTS, LEVELS, candidate, experiment, on
from tests.unit.services.price_books import prices


@pytest.fixture
def view() -> TradeoffView:
    """One of each: measured, in name only, failed at its start, and with too few requests."""
    named = on(FACTS, linear_kernel="CPUFp8", kernel_note="fp8 weights are computed in bfloat16 here")
    few = (level(1, Estimate(300, None, None, 12, "too few")), level(2, Estimate(None, None, None, 12), error_rate=1.0))
    return assemble(
        experiment(
            candidate("float32"),
            candidate("fp8", LEVELS[:2], facts=named),
            candidate("int8", (), suites=(), status=RunStatus.FAILED, facts=None, error="vLLM: no int8 here"),
            candidate("a name that is much longer than its column · max-num-seqs=4", few, suites=()),
        ),
        prices(2.5),
    )


def test_the_row_by_hand(view: TradeoffView) -> None:
    lines = render(view).splitlines()
    first = next(line for line in lines if line.startswith("float32 (baseline)"))
    assert " ".join(first.split()) == (
        "float32 (baseline) CPUUnquantized 4 900 [800, 950] 400 20.0 0.174 0.900 [0.900, 0.900] 75.0 [70.5, 79.0] 400 "
        "✓ ✓ ✓ meets"
    )


def test_what_a_reader_must_not_miss(view: TradeoffView) -> None:
    text = render(view)
    assert "P90 TTFT at most 1,000 ms" in text
    assert "fp8: fp8 weights are computed in bfloat16 here" in text
    assert "int8: failed: vLLM: no int8 here" in text
    assert "300 [too few] 12" in text
    assert view.recommendation.sentence in text
    assert CPU_SENTENCE in text


def test_every_candidate_is_there_and_the_table_fits(view: TradeoffView) -> None:
    lines = render(view).splitlines()
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("T C P:"))]
    assert max(len(line) for line in table) <= 155
    text = render(view)
    assert all(name in text for name in ("float32", "fp8", "int8", "max-num-seqs=4"))
    assert "nan" not in text.lower().replace("dominan", "")
    assert "None" not in text


def test_no_cpu_sentence_for_a_gpu(view: TradeoffView) -> None:
    assert CPU_SENTENCE not in render(replace(view, device_kind="gpu"))


def test_rows_are_plain_json(view: TradeoffView) -> None:
    found = json.loads(json.dumps(rows(view), allow_nan=False))
    assert [row["candidate"] for row in found] == [candidate.name for candidate in view.candidates]
    assert found[0]["ttft_p90_ms"] == 900
    assert (found[0]["ttft_p90_low_ms"], found[0]["ttft_p90_high_ms"], found[0]["ttft_p90_n"]) == (800, 950, 400)
    assert found[0]["deployed_cost_usd"] == pytest.approx(0.9)
    assert found[0]["verdicts"] == "kitedash_repo: baseline; hellaswag_100: baseline"
    assert found[2]["held_rate_per_s"] is None
    assert found[2]["deployed_cost_usd"] is None
    assert found[2]["error"] == "vLLM: no int8 here"
    assert len({tuple(row) for row in found}) == 1  # the same columns in every row, so that they make a frame


def test_an_infinite_number_is_no_number(view: TradeoffView) -> None:
    first = view.candidates[0]
    assert first.point is not None
    summary = replace(first.point.summary, ttft_p90_ms=Estimate(900, 800, float("inf"), 400))
    changed = replace(first, point=replace(first.point, summary=summary))
    found = rows(replace(view, candidates=(changed,)))
    assert found[0]["ttft_p90_high_ms"] is None
    assert "inf" not in render(replace(view, candidates=(changed,))).split("ms [95 %] n")[1].split("T C P")[0]
