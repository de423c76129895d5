"""The charts of single requests: bars that lie end to end, marks where they belong, panels only where there is data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import vl_convert

from kitedash.domain.request_parts import Stall, TimeBin
from kitedash.measuring import timeline
from kitedash.measuring.device import GpuUse
from kitedash.measuring.machine_use import MachineUse
from kitedash.services.request_parts import RequestDetail, RequestRow
from kitedash.ui import theme
from kitedash.ui.request_charts import (
    describe_over_time,
    describe_waterfall,
    over_time_chart,
    server_charts,
    server_rows,
    waterfall_chart,
    waterfall_rows,
)

ROW = RequestRow(0, 7, "shared", 4.0, 300.0, 900.0, 180.0, 306.0, 288.0, 4.0, "queue", "")


def server(*gpus: GpuUse, preemptions: float = 0.0) -> pd.DataFrame:
    samples = [
        timeline.Sample(
            float(t),
            {
                "running": float(t),
                "waiting": 0.0,
                "kv_cache_share": 0.5,
                "preemptions": preemptions * t,
                "prefix_cache_queries": 100.0 * t,
                "prefix_cache_hits": 50.0 * t if t < 3 else 150.0,
            },
            MachineUse(machine_cpu_share=0.25, gpus=gpus),
        )
        for t in range(6)
    ]
    return timeline.decode(timeline.encode(samples, started=0.0, before={}))


def detail(**changed: Any) -> RequestDetail:
    found = RequestDetail(
        row=ROW,
        ended_s=4.9,
        duration_s=5.0,
        parts_ms={"client": 1.0, "front_end": -0.4, "queue": 99.4, "prefill": 200.0, "decode": 600.0},
        chunk_ms=(150.0, 480.0, 600.0),
        stalls=(Stall(150.0, 330.0),),
        said="",
        server=server(),
    )
    return replace(found, **changed)


def data(spec: dict[str, Any], mark: str) -> list[list[dict[str, Any]]]:
    return [spec["datasets"][la["data"]["name"]] for la in spec["layer"] if la["mark"]["type"] == mark]


def test_the_parts_of_one_request_lie_end_to_end_and_the_stall_is_inside_the_decode() -> None:
    spec = waterfall_chart(detail(), theme.LIGHT).to_dict()
    bars, stalls = data(spec, "bar")
    assert [row["start"] for row in bars] == pytest.approx([0, 1, 1, 100.4, 300.4])
    assert [row["end"] for row in bars] == pytest.approx([1, 1, 100.4, 300.4, 900.4])
    assert [(row["start"], row["end"], row["Part"]) for row in stalls] == [(450.0, 780.0, "Decode")]
    (ticks,) = data(spec, "tick")
    assert [row["start"] for row in ticks] == [300.0, 450.0, 780.0, 900.0]
    assert bars[3]["Label"] == "200 ms: 18 tokens computed, 288 cached"
    assert bars[4]["Label"] == "600 ms: 4 tokens, 1 stall, 180 ms lost"
    assert "Stalls: 330 ms long." in describe_waterfall(detail())


def test_a_failed_request_shows_what_is_known_and_how_long_it_waited() -> None:
    row = replace(ROW, ttft_ms=np.inf, e2e_ms=np.inf, error="timed out", tokens_in=np.nan)
    rows = waterfall_rows(detail(row=row, parts_ms={"client": 1.0}, chunk_ms=(), stalls=()))
    assert [(one["Part"], one["start"], one["end"]) for one in rows] == [
        ("Client lateness", 0.0, 1.0),
        ("No answer", 1.0, pytest.approx(900.0)),
    ]


def test_counters_become_what_happened_in_each_second() -> None:
    rows = server_rows(server(preemptions=2.0))
    assert rows["Preemptions"].tolist() == [0.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert rows["Prefix hits"].tolist()[1:] == [50.0, 50.0, 50.0, 0.0, 0.0]
    assert np.isnan(rows["Prefix hits"][0])
    assert rows["All cores"].tolist() == [25.0] * 6


def test_gpus_are_drawn_as_their_mean_in_place_of_the_processor() -> None:
    rows = server_rows(server(GpuUse(0.4, 10.0, 300.0), GpuUse(0.8, 10.0, 300.0)))
    assert rows["GPU"].tolist() == pytest.approx([60.0] * 6)
    assert "All cores" not in rows
    assert "GPU" not in server_rows(server(GpuUse(None, 10.0, None))), "a GPU that does not say its use"


def test_preemptions_have_a_panel_only_where_there_were_any() -> None:
    assert len(server_charts(detail(), theme.LIGHT)) == 2
    charts = server_charts(detail(server=server(preemptions=1.0)), theme.LIGHT)
    assert [words.partition(" of ")[0] for _, words in charts] == ["Requests", "Share in use", "Preempted"]
    for chart, _ in charts:
        (shade,) = data(chart.to_dict(), "rect")
        assert (shade[0]["t_s"], shade[0]["end"]) == (4.0, 4.9)


def test_spans_are_stacked_without_the_decode_and_failed_ones_are_marked() -> None:
    parts = {"client": 1.0, "front_end": 2.0, "queue": 3.0, "prefill": 4.0, "decode": 50.0}
    bins = (TimeBin(0.0, 2.0, 10, 0, parts, 0.0), TimeBin(2.0, 4.0, 0, 3, {}, 0.0))
    spec = over_time_chart(bins, theme.LIGHT).to_dict()
    (rows,) = data(spec, "rect")
    assert [(row["low"], row["high"]) for row in rows] == [(0, 1), (1, 3), (3, 6), (6, 10)]
    (marks,) = data(spec, "text")
    assert [(row["at"], row["Failed"]) for row in marks] == [(3.0, "✗ 3")]
    assert "2 to 4 s: none known, 3 failed" in describe_over_time(bins)


@pytest.mark.parametrize("ink", [theme.LIGHT, theme.DARK])
def test_both_themes_render(ink: theme.Ink) -> None:
    bins = (TimeBin(0.0, 2.0, 10, 1, {"client": 1.0, "queue": 2.0}, 0.0),)
    charts = [waterfall_chart(detail(), ink), over_time_chart(bins, ink)]
    charts += [chart for chart, _ in server_charts(detail(server=server(preemptions=1.0)), ink)]
    for chart in charts:
        assert "<svg" in vl_convert.vegalite_to_svg(chart.to_dict())
