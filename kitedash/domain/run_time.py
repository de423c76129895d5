"""How long a run takes: from its load plan and from what earlier runs took. Ranges, since none of it is known.

Bounds and how they are formed: docs/metrics.md, "How long a run takes". Everything is in seconds but `Minutes`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kitedash.domain.experiment import Candidate, ExperimentSpec, LoadPlan
from kitedash.domain.run_plan import (
    LOAD,
    MEASURED,
    OVERLOADED_BLOCKS,
    as_run,
    least_blocks,
    likely_blocks,
    planned_blocks,
    stage_names,
)

ALIKE = (1.0, 1.5, 3.0)  # how much wider a range is by how alike the earlier runs are: see `History.span`
LEAST_FACTOR = 1.1  # of a range from a stage's own pace: what is still to do may be slower than what is done


@dataclass(frozen=True)
class Minutes:
    """A time in minutes: `middle` is the best guess, and `low` to `high` is what it may well turn out to be."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Span:
    """A time in seconds with its range."""

    low: float
    middle: float
    high: float

    def __add__(self, other: Span) -> Span:
        """Bound by bound: as if all that is short came together, and all that is long."""
        return Span(self.low + other.low, self.middle + other.middle, self.high + other.high)

    def map(self, change: Callable[[float], float]) -> Span:
        """`change` of each bound; it must not reverse their order."""
        return Span(change(self.low), change(self.middle), change(self.high))

    @property
    def minutes(self) -> Minutes:
        return Minutes(self.low / 60, self.middle / 60, self.high / 60)


NOTHING = Span(0, 0, 0)


@dataclass(frozen=True)
class RunKind:
    """What decides how long a run takes, beside its plan. `number_format` is `number_format_of` its candidate."""

    model: str
    number_format: str
    device_name: str


@dataclass(frozen=True)
class PastRun:
    """An earlier run. `stage_s` holds the stages that finished at the first attempt; `measured_blocks` is how many
    load blocks were measured out of `planned_blocks`, `measured_s` how long these are by their plan."""

    kind: RunKind
    stage_s: Mapping[str, float]
    start_up_s: float | None
    measured_blocks: int = 0
    planned_blocks: int = 0
    measured_s: float = 0.0

    @property
    def block_extra_s(self) -> float | None:
        """What a load block takes beyond its planned length: flushing, priming, waiting for the last answers."""
        if LOAD not in self.stage_s or self.start_up_s is None or not self.measured_blocks:
            return None
        extra_s = self.stage_s[LOAD] - self.start_up_s - self.measured_s
        return max(0.0, extra_s / self.measured_blocks)

    @property
    def measured_share(self) -> float | None:
        """Less than 1 where rates were overloaded and ended early."""
        if LOAD not in self.stage_s or not self.planned_blocks:
            return None
        return min(1.0, self.measured_blocks / self.planned_blocks)


@dataclass(frozen=True)
class StageNow:
    """The stage under way: for how long, how many of its units are done, and how long this run's engine took to start
    (None: not known yet)."""

    name: str
    elapsed_s: float
    done: int = 0
    total: int = 0
    start_up_s: float | None = None


@dataclass(frozen=True)
class Progress:
    """How far a run is; one that has not begun has neither. `purpose`: see `run_plan`."""

    finished: frozenset[str] = frozenset()
    now: StageNow | None = None
    purpose: str = MEASURED


def number_format_of(candidate: Candidate) -> str:
    """Of the weights: the format that KiteDash makes, else the dtype that the engine is told, else its own choice."""
    if candidate.quantization != "none":
        return candidate.quantization
    dtype = str(candidate.engine_args.get("dtype", "auto"))
    return "model's own" if dtype == "auto" else dtype


def least_blocks_s(plan: LoadPlan) -> float:
    """The blocks that every candidate is measured in, overloaded or not, without what comes between them."""
    return least_blocks(plan) * plan.block_duration_s


