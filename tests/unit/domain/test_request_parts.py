"""The parts of requests: stalls by their gaps, means over time, failed ones apart."""

from __future__ import annotations

import numpy as np
import pytest

from kitedash.domain.request_parts import (
    StallRule,
    front_end_ms,
    parts_around,
    parts_over_time,
    requests_around,
    stall_rule,
    stalled_ms,
    stalls_of,
)
from tests.unit.domain.parts import table


def test_the_front_end_is_what_nobody_else_accounts_for() -> None:
    parts = [np.array(values) for values in ([100.0, 50.0], [1.0, 0.0], [9.0, 10.5], [60.0, 40.0])]
    ttft, client, queue, prefill = parts
    found = front_end_ms(ttft_ms=ttft, client_ms=client, queue_ms=queue, prefill_ms=prefill)
    assert found.tolist() == [30.0, -0.5]


def test_a_gap_of_three_times_the_usual_one_is_a_stall() -> None:
    chunks = np.cumsum([20.0] * 5 + [59.9] + [20.0] * 5 + [300.0] + [20.0] * 5)
    rule = stall_rule([chunks, np.cumsum([20.0] * 30)])
    assert rule == StallRule(usual_ms=pytest.approx(20.0), least_ms=pytest.approx(60.0))
    (stall,) = stalls_of(chunks, rule)
    assert (stall.start_ms, stall.ms) == pytest.approx((5 * 20 + 59.9 + 5 * 20, 300.0))
    others = (np.empty(0), np.cumsum([20.0] * 3), chunks, np.array([100.0]))
    lost = stalled_ms(others, rule)
    assert lost.tolist() == pytest.approx([0.0, 0.0, 280.0, 80.0]), "what it took above a usual gap, by request"


def test_what_could_be_the_clients_own_delay_is_no_stall() -> None:
    """On a fast engine three gaps are a few ms, less than the lateness that a valid block's client may have."""
    chunks = np.cumsum([5.0] * 10 + [45.0] + [5.0] * 10)
    assert stalls_of(chunks, stall_rule([chunks])) == ()
    assert len(stalls_of(np.cumsum([5.0, 51.0, 5.0]), stall_rule([chunks]))) == 1


def test_the_first_gap_counts_and_one_token_has_none() -> None:
    rule = StallRule(20.0, 60.0)
    assert stalls_of(np.array([400.0, 420.0]), rule)[0].start_ms == 0.0
    assert stalls_of(np.empty(0), rule) == ()
    assert stall_rule([np.empty(0)]) is None
    assert stalled_ms([np.array([400.0])], None).tolist() == [0.0]


def test_requests_around_the_p90_are_those_of_the_parts() -> None:
    requests = table(100, queue_ms=np.arange(100.0)[::-1])
    assert sorted(requests_around(requests)) == list(range(5, 15)), "ranks 86 to 95 of TTFT"
    assert parts_around([requests])["queue"] == pytest.approx(np.mean(np.arange(85, 95)))


def test_over_time_a_burst_shows_where_it_was_and_failed_requests_are_apart() -> None:
    queue = np.where((np.arange(40) >= 20) & (np.arange(40) < 30), 500.0, 0.0)
    errors = ["timed out" if i in (38, 39) else "" for i in range(40)]
    bins = parts_over_time(table(40, queue_ms=queue, errors=errors), start_s=0.0, end_s=40.0)
    assert [(one.start_s, one.end_s, one.n, one.n_failed) for one in bins] == [
        *((0.0, 10.0, 10, 0), (10.0, 20.0, 10, 0), (20.0, 30.0, 10, 0), (30.0, 40.0, 8, 2))
    ]
    assert [one.parts_ms["queue"] for one in bins] == [0.0, 0.0, 500.0, 0.0]
    assert bins[0].parts_ms["prefill"] == 38.0


def test_a_span_without_a_request_has_no_parts() -> None:
    late = table(20, due_s=np.full(20, 35.0))
    first, last = parts_over_time(late, start_s=0.0, end_s=40.0)
    assert (first.n, first.parts_ms, first.stall_ms) == (0, {}, 0.0)
    assert (last.n, last.parts_ms["queue"]) == (20, pytest.approx(0.2))
    assert parts_over_time(late, start_s=10.0, end_s=10.0) == ()
