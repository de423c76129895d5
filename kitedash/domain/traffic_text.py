"""A workload's requests in words, from a record's document or a workload: what the numbers were measured under."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kitedash.domain import wording


def requests_said(given: Mapping[str, Any], quoted: Callable[[str], str]) -> str:
    """ "306 input tokens, of which 290 are a shared prefix; 12 output tokens; poisson arrivals". `quoted` makes names
    that a person wrote safe where the text goes. A number with a fraction may be text, as in canonical JSON."""
    if given.get("trace") is not None:
        return (
            f"The recorded trace {quoted(given['trace'])} replayed, requests that begin alike by "
            f"{given['shared_prefix_tokens']:,} shared tokens{_endpoint(given)}"
        )
    arrivals = f"{quoted(given['arrivals'])} arrivals" + _burstiness(given)
    if not given.get("mix"):
        return f"{_kind_said(given)}; {arrivals}"
    whole = sum(float(one["weight"]) for one in given["mix"])
    kinds = [
        f"{wording.percent(float(one['weight']) / whole)} {quoted(one['name'])} ({_kind_said(one)})"
        for one in given["mix"]
    ]
    return f"A mix of {wording.listed(kinds)}; {arrivals}"


def _kind_said(one: Mapping[str, Any]) -> str:
    turns = ""
    if one.get("turns", 1) > 1:
        thought = wording.number(float(one.get("think_time_s", 0.0)))
        turns = f"; sessions of {one['turns']:,} turns with {thought} s of thinking between them on average"
    stamped = "; a time stamp at the head of each prompt" if one.get("timestamp_first") else ""
    return (
        f"{one['input_tokens']:,} input tokens{_p90(one, 'input_tokens')}, of which {one['shared_prefix_tokens']:,} "
        f"are a shared prefix; {one['output_tokens']:,} output tokens{_p90(one, 'output_tokens')}{turns}{stamped}"
        f"{_endpoint(one)}"
    )


def _p90(one: Mapping[str, Any], name: str) -> str:
    p90 = one.get(f"{name}_p90")
    return "" if p90 is None else f" (P90 {p90:,})"


def _endpoint(one: Mapping[str, Any]) -> str:
    return "; completions" if one.get("kind", "chat") == "completion" else ""


def _burstiness(given: Mapping[str, Any]) -> str:
    if given["arrivals"] != "gamma":
        return ""
    return f" (squared coefficient of variation {wording.number(float(given.get('burstiness', 1.0)))})"