@dataclass(frozen=True)
class History:
    """What earlier runs took."""

    runs: tuple[PastRun, ...] = ()

    def span(self, kind: RunKind, read: Callable[[PastRun], float | None]) -> Span | None:
        """The range of what `read` finds in the earlier runs most like this one; None where it finds nothing.

        Most like: the same model, number format and device; else the same model and device; else the same device.
        Of n values the range is from the least to the largest, each moved outward by the factor (1 + 1/n) x ALIKE:
        a single earlier run gives half to double.
        """
        for alike, found in zip(ALIKE, self._by_likeness(kind), strict=True):
            values = [value for run in found if (value := read(run)) is not None]
            if values:
                factor = (1 + 1 / len(values)) * alike
                return Span(min(values) / factor, median(values), max(values) * factor)
        return None

    def likest(self, kind: RunKind) -> int | None:
        """How like the likest runs are: 0 the same kind, 1 the same model and device, 2 the same device."""
        return next((place for place, found in enumerate(self._by_likeness(kind)) if found), None)

    def _by_likeness(self, kind: RunKind) -> tuple[list[PastRun], list[PastRun], list[PastRun]]:
        same_device = [run for run in self.runs if run.kind.device_name == kind.device_name]
        same_model = [run for run in same_device if run.kind.model == kind.model]
        return [run for run in same_model if run.kind == kind], same_model, same_device

    def stage(self, spec: ExperimentSpec, kind: RunKind, name: str) -> Span | None:
        """One stage of a run, from its beginning to its end."""
        if name != LOAD:
            return self.span(kind, lambda run: run.stage_s.get(name))
        start_up, extra = self.span(kind, lambda run: run.start_up_s), self.span(kind, lambda run: run.block_extra_s)
        share = self.span(kind, lambda run: run.measured_share)
        if start_up is None or extra is None or share is None:
            return None
        plan = spec.load
        blocks, least = planned_blocks(plan), least_blocks(plan)
        # Of a search it is not known how many rates it takes: none at the least, all it may at the most.
        low = max(least, share.low * min(blocks, len(plan.rates_per_s) * plan.blocks))
        middle = max(least, min(share.middle * blocks, likely_blocks(plan)))
        return Span(
            start_up.low + min(low, blocks) * (plan.block_duration_s + extra.low),
            start_up.middle + min(middle, blocks) * (plan.block_duration_s + extra.middle),
            start_up.high + blocks * (plan.block_duration_s + extra.high) + _overload_s(plan),
        )

    def run(self, spec: ExperimentSpec, kind: RunKind, purpose: str = MEASURED) -> Span | None:
        """A whole run; None where a stage of it has never been seen on such a device."""
        return total(self.stage(as_run(spec, purpose), kind, name) for name in stage_names(spec, purpose))


def total(spans: Iterable[Span | None]) -> Span | None:
    """The sum; None where a part of it is unknown."""
    added = NOTHING
    for span in spans:
        if span is None:
            return None
        added += span
    return added


def remaining(spec: ExperimentSpec, kind: RunKind, history: History, progress: Progress) -> Span | None:
    """How long a run still takes: the rest of the stage under way, and the stages after it. None where nothing is known
    of a part: `known_remaining` has the others then."""
    return total(_parts(spec, kind, history, progress))


def known_remaining(spec: ExperimentSpec, kind: RunKind, history: History, progress: Progress) -> Span:
    """As `remaining`, but of the parts of which something is known: the run takes longer."""
    return total(part for part in _parts(spec, kind, history, progress) if part is not None) or NOTHING


def _parts(spec: ExperimentSpec, kind: RunKind, history: History, progress: Progress) -> list[Span | None]:
    now, start_up = progress.now, history.span(kind, lambda run: run.start_up_s)
    if now is not None and now.start_up_s is not None:
        start_up = Span(now.start_up_s, now.start_up_s, now.start_up_s)
    parts, spec = [], as_run(spec, progress.purpose)
    for name in stage_names(spec, progress.purpose):
        if name in progress.finished:
            continue
        past = history.stage(spec, kind, name)
        parts.append(_rest_of_stage(spec, past, start_up, now) if now is not None and name == now.name else past)
    return parts


