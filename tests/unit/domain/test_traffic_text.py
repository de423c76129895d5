from __future__ import annotations

import json

import pytest

from kitedash.domain.canonical_json import canonical
from kitedash.domain.experiment import Workload
from kitedash.domain.traffic_text import requests_said
from kitedash.domain.workload import RequestClass

CHAT = RequestClass(name="chat", weight=3, input_tokens=1_000, shared_prefix_tokens=900, output_tokens=100)
TAB = RequestClass(
    name="tab", kind="completion", input_tokens=300, input_tokens_p90=600, shared_prefix_tokens=200, output_tokens=20
)
TALK = Workload(turns=3, think_time_s=2.5, timestamp_first=True, output_tokens_p90=900)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (
            Workload(),
            "6,000 input tokens, of which 5,700 are a shared prefix; 400 output tokens; poisson arrivals",
        ),
        (
            Workload(arrivals="gamma", burstiness=4),
            "6,000 input tokens, of which 5,700 are a shared prefix; 400 output tokens; gamma arrivals (squared "
            "coefficient of variation 4.00)",
        ),
        (
            TALK,
            "6,000 input tokens, of which 5,700 are a shared prefix; 400 output tokens (P90 900); sessions of 3 turns "
            "with 2.50 s of thinking between them on average; a time stamp at the head of each prompt; poisson "
            "arrivals",
        ),
        (
            Workload(mix=(CHAT, TAB)),
            "A mix of 75.0 % *chat* (1,000 input tokens, of which 900 are a shared prefix; 100 output tokens) and "
            "25.0 % *tab* (300 input tokens (P90 600), of which 200 are a shared prefix; 20 output tokens; "
            "completions); "
            "poisson arrivals",
        ),
        (
            Workload(trace="monday", shared_prefix_tokens=64),
            "The recorded trace *monday* replayed, requests that begin alike by 64 shared tokens",
        ),
    ],
)
def test_a_record_says_what_was_measured(workload: Workload, said: str) -> None:
    quoted = {"chat": "*chat*", "tab": "*tab*", "monday": "*monday*"}
    from_document = json.loads(canonical(workload))
    for given in (from_document, workload.model_dump(mode="json")):
        assert requests_said(given, lambda name: quoted.get(name, name)) == said


def test_what_counts_for_nothing_is_not_in_a_document() -> None:
    assert "input_tokens" not in json.loads(canonical(Workload(mix=(CHAT, TAB))))
    of_trace = json.loads(canonical(Workload(trace="monday", shared_prefix_tokens=64)))
    assert {"arrivals", "input_tokens", "output_tokens"}.isdisjoint(of_trace)
    assert (of_trace["trace"], of_trace["shared_prefix_tokens"]) == ("monday", 64)
    # What was stored and signed before there were mixes and traces keeps its text.
    assert set(json.loads(canonical(Workload()))) == {
        *("users", "requests_per_user_per_day", "peak_factor", "input_tokens", "shared_prefix_tokens"),
        *("output_tokens", "arrivals", "spare_replicas"),
    }
