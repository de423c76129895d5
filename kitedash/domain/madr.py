"""A decision record as Markdown: MADR 4.0 sections and front matter (https://adr.github.io/madr/).

It is rendered from the document alone, so that an export can be checked against the stored record, line by line: the
same document gives the same text in every version that knows its format. The front matter ends with `text-sha256`,
the hash of the whole text without that line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kitedash.domain import plain_yaml, wording
from kitedash.domain.canonical_json import sha256_of
from kitedash.domain.madr_options import candidates_table, option_sections, provenance, what_is_given_up
from kitedash.domain.madr_text import amount, bullets, code, line, paragraphs, table
from kitedash.domain.sentences import shown
from kitedash.domain.traffic_text import requests_said

Document = Mapping[str, Any]  # a parsed canonical document

TEXT_HASH = re.compile(r"^text-sha256: ([0-9a-f]{64})\n", re.MULTILINE)
RECORD_HASH = re.compile(r"^sha256: ([0-9a-f]{64})$", re.MULTILINE)
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)  # what rendering meets in a document of another form
MISSING = "(not written yet)"  # in a draft only


def render(document: Document, sha256: str, superseded_by: int | None = None) -> str:
    """The record as Markdown; `sha256` is the document's hash, "" for a draft."""
    text = f"---\n{_front_matter(document, sha256, superseded_by)}---\n\n{_body(document, sha256)}\n"
    front, body = text[:4], text[4:]
    end = body.index("\n---\n") + 1
    return f"{front}{body[:end]}text-sha256: {sha256_of(text)}\n{body[end:]}"


def text_hashes(text: str) -> tuple[str, str] | None:
    """The hash that a rendered text says of itself, and the one that it has; None where it says none."""
    found = TEXT_HASH.search(text)
    if found is None:
        return None
    return found[1], sha256_of(text[: found.start()] + text[found.end() :])


def front_matter_of(text: str) -> dict[str, Any]:
    """The front matter of a rendered text. Raises InvalidInput."""
    found = re.match(r"---\n(.*?\n)---\n", text, re.DOTALL)
    loaded = plain_yaml.load(found[1]) if found is not None else None
    return loaded if isinstance(loaded, dict) else {}


def record_hash(text: str) -> str | None:
    """The record's hash in the front matter, also of one that can't be read any more."""
    found = RECORD_HASH.search(text)
    return found[1] if found is not None else None


def first_difference(text: str, original: str) -> str:
    """Where two rendered texts part, as "line 12 (under Decision Drivers)", and what stands there in both."""
    mine, theirs = text.split("\n"), original.split("\n")
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    heading = next((one.lstrip("# ") for one in reversed(theirs[: at + 1]) if one.startswith("#")), "front matter")
    here, there = (shown(lines[at]) if at < len(lines) else "nothing" for lines in (mine, theirs))
    return f"line {at + 1:,} ({heading}), {here} here and {there} stored"


def _front_matter(document: Document, sha256: str, superseded_by: int | None) -> str:
    superseded = superseded_by is not None
    values: dict[str, Any] = {
        "status": f"superseded by record {superseded_by}" if superseded else document["status"],
        "date": (document["accepted_at"] or "")[:10],
        "decision-makers": [_one_line(name) for name in document["deciders"]],
        "consulted": [_one_line(name) for name in document["consulted"]],
        "informed": [],
        "number": document["number"],
        "title": _one_line(document["title"]),
        "supersedes": document["supersedes"],
        "experiment": document["experiment"]["id"],
        "chosen": _one_line(document["chosen"]),
        "kitedash": document["kitedash_version"],
        "format": document["format"],
        "previous-sha256": document["previous_sha256"],
        "sha256": sha256,
    }
    return plain_yaml.dump(values)


