"""The requests of a run on its page: why those around the P90 are slow, the slowest, and one of them in full."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from db.engine import sessions
from db.models import LoadBlock
from kitedash.settings import settings
from kitedash.ui import address
from kitedash.ui.components import run_detail_sections
from kitedash.ui.escape import markdown
from tests.ui import request_blobs
from tests.ui.conftest import texts
from tests.ui.seed import Seeded
from tests.ui.test_run_page import many, shown

pytestmark = pytest.mark.ui
# At 4/s int8 has a P90 of 230 ms x 4^0.45 = 429.2 ms; the slowest request has 1.7 times that.
P90_MS = 230 * 4**0.45


def test_why_the_requests_around_the_p90_are_slow_is_said_for_each_rate(seeded: Seeded) -> None:
    at = shown(many(3), run_detail_sections.PARTS)
    said = texts(at)
    assert said.count(markdown("to the first token, of which about")) == 3
    assert said.count(markdown("(30.0 %) waiting in the engine's queue")) == 3  # 0.3 of each TTFT
    assert f"To do, at 1/s, 2/s, 4/s: {markdown('Look at the server')}" in said
    over_time = at.get("vega_lite_chart")[-1].proto.alt
    assert over_time.startswith("Mean parts of the requests by when they were due. 0 to 0.417 s: Client lateness 1.00")
    assert "Means over the 240 requests" in said


def test_another_rate_is_drawn_over_time_and_stands_in_the_address(seeded: Seeded) -> None:
    at = shown(many(3), run_detail_sections.PARTS)
    box = at.segmented_control(key=address.box(address.RATE))
    assert box.value == "4", "the highest, where the waits are"
    box.set_value("1").run()
    assert at.query_params[address.RATE] == "1"
    assert "38.3 to 40 s" in at.get("vega_lite_chart")[-1].proto.alt


def test_the_slowest_requests_are_listed_and_the_first_is_shown_in_full(seeded: Seeded) -> None:
    at = shown(many(3), run_detail_sections.REQUESTS)
    table = at.dataframe[0].value
    assert len(table) == 10
    assert (table["Block"][0], table["Request"][0]) == (5, 39)
    assert table["TTFT (ms)"][0] == f"{1.7 * P90_MS:.0f}"
    assert set(table["Main cause"]) == {"queue"}
    assert (table["Prompt"][0], table["Cached"][0], table["Output"][0]) == ("306", "288", "20")
    waterfall, *server = at.get("vega_lite_chart")
    assert (
        f"Queue {0.3 * 1.7 * P90_MS:.0f} ms; Prefill {0.6 * 1.7 * P90_MS:.0f} ms: 18 tokens computed, 288 cached"
        in (waterfall.proto.alt)
    )
    assert [chart.proto.alt.partition(" of ")[0] for chart in server] == ["Requests", "Share in use", "Preempted"]
    assert "Running 0 to 4.00" in server[0].proto.alt
    assert "Preemptions 0 to 2.00" in server[2].proto.alt
    said = texts(at)
    why = markdown(f"It took {1.7 * P90_MS:.0f} ms to the first token, of which about")
    assert f"**Why it took so long:** {why}" in said
    assert "The engine's processes used 1.60 cores (mean) and 1.40 GiB at most." in said


def test_stalled_requests_can_be_looked_for_and_one_of_them_picked(seeded: Seeded) -> None:
    at = shown(many(3), run_detail_sections.REQUESTS, f_slowest="stalls")
    table = at.dataframe[0].value
    assert set(table["Request"] % 8) == {request_blobs.STALLED}
    assert set(table["Main cause"]) == {"stalls"}
    box = at.selectbox(key=address.REQUEST_BOX)
    box.select("4.35").run()
    assert at.query_params[address.REQUEST] == "4.35"
    # Its rank among 240 is 35 x 6 + 4 + 1 = 215: TPOT 41.9 ms, and a gap of six of them.
    assert "1 stall," in at.get("vega_lite_chart")[0].proto.alt
    assert "Stalls: 251 ms long." in at.get("vega_lite_chart")[0].proto.alt
    assert "in stalls between tokens" in texts(at)


def test_one_block_can_be_picked_an_invalid_one_too(seeded: Seeded) -> None:
    at = shown(many(4), run_detail_sections.REQUESTS, f_rate="1")
    box = at.selectbox(key=address.box(address.BLOCK))
    assert box.options == ["all valid blocks", *(f"block {n}" for n in range(6)), "block 6 · ✗ invalid"]
    assert 6 not in set(at.dataframe[0].value["Block"])
    box.select("6").run()
    assert at.query_params[address.BLOCK] == "6"
    assert set(at.dataframe[0].value["Block"]) == {6}
    assert set(at.dataframe[0].value["TTFT (ms)"]) == {"100,000"}
    assert f"counts nowhere: {markdown(request_blobs.LATE.name)}" in texts(at)


def test_what_the_address_asks_for_in_vain_falls_back(seeded: Seeded) -> None:
    at = shown(many(3), run_detail_sections.REQUESTS, f_rate="7", f_block="99", f_slowest="x", request="1.2.3")
    assert (at.dataframe[0].value["Block"][0], at.dataframe[0].value["Request"][0]) == (5, 39)


def test_a_run_under_way_shows_the_requests_it_has(seeded: Seeded) -> None:
    assert len(shown("30000000-3", run_detail_sections.REQUESTS).dataframe[0].value) == 10


def test_a_block_of_an_earlier_version_has_no_timeline_and_says_so(own_database: Seeded) -> None:
    with sessions(settings().url).begin() as session:
        session.execute(sa.update(LoadBlock).values(timeline_blob=None))
    at = shown(many(3), run_detail_sections.REQUESTS)
    assert len(at.get("vega_lite_chart")) == 1
    assert "No timeline is stored with this block" in texts(at)
    downloads = [button.proto.disabled for button in shown(many(3), run_detail_sections.RAW).get("download_button")]
    assert downloads == [False] * 2 + [True] * 2 + [False] * 4


def test_a_run_without_a_block_has_no_request(seeded: Seeded) -> None:
    assert markdown("No block is stored yet") in texts(shown("40000000-3", run_detail_sections.REQUESTS))
