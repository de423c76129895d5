"""The noise floor of an experiment from what is stored of its two measurements of the baseline."""

from __future__ import annotations

from kitedash.domain import comparison, cost, noise, wording
from kitedash.domain.comparison import Side
from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.noise import NoiseFloor
from kitedash.domain.results import LevelSummary, RunStatus
from kitedash.domain.targets import Status
from kitedash.services.evidence import ExperimentEvidence
from kitedash.services.pricing import Priced
from kitedash.services.views import CandidateView, TradeoffView

_NEVER = {
    RunStatus.FAILED: "measuring the baseline again failed",
    RunStatus.CANCELLED: "measuring the baseline again was cancelled",
}


def noise_of(evidence: ExperimentEvidence, priced: Priced, targets: Targets, guardrails: Guardrails) -> NoiseFloor:
    """`priced`: of the baseline's device. Its cost, and so the floor of the cost, depends on the limits."""
    twice = evidence.twice
    if twice is None:
        return noise.not_measured(noise.NOT_ASKED)
    if twice.status is not RunStatus.FINISHED:
        return noise.not_measured(_NEVER.get(twice.status, "the baseline is yet to be measured again"))
    if twice.differs:
        return noise.not_measured(twice.differs)

    def usd(levels: tuple[LevelSummary, ...]) -> float | None:
        if priced.usd_per_hour is None:
            return None
        held = cost.held_range(levels, targets, guardrails)
        return cost.deployed_cost(levels, held, priced.usd_per_hour, priced.devices, evidence.spec.workload).value

    return noise.noise_floor(
        twice.first,
        twice.again,
        first_usd=usd(twice.first),
        again_usd=usd(twice.again),
        priced=priced.usd_per_hour is not None,
    )


def cost_could_swap(mine: CandidateView, theirs: CandidateView, view: TradeoffView) -> bool:
    """Whether one of two candidates, its latencies moved by the noise floor, would cost what the other does."""
    return view.noise.is_measured and (_reaches(mine, theirs, view) or _reaches(theirs, mine, view))


def _reaches(one: CandidateView, other: CandidateView, view: TradeoffView) -> bool:
    if one.cost is None or other.cost is None:
        return False
    price, devices = one.cost.price_usd_per_hour, one.devices
    could_cost = noise.cost_range(
        [level.summary for level in one.levels],
        view.noise,
        view.targets,
        view.guardrails,
        lambda rate_per_s: cost.deployed_cost_usd(price, devices, rate_per_s, view.spec.workload),
    )
    return noise.reaches(could_cost, other.cost.deployed_usd.value)


def near_the_recommended(view: TradeoffView) -> tuple[str, ...]:
    """A sentence where noise alone put the recommended or leading candidate before others that miss nothing."""
    best = next((one for one in view.candidates if one.name == view.recommendation.candidate), None)
    if best is None or not view.noise.is_measured:
        return ()
    near = [
        one.name
        for one in view.candidates
        if one is not best
        and Status.MISSES not in (one.ttft_status, one.cost_status, one.pass_rate_status)
        and all(suite.verdict != "fail" for suite in one.suites)
        and _is_order_noise(best, one, view)
    ]
    if not near:
        return ()
    verb = "differs" if len(near) == 1 else "differ"
    return (
        f"{wording.listed(near)} {verb} from {best.name} by noise only in what the recommendation goes by (cost, and "
        "where that is equal P90 TTFT): which of them is ahead is not established.",
    )


def noise_apart(one: CandidateView, other: CandidateView, view: TradeoffView) -> bool:
    """Whether two candidates with equal pass rates differ in P90 TTFT and cost by no more than noise."""
    if not view.noise.is_measured or one.three_numbers is None or other.three_numbers is None:
        return False
    same_pass_rate = one.three_numbers[2] == other.three_numbers[2]
    return same_pass_rate and set(_outcomes(one, other, view)) <= {"equal", "noise"}


def _is_order_noise(best: CandidateView, other: CandidateView, view: TradeoffView) -> bool:
    by_cost, by_ttft = _outcomes(best, other, view)
    return by_cost == "noise" or (by_cost == "equal" and by_ttft == "noise")


def _outcomes(best: CandidateView, other: CandidateView, view: TradeoffView) -> tuple[str, str]:
    """Of their difference in cost and in P90 TTFT."""
    if best.cost is None or other.cost is None or best.point is None or other.point is None:
        return "unknown", "unknown"
    by_cost = comparison.cost_difference(
        Side(best.cost.deployed_usd),
        Side(other.cost.deployed_usd),
        view.noise.cost,
        could_swap=cost_could_swap(best, other, view),
    )
    by_ttft = comparison.ttft_difference(
        Side(best.point.summary.ttft_p90_ms), Side(other.point.summary.ttft_p90_ms), view.noise.ttft_p90
    )
    return by_cost.outcome, by_ttft.outcome
