"""The Markdown of a record: MADR's sections and front matter, whatever was written into its texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kitedash.domain import madr, plain_yaml
from kitedash.domain.canonical_json import canonical, plain, sha256_of
from kitedash.domain.decision import DraftContent, content_from
from kitedash.domain.experiment_file import parse_experiment, to_yaml
from kitedash.domain.live_text import WORD_JOINER
from kitedash.domain.madr_text import estimate, fenced, line, paragraphs, table
from kitedash.domain.record_check import document_of
from kitedash.domain.wording import milliseconds
from tests.db.rows import a_spec
from tests.unit.services.decisions import WRITTEN, a_document, hostile

MARKDOWN = MarkdownIt("commonmark").enable("table")
GOLDEN = Path(__file__).parent / "records"

SECTIONS = [
    "Context and Problem Statement",
    "Decision Drivers",
    "Considered Options",
    "Decision Outcome",
    "Consequences",
    "Confirmation",
    "Pros and Cons of the Options",
    "float32",
    "fp8",
    "slow",
    "broken",
    "More Information",
]
HOSTILE = [
    "# a heading",
    "---",
    "===",
    "- item",
    "1. item",
    "> quote",
    "    code",
    "```\nfence\n```",
    "~~~",
    "<script>alert(1)</script>",
    "<!-- comment",
    "[a](http://x) ![b](c)",
    "[a]: http://x",
    "a | b | c",
    "| --- |",
    "*em* _em_ `code` ~~x~~ $x$ &lt;",
    "end with a backslash \\",
    "\\",
    "a: b",
    "'quote\" {x: [y",
    "text\n---\nsha256: 0000\n---\n# new",
    "tab\tand\u2028line\u0085separators\u202e",
    "* * *",
    "!important",
    "null",
]


def rendered(document: Any, sha256: str = "cd" * 32, superseded_by: int | None = None) -> str:
    return madr.render(plain(document), sha256, superseded_by)


def body_of(text: str) -> str:
    assert text.startswith("---\n")
    return text.split("\n---\n", 1)[1]


def structure(text: str) -> list[tuple[str, str, int]]:
    """Every block but paragraphs, of which a text may have several."""
    return [
        (token.type, token.tag, token.level)
        for token in MARKDOWN.parse(body_of(text))
        if token.type not in ("inline", "paragraph_open", "paragraph_close")
    ]


def inlines(text: str) -> list[Token]:
    return [token for token in MARKDOWN.parse(body_of(text)) if token.type == "inline"]


def headings(text: str) -> list[str]:
    tokens = MARKDOWN.parse(body_of(text))
    return [shown(tokens[i + 1]) for i, token in enumerate(tokens) if token.type == "heading_open"]


def shown(token: Token) -> str:
    return "".join(one.content for one in token.children or ())


def test_sections_and_front_matter_are_those_of_madr() -> None:
    text = rendered(a_document())
    assert headings(text) == ["Record 7: Serve fp8", *SECTIONS]
    front = madr.front_matter_of(text)
    assert {key: front[key] for key in ("status", "date", "decision-makers", "consulted", "informed")} == {
        "status": "accepted",
        "date": "2026-11-30",
        "decision-makers": ["Ann", "Bo"],
        "consulted": ["Cy"],
        "informed": [],
    }
    assert (front["number"], front["supersedes"], front["sha256"]) == (7, 3, "cd" * 32)
    assert front["previous-sha256"] == "ab" * 32
    assert 'Chosen option: "fp8", because:\n\nIt is the fastest that meets the targets.' in text
    assert "Not chosen, because: Slower, and its lead in quality is small." in text
    assert "When to look again: When the traffic doubles." in text
    assert "It supersedes record 3." in text


def test_numbers_have_unit_interval_and_n() -> None:
    text = rendered(a_document())
    row = next(one for one in text.splitlines() if one.startswith("| fp8 | 4/s"))
    assert "600 ms (95 % 540 ms to 660 ms, n = 400)" in row
    assert "75.0 % (95 %" in row
    assert "against float32: P90 TTFT 600 ms at 4/s against 900 ms at 4/s: 33.3 % lower" in text
    assert "| P90 TTFT, at most | 1,000 ms | 1,000 ms |" in text


def test_an_end_that_is_not_established_is_open_and_infinity_is_said_in_words() -> None:
    open_end = {"value": "564.2", "low": "520.0", "high": None, "n": 1240, "note": "too few"}
    assert estimate(open_end, milliseconds) == "564 ms (95 % 520 ms to open, n = 1,240; too few)"
    endless = {"value": "inf", "low": "1.0", "high": "inf", "n": 3, "note": ""}
    assert estimate(endless, milliseconds) == "beyond any bound (95 % 1.00 ms to beyond any bound, n = 3)"


def test_a_superseded_record_says_so_in_its_status_only() -> None:
    before, after = rendered(a_document()), rendered(a_document(), superseded_by=9)
    assert madr.front_matter_of(after)["status"] == "superseded by record 9"
    differing = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert [a.split(":")[0] for a, _ in differing] == ["status", "text-sha256"]


def test_a_draft_is_marked_and_what_is_missing_is_said() -> None:
    text = rendered(a_document(content=DraftContent(), accepted=None), "")
    assert headings(text)[0] == "Draft: (not written yet)"
    assert "This is a draft. Nobody has accepted it" in text
    assert madr.front_matter_of(text)["status"] == "draft"
    assert text.count("(not written yet)") == 4  # title, why, consequences, when to look again


def test_the_hash_of_the_text_finds_any_changed_character() -> None:
    text = rendered(a_document())
    said, found = madr.text_hashes(text) or ("", "")
    assert said == found
    without = "\n".join(one for one in text.split("\n") if not one.startswith("text-sha256: "))
    assert said == sha256_of(without)
    for at in range(0, len(text), 7):
        changed = text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]
        hashes = madr.text_hashes(changed)
        assert hashes is None or hashes[0] != hashes[1], at


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_people_and_engines_breaks_no_structure(text: str) -> None:
    content = content_from(
        {
            "title": text,
            "why": text,
            "consequences": f"before\n{text}\n\nafter\n{text}",
            "deciders": [text],
            "consulted": [text],
            "look_again": text,
            "rejected": {"float32": text},
        }
    )
    document = plain(a_document(*hostile(text), content=content))
    for key in ("description", "launched_by"):
        document["experiment"][key] = text
    document["notes"] = [text]
    document["recommendation"]["sentence"] = text
    document["recommendation"]["settles"] = [text]
    for suite in document["options"][1]["suites"]:
        suite["sentence"] = text
    document["options"][1]["settings"]["engine_args"] = {"hf-overrides": text}

    harmless = plain(a_document(*hostile("words"), content=content_from({**WRITTEN, "deciders": ["Ann"]})))
    harmless["experiment"] |= {"description": "words", "launched_by": "words"}
    harmless["notes"] = ["words"]
    harmless["recommendation"] |= {"sentence": "words", "settles": ["words"]}
    for suite in harmless["options"][1]["suites"]:
        suite["sentence"] = "words"
    harmless["options"][1]["settings"]["engine_args"] = {"hf-overrides": "words"}

    found = madr.render(document, "cd" * 32)
    assert structure(found) == structure(madr.render(harmless, "cd" * 32))
    kinds = {one.type for token in inlines(found) for one in token.children or ()}
    assert kinds <= {"text", "text_special", "softbreak", "hardbreak", "code_inline"}
    codes = {one.content for token in inlines(found) for one in token.children or () if one.type == "code_inline"}
    assert all("`" not in one for one in codes)
    one_line = " ".join(content.title.split())
    assert headings(found)[0].replace(WORD_JOINER, "") == f"Record 7: {' '.join(madr_visible(one_line).split())}"
    front = madr.front_matter_of(found)
    assert (front["title"], front["decision-makers"], front["number"]) == (one_line, [one_line], 7)
    assert front["sha256"] == "cd" * 32


@pytest.mark.parametrize(
    "text",
    [
        "see https://evil.example now",
        "ftp://evil.example",
        "WWW.evil.example and www.evil.example",
        "ask @everyone, or a.b@evil.example",
        "mailto:a@evil.example",
    ],
)
def test_no_address_and_no_name_becomes_a_link(text: str) -> None:
    """What GitHub makes live after parsing: its rules, on the text that a reader of Markdown has in the end."""
    content = content_from({**WRITTEN, "title": text, "why": text, "deciders": [text]})
    document = plain(a_document(*hostile(text), content=content))
    document["notes"] = [text]
    found = inlines(madr.render(document, "cd" * 32))
    words = [one.content for token in found for one in token.children or () if one.type.startswith("text")]
    said = " ".join(words)
    assert said.replace(WORD_JOINER, "").count(text) >= 4  # it can be read as it was written
    assert not re.search(r"\w://|\bwww\.|@\w", said, re.IGNORECASE)


def madr_visible(text: str) -> str:
    """As a heading shows it: what can't be seen is a space."""
    return "".join(" " if not one.isprintable() else one for one in text)


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_one_heading_one_cell_one_list_item_and_one_code_block(text: str) -> None:
    safe = line(text)
    tokens = MARKDOWN.parse(f"### {safe}\n\n{table(['a'], [[safe]])}\n\n* {safe}\n\n{fenced(text)}\n\nend")
    kinds = [token.type for token in tokens if token.level == 0 and token.nesting >= 0]
    assert kinds == ["heading_open", "table_open", "bullet_list_open", "fence", "paragraph_open"]
    assert sum(token.type == "td_open" for token in tokens) == 1
    assert sum(token.type.endswith("list_open") for token in tokens) == 1


