"""Steps of the memory stage as an engine of known size would have given them."""

from __future__ import annotations

from kitedash.domain.experiment import MemoryPlan, Workload
from kitedash.domain.memory import Room
from kitedash.domain.memory_ladder import Ask, MemoryStep, Seen, conclude, died, ladder, next_step

PLAN = MemoryPlan()
OUT_OF_MEMORY = "the engine failed: OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB."
REFUSED = "This model's maximum context length is 4096 tokens. However, your prompt contains 8192 input tokens."


def room(batch_limit: int) -> Room:
    """1 GiB of a 135M model in float32: 23,296 tokens of 46,080 bytes in blocks of 32."""
    return Room(
        block_size=32,
        max_model_len=4_096,
        batch_limit=batch_limit,
        step_tokens=2_048,
        bytes_per_token_predicted=46_080.0,
        kv_bytes_reported=2.0**30,
        kv_tokens_reported=23_296,
    )


def steps(workload: Workload, *, batch_limit: int = 32, dies_at_tokens: int | None = None) -> list[MemoryStep]:
    """The whole ladder. `dies_at_tokens`: the engine runs out of memory when its requests have so many."""
    on = ladder(PLAN, workload, room(batch_limit))
    found: list[MemoryStep] = []
    while (asked := next_step(found, on)) is not None:
        found.append(_answered(asked, on.room, dies_at_tokens))
    return found


def _answered(asked: Ask, here: Room, dies_at_tokens: int | None) -> MemoryStep:
    tokens = asked.prompt_tokens + asked.output_tokens
    if asked.prompt_tokens >= here.max_model_len:
        return conclude(asked, Seen(0, (REFUSED,) * asked.concurrency, (400,) * asked.concurrency), here)
    if dies_at_tokens is not None and tokens * asked.concurrency >= dies_at_tokens:
        return died(asked, OUT_OF_MEMORY, here)
    assert here.kv_tokens_reported is not None
    assert here.batch_limit is not None
    blocks, each = here.kv_tokens_reported // here.block_size - 1, -(-(tokens - 1) // here.block_size)
    prompts = blocks // -(-asked.prompt_tokens // here.block_size)
    running = min(asked.concurrency, here.batch_limit, prompts)
    preempted = max(0, min(asked.concurrency, here.batch_limit, prompts) - blocks // each)
    seen = Seen(
        answered=asked.concurrency,
        running_max=float(running),
        waiting_max=float(asked.concurrency - running),
        kv_share_max=min(1.0, running * each / blocks),
        preemptions=float(preempted),
        wall_s=2.0 + asked.concurrency * tokens / 300,
    )
    return conclude(asked, seen, here)
