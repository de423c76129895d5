"""The ladder against engines whose limits are known: it finds them, in few steps, wherever it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kitedash.domain.experiment import MemoryPlan, Workload
from kitedash.domain.memory import Room
from kitedash.domain.memory_ladder import (
    Ask,
    Ladder,
    MemoryOutcome,
    MemoryStep,
    Seen,
    conclude,
    died,
    ladder,
    limit_at,
    longest_prompt,
    next_step,
    workload_prompt_tokens,
)

ROOM = Room(
    block_size=16,
    max_model_len=2_048,
    batch_limit=64,
    step_tokens=2_048,
    bytes_per_token_predicted=100.0,
    kv_bytes_reported=1_000_000.0,  # 625 blocks, one of them the engine's own
    kv_tokens_reported=10_000,
)
BLOCKS = 624
WORKLOAD = Workload(input_tokens=300, shared_prefix_tokens=200, output_tokens=20)
Engine = Callable[[Ask], MemoryStep]


def engine(blocks: int = BLOCKS, batch_limit: int = 64, dies_at: int = 10**9) -> Engine:
    """Answers as one with so many usable blocks would: by arithmetic of its own."""

    def answer(asked: Ask) -> MemoryStep:
        total = asked.prompt_tokens + asked.output_tokens
        if asked.prompt_tokens >= 2_048:
            return conclude(asked, Seen(0, ("too long",) * asked.concurrency, (400,) * asked.concurrency), ROOM)
        if total * asked.concurrency >= dies_at:
            return died(asked, "torch.OutOfMemoryError: CUDA out of memory", ROOM)
        each = -(-(total - 1) // 16)  # the last token of an answer takes no place
        running = min(asked.concurrency, batch_limit, blocks // each)
        seen = Seen(asked.concurrency, running_max=running, kv_share_max=running * each / blocks, preemptions=0)
        return conclude(asked, seen, ROOM)

    return answer


def climbed(on: Ladder, answer: Engine) -> list[MemoryStep]:
    steps: list[MemoryStep] = []
    while (asked := next_step(steps, on)) is not None:
        assert (asked.prompt_tokens, asked.concurrency) not in {(s.prompt_tokens, s.concurrency) for s in steps}
        steps.append(answer(asked))
        assert len(steps) < 100
    return steps


def test_lengths_double_to_the_longest_that_fits_with_the_workloads_own_among_them() -> None:
    on = ladder(MemoryPlan(), WORKLOAD, ROOM)
    assert on.lengths == (128, 256, 304, 512, 1_024, 2_032, 4_096)  # 304 + 16 = 300 + 20; 4,096 is to be refused
    assert on.most_concurrency == 64
    assert workload_prompt_tokens(WORKLOAD, 16) == 304


@pytest.mark.parametrize(
    ("plan", "lengths", "most"),
    [
        (MemoryPlan(most_prompt_tokens=600, most_concurrency=8), (128, 256, 304, 512, 600), 8),
        (MemoryPlan(most_prompt_tokens=100), (100,), 64),
        (MemoryPlan(most_prompt_tokens=2_040), (128, 256, 304, 512, 1_024, 2_032), 64),  # its answer would be cut off
        (MemoryPlan(most_prompt_tokens=3_000), (128, 256, 304, 512, 1_024, 2_032, 3_000), 64),
        (MemoryPlan(most_concurrency=100), (128, 256, 304, 512, 1_024, 2_032, 4_096), 100),
        (MemoryPlan(output_tokens=2_048), (4_096,), 64),
    ],
)
def test_the_plan_ends_the_ladder(plan: MemoryPlan, lengths: tuple[int, ...], most: int) -> None:
    on = ladder(plan, WORKLOAD, ROOM)
    assert (on.lengths, on.most_concurrency) == (lengths, most)


def test_every_limit_is_found_where_the_prediction_holds() -> None:
    on = ladder(MemoryPlan(), WORKLOAD, ROOM)
    steps = climbed(on, engine())
    # 624 blocks: 128+16(+2 for 58 prompts in 2,048 a step) tokens are 10 blocks, 62 requests; 256+23 are 18, 34; ...
    found = {length: limit_at(steps, length) for length in on.lengths}
    for length in on.lengths[:-1]:
        most, fewest = found[length]
        assert fewest is None or fewest.concurrency == most + 1, length
        each = -(-(length + on.ask(length, most).output_tokens - 1) // 16)
        assert most == min(64, BLOCKS // each), length
    assert found[4_096][1] is not None
    assert found[4_096][1].outcome is MemoryOutcome.REJECTED
    assert longest_prompt(steps) == 2_032
    assert len(steps) <= 30


@pytest.mark.parametrize("blocks", [150, 300, 400, 500, 900])
def test_a_wrong_prediction_does_not_move_what_is_found(blocks: int) -> None:
    on = ladder(MemoryPlan(), WORKLOAD, ROOM)
    steps = climbed(on, engine(blocks=blocks))
    for length in on.lengths[:-1]:
        most, fewest = limit_at(steps, length)
        truth = min(64, blocks // -(-(length + on.ask(length, max(1, most)).output_tokens - 1) // 16))
        assert most <= truth
        if fewest is not None:
            beyond = -(-(length + fewest.output_tokens - 1) // 16)
            assert fewest.concurrency > min(64, blocks // beyond)
            assert fewest.concurrency - most <= max(1, fewest.concurrency // 4)


def test_an_interrupted_ladder_goes_on_where_it_was() -> None:
    on = ladder(MemoryPlan(), WORKLOAD, ROOM)
    whole = climbed(on, engine(blocks=500))
    for cut in range(len(whole)):
        kept = sorted(
            whole[:cut], key=lambda step: (step.prompt_tokens, step.concurrency)
        )  # as the database gives them
        asked = next_step(kept, on)
        assert asked is not None
        assert (asked.prompt_tokens, asked.concurrency) == (whole[cut].prompt_tokens, whole[cut].concurrency)


def test_nothing_is_tried_beyond_what_killed_the_engine() -> None:
    on = ladder(MemoryPlan(), WORKLOAD, ROOM)
    steps = climbed(on, engine(dies_at=4_000))
    # 16 of 128 + 18 tokens ran (2,336), 32 did not (4,704); at 256 + 16 tokens 8 are as many as have no more
    (death,) = [step for step in steps if step.outcome is MemoryOutcome.OUT_OF_MEMORY]
    assert (death.prompt_tokens, death.concurrency) == (128, 32)
    assert {length: limit_at(steps, length)[0] for length in on.lengths} == {
        **{128: 16, 256: 8, 304: 7, 512: 4, 1_024: 2, 2_032: 1, 4_096: 0}
    }
    assert steps[-1].outcome is MemoryOutcome.REJECTED


def test_a_length_that_no_request_can_have_is_the_last() -> None:
    on = ladder(MemoryPlan(), WORKLOAD, ROOM)
    steps = climbed(on, engine(dies_at=1_000))
    assert [step.prompt_tokens for step in steps][-1] == 1_024
    assert limit_at(steps, 1_024)[0] == 0
    assert 2_032 not in {step.prompt_tokens for step in steps}


def test_answers_last_until_the_last_prompt_is_read() -> None:
    on = ladder(MemoryPlan(), WORKLOAD, ROOM)
    assert on.ask(1_024, 1).output_tokens == 16
    assert on.ask(1_024, 8).output_tokens == 16 + 8  # one prompt of 1,024 in the 2,040 tokens of a step beside 8
    assert on.ask(128, 64).output_tokens == 16 + 5  # 15 of 128 in 1,984
    assert on.ask(2_032, 4).output_tokens == 16  # the engine's longest request leaves no more


ASKED = Ask(128, 8, 17)
HELD = Seen(8, running_max=8.0, kv_share_max=0.4, preemptions=0.0)


@pytest.mark.parametrize(
    ("seen", "outcome", "reason"),
    [
        (HELD, MemoryOutcome.HELD, "all 8 ran at once"),
        (replace(HELD, preemptions=2.0), MemoryOutcome.PREEMPTED, "2 times a request was thrown out"),
        (
            replace(HELD, running_max=5.0, kv_share_max=0.9),
            MemoryOutcome.QUEUED,
            "at most 5 of 8 ran at once: one more did not fit into the KV cache, of which 90% was used",
        ),
        (replace(HELD, running_max=4.0), MemoryOutcome.QUEUED, "at most 4 of 8 ran at once: the batch limit of 4"),
        (replace(HELD, running_max=3.0), MemoryOutcome.QUEUED, "the first answers ended before the last prompt"),
        (replace(HELD, answered=0, errors=("too long",), statuses=(400,)), MemoryOutcome.REJECTED, "too long"),
        (replace(HELD, answered=7, errors=("boom",), statuses=(500,)), MemoryOutcome.FAILED, "1 of 8 failed: boom"),
        (
            replace(HELD, answered=7, errors=("timed out",), statuses=(0,), timed_out=True, wall_s=600.0),
            MemoryOutcome.TIMED_OUT,
            "7 of 8 answered within 600 s",
        ),
    ],
)
def test_outcomes(seen: Seen, outcome: MemoryOutcome, reason: str) -> None:
    limit = 4 if "batch" in reason else 64
    found = conclude(ASKED, seen, replace(ROOM, batch_limit=limit))
    assert found.outcome is outcome
    assert reason in found.reason


@pytest.mark.parametrize(
    ("sentence", "outcome"),
    [
        ("the engine failed: OutOfMemoryError: CUDA out of memory. Tried to ...", MemoryOutcome.OUT_OF_MEMORY),
        (
            "the engine failed: it was killed (signal 9), as the system does when memory runs out",
            MemoryOutcome.OUT_OF_MEMORY,
        ),
        ("the engine failed: RuntimeError: an illegal memory access was encountered", MemoryOutcome.DIED),
    ],
)
def test_a_death_is_named(sentence: str, outcome: MemoryOutcome) -> None:
    found = died(ASKED, sentence, ROOM)
    assert (found.outcome, found.reason, found.held) == (outcome, sentence, False)