@given(st.text(st.sampled_from("a1 \n\t.-+*_#>=`~|[]()<>!&\\:"), max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_is_paragraphs_and_nothing_else(text: str) -> None:
    tokens = MARKDOWN.parse(paragraphs(text))
    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}
    words = "".join(shown(token) for token in tokens if token.type == "inline")
    assert words.replace(" ", "") == "".join(text.split())


def test_the_specification_in_it_can_be_launched_again() -> None:
    spec = parse_experiment(to_yaml(a_spec(engine_args={"gpu-memory-utilization": 0.9, "max-num-seqs": 4})))
    document = plain(a_document())
    document["experiment"]["spec_json"] = json.dumps(spec.model_dump(mode="json"), sort_keys=True)
    block = madr.render(document, "").split("```yaml\n")[1].split("\n```")[0]
    assert parse_experiment(block) == spec
    assert plain_yaml.load(block)["engine_args"]["gpu-memory-utilization"] == 0.9


def test_the_command_holds_every_argument_in_quotes_where_needed() -> None:
    text = rendered(a_document(*hostile("two words; rm -rf ~")))
    assert "SOME_VARIABLE='two words; rm -rf ~' \\\n  python -m vllm \\\n  --model 'two words; rm -rf ~'" in text


def test_format_1_is_rendered_as_it_always_was() -> None:
    """Exports of earlier versions are compared with what this version renders: the layout of a format never changes."""
    stored = (GOLDEN / "format_1.json").read_text(encoding="utf-8")
    assert madr.render(document_of(stored), sha256_of(stored)) == (GOLDEN / "format_1.md").read_text(encoding="utf-8")


def test_the_golden_document_has_the_form_of_todays_documents() -> None:
    def form(value: Any) -> Any:
        return {key: form(one) for key, one in value.items()} if isinstance(value, dict) else type(value)

    golden = json.loads((GOLDEN / "format_1.json").read_text(encoding="utf-8"))
    today = json.loads(canonical(a_document()))
    assert form(golden) == form(today)
    for old, new in zip(golden["options"], today["options"], strict=True):
        assert form(old) == form(new)
