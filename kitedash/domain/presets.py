"""Three ways to pick a candidate without reading every number: cheapest that meets, fastest, best quality.

Each picks among the candidates that miss no target and fail no suite, and says whether that rests on established
numbers. A preset highlights; it never hides the others and never changes the recommendation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kitedash.domain import wording
from kitedash.domain.noise import Noise
from kitedash.domain.recommend import Contender, Recommendation

PresetKey = Literal["cheapest", "fastest", "quality"]

LABELS: Final[dict[PresetKey, str]] = {
    "cheapest": "Cheapest that meets",
    "fastest": "Fastest",
    "quality": "Best quality",
}


@dataclass(frozen=True)
class Preset:
    """`candidate` is None where none qualifies; `sentence` says which it picks and what that rests on, or why none."""

    key: PresetKey
    label: str
    candidate: str | None
    established: bool
    sentence: str


def presets(
    contenders: Sequence[Contender], recommendation: Recommendation, ttft_noise: Noise | None = None
) -> tuple[Preset, ...]:
    """The three, in order. The cheapest is the recommendation's own pick, so that the two never disagree.

    `ttft_noise`: of P90 TTFT; who is within it of the fastest is named beside it.
    """
    able = [one for one in contenders if one.measured and one.rate_per_s is not None and not one.missed]
    return (
        _cheapest(able, contenders, recommendation),
        _best("fastest", able, contenders, _ttft, lambda one: f"the lowest P90 TTFT, {_ttft_words(one)}", ttft_noise),
        _best("quality", able, contenders, _failing, lambda one: f"the highest pass rate, {_share_words(one)}"),
    )


def _cheapest(able: Sequence[Contender], everyone: Sequence[Contender], recommendation: Recommendation) -> Preset:
    picked = next((one for one in everyone if one.name == recommendation.candidate), None)
    if picked is None:
        return _none("cheapest", everyone)
    if recommendation.established:
        sentence = f"{picked.name}: the cheapest that meets all three targets and passes every suite; established."
        return Preset("cheapest", LABELS["cheapest"], picked.name, True, sentence)
    leads = "leads" if picked in able else "leads, though no measured rate of it is held"
    sentence = f"{picked.name} {leads}, not established: {wording.listed(picked.open)}."
    return Preset("cheapest", LABELS["cheapest"], picked.name, False, sentence)


def _best(
    key: PresetKey,
    able: Sequence[Contender],
    everyone: Sequence[Contender],
    loss: Callable[[Contender], float],
    words: Callable[[Contender], str],
    noise: Noise | None = None,
) -> Preset:
    """The least `loss`; of equal ones an established one, then the cheaper, then the earlier. `noise`: of the loss."""
    known = [one for one in able if loss(one) != float("inf")]
    if not known:
        return _none(key, everyone)
    best = min(known, key=lambda one: (loss(one), not one.is_established, _cost(one)))
    tied = [one.name for one in known if loss(one) == loss(best) and one is not best]
    tie = f" (as {wording.listed(tied)}; an established one first, then the cheaper)" if tied else ""
    near = [one.name for one in known if one is not best and one.name not in tied and _is_near(noise, loss, one, best)]
    if near:
        tie += f" (noise alone parts it from {wording.listed(near)})"
    rests = (
        "it meets every target and passes every suite."
        if best.is_established
        else f"not established: {wording.listed(best.open)}."
    )
    sentence = f"{best.name}: {words(best)}, {_among(known, able)}{tie}; {rests}"
    return Preset(key, LABELS[key], best.name, best.is_established, sentence)


def _is_near(noise: Noise | None, loss: Callable[[Contender], float], one: Contender, best: Contender) -> bool:
    return noise is not None and loss(best) > 0 and noise.covers(loss(one) / loss(best) - 1)


def _among(known: Sequence[Contender], able: Sequence[Contender]) -> str:
    """Out of how many it is picked: `known` are those of `able` that have the number."""
    if len(able) == 1:
        return "and the only one that misses nothing"
    if len(known) == len(able):
        return f"of the {len(able)} that miss nothing"
    if len(known) == 1:
        return f"and the only one with this number of the {len(able)} that miss nothing"
    return f"of the {len(known)} with this number among the {len(able)} that miss nothing"


def _none(key: PresetKey, everyone: Sequence[Contender]) -> Preset:
    if not any(one.measured for one in everyone):
        sentence = "No candidate has been measured yet."
    else:
        sentence = "None qualifies: every measured candidate misses a target, fails a suite or lacks this number."
    return Preset(key, LABELS[key], None, False, sentence)


def _ttft(one: Contender) -> float:
    return _or_worst(one.ttft_p90_ms.value if one.ttft_p90_ms is not None else None)


def _cost(one: Contender) -> float:
    return _or_worst(one.deployed_usd.value if one.deployed_usd is not None else None)


def _failing(one: Contender) -> float:
    """Share of items that do not pass: less is better, as for the other two numbers."""
    passing = one.pass_rate.value if one.pass_rate is not None else None
    return _or_worst(None if passing is None else -passing)


def _or_worst(value: float | None) -> float:
    return float("inf") if value is None else value


def _ttft_words(one: Contender) -> str:
    assert one.ttft_p90_ms is not None
    return f"{wording.milliseconds(one.ttft_p90_ms.value)} at {wording.rate(one.rate_per_s)}"


def _share_words(one: Contender) -> str:
    assert one.pass_rate is not None
    return wording.percent(one.pass_rate.value)
