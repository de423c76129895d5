"""Which requests a block has: against what the workload says, counted over many draws."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from kitedash.domain.block_plan import planned_block, replayed_block, time_scale
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.schedule import due_times_s
from kitedash.domain.trace import Trace, TraceRow
from kitedash.domain.workload import RequestClass

PLAN = LoadPlan(rates_per_s=(1, 20, 50), blocks=2, block_duration_s=200, seed=5)
CHAT = RequestClass(name="chat", weight=3, input_tokens=1_000, shared_prefix_tokens=900, output_tokens=100)
TAB = RequestClass(
    name="tab", weight=1, kind="completion", input_tokens=300, shared_prefix_tokens=200, output_tokens=20
)
TALK = RequestClass(
    name="talk",
    weight=2,
    input_tokens=500,
    shared_prefix_tokens=400,
    output_tokens=50,
    turns=4,
    think_time_s=2.0,
)


def test_one_kind_of_requests_is_due_as_it_always_was() -> None:
    """Stored hashes must stay comparable."""
    workload = Workload(input_tokens=60, shared_prefix_tokens=40, output_tokens=5)
    planned = list(planned_block(workload, PLAN, 20, 1))
    assert tuple(one.due_s for one in planned) == due_times_s(seed=5, rate_per_s=20, block=1, duration_s=200)
    assert {(one.kind, one.tokens_in, one.tokens_out, one.session, one.turn) for one in planned} == {
        ("shared", 60, 5, None, 0)
    }


def test_a_mix_has_its_kinds_by_their_weights() -> None:
    planned = list(planned_block(Workload(mix=(CHAT, TAB)), PLAN, 50, 0))
    counts = Counter(one.kind for one in planned)
    share = counts["chat"] / len(planned)
    assert abs(share - 0.75) < 4 * math.sqrt(0.75 * 0.25 / len(planned))
    assert {(one.kind, one.prefix, one.prefix_tokens, one.tokens_in) for one in planned} == {
        ("chat", "chat", 900, 1_000),
        ("tab", "tab", 200, 300),
    }
    kinds = np.array([one.kind == "chat" for one in planned], dtype=float)
    assert abs(np.corrcoef(kinds[1:], kinds[:-1])[0, 1]) < 4 / math.sqrt(len(kinds)), "each by itself"


def test_weights_count_requests_whatever_turns_a_session_has() -> None:
    """Over a block that is long against a session, each kind has its share of the requests, at the rate asked for."""
    plan = PLAN.model_copy(update={"block_duration_s": 2_000.0})
    planned = list(planned_block(Workload(mix=(CHAT, TALK)), plan, 20, 0))
    assert len(planned) / 2_000 == pytest.approx(20, rel=0.03)
    counts = Counter(one.kind for one in planned)
    assert counts["talk"] / len(planned) == pytest.approx(2 / 5, abs=0.02)


def test_sessions_have_turns_in_order_with_think_times_of_their_mean() -> None:
    planned = list(planned_block(Workload(mix=(TALK,)), PLAN, 20, 0))
    by_session: dict[int | None, list[int]] = {}
    for one in planned:
        by_session.setdefault(one.session, []).append(one.turn)
        assert (one.due_s is None) == (one.turn > 0) == one.added
        assert one.planned_s < PLAN.block_duration_s
    assert all(turns == list(range(len(turns))) for turns in by_session.values())
    thoughts = np.array([one.think_time_s for one in planned if one.turn])
    assert np.mean(thoughts) == pytest.approx(2.0, abs=4 * 2 / math.sqrt(len(thoughts)))
    assert np.std(thoughts) == pytest.approx(2.0, rel=0.15), "exponential"
    no_thinking = Workload(mix=(TALK.model_copy(update={"think_time_s": 0.0}),))
    assert {one.think_time_s for one in planned_block(no_thinking, PLAN, 20, 0)} == {0.0}
    assert {one.tokens_in for one in planned if one.turn} == {100}, "what a turn adds: all but the prefix"


def test_how_sessions_spread_the_number_of_requests() -> None:
    """The formula against a simulation: sessions of four turns at once come like batches of four."""
    workload = Workload(mix=(CHAT, TALK.model_copy(update={"think_time_s": 0.0})))
    plan = LoadPlan(rates_per_s=(1, 2, 3), blocks=2, block_duration_s=20, seed=1)
    counts = [
        sum(1 for _ in planned_block(workload, plan.model_copy(update={"seed": seed}), 10, 0)) for seed in range(1_500)
    ]
    # 3 of 5 requests alone, 2 of 5 in fours: E[T^2]/E[T] = (3 x 1 + 2 x 4) / 5
    assert workload.dispersion == pytest.approx(11 / 5)
    assert np.var(counts) / np.mean(counts) == pytest.approx(11 / 5, rel=0.15)
    assert Workload().dispersion == 1.0
    assert Workload(arrivals="gamma", burstiness=4).dispersion == 4.0
    assert Workload(arrivals="constant").dispersion == 1.0


def test_lengths_are_log_normal_by_their_p50_and_p90() -> None:
    workload = Workload(
        input_tokens=400,
        input_tokens_p90=1_200,
        shared_prefix_tokens=100,
        output_tokens=50,
        output_tokens_p90=200,
    )
    planned = [one for block in range(3) for one in planned_block(workload, PLAN, 50, block)]
    lengths = np.array([one.tokens_in for one in planned])
    assert np.percentile(lengths, 50) == pytest.approx(400, rel=0.05)
    assert np.percentile(lengths, 90) == pytest.approx(1_200, rel=0.07)
    assert lengths.min() >= 104, "the prefix and a question"
    assert lengths.max() <= workload.most_input_tokens
    assert np.percentile([one.tokens_out for one in planned], 90) == pytest.approx(200, rel=0.07)


def trace_of(arrivals: list[float], **changes: object) -> Trace:
    given = {"tokens_in": 500, "tokens_out": 10} | changes
    return Trace(tuple(TraceRow(at, **given) for at in arrivals))  # type: ignore[arg-type]


REPLAY = Workload(trace="mine", shared_prefix_tokens=200)


def test_at_its_own_rate_a_trace_keeps_each_due_time_to_the_bit() -> None:
    arrivals = [0.0, 0.1234567, 0.2, 3.3333333, 7.0]
    trace = trace_of(arrivals)
    for rate in (trace.rate_per_s, trace.rate_per_s * 1.004, trace.rate_per_s * 0.996):
        assert time_scale(trace, rate) == 1.0
        plan = LoadPlan(rates_per_s=(1, 2, 3), blocks=2, block_duration_s=8)
        assert [one.due_s for one in replayed_block(trace, REPLAY, plan, rate, 0)] == arrivals
    assert time_scale(trace, 2 * trace.rate_per_s) == 0.5


def test_blocks_take_one_window_after_the_other_and_begin_again_at_the_end() -> None:
    """Ten requests, one a second, so the trace takes 10 s: at 2/s, 5 s."""
    trace = trace_of([float(at) for at in range(10)])
    plan = LoadPlan(rates_per_s=(1, 2, 3), blocks=4, block_duration_s=3)
    blocks = [[one.due_s for one in replayed_block(trace, REPLAY, plan, 1, block)] for block in range(4)]
    assert blocks == [[0, 1, 2]] * 4, "the last one is request 9, then the first two again"
    faster = [one.due_s for block in range(4) for one in replayed_block(trace, REPLAY, plan, 2, block)]
    assert faster == pytest.approx([0, 0.5, 1, 1.5, 2, 2.5] * 4)
    lengths = Trace(tuple(TraceRow(float(at), 100 + at, 1) for at in range(10)))
    seen = [one.tokens_in for block in range(4) for one in replayed_block(lengths, REPLAY, plan, 1, block)]
    assert seen == [100 + at % 10 for at in range(12)]


@pytest.mark.parametrize("rate", [0.37, 1.0, 2.9, 13.7])
def test_no_request_is_lost_or_sent_twice_at_any_rate(rate: float) -> None:
    rows = tuple(TraceRow(round(0.317 * at + (at % 3) / 11, 6), 100 + at, 1) for at in range(40))
    trace = Trace(rows)
    plan = LoadPlan(rates_per_s=(1, 2, 3), blocks=2, block_duration_s=7)
    seen = [one.tokens_in - 100 for block in range(30) for one in replayed_block(trace, REPLAY, plan, rate, block)]
    assert seen == [number % 40 for number in range(len(seen))]
    assert len(seen) == pytest.approx(30 * 7 * rate, abs=40)


def test_sessions_of_a_trace_are_told_apart_in_each_pass() -> None:
    rows = (
        TraceRow(0.0, 100, 1, "a"),
        TraceRow(1.0, 100, 1, "b"),
        TraceRow(2.0, 150, 1, "a"),
        TraceRow(3.0, 100, 1),
    )
    plan = LoadPlan(rates_per_s=(1, 2, 3), blocks=2, block_duration_s=8)
    planned = list(replayed_block(Trace(rows), REPLAY, plan, 1.0, 0))
    assert [(one.session, one.turn, one.due_s) for one in planned] == [
        *[(0, 0, 0), (1, 0, 1), (0, 1, 2), (None, 0, 3)],
        *[(2, 0, 4), (3, 0, 5), (2, 1, 6), (None, 0, 7)],
    ]


def test_prefixes_of_a_trace_go_by_its_ids_and_by_what_a_request_has_room_for() -> None:
    rows = (
        TraceRow(0.0, 500, 1, None, "p"),
        TraceRow(1.0, 500, 1, None, "q"),
        TraceRow(2.0, 500, 1, None, "p"),
        TraceRow(3.0, 150, 1, None, "p"),
        TraceRow(4.0, 40, 1, None, "p"),
        TraceRow(5.0, 500, 1),
    )
    plan = LoadPlan(rates_per_s=(1, 2, 3), blocks=2, block_duration_s=6)
    planned = list(replayed_block(Trace(rows, has_prefixes=True), REPLAY, plan, 1.0, 0))
    tokens = [one.prefix_tokens for one in planned]
    assert tokens == [200, 0, 200, 100, 0, 0], "q comes once: nothing to share; 150 has room for half of p"
    assert planned[0].prefix == planned[2].prefix != planned[3].prefix
    assert planned[1].prefix == planned[5].prefix
    alike = [one.prefix_tokens for one in replayed_block(Trace(rows), REPLAY, plan, 1.0, 0)]
    assert alike == [200, 200, 200, 100, 0, 200], "without ids all requests begin alike"
