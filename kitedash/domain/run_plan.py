"""What a run does, in which order, and where it may end early: known before it begins, and without measuring."""

from __future__ import annotations

from kitedash.domain.experiment import ExperimentSpec, LoadPlan

PREPARE = "prepare"
LOAD = "load"
QUALITY = "quality"
MEMORY = "memory"
MEASURED = "candidate"  # a run's purpose: all that its experiment asks for
AGAIN = "again"  # the baseline's load once more at the end: how far apart two runs of one thing lie
LEAST_RATES = 3  # of every candidate, so that it is a curve
OVERLOADED_BLOCKS = 2  # an overloaded rate needs no more: what it has is no latency


def stage_names(spec: ExperimentSpec, purpose: str = MEASURED) -> tuple[str, ...]:
    """In their order. One a suite, so that a lost worker costs at most one suite. Memory comes last: it may end the
    engine."""
    if purpose == AGAIN:
        return (PREPARE, LOAD)
    memory = (MEMORY,) if spec.memory is not None else ()
    return (PREPARE, LOAD, *(f"{QUALITY}:{suite.name}" for suite in spec.suites), *memory)


def planned_blocks(plan: LoadPlan) -> int:
    return len(plan.rates_per_s) * plan.blocks


def least_blocks(plan: LoadPlan, past: int = 0) -> int:
    """How many blocks are still to be measured at least, the first `past` of the plan being behind: an overloaded
    rate ends after two blocks, and after one no more than three rates are measured."""
    rates = len(plan.rates_per_s)
    position, block = divmod(past, plan.blocks)
    if position >= rates:
        return 0
    # A rate that goes on after two blocks has a result among them, so that it is measured to its end.
    may_be_overloaded = block < OVERLOADED_BLOCKS
    left = (OVERLOADED_BLOCKS if may_be_overloaded else plan.blocks) - block
    rates_left = max(0, min(rates, LEAST_RATES) - position - 1)
    if not may_be_overloaded and position + 1 < rates:
        rates_left = max(1, rates_left)
    return left + rates_left * OVERLOADED_BLOCKS
