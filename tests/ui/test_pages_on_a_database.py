"""The trade-off and the runs page on the real services and a real database, stored through the repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitedash.domain.errors import NotFound
from kitedash.services import runs_page, tradeoff_page
from kitedash.services.limits import AskedLimits
from kitedash.settings import settings
from kitedash.ui.escape import markdown
from tests.ui.conftest import candidate_table, opened, texts
from tests.ui.seed import CANDIDATES, Seeded

pytestmark = pytest.mark.ui


def test_the_newest_experiment_is_shown_when_none_is_named(seeded: Seeded) -> None:
    at = opened("tradeoff", {})
    assert at.query_params["experiment"] == seeded.many
    table = candidate_table(at)
    assert [name.removesuffix(" (baseline)") for name in table["Candidate"]] == [name for name, *_ in CANDIDATES]
    # int8 holds 4/s: peak 11.57/s in 3 replicas at 0.116 USD, 200,000 requests a day.
    row = table[table["Candidate"] == "int8"].iloc[0]
    assert row["Rate held"] == 4.0
    assert row["Replicas"] == 3
    assert row["Deployed"] == pytest.approx(3 * 0.116 * 24 / 200_000 * 1_000)
    assert row["Saturated"] == pytest.approx(0.116 / (4 * 3_600) * 1_000)
    assert row["Kernel"] == "CPUInt8ScaledMM"


@pytest.mark.parametrize(("state", "candidates", "chart"), [("one", 1, 1), ("running", 8, 1), ("failed", 4, 0)])
def test_the_trade_off_in_each_state(seeded: Seeded, state: str, candidates: int, chart: int) -> None:
    at = opened("tradeoff", {"experiment": getattr(seeded, state)})
    assert len(candidate_table(at)) == candidates
    assert len(at.get("vega_lite_chart")) == chart


def test_moving_a_target_moves_the_marked_point(seeded: Seeded) -> None:
    at = opened("tradeoff", {"experiment": seeded.one, "t_ttft_p90_ms": "300"})
    assert candidate_table(at)["Rate held"][0] == 1.0  # 260 ms at 1/s, 355 ms at 2/s


@pytest.mark.parametrize(
    ("state", "signs"), [("many", {"✓ finished"}), ("one", {"✓ finished"}), ("failed", {"✗ failed"})]
)
def test_the_runs_in_each_state(seeded: Seeded, state: str, signs: set[str]) -> None:
    at = opened("runs", {"experiment": getattr(seeded, state)})
    assert set(at.dataframe[0].value["Status"]) == signs


def test_a_running_experiment_shows_the_run_under_way(seeded: Seeded) -> None:
    at = opened("runs", {"experiment": seeded.running})
    assert "item 24 of 60" in texts(at)
    assert at.progress[0].value == 38  # 23 of 60
    table = at.dataframe[0].value
    assert sorted(table["Status"]) == sorted(["✓ finished", "▶ running", "✗ failed"] + ["… queued"] * 5)


def test_a_failed_run_shows_the_end_of_its_log(seeded: Seeded) -> None:
    at = opened("runs", {"experiment": seeded.failed})
    assert markdown("not enough memory for 2 GiB of KV cache.") in at.error[0].value
    assert any("ERROR ValueError: not enough memory" in code.value for code in at.code)


def test_the_services_take_what_is_not_adjusted_from_what_was_written_down(seeded: Seeded) -> None:
    view = tradeoff_page.page(seeded.one, limits=AskedLimits(pass_rate=0.9)).view
    assert view is not None
    assert (view.targets.ttft_p90_ms, view.targets.cost_per_1000_requests_usd, view.targets.pass_rate) == (
        700,
        0.1,
        0.9,
    )
    assert view.spec.targets.pass_rate == 0.5


def test_a_run_of_another_experiment_counts_as_none_named(seeded: Seeded) -> None:
    other = runs_page.page(seeded.many, None).chosen
    assert other is not None
    chosen = runs_page.page(seeded.running, other.id).chosen
    assert chosen is not None
    assert chosen.experiment_id == seeded.running
    assert chosen.status == "running"


def test_unknown_ids_are_not_found(seeded: Seeded) -> None:
    for page in (tradeoff_page.page, lambda name: runs_page.page(name, None)):
        with pytest.raises(NotFound):
            page("none-such")


def test_an_empty_database_has_no_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path))
    settings.cache_clear()
    try:
        assert tradeoff_page.page(None).view is None
        assert runs_page.page(None, None).chosen is None
        assert "`make quickstart`" in texts(opened("tradeoff", {}))
    finally:
        settings.cache_clear()
