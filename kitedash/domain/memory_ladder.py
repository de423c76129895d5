"""The memory stage as rules: which requests are tried next, and what became of a try.

A step is so many requests at once, each with a prompt of so many tokens that shares nothing with any other. `next_step`
knows nothing but the steps that are stored, so a stage that was interrupted goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kitedash.domain.experiment import MemoryPlan, Workload
from kitedash.domain.memory import Room

SHORTEST_PROMPT_TOKENS = 128
REFINEMENTS = (
    3  # tries between the most that ran at once and the fewest that did not: the predicted limit, two halvings
)
STEPS_A_LENGTH = 4  # about as many as a length takes, for the progress bar


class MemoryOutcome(StrEnum):
    HELD = "held"  # all ran at once
    QUEUED = "queued"  # fewer ran at once, the others waited
    PREEMPTED = "preempted"  # some were thrown out to make room, and computed again
    REJECTED = "rejected"  # longer than the engine takes
    OUT_OF_MEMORY = "out of memory"  # the engine died of it
    DIED = "engine died"  # of something else
    FAILED = "failed"
    TIMED_OUT = "timed out"


# Where more tries near it could cost another engine or another time-out each, there are none.
_TRIED_CLOSER = frozenset((MemoryOutcome.QUEUED, MemoryOutcome.PREEMPTED))
DEADLY = frozenset((MemoryOutcome.OUT_OF_MEMORY, MemoryOutcome.DIED))


@dataclass(frozen=True)
class Ask:
    """What a step sends: `concurrency` requests at once, each of so many prompt and output tokens."""

    prompt_tokens: int
    concurrency: int
    output_tokens: int


@dataclass(frozen=True)
class MemoryStep:
    """What became of a step. Gauges are the largest values seen; None where the engine was never read."""

    prompt_tokens: int
    concurrency: int
    output_tokens: int
    outcome: MemoryOutcome
    reason: str
    room: Room
    running_max: float | None = None
    waiting_max: float | None = None
    kv_share_max: float | None = None
    preemptions: float | None = None
    answered: int = 0
    wall_s: float = 0.0

    @property
    def held(self) -> bool:
        return self.outcome is MemoryOutcome.HELD

    @property
    def tokens(self) -> int:
        """Of all its requests, prompts and answers."""
        return self.concurrency * (self.prompt_tokens + self.output_tokens)


@dataclass(frozen=True)
class Ladder:
    """How far the stage goes: prompt lengths in ascending order, and the most requests at once."""

    lengths: tuple[int, ...]
    most_concurrency: int
    output_tokens: int
    room: Room

    def ask(self, prompt_tokens: int, concurrency: int) -> Ask:
        """Answers last until the last prompt is read, or else the first ones would be gone by then and the requests
        never be in the engine together; as far as the engine's longest request leaves room."""
        steps = _prefill_steps(prompt_tokens, concurrency, self.room.step_tokens) if concurrency > 1 else 0
        left = max(self.output_tokens, self.room.max_model_len - prompt_tokens)
        return Ask(prompt_tokens, concurrency, min(self.output_tokens + steps, left))


