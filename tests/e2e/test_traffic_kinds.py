"""Mixes, sessions, completions and traces through the product on the scripted engine, which counts tokens by itself."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.load_checks import LATENESS, LENGTH
from kitedash.domain.results import LevelStatus
from kitedash.domain.trace import Trace, TraceRow
from kitedash.domain.workload import RequestClass
from kitedash.measuring.load_stage import measure_block
from kitedash.measuring.process import direct_spawn
from kitedash.measuring.request_table import decode
from tests.e2e.load_blocks import measure, scripted_engine

FAST = ("--first-token-ms", "30", "--token-ms", "3")
CHAT = RequestClass(name="chat", weight=2, input_tokens=400, shared_prefix_tokens=320, output_tokens=8)
TAB = RequestClass(name="tab", weight=2, kind="completion", input_tokens=200, shared_prefix_tokens=160, output_tokens=3)
TALK = RequestClass(
    name="talk",
    weight=4,
    input_tokens=300,
    shared_prefix_tokens=240,
    output_tokens=12,
    turns=3,
    think_time_s=0.3,
)


async def test_a_mix_with_sessions_is_sent_cached_and_counted_as_planned(
    default_model_dir: Path, tmp_path: Path
) -> None:
    plan = LoadPlan(rates_per_s=(10, 20, 40), blocks=2, block_duration_s=8, request_timeout_s=5, seed=4)
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST) as endpoint:
        block = await measure(endpoint, Workload(mix=(CHAT, TAB, TALK)), plan, 20.0, tmp_path)
    assert block.status is LevelStatus.OK, block.reason
    requests = decode(block.requests_blob)
    assert set(requests["kind"]) == {"chat", "tab", "talk"}
    # Within 1 % of what was asked for, by another tokenizer path than the one that wrote the prompts.
    assert (abs(requests["tokens_in"] / requests["tokens_in_expected"] - 1) < 0.01).all()
    first = requests[requests["turn"].fillna(0) == 0]
    for one in (CHAT, TAB, TALK):
        mine = first[first["kind"] == one.name]
        assert len(mine) > 5
        assert mine["tokens_in"].to_numpy() == pytest.approx(one.input_tokens, rel=0.01)
        assert (mine["tokens_cached"] >= one.shared_prefix_tokens // 16 * 16 - 16).all(), "its own prefix was primed"
    talk = requests[requests["kind"] == "talk"]
    turns = 0
    for _, session in talk.groupby("session"):
        rows = session.sort_values("turn")
        assert list(rows["turn"]) == list(range(len(rows)))
        for before, after in itertools.pairwise(rows.itertuples()):
            assert np.isnan(after.planned_s), "its moment is known only when the turn before it has ended"
            assert before.ended_s < after.due_s <= after.sent_s
            assert after.tokens_in > before.tokens_in + before.tokens_out
            assert after.tokens_cached >= before.tokens_in // 16 * 16 - 16, "the conversation before it is in the cache"
            turns += 1
    assert turns > 20


def recorded(count: int, rate_per_s: float, seed: int) -> Trace:
    random = Random(seed)
    at, rows = 0.0, []
    for _ in range(count):
        rows.append(TraceRow(round(at, 6), random.randrange(60, 300), random.randrange(1, 6)))
        at += random.expovariate(rate_per_s)
    return Trace(tuple(rows))


async def test_a_trace_of_a_thousand_requests_is_replayed_with_each_due_time_kept(
    default_model_dir: Path, tmp_path: Path
) -> None:
    trace = recorded(1_000, 100.0, seed=2)
    path = tmp_path / "trace.csv"
    await asyncio.to_thread(path.write_bytes, trace.csv())
    plan = LoadPlan(
        rates_per_s=(10, 20, trace.rate_per_s), blocks=2, block_duration_s=trace.period_s, request_timeout_s=10
    )
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST) as endpoint:
        block = await measure_block(
            endpoint,
            workload=Workload(trace="recorded", shared_prefix_tokens=64),
            plan=plan,
            rate_per_s=trace.rate_per_s,
            block=0,
            spawn=direct_spawn,
            work_dir=tmp_path / "work",
            trace=path,
        )
    late = {LATENESS, LENGTH}  # this machine may be busy; the due times must hold whatever it is
    assert all(check.passed for check in block.checks if check.name not in late), block.reason
    requests = decode(block.requests_blob)
    assert len(requests) == 1_000
    assert requests["planned_s"].to_numpy() == pytest.approx([row.arrival_s for row in trace.rows], abs=0)
    assert requests["due_s"].to_numpy() == pytest.approx([row.arrival_s for row in trace.rows], abs=1e-6)
    assert requests["tokens_out"].tolist() == [row.tokens_out for row in trace.rows]
    assert requests["tokens_in"].to_numpy() == pytest.approx([row.tokens_in for row in trace.rows], rel=0.01)
    assert (requests["sent_s"] >= requests["due_s"]).all()
    lateness_ms = (requests["sent_s"] - requests["due_s"]) * 1e3
    assert np.percentile(lateness_ms, 50) < 20
    assert block.server_counters["arrivals_dispersion"] == pytest.approx(trace.dispersion)
