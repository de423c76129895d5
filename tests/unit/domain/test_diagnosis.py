"""One slow request explained by its parts alone: each cause is told from the others, with the ms that it explains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kitedash.domain.diagnosis import Cause, Intended, diagnose_around, diagnose_request, usual_of
from kitedash.domain.diagnosis_text import sentence
from kitedash.domain.request_parts import PartsTable
from tests.unit.domain.parts import SHARED, TOKENS_IN, one_of, table

INTENDED = Intended(prefix_caching=True, block_size=16, shared_tokens={"shared": 290})  # 288 in whole blocks


def last(requests: PartsTable, intended: Intended = INTENDED) -> tuple[Cause | None, float, str]:
    """Main cause, its ms and the sentence, of the last request."""
    found = diagnose_request(requests, len(requests) - 1, usual_of(requests, intended), intended)
    ms = found.causes[0].ms if found.causes else 0.0
    return found.main, ms, sentence(found)


def test_a_queue() -> None:
    cause, ms, said = last(table(queue_ms=one_of(40, 900.0, 0.2)))
    assert (cause, ms) == (Cause.QUEUE, 900.0)
    # 1 + 3 + 900 + 38 ms to the first token, 19 gaps of 20 ms after it
    assert said.startswith(
        "It took 1,320 ms to the last token, of which about 900 ms (68.1 %) waiting in the engine's queue"
    )
    assert "max-num-seqs" in said


def test_a_late_client_is_named_as_the_clients() -> None:
    cause, ms, said = last(table(client_ms=one_of(40, 400.0, 1.0)))
    assert (cause, ms) == (Cause.CLIENT, 400.0)
    assert "not the server" in said


def test_the_front_end() -> None:
    assert last(table(front_end_ms=one_of(40, 554.0, 3.0)))[:2] == (Cause.FRONT_END, 554.0)


def test_a_time_stamp_before_the_prefix_makes_every_request_compute_it() -> None:
    """All of them: the median request is as slow, so only what the workload intends can tell."""
    requests = table(prefill_ms=632.0, tokens_cached=0.0)
    found = diagnose_around(requests, usual_of(requests, INTENDED), INTENDED)
    assert found is not None
    assert [one.cause for one in found.causes] == [Cause.PREFIX]
    # 306 tokens computed in 632 ms, 288 of them should have been cached
    assert found.causes[0].ms == pytest.approx(632 * 288 / 306)
    said = sentence(found)
    assert "306 of 306 prompt tokens were computed, 288 of them should have come from the cache" in said
    assert "time stamp" in said
    assert "Only 0.0 % of the requests of this rate found the prefix" in said


def test_the_queue_that_an_unused_prefix_makes_comes_after_it() -> None:
    requests = table(prefill_ms=632.0, tokens_cached=0.0, queue_ms=2_000.0)
    found = diagnose_around(requests, usual_of(requests, INTENDED), INTENDED)
    assert found is not None
    assert [one.cause for one in found.causes] == [Cause.PREFIX, Cause.QUEUE]


def test_a_prefix_that_others_found_was_thrown_out() -> None:
    cause, ms, said = last(
        table(tokens_cached=one_of(40, 0.0, SHARED), prefill_ms=one_of(40, 632.0, 38.0), queue_ms=0.0)
    )
    assert cause is Cause.PREFIX
    assert ms == pytest.approx(632 * 288 / 306)
    assert "97.5 % of the requests of this rate found it, so it was thrown out" in said  # 39 of 40


def test_a_candidate_without_a_prefix_cache_is_told_so() -> None:
    off = replace(INTENDED, prefix_caching=False)
    cause, _, said = last(table(prefill_ms=632.0, tokens_cached=0.0), off)
    assert cause is Cause.PREFIX
    assert "Prefix caching is off for this candidate" in said


def test_a_long_prompt_that_was_cached_as_intended() -> None:
    """2 ms a computed token and 2 ms for any prefill: read from the others, of which a third is of each length."""
    tokens_in = np.concatenate([np.tile([300.0, 306.0, 400.0], 20), [2_306.0]])
    prefill = 2 + 2 * (tokens_in - SHARED)
    cause, ms, said = last(table(61, tokens_in=tokens_in, prefill_ms=prefill))
    assert cause is Cause.LONG_PROMPT
    assert ms == pytest.approx(2 * (2_018 - 18))  # 2,306 - 288 tokens to compute, where the median has 18
    assert (
        "2,020 tokens to compute with the prefix cached as intended, where the median request of this rate has 18.0"
        in said
    )


def test_a_prefill_that_shared_its_steps_is_slow_and_not_long() -> None:
    tokens_in = np.concatenate([np.tile([300.0, 306.0, 400.0], 20), [306.0]])
    prefill = 2 + 2 * (tokens_in - SHARED)
    prefill[-1] = 700.0
    cause, ms, _ = last(table(61, tokens_in=tokens_in, prefill_ms=prefill))
    assert (cause, ms) == (Cause.SLOW_PREFILL, pytest.approx(700 - 38))


def test_stalls_between_tokens() -> None:
    requests = table()
    stalled = np.cumsum([20.0] * 8 + [800.0] + [20.0] * 10)
    cause, ms, said = last(table(chunk_ms=(*requests.chunk_ms[:-1], stalled)))
    assert (cause, ms) == (Cause.STALLS, pytest.approx(780.0))
    assert "preemption" in said


def test_a_long_answer_and_slow_tokens_are_told_apart() -> None:
    usual = table().chunk_ms
    long = np.arange(1, 100) * 20.0
    cause, ms, _ = last(table(chunk_ms=(*usual[:-1], long), tokens_out=one_of(40, 100.0, 20.0)))
    assert (cause, ms) == (Cause.LONG_ANSWER, pytest.approx(80 * 20.0))
    slow = np.arange(1, 20) * 45.0  # no gap is a stall
    cause, ms, _ = last(table(chunk_ms=(*usual[:-1], slow)))
    assert (cause, ms) == (Cause.SLOW_DECODE, pytest.approx(19 * 25.0))


def test_a_failed_request_says_its_error_and_needs_no_parts() -> None:
    errors = [""] * 39 + ["timed out"]
    cause, _, said = last(table(errors=errors, prefill_ms=one_of(40, np.nan, 38.0)))
    assert cause is Cause.FAILED
    assert said.startswith("It failed: timed out.")


def test_a_request_like_the_others_has_nothing_that_stands_out() -> None:
    cause, _, said = last(table())
    assert cause is None
    assert "Nothing stands out" in said


def test_two_causes_come_in_the_order_of_what_they_explain() -> None:
    requests = table(queue_ms=one_of(40, 300.0, 0.2), client_ms=one_of(40, 500.0, 1.0))
    found = diagnose_request(requests, 39, usual_of(requests, INTENDED), INTENDED)
    assert [(one.cause, one.ms) for one in found.causes] == [(Cause.CLIENT, 500.0), (Cause.QUEUE, 300.0)]
    assert "Further: about 300 ms waiting in the engine's queue" in sentence(found)


def test_a_client_that_sends_late_reads_late_as_well() -> None:
    """What it reads late lands in the front end, which is a residual."""
    requests = table(client_ms=one_of(40, 170.0, 1.0), front_end_ms=one_of(40, 200.0, 3.0))
    found = diagnose_request(requests, 39, usual_of(requests, INTENDED), INTENDED)
    assert [one.cause for one in found.causes] == [Cause.CLIENT, Cause.FRONT_END]
    lateness = np.array([50.0] * 4 + [1.0] * 36)
    cause, _, said = last(table(client_ms=lateness, front_end_ms=one_of(40, 200.0, 3.0)))
    assert cause is Cause.FRONT_END
    assert "10.0 % of the requests of this rate were sent late" in said


def test_without_the_engines_timings_only_the_client_can_be_judged() -> None:
    nothing = dict.fromkeys(("queue_ms", "prefill_ms", "front_end_ms"), np.nan)
    cause, ms, said = last(table(client_ms=one_of(40, 400.0, 1.0), **nothing))
    assert (cause, ms) == (Cause.CLIENT, 400.0)
    assert "The engine reported no timings" in said


def test_a_prompt_without_a_shared_prefix_is_no_miss() -> None:
    none = Intended(True, 16, {"shared": 0})
    requests = table(tokens_cached=0.0, tokens_shared=0.0, prefill_ms=632.0)
    assert diagnose_request(requests, 0, usual_of(requests, none), none).main is None
    assert requests.tokens_in[0] == TOKENS_IN
