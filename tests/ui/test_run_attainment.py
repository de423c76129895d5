"""The Attainment section of a run's page: what was in time, rate by rate, and what the blocks of a rate differ by."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from db.engine import sessions
from db.models import LoadBlock, LoadLevel
from kitedash.settings import settings
from kitedash.ui.components import run_detail_sections
from tests.ui.conftest import texts
from tests.ui.seed import Seeded
from tests.ui.test_run_page import many, shown

pytestmark = pytest.mark.ui


def test_every_rate_has_its_attainment_and_goodput_against_the_targets(seeded: Seeded) -> None:
    at = shown(many(3), run_detail_sections.ATTAINMENT)
    assert "**Against the TTFT target of 800 ms and the TPOT guardrail of 150 ms**" in texts(at)
    table, blocks = (frame.value for frame in at.dataframe)
    # The slowest of 240 takes 1.7 x 429 ms = 730 ms at 4/s and 72 ms a token: all are in time.
    assert [cell.partition(" [")[0] for cell in table["In time"]] == ["100.0 %"] * 3
    assert list(table["Requests"]) == ["240"] * 3
    # 40 requests are due in each block, which lasts 40 s at 1/s, 20 s at 2/s and 10 s at 4/s: all of them count.
    assert [cell.partition(" [")[0] for cell in table["Goodput (/s)"]] == ["1.00", "2.00", "4.00"]
    assert all(cell.endswith(" to 100.0 %]") for cell in table["In time"])
    assert list(table["Status"]) == ["✓ ok"] * 3
    assert list(blocks["Valid blocks"]) == ["6 of 6"] * 3
    # A block has every sixth of 240 ranks: 40 requests as spread as all are, so blocks differ by nothing.
    assert list(blocks["Variance between blocks"]) == ["0.0 %"] * 3


def test_the_blocks_are_drawn_beside_the_rate_and_what_is_not_drawn_is_said(seeded: Seeded) -> None:
    at = shown(many(4), run_detail_sections.ATTAINMENT)  # overloaded at 4/s, and one block of 1/s is invalid
    (chart,) = at.get("vega_lite_chart")
    assert chart.proto.alt.startswith("P90 TTFT of each block beside that of all blocks of the rate. 1/s: ")
    assert "4/s: " not in chart.proto.alt
    said = texts(at)
    assert "Overloaded, so without a steady P90: 4/s." in said
    assert "Not drawn: 1 invalid block." in said
    # A seeded block's requests grow slower one by one, so that they are worth few independent ones.
    assert "Without an interval of its P90: 1/s, 2/s." in said
    assert "Dashed: the TTFT target of 800 ms." in said
    table, blocks = (frame.value for frame in at.dataframe)
    assert list(table["Status"]) == ["✓ ok", "✓ ok", "▲ overloaded"]
    assert list(blocks["Valid blocks"]) == ["6 of 7", "6 of 6", "6 of 6"]


def test_a_rate_without_a_stored_level_is_still_being_measured(own_database: Seeded) -> None:
    with sessions(settings().url).begin() as session:
        mine = LoadLevel.run_id == many(3)
        session.execute(sa.delete(LoadLevel).where(mine, LoadLevel.rate_per_s == 4.0))
    at = shown(many(3), run_detail_sections.ATTAINMENT)
    assert list(at.dataframe[0].value["Status"]) == ["✓ ok", "✓ ok", "… measuring"]
    assert "4/s: " in at.get("vega_lite_chart")[0].proto.alt


def test_a_run_with_overloaded_rates_only_has_no_chart(own_database: Seeded) -> None:
    with sessions(settings().url).begin() as session:
        mine = LoadBlock.run_id == many(1), LoadBlock.rate_per_s < 2.0
        session.execute(sa.delete(LoadBlock).where(*mine))
    at = shown(many(1), run_detail_sections.ATTAINMENT)
    assert not at.get("vega_lite_chart")
    assert set(at.dataframe[0].value["Status"]) == {"▲ overloaded"}
    assert "Dashed" not in texts(at)


def test_without_a_valid_block_there_is_nothing_to_count(seeded: Seeded) -> None:
    at = shown("40000000-3", run_detail_sections.ATTAINMENT)
    assert "The requests of no valid block are stored" in texts(at)
    assert not at.dataframe
