"""The search for the highest rate held: which rate is measured next, and when the answer is there.

Everything follows from the levels that are stored, so an interrupted search goes on where it was. The rates that are
listed come first, and whole. From them on the search doubles the highest rate while all are held, halves the lowest one
while none is, and between the highest rate held and the lowest one missed goes to where their latencies say that the
target is crossed (the geometric middle where they don't say it), until the two are as near to each other as the plan's
precision asks for. What "held" means is `latency.is_held`'s to say.

Blocks go where the answer hangs on them. A further rate gets three, and its estimate says which way the search goes
on. Once the highest held and the lowest missed are near enough to each other, those two get more, until their answers
are clear or they have as many as the plan's: where the interval of the P90 then still holds the target, the rate is
undecided. An answer that turns meanwhile moves the two, and one that contradicts another gets more blocks, too. Of the
listed rates one that is clearly missed ends early, and those above it are not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log

from kitedash.domain import wording
from kitedash.domain.cost import could_hold, may_hold, surely_held
from kitedash.domain.experiment import Guardrails, LoadPlan, Targets
from kitedash.domain.experiment_file import MAX_REQUESTS
from kitedash.domain.latency import is_held
from kitedash.domain.results import BlockResult, LevelStatus, LevelSummary
from kitedash.domain.run_plan import LEAST_BLOCKS, is_settled, most_blocks

STEP = 2.0  # beyond the rates that all are held, or all are missed
HIGHEST_RATE_PER_S = 10_000.0
LEAST_PART = 0.2  # of what lies between two rates is cut off by the next one at least
SIGNIFICANT_DIGITS = 3  # of a rate that the search chooses: equal choices are equal numbers
ROUNDING = 1e-9


class Answer(StrEnum):
    """Of one rate. "Seems": its interval leaves the other answer open."""

    HELD = "held"
    SEEMS_HELD = "seems held"
    SEEMS_MISSED = "seems missed"
    MISSED = "missed"
    NONE = "no valid result"

    @property
    def is_sure(self) -> bool:
        return self in (Answer.HELD, Answer.MISSED)

    @property
    def is_held(self) -> bool:
        return self in (Answer.HELD, Answer.SEEMS_HELD)


class SearchStatus(StrEnum):
    FOUND = "found"
    UNDECIDED = "undecided"
    BUDGET = "budget"
    NONE_HELD = "none held"
    ALL_HELD = "all held"
    CONTRADICTION = "contradiction"
    OPEN = "open"  # it goes on, was broken off, or was done for other targets


@dataclass(frozen=True)
class Tried:
    """A rate with the statuses of all its blocks, those included that its summary leaves out."""

    level: LevelSummary
    blocks: tuple[LevelStatus, ...]

    @property
    def rate_per_s(self) -> float:
        return self.level.rate_per_s


def tried_of(levels: Sequence[LevelSummary], blocks: Sequence[BlockResult]) -> list[Tried]:
    """The stored levels of a run, each with its blocks."""
    return [
        Tried(level, tuple(block.status for block in blocks if block.rate_per_s == level.rate_per_s))
        for level in levels
    ]


@dataclass(frozen=True)
class Probe:
    """What is to be measured next: one more block of a rate, `block` being its number."""

    rate_per_s: float
    block: int


@dataclass(frozen=True)
class SearchResult:
    """`highest_held` and `lowest_missed` go by the estimates, in requests/s; `precision` is how far they are apart,
    0.1 for 10 %. `surely_held` and `surely_missed` enclose the true rate with the intervals. None: no such rate."""

    status: SearchStatus
    highest_held: float | None
    lowest_missed: float | None
    surely_held: float | None
    surely_missed: float | None
    precision: float | None
    rates: int  # measured beside the ones listed
    requests: int
    sentence: str


def answer_of(level: LevelSummary, targets: Targets, guardrails: Guardrails) -> Answer:
    """Whether a rate is held, and whether its interval leaves that open."""
    if level.status is LevelStatus.INVALID:
        return Answer.NONE
    if is_held(level, targets, guardrails)[0]:
        return Answer.HELD if surely_held(level, targets, guardrails) else Answer.SEEMS_HELD
    return Answer.SEEMS_MISSED if may_hold(level, targets, guardrails) else Answer.MISSED


def is_clear(level: LevelSummary, targets: Targets, guardrails: Guardrails) -> bool:
    """Whether more blocks would hardly change the answer. A share of errors has no interval, so it is waited for."""
    answer = answer_of(level, targets, guardrails)
    if answer is Answer.MISSED:
        return level.status is LevelStatus.OVERLOADED or could_hold(level, targets, guardrails)
    return answer is Answer.HELD


def is_clearly_missed(one: Tried, targets: Targets, guardrails: Guardrails) -> bool:
    """Whether a listed rate needs no more blocks, and no higher one is measured, since a search follows."""
    enough = len(one.blocks) >= LEAST_BLOCKS or is_settled(one.blocks)
    missed = answer_of(one.level, targets, guardrails) is Answer.MISSED
    return enough and missed and is_clear(one.level, targets, guardrails)


def next_step(tried: Sequence[Tried], plan: LoadPlan, targets: Targets, guardrails: Guardrails) -> Probe | SearchResult:
    """What to measure next, or what was found. `tried` holds the rates of the plan, as far as they are measured at
    all, and those that the search measured since."""
    found = _Found(tried, plan, targets, guardrails)
    for one in found.tried:
        if one.rate_per_s not in plan.rates_per_s and found.goes_on(one):
            return found.more_of(one) or found.result(SearchStatus.BUDGET)
    if found.contradict:
        for one in sorted(found.contradicting(), key=lambda one: (len(one.blocks), one.rate_per_s)):
            if (probe := found.more_of(one)) is not None:
                return probe
        if not found.resolved:
            return found.result(SearchStatus.CONTRADICTION)
    held, missed = found.bracket
    if held is None and missed is None:
        return found.result(SearchStatus.UNDECIDED)
    if held is None or missed is None:
        beyond = SearchStatus.ALL_HELD if missed is None else SearchStatus.NONE_HELD
        rate_per_s = _rounded(held * STEP) if held is not None else _rounded((missed or 0.0) / STEP)
        if rate_per_s > HIGHEST_RATE_PER_S or rate_per_s * (plan.block_duration_s - plan.warm_up_s) < 1:
            return found.result(beyond)
        return found.probe(rate_per_s) or found.result(beyond)
    if missed / held <= 1 + plan.search_precision + ROUNDING:
        for one in found.unclear_ends():
            if (probe := found.more_of(one)) is not None:
                return probe
        return found.result(SearchStatus.FOUND if found.is_decided else SearchStatus.UNDECIDED)
    between = found.crossing(held, missed)
    if found.is_tried(between):  # without a valid result: there is no way between the two
        return found.result(SearchStatus.UNDECIDED)
    return found.probe(between) or found.result(SearchStatus.BUDGET)


def search_result(
    tried: Sequence[Tried], plan: LoadPlan, targets: Targets, guardrails: Guardrails
) -> SearchResult | None:
    """What was found under any targets, whether the search has ended or not; None before anything is measured."""
    if not tried:
        return None
    step = next_step(tried, plan, targets, guardrails)
    if isinstance(step, SearchResult):
        return step
    found = _Found(tried, plan, targets, guardrails)
    return found.result(SearchStatus.OPEN if found.resolved else SearchStatus.CONTRADICTION)


def is_over(levels: Sequence[LevelSummary], plan: LoadPlan, targets: Targets, guardrails: Guardrails) -> bool:
    """Whether no rate is going to be measured any more, by the levels alone. Blocks that a level leaves out are not
    known here: where there are such, the answer may be no although the search has ended."""
    tried = [Tried(level, (level.status,) * level.blocks) for level in levels]
    listed = [one for one in tried if one.rate_per_s in plan.rates_per_s]
    if len(listed) < len(plan.rates_per_s) and not any(is_clearly_missed(one, targets, guardrails) for one in listed):
        return False
    return isinstance(next_step(tried, plan, targets, guardrails), SearchResult)


def further_blocks(tried: Sequence[Tried], plan: LoadPlan) -> int:
    """How many blocks the search measured on top of those that the plan gives the listed rates."""
    planned = dict.fromkeys(plan.rates_per_s, plan.blocks)
    return sum(max(0, len(one.blocks) - planned.get(one.rate_per_s, 0)) for one in tried)


class _Found:
    """What was measured so far, and what follows from it."""

    def __init__(self, tried: Sequence[Tried], plan: LoadPlan, targets: Targets, guardrails: Guardrails) -> None:
        self.tried = sorted(tried, key=lambda one: one.rate_per_s)
        self._plan, self._targets, self._guardrails = plan, targets, guardrails
        self._answers = {one.rate_per_s: answer_of(one.level, targets, guardrails) for one in self.tried}
        held, missed = self._rates(Answer.HELD, Answer.SEEMS_HELD), self._rates(Answer.MISSED, Answer.SEEMS_MISSED)
        self.contradict = bool(held and missed and max(held) > min(missed))
        self._surely_held, self._surely_missed = self._rates(Answer.HELD), self._rates(Answer.MISSED)
        # Latency grows with the rate: what is sure of one rate is sure of those below it, or above it.
        floor, ceiling = max(self._surely_held, default=0.0), min(self._surely_missed, default=float("inf"))
        self.resolved = floor < ceiling
        held, missed = [rate for rate in held if rate < ceiling], [rate for rate in missed if rate > floor]
        if self.resolved and held and missed and max(held) > min(missed):
            self.resolved = False
        self.bracket = (max(held, default=None), min(missed, default=None))

    def _rates(self, *answers: Answer) -> list[float]:
        return [rate for rate, answer in self._answers.items() if answer in answers]

    def contradicting(self) -> list[Tried]:
        """The unsure rates that are missed below one held or held above one missed, and may have more blocks."""
        highest = max(self._rates(Answer.HELD, Answer.SEEMS_HELD))
        lowest = min(self._rates(Answer.MISSED, Answer.SEEMS_MISSED))
        return [
            one
            for one in self.tried
            if lowest <= one.rate_per_s <= highest
            and self._answers[one.rate_per_s] in (Answer.SEEMS_HELD, Answer.SEEMS_MISSED)
            and len(one.blocks) < most_blocks(self._plan)
        ]

    @property
    def is_decided(self) -> bool:
        """Whether the rates that are sure enclose the true one to within the precision, up or down of their middle."""
        low, high = self._enclosed
        return low is not None and high is not None and high / low <= (1 + self._plan.search_precision) ** 2 + ROUNDING

    @property
    def _enclosed(self) -> tuple[float | None, float | None]:
        return max(self._surely_held, default=None), min(self._surely_missed, default=None)

    def goes_on(self, one: Tried) -> bool:
        """Whether a rate of the search has not the blocks yet that it is believed from."""
        return len(one.blocks) < min(LEAST_BLOCKS, self._plan.blocks) and not is_settled(one.blocks)

    def unclear_ends(self) -> list[Tried]:
        """Of the highest rate held and the lowest one missed, which may become clear; the one of fewer blocks first."""
        ends = [
            one
            for one in self.tried
            if one.rate_per_s in self.bracket
            and len(one.blocks) < self._plan.blocks
            and not is_clear(one.level, self._targets, self._guardrails)
        ]
        return sorted(ends, key=lambda one: len(one.blocks))

    def is_tried(self, rate_per_s: float) -> bool:
        return rate_per_s in self._answers

    def probe(self, rate_per_s: float) -> Probe | None:
        """The first block of a further rate; None where no further one may be measured."""
        if self.is_tried(rate_per_s):
            return None
        return Probe(rate_per_s, 0) if self._may_ask(rate_per_s) else None

    def more_of(self, one: Tried) -> Probe | None:
        return Probe(one.rate_per_s, len(one.blocks)) if self._may_ask(one.rate_per_s) else None

    def crossing(self, held: float, missed: float) -> float:
        """Where between the two the target is likely crossed, as the next rate to measure.

        Straight between the logarithms of latency and rate (a queue's latency curves up, so this is rather below the
        true crossing, never far beyond it), and at least a fifth of the way from either end, since an end may be odd.
        Where the crossing is within the precision of an end, it is the rate that ends the search if it comes out as
        expected.
        """
        low, high, step = log(held), log(missed), log(1 + self._plan.search_precision)
        below, above = self._excess(held), self._excess(missed)
        if below is None or above is None or not below < 0 < above:
            return _rounded(exp((low + high) / 2), held, missed)
        at = low - below / (above - below) * (high - low)
        if at < low + step:
            at = low + step
        elif at > high - step:
            at = high - step
        least = (high - low) * LEAST_PART
        return _rounded(exp(min(max(at, low + least), high - least)), held, missed)

    def _excess(self, rate_per_s: float) -> float | None:
        """How far the latency is above what is allowed, as a logarithm; None where it has none that means something."""
        level = next(one.level for one in self.tried if one.rate_per_s == rate_per_s)
        ttft, tpot = level.ttft_p90_ms.value, level.tpot_p90_ms.value
        if level.status is not LevelStatus.OK or not ttft or not could_hold(level, self._targets, self._guardrails):
            return None
        excess = log(ttft / self._targets.ttft_p90_ms)
        return excess if not tpot else max(excess, log(tpot / self._guardrails.tpot_p90_ms))

    def _may_ask(self, rate_per_s: float) -> bool:
        """The limit on the requests of a candidate holds for listed and further rates together."""
        if further_blocks(self.tried, self._plan) >= self._plan.search_most_blocks:
            return False
        asked = sum(one.rate_per_s * len(one.blocks) for one in self.tried) + rate_per_s
        return asked * self._plan.block_duration_s <= MAX_REQUESTS

    @property
    def _further(self) -> int:
        return sum(one.rate_per_s not in self._plan.rates_per_s for one in self.tried)

    def result(self, status: SearchStatus) -> SearchResult:
        held, missed = self.bracket
        surely_held, surely_missed = self._enclosed
        precision = missed / held - 1 if held is not None and missed is not None and missed > held else None
        return SearchResult(
            status=status,
            highest_held=held,
            lowest_missed=missed,
            surely_held=surely_held,
            surely_missed=surely_missed,
            precision=precision,
            rates=self._further,
            requests=sum(one.level.n_requests for one in self.tried),
            sentence=" ".join([self._sentence(status, precision), *self._asides(status)]),
        )

    def _sentence(self, status: SearchStatus, precision: float | None) -> str:
        held, missed = (wording.rate(rate) for rate in self.bracket)
        rates = [one.rate_per_s for one in self.tried if self._answers[one.rate_per_s] is not Answer.NONE]
        if not rates:
            return "No rate gave a valid result."
        if status is SearchStatus.CONTRADICTION:
            highest = wording.rate(max(self._rates(Answer.HELD, Answer.SEEMS_HELD)))
            lowest = wording.rate(min(self._rates(Answer.MISSED, Answer.SEEMS_MISSED)))
            return f"Contradiction: {highest} is held while the lower {lowest} is missed; measure with more blocks."
        if self.bracket[0] is None:
            return f"No rate is held, down to {wording.rate(min(rates))}."
        if self.bracket[1] is None:
            return f"Every rate is held, up to {wording.rate(max(rates))}."
        apart = "" if precision is None else f", {100 * precision:.0f} % apart"
        if status is SearchStatus.UNDECIDED:
            return f"Undecided {self._between()}: by the estimates it holds {held} and misses {missed}{apart}."
        said = f"Holds {held}; misses {missed}{apart}"
        if status is SearchStatus.BUDGET:
            return f"{said}: ended at the most that the search may measure."
        if status is SearchStatus.OPEN:
            return f"{said}: not narrowed down to {100 * self._plan.search_precision:g} %."
        return f"{said} (precision asked for: {100 * self._plan.search_precision:g} %)."

    def _between(self) -> str:
        low, high = self._enclosed
        if low is None:
            return f"below {wording.rate(high)}" if high is not None else "at every rate"
        return f"above {wording.rate(low)}" if high is None else f"between {wording.rate(low)} and {wording.rate(high)}"

    def _asides(self, status: SearchStatus) -> list[str]:
        said: list[str] = []
        if len(self._rates(Answer.NONE)) == len(self._answers):
            return said
        if self.contradict and status is not SearchStatus.CONTRADICTION:
            low, high = self._enclosed
            odd = [
                wording.rate(rate)
                for rate, answer in self._answers.items()
                if (answer is Answer.SEEMS_MISSED and low is not None and rate < low)
                or (answer is Answer.SEEMS_HELD and high is not None and rate > high)
            ]
            if odd:
                said.append(f"The estimate at {wording.listed(odd)} contradicts rates that are sure, which count.")
        invalid = [wording.rate(rate) for rate in self._rates(Answer.NONE)]
        if invalid:
            said.append(f"Without a valid result: {wording.listed(invalid)}.")
        return said


def _rounded(rate_per_s: float, above: float = 0.0, below: float = float("inf")) -> float:
    """A rate that the search chooses, with few digits. Between two that are very near to each other it keeps all."""
    rounded = float(f"{rate_per_s:.{SIGNIFICANT_DIGITS}g}")
    return rounded if above < rounded < below else rate_per_s
