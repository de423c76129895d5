"""JSON of views: what JSON has no word for is still told apart; CSV that no spreadsheet runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from kitedash.domain.experiment import Targets
from kitedash.domain.results import Estimate, RunStatus
from kitedash.services.export import as_csv, as_json
from kitedash.services.run_views import StageView


def test_nested_views_become_json() -> None:
    noon = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    view = {
        "stages": (StageView("load", RunStatus.RUNNING, 1, 2, "ü", 1, noon, None),),
        "targets": Targets(ttft_p90_ms=900, cost_per_1000_requests_usd=1, pass_rate=0.5),
        "estimates": [Estimate(1.5, None, float("inf"), 3), float("nan")],
    }
    assert json.loads(as_json(view)) == {
        "stages": [
            {
                "name": "load",
                "status": "running",
                "done": 1,
                "total": 2,
                "note": "ü",
                "executions": 1,
                "started_at": "2026-11-30T12:00:00+00:00",
                "finished_at": None,
            }
        ],
        "targets": {"ttft_p90_ms": 900.0, "cost_per_1000_requests_usd": 1.0, "pass_rate": 0.5},
        "estimates": [{"value": 1.5, "low": None, "high": "inf", "n": 3, "note": "", "more": None}, "nan"],
    }


def test_a_table_becomes_csv_with_text_that_stays_text() -> None:
    rows = [
        {"candidate": "=cmd()", "value": -1.5, "n": None, "is_baseline": True},
        {"candidate": 'a "b", c', "value": 1e-7, "n": 3, "is_baseline": False},
    ]
    assert as_csv(rows) == 'candidate,value,n,is_baseline\n\'=cmd(),-1.5,,true\n"a ""b"", c",1e-07,3,false\n'
    assert as_csv([]) == ""
