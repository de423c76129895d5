"""What a search for the highest rate held found, on the run's page and on the trade-off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from db.engine import dispose_engines
from kitedash.services import run_page, tradeoff_page
from kitedash.services.evidence import experiment_evidence
from kitedash.services.limits import AskedLimits
from kitedash.settings import settings
from tests.ui.conftest import opened, texts
from tests.ui.searched import seed_searched

pytestmark = pytest.mark.ui


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data_dir: Path = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KITEDASH_DATA_DIR", str(data_dir))
        settings.cache_clear()
        yield seed_searched(data_dir)
        dispose_engines()
    settings.cache_clear()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        # 473 ms at the most at 2.6/s, 504 ms at the least at 3/s; three times six blocks less three, and six further
        (0, ("**Rate search: found.** Holds 2.6/s; misses 3/s, 15 % apart", ":gray[2 further rates, 840 requests")),
        (1, ("**Rate search: undecided.** Undecided between 2/s and 4/s: by the estimates it holds 2.9/s and misses",)),
        (2, ("**Rate search: goes on.** Holds 2.4/s; misses 4/s, 67 % apart: not narrowed down to 20 %.",)),
    ],
)
def test_the_levels_begin_with_what_the_search_found(searched: str, number: int, said: tuple[str, ...]) -> None:
    shown = texts(opened("run", {"run": f"{searched[:8]}-{number}", "f_section": "levels"})).replace("\\", "")
    for words in said:
        assert words in shown


def test_it_is_marked_which_rates_were_searched(searched: str) -> None:
    at = opened("run", {"run": f"{searched[:8]}-0", "f_section": "levels"})
    loads = next(table.value for table in at.dataframe if "Chosen" in table.value)
    assert dict(zip(loads["Rate"], loads["Chosen"], strict=True)) == {
        **{"1/s": "the plan", "2/s": "the plan", "4/s": "the plan"},
        **{"2.6/s": "the search", "3/s": "the search"},
    }


def test_under_moved_targets_it_says_what_the_levels_say(searched: str) -> None:
    detail = run_page.page(f"{searched[:8]}-0", searched, limits=AskedLimits(ttft_p90_ms=700))
    assert detail is not None
    assert detail.search is not None
    assert detail.search.sentence == "Holds 3/s; misses 4/s, 33 % apart: not narrowed down to 20 %."


def test_a_curve_has_the_searched_rates_and_the_highest_one_held_is_its_point(searched: str) -> None:
    page = tradeoff_page.page(searched)
    assert page.view is not None
    by_name = {one.name: one for one in page.view.candidates}
    assert [level.summary.rate_per_s for level in by_name["float32"].levels] == [1, 2, 2.6, 3, 4]
    held = {name: one.point.summary.rate_per_s for name, one in by_name.items() if one.point is not None}
    assert held == {"float32": 2.6, "int8": 2.9, "bfloat16": 2.4}


def test_a_candidate_is_complete_once_its_search_is_over(searched: str) -> None:
    complete = {one.candidate.name: one.complete for one in experiment_evidence(searched).candidates}
    assert complete == {"float32": True, "int8": True, "bfloat16": False}


def test_the_noise_floor_is_over_the_listed_rates_alone(searched: str) -> None:
    twice = experiment_evidence(searched).twice
    assert twice is not None
    assert [level.rate_per_s for level in twice.first] == [level.rate_per_s for level in twice.again] == [1, 2, 4]
    floor = tradeoff_page.page(searched).view
    assert floor is not None
    assert floor.noise.ttft_p90.rates == 3
    assert floor.noise.ttft_p90.floor == pytest.approx(364 / 350 - 1)
    assert floor.noise.cost.floor == 0  # both held 2/s, of the rates that both had


def test_the_second_run_of_the_baseline_searches_nothing(searched: str) -> None:
    detail = run_page.page(f"{searched[:8]}-3")
    assert detail is not None
    assert detail.search is None
    at = opened("run", {"run": f"{searched[:8]}-3", "f_section": "levels"})
    assert "**Rate search:" not in texts(at)
    assert all("Chosen" not in table.value for table in at.dataframe)