def _body(document: Document, sha256: str) -> str:
    draft = document["status"] == "draft"
    heading = line(document["title"]) or MISSING
    number = "Draft" if draft else f"Record {document['number']}"
    sections = [
        f"# {number}: {heading}",
        "**This is a draft. Nobody has accepted it, and its numbers may still change.**"
        if draft
        else f"Accepted by {line(document['accepted_by'])} at {document['accepted_at']}. {_people(document)}",
        "## Context and Problem Statement",
        *_context(document),
        "## Decision Drivers",
        *_drivers(document),
        "## Considered Options",
        bullets([f"{line(option['name'])} ({_role(option)})" for option in document["options"]]),
        candidates_table(document["options"]),
        "Numbers are at the highest rate that a candidate held, each with its 95 % interval and sample size n. Front: "
        "no other candidate is at least as good in P90 TTFT, deployed cost and pass rate and better in one.",
        "## Decision Outcome",
        *_outcome(document),
        "### Consequences",
        paragraphs(document["consequences"]) or MISSING,
        "### Confirmation",
        *_confirmation(document, draft=draft),
        "## Pros and Cons of the Options",
        *option_sections(document),
        "## More Information",
        *provenance(document, sha256),
    ]
    return "\n\n".join(section for section in sections if section)


def _people(document: Document) -> str:
    deciders = f"Decided by {wording.listed([line(name) for name in document['deciders']])}."
    consulted = [line(name) for name in document["consulted"]]
    return f"{deciders} Consulted: {wording.listed(consulted)}." if consulted else deciders


def _role(option: Mapping[str, Any]) -> str:
    extra = [
        words
        for words, holds in (
            ("baseline", option["is_baseline"] and option["role"] != "baseline"),
            ("on the front", option["on_front"] and option["role"] == "chosen"),
        )
        if holds
    ]
    role = "not on the front" if option["role"] == "other" else option["role"]
    return ", ".join([role, *extra])


def _context(document: Document) -> list[str]:
    experiment, workload = document["experiment"], document["workload"]
    given, load = workload["given"], document["load"]
    rates = wording.listed([f"{float(rate):g}" for rate in load["rates_per_s"]])
    return [
        paragraphs(experiment["description"]),
        f"Which candidate of the experiment {line(experiment['name'])} to serve, measured with KiteDash "
        f"{line(document['kitedash_version'])}. The experiment was launched by {line(experiment['launched_by'])} at "
        f"{experiment['launched_at']} (id {code(experiment['id'])}).",
        f"Workload: {given['users']:,} users with {amount(given['requests_per_user_per_day'], wording.number)} "
        f"requests a day each, {amount(workload['requests_per_day'], wording.number)} requests a day, at the peak "
        f"{amount(workload['peak_rate_per_s'], wording.number)} requests/s "
        f"({amount(given['peak_factor'], wording.number)} times the mean). {requests_said(given, line)}; "
        f"{given['spare_replicas']:,} spare replicas.",
        f"Load: {rates} requests/s, {load['blocks']:,} independent blocks of "
        f"{amount(load['block_duration_s'], wording.number)} s each.",
        bullets([line(note) for note in document["notes"]]),
    ]


def _drivers(document: Document) -> list[str]:
    targets, guardrails = document["targets"], document["guardrails"]
    rows = [
        [name, amount(targets["written"][field], write), amount(targets["used"][field], write)]
        for name, field, write in (
            ("P90 TTFT, at most", "ttft_p90_ms", wording.milliseconds),
            ("deployed cost per 1,000 requests, at most", "cost_per_1000_requests_usd", wording.usd),
            ("pass rate, at least", "pass_rate", wording.percent),
        )
    ]
    return [
        table(["target", "as written down", "as decided on"], rows),
        line(targets["sentence"]),
        f"Guardrails: P90 TPOT at most {amount(guardrails['tpot_p90_ms'], wording.milliseconds)}, errors at most "
        f"{amount(guardrails['error_rate'], wording.percent)}.",
    ]


def _outcome(document: Document) -> list[str]:
    recommendation = document["recommendation"]
    settles = [line(one) for one in recommendation["settles"]]
    return [
        f'Chosen option: "{line(document["chosen"])}", because:',
        paragraphs(document["why"]) or MISSING,
        f"KiteDash's recommendation at that time ({line(recommendation['kind'])}): {line(recommendation['sentence'])}",
        line(recommendation["differs_sentence"]),
        "What would settle it:" if settles else "",
        bullets(settles),
        *what_is_given_up(document),
    ]


def _confirmation(document: Document, *, draft: bool) -> list[str]:
    if draft:
        return [f"When to look again: {paragraphs(document['look_again']) or MISSING}"]
    number = document["number"]
    return [
        f"When to look again: {paragraphs(document['look_again'])}",
        f"To check that nothing was changed since: `kitedash records verify` checks the stored record {number} and its "
        "evidence; with this file, or its JSON, as an argument it checks the file.",
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())
