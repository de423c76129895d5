"""The search against levels whose latencies are written down here, and against curves that are drawn at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, sqrt
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitedash.domain.experiment import Guardrails, LoadPlan, Targets
from kitedash.domain.experiment_file import MAX_REQUESTS
from kitedash.domain.rate_search import (
    HIGHEST_RATE_PER_S,
    Answer,
    Probe,
    SearchResult,
    SearchStatus,
    Tried,
    answer_of,
    further_blocks,
    is_clear,
    is_clearly_missed,
    is_over,
    next_step,
    search_result,
)
from kitedash.domain.results import Estimate, LevelStatus
from kitedash.domain.run_plan import is_settled, planned_blocks
from tests.unit.domain.levels import level, spread

TARGET_MS = 500
TARGETS = Targets(ttft_p90_ms=TARGET_MS, cost_per_1000_requests_usd=1, pass_rate=0.5)
GUARDRAILS = Guardrails(tpot_p90_ms=100, error_rate=0.01)
OK, OVER, INVALID = LevelStatus.OK, LevelStatus.OVERLOADED, LevelStatus.INVALID


def plan(*rates: float, **changes: object) -> LoadPlan:
    given = {"blocks": 6, "block_duration_s": 30, "search": True, "search_precision": 0.1, "search_most_blocks": 30}
    return LoadPlan.model_validate({"rates_per_s": rates or (2, 4, 8), **given, **changes})


def tried(
    rate: float,
    ms: float,
    *,
    sure: bool = True,
    blocks: int = 6,
    status: LevelStatus = OK,
    tpot_ms: float = 20,
    error_rate: float = 0.0,
) -> Tried:
    """P90 TTFT `ms`, its interval 1 % wide or, unless `sure`, from a tenth to ten times."""
    ttft = spread(ms, 0.99 * ms, 1.01 * ms) if sure else spread(ms, ms / 10, ms * 10)
    tpot = Estimate(tpot_ms, 0.99 * tpot_ms, 1.01 * tpot_ms, 400)
    summary = level(rate, ttft, tpot=tpot, status=status, error_rate=error_rate, blocks=blocks)
    return Tried(summary, (status,) * blocks)


def step(of: LoadPlan, *measured: Tried) -> Probe | SearchResult:
    return next_step(measured, of, TARGETS, GUARDRAILS)


def ended(of: LoadPlan, *measured: Tried) -> SearchResult:
    found = step(of, *measured)
    assert isinstance(found, SearchResult), found
    return found


@pytest.mark.parametrize(
    ("one", "answer", "clear"),
    [
        (tried(4, 400), Answer.HELD, True),
        (tried(4, 400, sure=False), Answer.SEEMS_HELD, False),
        (tried(4, 600, sure=False), Answer.SEEMS_MISSED, False),
        (tried(4, 600), Answer.MISSED, True),
        (tried(4, 400, tpot_ms=120), Answer.MISSED, True),
        (tried(4, 400, status=OVER), Answer.MISSED, True),
        (tried(4, 400, status=INVALID), Answer.NONE, False),
        (tried(4, 400, error_rate=0.05), Answer.MISSED, False),  # a share of errors has no interval
    ],
)
def test_what_a_rate_answers(one: Tried, answer: Answer, clear: bool) -> None:
    assert answer_of(one.level, TARGETS, GUARDRAILS) is answer
    assert is_clear(one.level, TARGETS, GUARDRAILS) is clear


@pytest.mark.parametrize(
    ("one", "ends"),
    [
        (tried(4, 600, blocks=3), True),
        (tried(4, 600, blocks=2), False),  # two odd blocks are no answer
        (tried(4, 600, blocks=2, status=OVER), True),
        (tried(4, 600, blocks=1, status=OVER), False),
        (tried(4, 600, blocks=3, sure=False), False),
        (tried(4, 400, blocks=3), False),
        (tried(4, 400, blocks=3, error_rate=0.05), False),
        (tried(4, 400, blocks=3, status=INVALID), False),
    ],
)
def test_which_listed_rate_ends_the_listed_ones(one: Tried, ends: bool) -> None:
    assert is_clearly_missed(one, TARGETS, GUARDRAILS) is ends


# The logarithm of the latency goes straight from rate to rate on a logarithmic scale: 500 ms is as far from 250 as
# from 1,000, so the crossing is at the square root of 4 x 8.
@pytest.mark.parametrize(
    ("low", "high", "rate"),
    [
        ((4, 250), (8, 1_000), 5.66),
        ((4, 400), (8, 3_200), 4.59),  # a tenth of the way by the latencies: 4 x 2^0.2
        ((4, 100), (8, 550), 6.96),  # 0.94 of the way: 4 x 2^0.8
        ((4, 450), (6, 2_000), 4.4),  # 7 % of the way: at the precision's distance from 4, which then is the last rate
        ((4, 100), (6, 510), 5.45),  # 99 % of the way: 6 / 1.1
    ],
)
def test_between_two_rates_it_goes_where_the_latencies_cross_the_target(
    low: tuple[float, float], high: tuple[float, float], rate: float
) -> None:
    assert step(plan(), tried(2, 50), tried(*low), tried(*high)) == Probe(rate, 0)


def test_the_slower_of_the_two_conditions_says_where_the_crossing_is() -> None:
    # TPOT from 50 to 200 ms at a guardrail of 100: halfway; TTFT stays far below its target.
    assert step(plan(), tried(4, 100, tpot_ms=50), tried(8, 100, tpot_ms=200)) == Probe(5.66, 0)


@pytest.mark.parametrize(
    "missed",
    [tried(10, 9_000, status=OVER), tried(10, 100, error_rate=0.05), tried(10, inf, blocks=2, status=OVER)],
)
def test_where_no_latency_says_where_the_crossing_is_it_takes_the_geometric_middle(missed: Tried) -> None:
    assert step(plan(2, 4, 10), tried(2, 50), tried(4, 250), missed) == Probe(6.32, 0)  # the square root of 40


def test_a_crossing_between_neighbours_lies_between_them_even_where_rounding_would_not() -> None:
    found = step(plan(1, 1.0201, 1.0415, search_precision=0.02), tried(1.0201, 499), tried(1.0415, 501))
    assert isinstance(found, Probe)
    assert 1.0201 < found.rate_per_s < 1.0415


def test_it_doubles_while_all_are_held_and_halves_while_none_is() -> None:
    assert step(plan(), tried(2, 50), tried(4, 60), tried(8, 70)) == Probe(16, 0)
    assert step(plan(), tried(2, 50), tried(4, 60), tried(8, 70), tried(16, 80)) == Probe(32, 0)
    assert step(plan(), tried(2, 900)) == Probe(1, 0)
    assert step(plan(), tried(2, 900), tried(1, 800)) == Probe(0.5, 0)
    assert step(plan(), tried(2, 900), tried(1, 100)) == Probe(1.66, 0)  # 2^(ln 5 / ln 9)


def test_a_further_rate_gets_three_blocks_before_it_is_believed() -> None:
    held, missed = tried(4, 250), tried(8, 1_000)
    for blocks in (1, 2):
        assert step(plan(), held, missed, tried(5.66, 300, blocks=blocks)) == Probe(5.66, blocks)
    assert step(plan(), held, missed, tried(5.66, 300, blocks=3)) != Probe(5.66, 3)
    assert step(plan(blocks=2), held, missed, tried(5.66, 300, blocks=2)) != Probe(5.66, 2)
    assert step(plan(), held, missed, tried(5.66, 300, blocks=2, status=OVER)) != Probe(5.66, 2)  # settled


def test_listed_rates_near_enough_to_each_other_need_no_further_one() -> None:
    found = ended(plan(4, 4.3, 8), tried(4, 400), tried(4.3, 600, blocks=3))
    assert (found.status, found.highest_held, found.lowest_missed, found.rates) == (SearchStatus.FOUND, 4, 4.3, 0)
    assert (found.surely_held, found.surely_missed) == (4, 4.3)
    assert found.precision == pytest.approx(0.075)
    assert found.requests == 800
    assert found.sentence == "Holds 4/s; misses 4.3/s, 7 % apart (precision asked for: 10 %)."


def test_the_two_ends_get_more_blocks_until_they_are_clear_or_whole_then_it_is_undecided() -> None:
    of, missed = plan(3, 4, 8), tried(4.3, 600, sure=False)
    asked = [tried(4, 400, sure=False), replace(missed, blocks=missed.blocks[:3])]
    assert step(of, *asked) == Probe(4.3, 3)
    found = ended(of, tried(3, 50), tried(4, 400, sure=False), missed)
    assert (found.status, found.highest_held, found.lowest_missed) == (SearchStatus.UNDECIDED, 4, 4.3)
    assert (found.surely_held, found.surely_missed) == (3, None)
    assert found.sentence == "Undecided above 3/s: by the estimates it holds 4/s and misses 4.3/s, 7 % apart."
    assert found.rates == 1


def test_rates_that_are_sure_may_lie_a_little_wider_than_the_two_of_the_answer() -> None:
    # 4.2 is open, but 4 is held and 4.8 missed for sure: 20 %, and 10 % up and down is 21 %.
    near = ended(plan(4, 4.2, 4.8, search_precision=0.15), tried(4, 400), tried(4.2, 480, sure=False), tried(4.8, 600))
    assert near.status is SearchStatus.FOUND
    wide = ended(plan(3, 4.2, 4.8, search_precision=0.15), tried(3, 300), tried(4.2, 480, sure=False), tried(4.8, 600))
    assert wide.status is SearchStatus.UNDECIDED
    assert wide.sentence.startswith("Undecided between 3/s and 4.8/s: ")


def test_at_the_end_of_its_blocks_it_says_what_it_has() -> None:
    of = plan(search_most_blocks=3)
    found = ended(of, tried(2, 50), tried(4, 250), tried(8, 1_000), tried(5.66, 490, blocks=3))
    assert (found.status, found.highest_held, found.lowest_missed) == (SearchStatus.BUDGET, 5.66, 8)
    assert found.precision == pytest.approx(8 / 5.66 - 1)
    assert found.sentence == "Holds 5.66/s; misses 8/s, 41 % apart: ended at the most that the search may measure."
    unfinished = ended(plan(search_most_blocks=2), tried(4, 250), tried(8, 1_000), tried(5.66, 490, blocks=2))
    assert unfinished.status is SearchStatus.BUDGET


def test_blocks_that_a_listed_rate_was_spared_cost_the_search_nothing() -> None:
    of = plan(4, 6, 8)
    assert further_blocks([tried(4, 400), tried(6, 900, blocks=3)], of) == 0
    assert further_blocks([tried(4, 400, blocks=8), tried(5, 500, blocks=4), tried(6, 900, blocks=3)], of) == 2 + 4


def test_none_held_ends_where_a_block_would_have_no_request() -> None:
    # 30 s a block: at 1/16 requests/s two requests, at 1/32 less than one.
    found = ended(plan(0.0625, 4, 8, block_duration_s=30), tried(0.0625, 900), tried(0.0312, 900, status=INVALID))
    assert (found.status, found.highest_held, found.lowest_missed) == (SearchStatus.NONE_HELD, None, 0.0625)
    assert found.sentence == "No rate is held, down to 0.0625/s. Without a valid result: 0.0312/s."
    assert ended(plan(0.05, 4, 8, warm_up_s=0), tried(0.05, 900)).status is SearchStatus.NONE_HELD  # 0.025 x 30 < 1
    assert step(plan(0.05, 4, 8, block_duration_s=60), tried(0.05, 900)) == Probe(0.025, 0)


def test_all_held_ends_at_the_highest_rate_that_may_be_asked_for() -> None:
    rates = (2, 4, 6_000)
    found = ended(plan(*rates, block_duration_s=1), tried(2, 5), tried(4, 5), tried(6_000, 5))
    assert (found.status, found.highest_held, found.lowest_missed) == (SearchStatus.ALL_HELD, 6_000, None)
    assert found.precision is None
    assert found.sentence == "Every rate is held, up to 6000/s."


def test_the_limit_on_requests_holds_for_listed_and_further_rates_together() -> None:
    # Of 1,000,000: six blocks of 30 s at 2,503/s are 450,540, each one at 5,000/s 150,000, one at 10,000/s 300,000.
    of = plan(1, 2, 2_500)
    listed = (tried(1, 5), tried(2, 5), tried(2_500, 5))
    assert step(of, *listed, tried(5_000, 5, blocks=2)) == Probe(5_000, 2)
    found = ended(of, *listed, tried(5_000, 5, blocks=3))
    assert (found.status, found.highest_held) == (SearchStatus.ALL_HELD, 5_000)
    less = plan(1, 2, 2_500, block_duration_s=20)
    assert step(less, *listed, tried(5_000, 5, blocks=3)) == Probe(10_000, 0)


def test_an_answer_that_contradicts_another_gets_more_blocks_up_to_twice_the_plans() -> None:
    of = plan(2, 4, 8)
    low, high = tried(4, 600, sure=False), tried(8, 400, sure=False)
    assert step(of, tried(2, 50), low, high) == Probe(4, 6)
    assert step(of, tried(2, 50), tried(4, 600, sure=False, blocks=7), high) == Probe(8, 6)
    whole = (tried(4, 600, sure=False, blocks=12), tried(8, 400, sure=False, blocks=12))
    found = ended(of, tried(2, 50), *whole)
    assert (found.status, found.highest_held) == (SearchStatus.CONTRADICTION, 8)
    assert found.sentence == "Contradiction: 8/s is held while the lower 4/s is missed; measure with more blocks."


def test_rates_that_are_sure_and_contradict_each_other_are_a_contradiction_at_once() -> None:
    assert ended(plan(), tried(2, 50), tried(4, 600), tried(8, 400)).status is SearchStatus.CONTRADICTION


def test_a_sure_rate_outweighs_an_estimate_that_contradicts_it() -> None:
    odd = tried(2, 600, sure=False, blocks=12)
    found = ended(plan(2, 4, 4.2), odd, tried(4, 400), tried(4.2, 600))
    assert (found.status, found.highest_held, found.lowest_missed) == (SearchStatus.FOUND, 4, 4.2)
    assert found.sentence.endswith("The estimate at 2/s contradicts rates that are sure, which count.")


def test_without_a_valid_result_there_is_no_way_between_two_rates() -> None:
    held, missed = tried(4, 250), tried(8, 1_000)
    found = ended(plan(), tried(2, 50), held, missed, tried(5.66, 1, blocks=3, status=INVALID))
    assert found.status is SearchStatus.UNDECIDED
    assert found.sentence.endswith("Without a valid result: 5.66/s.")
    nothing = ended(plan(), *(tried(rate, 1, blocks=3, status=INVALID) for rate in (2, 4, 8)))
    assert (nothing.status, nothing.sentence) == (SearchStatus.UNDECIDED, "No rate gave a valid result.")


def test_under_other_targets_the_same_levels_say_what_they_can() -> None:
    of = plan(4, 4.3, 8)
    measured = [tried(4, 400), tried(4.3, 600), tried(8, 2_000)]
    wider = Targets(ttft_p90_ms=1_000, cost_per_1000_requests_usd=1, pass_rate=0.5)
    found = search_result(measured, of, wider, GUARDRAILS)
    assert found is not None
    assert (found.status, found.highest_held, found.lowest_missed) == (SearchStatus.OPEN, 4.3, 8)
    assert found.sentence == "Holds 4.3/s; misses 8/s, 86 % apart: not narrowed down to 10 %."
    assert search_result(measured, of, TARGETS, GUARDRAILS) == step(of, *measured)
    assert search_result([], of, TARGETS, GUARDRAILS) is None


def test_it_is_not_over_while_listed_rates_are_still_measured() -> None:
    of, open_ends = plan(4, 4.3, 8), (tried(4, 400, sure=False), tried(4.3, 600, sure=False))
    assert isinstance(step(of, *open_ends), SearchResult)  # of these two alone nothing more would be asked

    def over(*measured: Tried) -> bool:
        return is_over([one.level for one in measured], of, TARGETS, GUARDRAILS)

    assert not over(*open_ends)
    assert over(*open_ends, tried(8, 2_000))
    assert over(tried(4, 400), tried(4.3, 600, blocks=3))  # clearly missed: the listed ones end there
    assert not over(tried(4, 400))
    assert not over(tried(4, 250), tried(8, 9_000, blocks=2, status=OVER))


@dataclass
class World:
    """A server whose P90 is `base_ms` / (1 - rate / capacity), measured with an error that more blocks make smaller."""

    capacity: float
    base_ms: float
    error: float
    invalid: float
    seed: int
    blocks: dict[float, list[LevelStatus]] = field(default_factory=dict)

    def measure(self, rate: float, block: int) -> None:
        blocks = self.blocks.setdefault(rate, [])
        assert block == len(blocks)
        odd = Random(f"{self.seed} {rate} {block}").random() < self.invalid
        blocks.append(INVALID if odd else OVER if rate >= self.capacity else OK)

    def tried(self, rate: float) -> Tried:
        blocks = self.blocks[rate]
        valid = [status for status in blocks if status is not INVALID]
        if not valid:
            return replace(tried(rate, 1, status=INVALID, blocks=0), blocks=tuple(blocks))
        off = self.error / sqrt(len(valid))
        noise = Random(f"{self.seed} {rate} {len(valid)}").gauss(0, off)
        ms = self.base_ms / max(0.01, 1 - rate / self.capacity) * exp(noise)
        few = len(valid) < 3
        ttft = spread(ms, None if few else ms * exp(-2 * off), None if few else ms * exp(2 * off))
        status = OVER if OVER in valid else OK
        requests = round(30 * rate * len(valid))
        return Tried(level(rate, ttft, status=status, blocks=len(valid), n_requests=requests), tuple(blocks))

    @property
    def all(self) -> list[Tried]:
        return [self.tried(rate) for rate in self.blocks]

    def go(self, of: LoadPlan) -> Iterator[Probe]:
        """The listed rates as a run measures them, then what the search asks for."""
        for rate in of.rates_per_s:
            for block in range(of.blocks):
                self.measure(rate, block)
                over = is_clearly_missed(self.tried(rate), TARGETS, GUARDRAILS)
                if over or is_settled(self.blocks[rate]):
                    break
            if is_clearly_missed(self.tried(rate), TARGETS, GUARDRAILS):
                break
        while isinstance(asked := next_step(self.all, of, TARGETS, GUARDRAILS), Probe):
            yield asked
            self.measure(asked.rate_per_s, asked.block)


@settings(max_examples=120, deadline=None)
@given(
    capacity=st.floats(0.02, 5_000),
    base_ms=st.floats(1, 700),
    error=st.sampled_from([0.0, 0.05, 0.3, 1.5]),
    invalid=st.sampled_from([0.0, 0.0, 0.2, 0.9]),
    seed=st.integers(0, 10**6),
    rates=st.sampled_from([(2, 4, 8), (1, 1.03, 1.06), (0.1, 5, 300), (1, 2, 3, 4, 5)]),
    blocks=st.integers(2, 8),
    precision=st.sampled_from([0.02, 0.1, 0.5]),
    most=st.integers(2, 40),
)
def test_it_always_ends_within_its_limits_and_goes_on_the_same_after_a_restart(
    capacity: float,
    base_ms: float,
    error: float,
    invalid: float,
    seed: int,
    rates: tuple[float, ...],
    blocks: int,
    precision: float,
    most: int,
) -> None:
    of = plan(*rates, blocks=blocks, search_precision=precision, search_most_blocks=most)
    world, asked = World(capacity, base_ms, error, invalid, seed), set[tuple[float, int]]()
    for probe in world.go(of):
        assert (probe.rate_per_s, probe.block) not in asked
        asked.add((probe.rate_per_s, probe.block))
        assert probe.block == len(world.blocks.get(probe.rate_per_s, []))
        assert probe.block < 2 * of.blocks
        assert 1 / 30 <= probe.rate_per_s <= HIGHEST_RATE_PER_S
        assert further_blocks(world.all, of) < most
        assert next_step(world.all[::-1], of, TARGETS, GUARDRAILS) == probe  # from what is stored alone, in any order
    measured = world.all
    assert further_blocks(measured, of) <= most
    assert sum(map(len, world.blocks.values())) <= planned_blocks(of)
    assert sum(30 * rate * len(done) for rate, done in world.blocks.items()) <= MAX_REQUESTS
    found = next_step(measured, of, TARGETS, GUARDRAILS)
    assert isinstance(found, SearchResult)
    assert search_result(measured, of, TARGETS, GUARDRAILS) == found
    assert _agrees(found, measured)
    if not any(INVALID in done for done in world.blocks.values()):
        assert is_over([one.level for one in measured], of, TARGETS, GUARDRAILS)


def _agrees(found: SearchResult, measured: Sequence[Tried]) -> bool:
    rates = {one.rate_per_s for one in measured}
    ends = {found.highest_held, found.lowest_missed, found.surely_held, found.surely_missed} - {None}
    in_order = found.highest_held is None or found.lowest_missed is None or found.highest_held < found.lowest_missed
    return ends <= rates and (in_order or found.status is SearchStatus.CONTRADICTION) and found.sentence.endswith(".")


@pytest.mark.parametrize("capacity", [0.9, 3.7, 8.5, 41.0])
@pytest.mark.parametrize("precision", [0.03, 0.1, 0.3])
def test_without_noise_the_answer_encloses_the_truth_to_within_the_precision(capacity: float, precision: float) -> None:
    # base / (1 - rate / capacity) = target at rate = capacity x (1 - 100 / 500): 0.8 of the capacity.
    world = World(capacity, base_ms=100, error=0, invalid=0, seed=1)
    of = plan(search_precision=precision, search_most_blocks=100)
    for _ in world.go(of):
        pass
    found = next_step(world.all, of, TARGETS, GUARDRAILS)
    assert isinstance(found, SearchResult)
    assert found.status is SearchStatus.FOUND
    assert found.highest_held is not None
    assert found.lowest_missed is not None
    assert found.highest_held <= 0.8 * capacity < found.lowest_missed <= found.highest_held * (1 + precision) + 1e-9
    assert found.rates <= 12
