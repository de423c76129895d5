"""What a run's page shows of its memory stage: predicted, reported by the engine, and seen."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from db import memory
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.memory import Room
from kitedash.domain.memory_ladder import DEADLY, MemoryStep, limit_at, longest_prompt, workload_prompt_tokens


@dataclass(frozen=True)
class LengthLimit:
    """One prompt length. `predicted` requests at once, by the limit that `binds`; `most` were seen to run at once, and
    `beyond` is the smallest step in which not all did (None: as many as were tried ran)."""

    prompt_tokens: int
    output_tokens: int
    predicted: int | None
    binds: str
    most: int
    beyond: MemoryStep | None


@dataclass(frozen=True)
class MemoryView:
    """`room` is what the engine had; None while no step is stored. `own` is the length at which a request takes as many
    tokens as the workload's largest, `request_tokens`; None where it was not tried."""

    steps: tuple[MemoryStep, ...]
    room: Room | None
    lengths: tuple[LengthLimit, ...]
    longest_seen: int | None
    request_tokens: int
    own: LengthLimit | None

    @property
    def death(self) -> MemoryStep | None:
        """The step of the shortest prompts that cost the engine its life; beyond its tokens little is tried."""
        return next((step for step in self.steps if step.outcome in DEADLY), None)


def memory_view(session: Session, run_id: str, spec: ExperimentSpec) -> MemoryView | None:
    """None where the experiment has no memory stage."""
    if spec.memory is None:
        return None
    steps = memory.steps(session, run_id)
    own_tokens = workload_prompt_tokens(spec.workload, spec.memory.output_tokens)
    lengths = tuple(_limit(steps, length) for length in sorted({step.prompt_tokens for step in steps}))
    return MemoryView(
        steps=tuple(steps),
        room=steps[-1].room if steps else None,
        lengths=lengths,
        longest_seen=longest_prompt(steps),
        request_tokens=own_tokens + spec.memory.output_tokens,
        own=next((limit for limit in lengths if limit.prompt_tokens == own_tokens), None),
    )


def _limit(steps: list[MemoryStep], prompt_tokens: int) -> LengthLimit:
    """The prediction is for the answers of the step that decided: those that had to last longest."""
    most, beyond = limit_at(steps, prompt_tokens)
    mine = [step for step in steps if step.prompt_tokens == prompt_tokens]
    decided = beyond or max(mine, key=lambda step: step.concurrency)
    predicted, binds = decided.room.at_once(prompt_tokens, decided.output_tokens)
    return LengthLimit(prompt_tokens, decided.output_tokens, predicted, binds, most, beyond)
