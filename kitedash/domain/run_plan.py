"""What a run does, in which order, and where it may end early: known before it begins, and without measuring."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, log2

from kitedash.domain.experiment import ExperimentSpec, LoadPlan
from kitedash.domain.results import LevelStatus

PREPARE = "prepare"
LOAD = "load"
QUALITY = "quality"
MEMORY = "memory"
MEASURED = "candidate"  # a run's purpose: all that its experiment asks for
AGAIN = "again"  # the baseline's load once more at the end: how far apart two runs of one thing lie
LEAST_RATES = 3  # of every candidate, so that it is a curve
OVERLOADED_BLOCKS = 2  # an overloaded rate needs no more: what it has is no latency
MOST_BLOCKS = 50  # of a rate, as `LoadPlan.blocks` allows
LEAST_BLOCKS = 3  # of a rate of a search, before it is believed: one odd block is no answer
INVALID_BLOCKS = 3  # where so many in a row give no result, the reason is no accident


def stage_names(spec: ExperimentSpec, purpose: str = MEASURED) -> tuple[str, ...]:
    """In their order. One a suite, so that a lost worker costs at most one suite. Memory comes last: it may end the
    engine."""
    if purpose == AGAIN:
        return (PREPARE, LOAD)
    memory = (MEMORY,) if spec.memory is not None else ()
    return (PREPARE, LOAD, *(f"{QUALITY}:{suite.name}" for suite in spec.suites), *memory)


def as_run(spec: ExperimentSpec, purpose: str) -> ExperimentSpec:
    """The experiment as a run of this purpose goes through it: only a candidate's own run searches. The noise floor
    needs rates that were measured both times, which the listed ones are."""
    if purpose == MEASURED or not spec.load.search:
        return spec
    return spec.model_copy(update={"load": spec.load.model_copy(update={"search": False})})


def is_settled(blocks: Sequence[LevelStatus]) -> bool:
    """Whether more blocks of a rate would tell nothing new: none of those it has is a result."""
    if LevelStatus.OK in blocks:
        return False
    needed = INVALID_BLOCKS if LevelStatus.INVALID in blocks else OVERLOADED_BLOCKS
    return len(blocks) >= needed


def most_blocks(plan: LoadPlan) -> int:
    """Of one rate: twice those of the plan where the answers of a search contradict each other."""
    return min(MOST_BLOCKS, 2 * plan.blocks)


def planned_blocks(plan: LoadPlan) -> int:
    """At most: every rate of the plan to its end, and as many further blocks as the search may measure."""
    return len(plan.rates_per_s) * plan.blocks + (plan.search_most_blocks if plan.search else 0)


def likely_blocks(plan: LoadPlan) -> int:
    """Where nothing is overloaded. A search halves the widest gap between two listed rates until it is as narrow as
    its precision, goes one step beyond the rates or is spared one, and measures the two ends of what is left whole."""
    listed = len(plan.rates_per_s) * plan.blocks
    if not plan.search:
        return listed
    gaps = [log(high / low) for low, high in zip(plan.rates_per_s[:-1], plan.rates_per_s[1:], strict=True)]
    halvings = max(0, ceil(log2(max(gaps) / log(1 + plan.search_precision))))
    return listed + min(plan.search_most_blocks, (halvings + 1) * min(LEAST_BLOCKS, plan.blocks) + 2 * plan.blocks)


def least_blocks(plan: LoadPlan, past: int = 0) -> int:
    """How many blocks are still to be measured at least, the first `past` of the plan being behind: an overloaded
    rate ends after two blocks, and after one no more than three rates are measured. Where a search follows, a single
    rate that is clearly missed may end the listed ones, and the search may find no rate to go on with."""
    rates = len(plan.rates_per_s)
    position, block = divmod(past, plan.blocks)
    if position >= rates:
        return 0
    # A rate that goes on after two blocks has a result among them, so that it is measured to its end.
    may_be_overloaded = block < OVERLOADED_BLOCKS
    if plan.search:
        return OVERLOADED_BLOCKS - block if may_be_overloaded else 1
    left = (OVERLOADED_BLOCKS if may_be_overloaded else plan.blocks) - block
    rates_left = max(0, min(rates, LEAST_RATES) - position - 1)
    if not may_be_overloaded and position + 1 < rates:
        rates_left = max(1, rates_left)
    return left + rates_left * OVERLOADED_BLOCKS
