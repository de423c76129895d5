"""The recommendation against a brute-force oracle, and its sentences in the cases that matter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.domain.recommend import Contender, RecommendationKind, recommend
from kitedash.domain.results import Estimate
from kitedash.domain.targets import Status

FINE = Contender(
    name="fp8",
    measured=True,
    rate_per_s=4.0,
    ttft_p90_ms=Estimate(812, 700, 900, 400),
    deployed_usd=Estimate(0.9, 0.6, 1.0, 400),
    pass_rate=Estimate(0.71, 0.62, 0.8, 96),
    ttft_status=Status.MEETS,
    cost_status=Status.MEETS,
    pass_rate_status=Status.MEETS,
    verdicts=(("kitedash_repo", "pass"), ("hellaswag_100", "pass")),
)


def test_the_cheapest_that_meets_everything() -> None:
    dearer = replace(FINE, name="float32", deployed_usd=Estimate(1.2, 1.0, 1.3, 400))
    cheap_but_uncertain = replace(
        FINE, name="int8", deployed_usd=Estimate(0.3, 0.2, 0.4, 400), pass_rate_status=Status.UNCERTAIN
    )
    cheap_but_failed = replace(
        FINE, name="int4", deployed_usd=Estimate(0.2), verdicts=(("kitedash_repo", "fail"), ("hellaswag_100", "pass"))
    )
    found = recommend([dearer, cheap_but_uncertain, FINE, cheap_but_failed])
    assert (found.candidate, found.established, found.kind) == ("fp8", True, RecommendationKind.ESTABLISHED)
    assert found.sentence == (
        "fp8 is recommended, the cheapest of 2 candidates that meet all three targets and pass on every suite "
        "(0.900 USD per 1,000 requests deployed, P90 TTFT 812 ms at 4/s, pass rate 71.0 %)."
    )


def test_the_baseline_needs_no_verdict_against_itself() -> None:
    baseline = replace(FINE, name="float32", verdicts=(("kitedash_repo", "baseline"), ("hellaswag_100", "baseline")))
    assert recommend([baseline]).candidate == "float32"
    assert "the only candidate that meets all three targets and passes on every suite" in recommend([baseline]).sentence


@pytest.mark.parametrize("kind", ["inconclusive", "uninformative", "pending"])
def test_anything_but_a_pass_is_no_pass(kind: str) -> None:
    shaky = replace(FINE, verdicts=(("kitedash_repo", "pass"), ("hellaswag_100", kind)), settles=("about 500 items",))
    found = recommend([shaky])
    assert (found.candidate, found.established, found.kind) == ("fp8", False, RecommendationKind.LEADING)
    assert found.sentence.startswith("Not established: fp8 leads (")
    assert found.sentence.endswith(f"but quality on hellaswag_100 is {kind}.")
    assert found.settles == ("about 500 items",)


def test_who_leads() -> None:
    one_open = replace(FINE, name="one open", ttft_status=Status.UNCERTAIN)
    two_open = replace(
        FINE, name="two open", deployed_usd=Estimate(0.1), ttft_status=Status.UNCERTAIN, cost_status=Status.UNCERTAIN
    )
    a_miss = replace(FINE, name="a miss", deployed_usd=Estimate(0.1), cost_status=Status.MISSES)
    assert recommend([a_miss, two_open, one_open]).candidate == "one open"
    cheaper = replace(one_open, name="cheaper", deployed_usd=Estimate(0.8))
    assert recommend([a_miss, two_open, one_open, cheaper]).candidate == "cheaper"
    no_rate = replace(
        FINE, name="no rate", rate_per_s=None, ttft_status=Status.UNCERTAIN, ttft_p90_ms=None, deployed_usd=None
    )
    assert recommend([no_rate, two_open]).candidate == "two open"


def test_when_everyone_misses_nobody_is_recommended() -> None:
    dear = replace(FINE, name="dear", cost_status=Status.MISSES, settles=("nothing",))
    worse = replace(
        FINE, name="worse", cost_status=Status.MISSES, verdicts=(("kitedash_repo", "fail"), ("hellaswag_100", "pass"))
    )
    unmeasured = replace(
        FINE, name="crashed", measured=False, rate_per_s=None, ttft_status=Status.PENDING, cost_status=Status.PENDING
    )
    found = recommend([worse, dear, unmeasured])
    assert found.candidate is None
    assert not found.established
    assert (found.kind, found.nearest) == (RecommendationKind.NEAREST, "dear")
    assert found.sentence == (
        "No candidate can be recommended: each of the 2 measured ones misses a target or fails a suite. The nearest is "
        "dear: it misses cost per 1,000 requests (0.900 USD per 1,000 requests deployed, P90 TTFT 812 ms at 4/s, "
        "pass rate 71.0 %). Not measured: 1 more."
    )


def test_nothing_measured() -> None:
    waiting = replace(FINE, measured=False, rate_per_s=None, ttft_status=Status.PENDING)
    for contenders in ([], [waiting]):
        found = recommend(contenders)
        assert (found.candidate, found.kind) == (None, RecommendationKind.NOTHING_MEASURED)


def test_equal_costs_go_to_the_faster() -> None:
    slower = replace(FINE, name="slower", ttft_p90_ms=Estimate(900, 800, 950, 400))
    assert recommend([slower, FINE]).candidate == "fp8"
    better = replace(FINE, name="better", pass_rate=Estimate(0.8, 0.7, 0.9, 96))
    assert recommend([FINE, better]).candidate == "better"


statuses = st.sampled_from(Status)
kinds = st.sampled_from(["pass", "fail", "inconclusive", "uninformative", "baseline", "pending"])
contenders = st.builds(
    lambda cost, ttft, a, b, c, v, w: replace(
        FINE,
        deployed_usd=Estimate(cost),
        ttft_p90_ms=Estimate(ttft),
        ttft_status=a,
        cost_status=b,
        pass_rate_status=c,
        verdicts=(("repo", v), ("public", w)),
    ),
    st.integers(1, 5).map(float),
    st.integers(1, 5).map(float),
    st.one_of(st.just(Status.MEETS), statuses),
    st.one_of(st.just(Status.MEETS), statuses),
    st.one_of(st.just(Status.MEETS), statuses),
    st.one_of(st.just("pass"), kinds),
    st.one_of(st.just("pass"), kinds),
)


@given(st.lists(contenders, min_size=1, max_size=8))
def test_the_rule_by_brute_force(drawn: list[Contender]) -> None:
    named = [replace(contender, name=f"c{i}") for i, contender in enumerate(drawn)]
    found = recommend(named)
    allowed = {
        c.name: c.deployed_usd.value
        for c in named
        if c.ttft_status == c.cost_status == c.pass_rate_status == "meets"
        and not {kind for _, kind in c.verdicts} - {"pass", "baseline"}
        and c.deployed_usd
    }
    assert found.established == bool(allowed)
    if allowed:
        assert found.candidate in allowed
        assert allowed[found.candidate] == min(allowed.values())
    elif found.candidate is not None:
        leading = next(c for c in named if c.name == found.candidate)
        assert not leading.missed
        assert leading.open
    else:
        assert all(c.missed for c in named)
        assert found.nearest in {c.name for c in named}
