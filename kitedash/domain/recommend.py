"""Which candidate to ship, or what is still missing to say so.

Recommended is the cheapest candidate (deployed) that meets all three targets and whose quality verdict is a pass on
every suite; the baseline needs no verdict against itself. When there is none, the leading candidate is named as "not
established", with what would settle it. Only measured points are ever recommended, and nothing is hidden: the others
keep their own statuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kitedash.domain import wording
from kitedash.domain.results import Estimate
from kitedash.domain.targets import Status, candidate_status

PASSING_VERDICTS = frozenset({"pass", "baseline"})
TARGET_NAMES = ("P90 TTFT", "cost per 1,000 requests", "pass rate")


@dataclass(frozen=True)
class Contender:
    """What the rule looks at. `verdicts` has one (suite, kind) for every suite of the experiment."""

    name: str
    measured: bool  # at least one valid load level is stored
    rate_per_s: float | None  # the highest rate held
    ttft_p90_ms: Estimate | None
    deployed_usd: Estimate | None
    pass_rate: Estimate | None
    ttft_status: Status
    cost_status: Status
    pass_rate_status: Status
    verdicts: tuple[tuple[str, str], ...] = ()
    settles: tuple[str, ...] = ()

    @property
    def statuses(self) -> tuple[Status, Status, Status]:
        return self.ttft_status, self.cost_status, self.pass_rate_status

    @property
    def missed(self) -> list[str]:
        """Targets missed and suites failed, in words."""
        targets = [name for name, status in zip(TARGET_NAMES, self.statuses, strict=True) if status == Status.MISSES]
        return targets + [f"quality on {suite}" for suite, kind in self.verdicts if kind == "fail"]

    @property
    def open(self) -> list[str]:
        """What is neither established nor lost, in words."""
        still = (Status.UNCERTAIN, Status.PENDING)
        targets = [
            f"{name} is {status.value}"
            for name, status in zip(TARGET_NAMES, self.statuses, strict=True)
            if status in still
        ]
        suites = [
            f"quality on {suite} is {kind}"
            for suite, kind in self.verdicts
            if kind != "fail" and kind not in PASSING_VERDICTS
        ]
        return targets + suites

    @property
    def is_established(self) -> bool:
        return candidate_status(self.statuses) == Status.MEETS and all(
            kind in PASSING_VERDICTS for _, kind in self.verdicts
        )


class RecommendationKind(StrEnum):
    ESTABLISHED = "established"
    LEADING = "leading"  # misses nothing, but not everything is established
    NEAREST = "nearest"  # every candidate misses something
    NOTHING_MEASURED = "nothing measured"


@dataclass(frozen=True)
class Recommendation:
    """`candidate` is the recommended or the leading one; None when every candidate misses something."""

    candidate: str | None
    established: bool
    sentence: str
    settles: tuple[str, ...] = ()
    kind: RecommendationKind = RecommendationKind.NOTHING_MEASURED
    nearest: str | None = None  # the candidate that comes closest when none can be recommended


def recommend(contenders: Sequence[Contender]) -> Recommendation:
    """Apply the rule to all candidates of an experiment, given in their order of the experiment."""
    established = [contender for contender in contenders if contender.is_established]
    measured = [contender for contender in contenders if contender.measured]
    unmeasured = len(contenders) - len(measured)
    more = f" Not measured: {unmeasured} more." if unmeasured else ""
    if established:
        best = min(established, key=_cheapest_first)
        sentence = _recommended(best, len(established)) + more
        return Recommendation(best.name, True, sentence, kind=RecommendationKind.ESTABLISHED)
    if not measured:
        return Recommendation(None, False, "No candidate has been measured, so none can be recommended.")
    best = min(measured, key=_leading_first)
    if best.missed:
        who = "the only measured one" if len(measured) == 1 else f"each of the {len(measured)} measured ones"
        sentence = (
            f"No candidate can be recommended: {who} misses a target or fails a suite. The nearest is {best.name}: "
            f"it misses {wording.listed(best.missed)}{_numbers(best)}.{more}"
        )
        return Recommendation(None, False, sentence, best.settles, RecommendationKind.NEAREST, best.name)
    sentence = f"Not established: {best.name} leads{_numbers(best)}, but {wording.listed(best.open)}.{more}"
    return Recommendation(best.name, False, sentence, best.settles, RecommendationKind.LEADING)


def _cheapest_first(contender: Contender) -> tuple[float, float, float]:
    """Whole replicas often cost the same: then the lower P90 TTFT, then the higher pass rate, then the order given."""
    return (
        _or_worst(contender.deployed_usd),
        _or_worst(contender.ttft_p90_ms),
        -contender.pass_rate.value if contender.pass_rate and contender.pass_rate.value is not None else 0.0,
    )


def _leading_first(contender: Contender) -> tuple[int, int, int, float, float, float]:
    """Fewest misses, then one that holds a rate, then fewest open questions, then the cheapest."""
    holds = contender.rate_per_s is not None
    return len(contender.missed), 0 if holds else 1, len(contender.open), *_cheapest_first(contender)


def _or_worst(estimate: Estimate | None) -> float:
    return estimate.value if estimate is not None and estimate.value is not None else float("inf")


def _recommended(best: Contender, established: int) -> str:
    among = (
        "the only candidate that meets" if established == 1 else f"the cheapest of {established} candidates that meet"
    )
    verdict = "passes on every suite" if established == 1 else "pass on every suite"
    return f"{best.name} is recommended, {among} all three targets and {verdict}{_numbers(best)}."


def _numbers(contender: Contender) -> str:
    parts = []
    if contender.deployed_usd is not None and contender.deployed_usd.value is not None:
        parts.append(f"{wording.usd(contender.deployed_usd.value)} per 1,000 requests deployed")
    if (
        contender.ttft_p90_ms is not None
        and contender.ttft_p90_ms.value is not None
        and contender.rate_per_s is not None
    ):
        parts.append(
            f"P90 TTFT {wording.milliseconds(contender.ttft_p90_ms.value)} at {wording.rate(contender.rate_per_s)}"
        )
    if contender.pass_rate is not None and contender.pass_rate.value is not None:
        parts.append(f"pass rate {wording.percent(contender.pass_rate.value)}")
    return f" ({', '.join(parts)})" if parts else ""
