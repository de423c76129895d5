"""Pass rates and verdicts: rules by hand-made answers, error rates by simulations with a known truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from kitedash.domain import paired
from kitedash.domain.proportions import design_effect, wilson
from kitedash.domain.quality import paired_change, pass_rate, verdict
from kitedash.domain.results import Answer


def answers(passed: Sequence[bool | int], *, clusters: Sequence[str] | None = None, prompt: str = "") -> list[Answer]:
    return [
        Answer(
            item_id=f"item-{i}",
            cluster=clusters[i] if clusters else f"item-{i}",
            kind="default_value",
            text="",
            finish_reason="stop",
            score=float(p),
            passed=bool(p),
            prompt_sha256=prompt,
        )
        for i, p in enumerate(passed)
    ]


def pair(both: int, gained: int, lost: int, neither: int) -> tuple[list[Answer], list[Answer]]:
    ours = [1] * both + [1] * gained + [0] * lost + [0] * neither
    theirs = [1] * both + [0] * gained + [1] * lost + [0] * neither
    return answers(ours), answers(theirs)


def test_wilson_is_the_published_one() -> None:
    # Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3 (Wilson without continuity correction).
    assert wilson(81, 263, critical=1.959964) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148, critical=1.959964) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20, critical=1.959964) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29, critical=1.959964) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_pass_rate_counts_what_did_not_pass() -> None:
    found = pass_rate(answers([1] * 15 + [0] * 133))
    assert (found.value, found.n) == (pytest.approx(15 / 148), 148)
    assert (found.low, found.high) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert pass_rate([]).value is None


def test_design_effect_of_whole_clusters_is_their_size() -> None:
    """40 clusters of 5 equal answers hold 40 observations: the effect is 5, but for (n - 1) / n and k / (k - 1)."""
    values = [float(c % 2) for c in range(40) for _ in range(5)]
    clusters = [str(c) for c in range(40) for _ in range(5)]
    expected = (40 / 39) * 40 * (5 * 0.5) ** 2 / 200**2 / (200 * 0.25 / (200 * 199))
    assert design_effect(values, clusters) == pytest.approx(expected)
    assert expected == pytest.approx(5, rel=0.03)


def test_design_effect_never_helps_and_few_clusters_cannot_tell() -> None:
    balanced = [float(i % 2) for i in range(40)]  # every cluster has one of each: less variance than independent items
    assert design_effect(balanced, [str(i // 2) for i in range(40)]) == 1.0
    assert design_effect(balanced, [str(i % 9) for i in range(40)]) is None
    assert "9 clusters" in pass_rate(answers([1, 0] * 20, clusters=[str(i % 9) for i in range(40)])).note


def test_clustered_interval_covers_where_the_naive_one_does_not() -> None:
    random = np.random.default_rng(5)
    clustered = naive = 0
    rounds, truth = 400, 0.6
    labels = [str(c) for c in range(25) for _ in range(4)]
    for _ in range(rounds):
        shares = random.beta(truth * 1.5, (1 - truth) * 1.5, 25)  # strongly alike within a cluster
        passed = random.random(100) < np.repeat(shares, 4)
        found = pass_rate(answers(list(passed), clusters=labels))
        plain = pass_rate(answers(list(passed)))
        assert found.low is not None
        assert found.high is not None
        assert plain.low is not None
        assert plain.high is not None
        clustered += found.low <= truth <= found.high
        naive += plain.low <= truth <= plain.high
    assert clustered / rounds >= 0.92
    assert naive / rounds < 0.90


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ((80, 0, 0, 40), "pass"),  # nothing changed, 120 items: 2.5 points at most
        ((80, 3, 3, 34), "pass"),
        ((70, 3, 9, 38), "inconclusive"),
        ((60, 0, 40, 20), "fail"),
        ((50, 20, 2, 48), "pass"),  # clearly better
    ],
)
def test_verdict_kinds(counts: tuple[int, int, int, int], kind: str) -> None:
    found = verdict(*pair(*counts), margin=0.05, chance=0.1)
    assert found.kind == kind
    assert (found.gained, found.lost, found.n) == (counts[1], counts[2], sum(counts))
    assert found.sentence.lower().startswith(kind)
    assert (found.items_needed is None) == (kind != "inconclusive")


def test_inconclusive_says_how_many_items_would_settle_it() -> None:
    """15 of 120 items changed, 3 lost on balance. Without a true loss: 6.1826 x 0.125 / 0.0025 = 309.1 items."""
    found = verdict(*pair(70, 6, 9, 35), margin=0.05, chance=0.1)
    assert found.kind == "inconclusive"
    assert found.items_needed == 310
    assert "310 items would settle it if nothing is really lost" in found.sentence


def test_inconclusive_with_many_items_plans_on_the_change_that_was_seen() -> None:
    found = verdict(*pair(900, 20, 60, 220), margin=0.05, chance=0.1)  # 3.3 points lost of 1,200
    assert found.kind == "pass"
    found = verdict(*pair(900, 20, 75, 205), margin=0.05, chance=0.1)  # 4.6 points lost
    assert found.kind == "inconclusive"
    assert found.items_needed is not None
    assert found.items_needed > 1200
    assert "change seen" in found.sentence


def test_too_few_items_or_a_baseline_at_chance_cannot_pass() -> None:
    few = verdict(*pair(40, 0, 0, 18), margin=0.05, chance=0.1)
    assert (few.kind, few.items_needed) == ("uninformative", 59)
    assert verdict(*pair(40, 0, 0, 19), margin=0.05, chance=0.1).kind == "pass"
    guessing = verdict(*pair(30, 0, 0, 70), margin=0.05, chance=0.25)  # Wilson of 30 of 100 begins at 21.9 %
    assert guessing.kind == "uninformative"
    assert "25% of guessing" in guessing.sentence
    assert verdict(*pair(0, 0, 30, 70), margin=0.05, chance=0.25).kind == "fail"  # it can still fail


def test_baseline_against_itself_never_fails() -> None:
    for n in (1, 10, 58, 59, 200):
        same = answers([i % 3 > 0 for i in range(n)])
        assert verdict(same, same, margin=0.05, chance=0.1).kind in ("pass", "inconclusive", "uninformative")
    broken = [
        a if i % 2 else Answer(a.item_id, "", "", "", "error", 0.0, False, error="HTTP 500") for i, a in enumerate(same)
    ]
    assert verdict(broken, broken, margin=0.05, chance=0.1).kind == "inconclusive"


def test_what_was_not_answered_is_not_passed() -> None:
    ours, theirs = pair(100, 0, 0, 20)
    short = verdict(ours[:80], theirs, margin=0.05, chance=0.1)
    assert (short.kind, short.lost, short.n) == ("fail", 20, 120)
    # The other way round the candidate gains nothing by the baseline's gaps.
    gap = verdict(ours, theirs[:80], margin=0.05, chance=0.1)
    assert (gap.gained, gap.n) == (0, 120)
    assert gap.kind != "pass"  # 20 items that nobody passed are in doubt


def test_different_prompts_do_not_compare() -> None:
    found = verdict(answers([1] * 100, prompt="a"), answers([1] * 100, prompt="b"), margin=0.05, chance=0.1)
    assert found.kind == "uninformative"
    assert "100 of 100" in found.sentence
    assert verdict([], [], margin=0.05, chance=0.1).kind == "uninformative"


def test_margin_must_be_a_share() -> None:
    with pytest.raises(ValueError, match="margin"):
        verdict(answers([1]), answers([1]), margin=5, chance=0)


def test_losses_that_come_in_clusters_weigh_less() -> None:
    """The same 12 lost of 240 items, spread over files or all in three of 60: less is known in the second case."""
    labels = [f"file-{i // 4}" for i in range(240)]
    theirs = answers([1] * 240, clusters=labels)
    spread = verdict(answers([i % 20 > 0 for i in range(240)], clusters=labels), theirs, margin=0.10, chance=0.1)
    heaped = verdict(answers([i >= 12 for i in range(240)], clusters=labels), theirs, margin=0.10, chance=0.1)
    assert spread.design_effect == 1.0
    assert heaped.design_effect == pytest.approx(4, rel=0.05)
    assert spread.change.low is not None
    assert heaped.change.low is not None
    assert heaped.change.low < spread.change.low
    assert (spread.kind, heaped.kind) == ("pass", "inconclusive")


def _simulate(n: int, loss: float, gain: float, *, margin: float, seed: int, rounds: int = 2000) -> dict[str, float]:
    """Shares of verdicts when the truth is known. The baseline passes 70 % of the items."""
    random = np.random.default_rng(seed)
    kinds: dict[tuple[int, int], str] = {}  # a verdict depends on the counts alone: each is decided once
    found: dict[str, float] = {"pass": 0, "fail": 0, "inconclusive": 0, "uninformative": 0}
    for gained, lost, same in random.multinomial(n, [gain, loss, 1 - gain - loss], size=rounds):
        key = (int(gained), int(lost))
        if key not in kinds:
            both = min(int(same), max(0, round(0.7 * n) - int(lost)))
            kinds[key] = verdict(*pair(both, *key, int(same) - both), margin=margin, chance=0.2).kind
        found[kinds[key]] += 1 / rounds
    return found


@pytest.mark.parametrize(
    ("n", "gain", "margin"), [(80, 0.0, 0.05), (96, 0.02, 0.05), (160, 0.05, 0.05), (300, 0.02, 0.03), (100, 0.05, 0.1)]
)
def test_at_a_loss_equal_to_the_margin_false_passes_and_fails_are_rare(n: int, gain: float, margin: float) -> None:
    shares = _simulate(n, gain + margin, gain, margin=margin, seed=n)
    assert shares["pass"] <= 0.062
    assert shares["fail"] <= 0.062


@pytest.mark.parametrize(("n", "changed", "margin"), [(124, 0.05, 0.05), (248, 0.10, 0.05), (344, 0.05, 0.03)])
def test_power_without_a_change_is_what_the_items_were_planned_for(n: int, changed: float, margin: float) -> None:
    """n comes from the table of items needed for power 80 %. The score interval is a little wider than the normal
    approximation that made the table, so a few points less are due; far less would be an error."""
    shares = _simulate(n, changed / 2, changed / 2, margin=margin, seed=n)
    assert 0.70 <= shares["pass"] <= 0.88
    assert shares["fail"] <= 0.002


def test_a_loss_of_twice_the_margin_is_found() -> None:
    shares = _simulate(300, 0.14, 0.02, margin=0.05, seed=3)  # 12 points lost
    assert shares["fail"] > 0.9
    assert shares["pass"] == 0


def test_simulation_agrees_with_the_exact_binomial_where_there_is_one() -> None:
    """Only losses: 100 items pass a margin of 10 points with at most k losses, k by Clopper-Pearson; and how often
    that happens at a true loss of 4 % is a binomial probability."""
    most = max(k for k in range(20) if stats.beta.ppf(0.95, k + 1, 100 - k) < 0.10)
    shares = _simulate(100, 0.04, 0.0, margin=0.10, seed=11)
    assert shares["pass"] == pytest.approx(stats.binom.cdf(most, 100, 0.04), abs=0.03)


def test_the_paired_change_is_the_verdicts_and_needs_no_baseline() -> None:
    ours, theirs = pair(60, 9, 4, 27)
    found = paired_change(ours, theirs)
    assert (found.gained, found.lost, found.n, found.doubtful, found.differently) == (9, 4, 100, 0, 0)
    assert found.change == verdict(ours, theirs, margin=0.05, chance=0.1).change
    assert (found.change.low, found.change.high) == pytest.approx(
        paired.tango_interval(9, 4, 100, critical=1.6448536269514722)
    )
    back = paired_change(theirs, ours).change
    assert (back.low, back.high) == pytest.approx((-found.change.high, -found.change.low))  # type: ignore[operator]


def test_nothing_is_compared_that_was_asked_in_other_words() -> None:
    found = paired_change(answers([1] * 5, prompt="a"), answers([1] * 5, prompt="b"))
    assert (found.differently, found.n, found.change.value) == (5, 5, None)
    assert paired_change([], []).n == 0
