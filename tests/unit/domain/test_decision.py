"""Deciding: what a person must write, which part each candidate has, and what the product says against the others."""

from __future__ import annotations

from typing import Any

import pytest

from kitedash.domain import decision
from kitedash.domain.decision import content_from, draft_content_from
from kitedash.domain.decision_document import StatusesPart
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import Targets
from tests.unit.services.decisions import WRITTEN

MEETS = StatusesPart("meets", "meets", "meets", "meets")


def test_complete_content_is_tidied_and_kept() -> None:
    content = content_from(
        {**WRITTEN, "title": "  Serve\n fp8 ", "why": "\r\nIt is\r\nfast. ", "deciders": [" Ann ", "", "Ann", "Bo"]}
        | {"rejected": {"float32": " slower ", "slow": "  "}}
    )
    assert content.title == "Serve fp8"
    assert content.why == "It is\nfast."
    assert content.deciders == ("Ann", "Bo")
    assert content.rejected == {"float32": "slower"}


@pytest.mark.parametrize("field", ["title", "why", "consequences", "deciders", "look_again"])
@pytest.mark.parametrize("empty", ["missing", "blank"])
def test_what_is_missing_is_named_at_its_field_but_a_draft_may_lack_it(field: str, empty: str) -> None:
    content = dict(WRITTEN)
    if empty == "missing":
        del content[field]
    else:
        content[field] = [" "] if field == "deciders" else " \n "
    assert draft_content_from(content)
    with pytest.raises(InvalidInput) as refused:
        content_from(content)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"title": "x" * 201}, "title"),
        ({"title": 5}, "title"),
        ({"why": "x" * 10_001}, "why"),
        ({"deciders": "Ann"}, "deciders"),
        ({"deciders": ["x" * 201]}, "deciders[0]"),
        ({"deciders": ["Ann"] * 21}, "deciders"),
        ({"rejected": {"fp8": 1}}, "rejected.fp8"),
        ({"rejected": ["fp8"]}, "rejected"),
        ({"becuase": "x"}, "becuase"),
        ({"why": b"x"}, "content"),
    ],
)
def test_wrong_types_and_lengths_are_refused_in_a_draft_too(change: dict[str, Any], field: str) -> None:
    for read in (draft_content_from, content_from):
        with pytest.raises(InvalidInput) as refused:
            read({**WRITTEN, **change})
        assert refused.value.field == field
        assert "\n" not in str(refused.value)


def test_characters_that_hide_or_turn_text_are_made_visible() -> None:
    content = draft_content_from({"title": "a\x00b\x1b[31m\u202ec\ud800", "why": "two\nlines\tand a tab"})
    assert content.title == "a\ufffdb\ufffd[31m\ufffdc?"
    assert content.why == "two\nlines\tand a tab"


def test_every_rejection_that_needs_a_reason_has_one() -> None:
    content = content_from(WRITTEN)
    decision.require_reasons(content, ("float32",))
    with pytest.raises(InvalidInput, match="say why int8 is not chosen") as refused:
        decision.require_reasons(content, ("float32", "int8"))
    assert refused.value.field == "rejected.int8"


@pytest.mark.parametrize(
    ("name", "on_front", "is_baseline", "role", "by_a_person"),
    [
        ("chosen", True, True, "chosen", False),
        ("other", True, True, "rejected member of the front", True),
        ("other", True, False, "rejected member of the front", True),
        ("other", False, True, "baseline", True),
        ("other", False, False, "other", False),
    ],
)
def test_roles(name: str, on_front: bool, is_baseline: bool, role: str, by_a_person: bool) -> None:
    found = decision.role_of(name, "chosen", on_front=on_front, is_baseline=is_baseline)
    assert found == role
    assert decision.explained_by_a_person(found) is by_a_person


def test_targets_that_were_moved_are_said_to_be() -> None:
    written = Targets(ttft_p90_ms=800, cost_per_1000_requests_usd=0.5, pass_rate=0.6)
    same = decision.targets_part(written, written)
    assert not same.differ
    assert same.sentence == "The decision used the targets as they were written down in the experiment."
    moved = decision.targets_part(written, written.model_copy(update={"ttft_p90_ms": 900.0, "pass_rate": 0.55}))
    assert moved.differ
    assert moved.sentence == (
        "The decision did not use the targets as written down: P90 TTFT 900 ms instead of 800 ms and "
        "pass rate 55.0 % instead of 60.0 %."
    )


@pytest.mark.parametrize(
    ("kind", "candidate", "differs", "says"),
    [
        ("established", "fp8", False, ""),
        ("leading", "fp8", False, "fp8 is what was ahead, but that was not established."),
        (
            "established",
            "int8",
            True,
            "The choice differs from the recommendation: fp8 was chosen, and int8 was ahead.",
        ),
        ("nearest", None, True, "fp8 was chosen, and no candidate was recommended."),
    ],
)
def test_a_choice_against_the_recommendation_is_said(
    kind: str, candidate: str | None, differs: bool, says: str
) -> None:
    part = decision.recommendation_part(kind, candidate, "A sentence.", (), "fp8")
    assert part.differs is differs
    assert part.differs_sentence.endswith(says)
    assert bool(part.differs_sentence) is bool(says)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"measured": False, "run_status": "failed", "error": "no memory."},
            "Not measured: it failed with: no memory.",
        ),
        ({"measured": False, "run_status": "queued"}, "Not measured: its run was queued when this was decided."),
        ({"statuses": StatusesPart("misses", "meets", "misses", "misses")}, "It misses P90 TTFT and pass rate."),
        ({"failed_suites": ["repo"]}, "Its quality fails against the baseline on repo."),
        ({"held": False}, "No measured rate of it is held, so it has no operating point."),
        ({"dominated_by": ["a"]}, "a is at least as good in all three numbers, and better in one."),
        ({"dominated_by": ["a", "b"]}, "a and b are at least as good in all three numbers, and better in one."),
        ({"incomplete": "It has no pass rate."}, "It has no pass rate."),
        ({}, "slow is not on the front."),
    ],
)
def test_the_products_own_reason(changes: dict[str, Any], says: str) -> None:
    facts: dict[str, Any] = {
        "run_status": "finished",
        "error": "",
        "measured": True,
        "held": True,
        "statuses": MEETS,
        "failed_suites": [],
        "dominated_by": [],
        "incomplete": "",
    }
    assert decision.product_reason("slow", **(facts | changes)) == says


def test_a_point_is_dominated_by_what_is_as_good_in_all_and_better_in_one() -> None:
    front = [
        ("same", (400.0, 1.0, 0.6)),
        ("faster", (399.0, 1.0, 0.6)),
        ("dearer", (300.0, 1.1, 0.6)),
        ("better answers", (400.0, 1.0, 0.7)),
        ("worse answers", (100.0, 0.1, 0.5)),
    ]
    assert decision.dominating((400.0, 1.0, 0.6), front) == ["faster", "better answers"]