def _rest_of_stage(spec: ExperimentSpec, past: Span | None, start_up: Span | None, now: StageNow) -> Span | None:
    """From the stage's own pace and from earlier runs, the former counting by the share that is done.

    The range is never narrower than that of the pace alone, and at the beginning it spans both.
    """
    own = _by_pace(spec, start_up, now)
    before = None if past is None else _left_of(past, now.elapsed_s)
    if own is None or before is None:
        return own or before
    done = now.done / now.total
    return Span(
        done * own.low + (1 - done) * min(own.low, before.low),
        done * own.middle + (1 - done) * before.middle,
        done * own.high + (1 - done) * max(own.high, before.high),
    )


def _left_of(past: Span, elapsed_s: float) -> Span:
    """What is left of a stage that takes `past`. One that takes longer than expected is not called nearly done: the
    best guess stays at a quarter of what was expected, as far as the range goes. One that takes longer than ever may
    take as long again."""
    if elapsed_s >= past.high:
        return Span(0, elapsed_s / 2, elapsed_s)
    left = past.map(lambda bound: max(0.0, bound - elapsed_s))
    return Span(left.low, max(left.middle, min(past.middle, left.high) / 4), left.high)


def _by_pace(spec: ExperimentSpec, start_up: Span | None, now: StageNow) -> Span | None:
    """What is left at the pace of the units done so far; None before the first of them is done.

    The unit under way is half done, or just begun, or all but done. Of k done units the range is then divided and
    multiplied by LEAST_FACTOR + 1/k.
    """
    if now.done <= 0 or now.total <= 0:
        return None
    least = left = most = max(0, now.total - now.done)
    taken_s, shortest_s = Span(now.elapsed_s, now.elapsed_s, now.elapsed_s), 0.0
    if now.name == LOAD:
        least, shortest_s = min(most, least_blocks(spec.load, now.done)), spec.load.block_duration_s
        left = min(most, max(1, likely_blocks(spec.load) - now.done))
        begun = start_up or Span(0, 0, now.elapsed_s)  # the engine starts before the first block, once
        taken_s = Span(now.elapsed_s - begun.high, now.elapsed_s - begun.middle, now.elapsed_s - begun.low)
    factor = LEAST_FACTOR + 1 / now.done
    return Span(
        max(shortest_s, taken_s.low / (now.done + 1)) * max(0, least - 1) / factor,
        max(shortest_s, taken_s.middle / (now.done + 0.5)) * max(0.0, left - 0.5),
        max(shortest_s, taken_s.high / now.done) * most * factor,
    )


def _overload_s(plan: LoadPlan) -> float:
    """How much longer a rate takes when it is overloaded: two blocks that wait for the time-out instead of all."""
    waiting_s = OVERLOADED_BLOCKS * plan.request_timeout_s
    return max(0.0, waiting_s - (plan.blocks - OVERLOADED_BLOCKS) * plan.block_duration_s)


def ends(free_after: Sequence[Span], waiting: Sequence[Span | None]) -> list[Span | None]:
    """When each of `waiting`, in their order, ends, where slots become free after `free_after`: each run goes to the
    slot that is free first. From one of unknown length on, and without slots, nothing is known."""
    by_bound = [_ends([bound(slot) for slot in free_after], waiting, bound) for bound in _BOUNDS]
    return [
        None if low is None or middle is None or high is None else Span(low, middle, high)
        for low, middle, high in zip(*by_bound, strict=True)
    ]


_BOUNDS: tuple[Callable[[Span], float], ...] = (lambda s: s.low, lambda s: s.middle, lambda s: s.high)


def _ends(
    free_after: list[float], waiting: Sequence[Span | None], bound: Callable[[Span], float]
) -> list[float | None]:
    heapq.heapify(free_after)
    found: list[float | None] = []
    for run in waiting:
        if run is None or not free_after:
            return found + [None] * (len(waiting) - len(found))
        found.append(end := heapq.heappop(free_after) + bound(run))
        heapq.heappush(free_after, end)
    return found
