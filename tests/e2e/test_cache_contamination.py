"""bench/cache_contamination.py in short: the order of two candidates has no effect, until the protocol is left out."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bench.cache_contamination import (
    RATE_PER_S,
    Measured,
    Series,
    engines,
    noise_floor,
    order_effect,
    repeat_effect,
    swapped,
)
from kitedash.domain.experiment import LoadPlan


async def test_who_comes_second_finds_no_warm_cache_unless_the_protocol_is_off(
    default_model_dir: Path, tmp_path: Path
) -> None:
    """120 prompt tokens beyond the shared ones at 0.5 ms each are 60 of about 100 ms; a warm cache saves them."""
    rates = (RATE_PER_S, 2 * RATE_PER_S, 3 * RATE_PER_S)
    plan = LoadPlan(rates_per_s=rates, blocks=9, block_duration_s=1.5, request_timeout_s=10, seed=2)
    effects = {}
    async with engines(default_model_dir, tmp_path, shared=True) as endpoints:
        for on in (True, False):
            series = await swapped("warm", endpoints, plan, tmp_path, 3, same_level=False, on=on)
            effects[on] = order_effect(series).value
            assert {block.valid for block in series.blocks if block.place == 1} == {on}
    assert abs(effects[True]) < math.log(1.35)  # three swaps on a busy machine
    assert effects[False] < math.log(0.7)


def a_series(draw: np.random.Generator, *, effect: float, difference: float, noise: float, repeats: int = 10) -> Series:
    """B is slower than A by `difference`, and whoever is second by `effect`."""
    series = Series("drawn")
    for repeat in range(repeats):
        for place, name in enumerate("AB" if repeat % 2 == 0 else "BA"):
            log_ttft = math.log(100) + difference * (name == "B") + effect * place + draw.normal(0, noise)
            series.blocks.append(Measured(name, repeat, place, math.exp(log_ttft), True))
    return series


def test_the_interval_of_the_order_effect_holds_the_truth_whatever_the_candidates_differ_by() -> None:
    draw, held = np.random.default_rng(4), 0
    for _ in range(1_000):
        found = order_effect(a_series(draw, effect=-0.05, difference=0.4, noise=0.03))
        held += found.low <= -0.05 <= found.high
    assert 928 <= held <= 972  # 95 % of 1,000, give or take 3.2 standard errors


def test_the_floor_is_nine_in_ten_of_the_differences_of_one_thing() -> None:
    """Two draws of a normal differ by one of sqrt(2) times its deviation; 1.645 of that is its 90 % bound."""
    draw = np.random.default_rng(5)
    series = a_series(draw, effect=0.5, difference=0.4, noise=0.03, repeats=400)
    assert noise_floor([series]) == pytest.approx(1.645 * 2**0.5 * 0.03, rel=0.1)


def test_the_first_repeat_is_told_from_the_later_ones() -> None:
    series = Series("drawn", [Measured(n, r, 0, 100.0 * (2 if r == 0 else 1), True) for n in "AB" for r in range(4)])
    assert repeat_effect(series) == pytest.approx(math.log(2))