def _prefill_steps(prompt_tokens: int, concurrency: int, step_tokens: int) -> int:
    """Engine steps, at most, until all prompts are read: each gives a token to those that decode, and takes prompts
    for the rest of its tokens, parted or (without chunked prefill) whole."""
    free = max(1, step_tokens - concurrency)
    if prompt_tokens <= free:
        return math.ceil(concurrency / (free // prompt_tokens))
    return math.ceil(concurrency * prompt_tokens / free)


def ladder(plan: MemoryPlan, workload: Workload, room: Room) -> Ladder:
    """Prompt lengths double up to the longest that fits, with one more of the workload's size; beyond the engine's
    longest request one is tried that it should refuse (it is the prompt that vLLM refuses: an answer that has no room
    behind it is cut off). Concurrencies end at the batch limit, unless the plan says."""
    fits = room.max_model_len - plan.output_tokens
    longest = min(fits, plan.most_prompt_tokens or fits)
    lengths = {longest} if longest > 0 else set()
    length = SHORTEST_PROMPT_TOKENS
    while length < longest:
        lengths.add(length)
        length *= 2
    if 0 < (own := workload_prompt_tokens(workload, plan.output_tokens)) <= longest:
        lengths.add(own)
    if plan.most_prompt_tokens is None:
        lengths.add(2 ** math.ceil(math.log2(room.max_model_len + 1)))
    elif plan.most_prompt_tokens >= room.max_model_len:
        lengths.add(plan.most_prompt_tokens)
    most = plan.most_concurrency or room.by_batch_limit or 256
    return Ladder(tuple(sorted(lengths)), most, plan.output_tokens, room)


def workload_prompt_tokens(workload: Workload, output_tokens: int) -> int:
    """The prompt that takes, with so many output tokens, as much memory as one of the workload's requests; in a mix, as
    one of those that most are. What a trace's requests take is not known here: 0."""
    if workload.trace is not None:
        return 0
    return workload.main_class.input_tokens + workload.main_class.output_tokens - output_tokens


def next_step(steps: Sequence[MemoryStep], on: Ladder) -> Ask | None:
    """The step after these; None where the ladder is done.

    A length begins at what the shorter one suggests, doubles while all run at once (else halves until they do), and is
    then tried closer. What did not run at once is not exceeded with longer prompts, and a length of which not even one
    request ran is the last. Once the engine has died, several longer requests never have more tokens than ran before.
    """
    ceiling, start = on.most_concurrency, 1
    for index, prompt_tokens in enumerate(on.lengths):
        mine = [step for step in steps if step.prompt_tokens == prompt_tokens]
        shorter = [step for step in steps if step.prompt_tokens < prompt_tokens]
        if any(step.outcome in DEADLY for step in shorter):
            ran = max((step.tokens for step in shorter if step.held), default=0)
            ceiling = min(ceiling, max(1, ran // (prompt_tokens + on.output_tokens)))
        if (asked := _next_at(prompt_tokens, mine, min(start, ceiling), ceiling, on)) is not None:
            return on.ask(prompt_tokens, asked)
        most, fewest = _bounds(mine)
        if most == 0:
            return None
        if fewest is not None:
            ceiling = fewest.concurrency - 1
        if index + 1 < len(on.lengths):
            start = _power_of_two(max(1, most * prompt_tokens // on.lengths[index + 1]))
    return None


def _next_at(prompt_tokens: int, mine: Sequence[MemoryStep], start: int, ceiling: int, on: Ladder) -> int | None:
    if prompt_tokens + on.output_tokens > on.room.max_model_len:
        return None if mine else 1  # to be refused: one is enough to see it
    most, fewest = _bounds(mine)
    if not mine:
        return start
    if fewest is None:
        return None if most >= ceiling else min(2 * most, ceiling)
    if most == 0:
        return None if fewest.concurrency == 1 else fewest.concurrency // 2
    closer = sum(not _on_grid(step.concurrency, ceiling) for step in mine)
    if fewest.concurrency - most <= 1 or closer >= REFINEMENTS or fewest.outcome not in _TRIED_CLOSER:
        return None
    return _between(prompt_tokens, most, fewest.concurrency, on)


def _bounds(mine: Sequence[MemoryStep]) -> tuple[int, MemoryStep | None]:
    """(the most that ran at once, the fewest that did not)."""
    fewest = min((step for step in mine if not step.held), key=lambda step: step.concurrency, default=None)
    below = [step.concurrency for step in mine if step.held and (not fewest or step.concurrency < fewest.concurrency)]
    return max(below, default=0), fewest


def _between(prompt_tokens: int, most: int, fewest: int, on: Ladder) -> int:
    """The predicted limit or the first beyond it, where these are what is left to be told apart; else the middle."""
    middle = (most + fewest) // 2
    predicted, _ = on.room.at_once(prompt_tokens, on.ask(prompt_tokens, middle).output_tokens)
    if predicted is not None and most < predicted < fewest:
        return predicted
    if predicted == most:
        return most + 1
    return middle


def _on_grid(concurrency: int, ceiling: int) -> bool:
    return concurrency == ceiling or concurrency & (concurrency - 1) == 0


def _power_of_two(at_most: int) -> int:
    return 1 << (at_most.bit_length() - 1)


@dataclass(frozen=True)
class Seen:
    """What a step saw before anything is concluded. `errors`: of the requests that failed, `statuses` theirs."""

    answered: int
    errors: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    timed_out: bool = False
    running_max: float | None = None
    waiting_max: float | None = None
    kv_share_max: float | None = None
    preemptions: float | None = None
    wall_s: float = 0.0


def conclude(asked: Ask, seen: Seen, room: Room) -> MemoryStep:
    """The step with its outcome, in the order in which one explains the others."""
    outcome, reason = _outcome(asked, seen, room)
    return MemoryStep(
        asked.prompt_tokens,
        asked.concurrency,
        asked.output_tokens,
        outcome,
        reason,
        room,
        seen.running_max,
        seen.waiting_max,
        seen.kv_share_max,
        seen.preemptions,
        seen.answered,
        seen.wall_s,
    )


def died(asked: Ask, sentence: str, room: Room) -> MemoryStep:
    """The step at which the engine died; `sentence` is what its log says of it."""
    lower = sentence.lower()
    memory = any(words in lower for words in ("out of memory", "outofmemory", "memory runs out", "allocate memory"))
    outcome = MemoryOutcome.OUT_OF_MEMORY if memory else MemoryOutcome.DIED
    return MemoryStep(asked.prompt_tokens, asked.concurrency, asked.output_tokens, outcome, sentence, room)


def _outcome(asked: Ask, seen: Seen, room: Room) -> tuple[MemoryOutcome, str]:
    if 400 in seen.statuses:
        return MemoryOutcome.REJECTED, seen.errors[seen.statuses.index(400)]
    if seen.timed_out:
        return (
            MemoryOutcome.TIMED_OUT,
            f"{seen.answered:,} of {asked.concurrency:,} answered within {seen.wall_s:.0f} s",
        )
    if seen.errors:
        return MemoryOutcome.FAILED, f"{len(seen.errors):,} of {asked.concurrency:,} failed: {seen.errors[0]}"
    if seen.preemptions:
        return (
            MemoryOutcome.PREEMPTED,
            f"the KV cache was full: {_times(seen.preemptions)} a request was thrown out and computed again",
        )
    running = seen.running_max or 0.0
    if running >= asked.concurrency:
        return MemoryOutcome.HELD, f"all {asked.concurrency:,} ran at once"
    return MemoryOutcome.QUEUED, f"at most {running:,.0f} of {asked.concurrency:,} ran at once: {_binding(seen, room)}"


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:,.0f} times"


def _binding(seen: Seen, room: Room) -> str:
    running, share = seen.running_max or 0.0, seen.kv_share_max
    if room.by_batch_limit is not None and running >= room.by_batch_limit:
        return f"the batch limit of {room.by_batch_limit:,}"
    if share is not None and running and share * (running + 1) / running > 1:  # one more of the kind would not fit
        return f"one more did not fit into the KV cache, of which {share:.0%} was used"
    told = "" if share is None else f" ({share:.0%} of the KV cache was used)"
    return f"the first answers ended before the last prompt was read{told}"


def limit_at(steps: Sequence[MemoryStep], prompt_tokens: int) -> tuple[int, MemoryStep | None]:
    """Of one prompt length: (the most that were seen to run at once, the fewest that did not)."""
    return _bounds([step for step in steps if step.prompt_tokens == prompt_tokens])


def longest_prompt(steps: Sequence[MemoryStep]) -> int | None:
    """The longest prompt of which at least one request ran."""
    return max((step.prompt_tokens for step in steps if step.held), default=None)
