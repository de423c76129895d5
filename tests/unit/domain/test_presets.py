"""The presets: who is picked, what that rests on, and what is said where none qualifies."""

from __future__ import annotations

from dataclasses import replace

from kitedash.domain.noise import Noise
from kitedash.domain.presets import Preset, presets
from kitedash.domain.recommend import Contender, recommend
from kitedash.domain.results import Estimate
from kitedash.domain.targets import Status


def contender(name: str, ttft_ms: float, usd: float, share: float, status: Status = Status.MEETS) -> Contender:
    return Contender(
        name=name,
        measured=True,
        rate_per_s=2.0,
        ttft_p90_ms=Estimate(ttft_ms, ttft_ms * 0.9, ttft_ms * 1.1, 240),
        deployed_usd=Estimate(usd, usd, usd, 240),
        pass_rate=Estimate(share, share - 0.1, share + 0.1, 60),
        ttft_status=status,
        cost_status=Status.MEETS,
        pass_rate_status=Status.MEETS,
        verdicts=(("kitedash_repo", "pass"),),
    )


CHEAP = contender("cheap", 500, 0.1, 0.55)
QUICK = contender("quick", 200, 0.3, 0.50)
WISE = contender("wise", 400, 0.2, 0.70)


def found(*contenders: Contender) -> dict[str, Preset]:
    return {preset.key: preset for preset in presets(contenders, recommend(contenders))}


def test_each_picks_the_best_in_its_own_number() -> None:
    picked = found(CHEAP, QUICK, WISE)
    assert [picked[key].candidate for key in ("cheapest", "fastest", "quality")] == ["cheap", "quick", "wise"]
    assert all(preset.established for preset in picked.values())
    assert picked["fastest"].sentence == (
        "quick: the lowest P90 TTFT, 200 ms at 2/s, of the 3 that miss nothing; "
        "it meets every target and passes every suite."
    )
    assert "the highest pass rate, 70.0 %" in picked["quality"].sentence


def test_who_misses_a_target_or_fails_a_suite_is_never_picked() -> None:
    missing = replace(QUICK, cost_status=Status.MISSES)
    failing = replace(WISE, verdicts=(("kitedash_repo", "fail"),))
    picked = found(CHEAP, missing, failing)
    assert {preset.candidate for preset in picked.values()} == {"cheap"}
    assert "the only one that misses nothing" in picked["fastest"].sentence


def test_what_is_open_is_said() -> None:
    picked = found(replace(CHEAP, pass_rate_status=Status.UNCERTAIN), replace(QUICK, verdicts=(("r", "inconclusive"),)))
    assert not any(preset.established for preset in picked.values())
    assert picked["cheapest"].sentence == "cheap leads, not established: pass rate is uncertain."
    assert picked["fastest"].sentence.endswith("not established: quality on r is inconclusive.")


def test_the_cheapest_is_always_the_recommendation() -> None:
    """An established one is recommended before a cheaper one that is not established."""
    contenders = (replace(CHEAP, pass_rate_status=Status.UNCERTAIN), QUICK)
    recommendation = recommend(contenders)
    assert recommendation.candidate == "quick"
    assert presets(contenders, recommendation)[0].candidate == "quick"


def test_equal_ones_are_named_and_the_cheaper_one_is_picked() -> None:
    twin = replace(WISE, name="twin", deployed_usd=Estimate(0.5))
    picked = found(twin, WISE)["quality"]
    assert picked.candidate == "wise"
    assert "(as twin; an established one first, then the cheaper)" in picked.sentence


def test_where_none_qualifies_a_sentence_says_so() -> None:
    picked = found(replace(CHEAP, ttft_status=Status.MISSES))
    assert [preset.candidate for preset in picked.values()] == [None, None, None]
    assert picked["fastest"].sentence.startswith("None qualifies: every measured candidate misses a target")
    waiting = replace(CHEAP, measured=False, rate_per_s=None, ttft_p90_ms=None, deployed_usd=None, pass_rate=None)
    assert found(waiting)["quality"].sentence == "No candidate has been measured yet."


def test_a_number_that_is_not_known_yet_is_not_the_best() -> None:
    unknown = replace(WISE, pass_rate=None, pass_rate_status=Status.PENDING)
    picked = found(unknown, CHEAP)
    assert picked["quality"].candidate == "cheap"
    assert "55.0 %, and the only one with this number of the 2 that miss nothing; " in picked["quality"].sentence
    assert "of the 2 that miss nothing" in picked["fastest"].sentence
    assert "70" not in picked["quality"].sentence
    three = found(unknown, CHEAP, QUICK)
    assert "55.0 %, of the 2 with this number among the 3 that miss nothing; " in three["quality"].sentence


def test_of_equal_ones_an_established_one_is_picked_though_it_is_dearer() -> None:
    open_twin = replace(WISE, name="twin", deployed_usd=Estimate(0.1), pass_rate_status=Status.UNCERTAIN)
    picked = found(open_twin, WISE)["quality"]
    assert (picked.candidate, picked.established) == ("wise", True)
    assert "(as twin; an established one first, then the cheaper)" in picked.sentence


def test_whom_noise_alone_parts_from_the_fastest_is_named() -> None:
    """400 / 360 - 1 = 11.1 %: within a floor of 12 %, beyond one of 11 %."""
    near = contender("near", 360, 0.4, 0.6)
    contenders = (near, WISE, CHEAP)
    for floor, said in ((0.12, " (noise alone parts it from wise)"), (0.11, "")):
        (_, fastest, _) = presets(contenders, recommend(contenders), Noise(floor))
        assert fastest.sentence.startswith(
            f"near: the lowest P90 TTFT, 360 ms at 2/s, of the 3 that miss nothing{said};"
        )
    assert "noise" not in found(*contenders)["fastest"].sentence  # not measured
