"""Writing a decision on the decide page: the whole way to a record, refusals at the field, nothing typed is lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kitedash.domain.decision import DraftContent
from kitedash.services import decide, decide_page, records
from kitedash.services.actor import LOCAL
from kitedash.settings import settings
from kitedash.ui.escape import markdown
from tests.ui.conftest import opened, texts
from tests.ui.deciding import (
    CHOSEN,
    REST,
    by_somebody_else,
    click,
    field,
    labels,
    store_a_result,
    the_draft,
    write,
    write_all,
)
from tests.ui.seed import Seeded

pytestmark = pytest.mark.ui


# ---- the whole way


def test_from_a_draft_to_a_record(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at, consulted="Linus")
    click(at, "Save draft")
    assert at.query_params["draft"] == the_draft().id
    assert markdown("Draft saved.") in texts(at)
    assert the_draft().content == DraftContent(
        title="Ship int8 with two sequences",
        why="It is the fastest one.",
        consequences="Six replicas are needed.",
        deciders=("Ada", "Grace"),
        consulted=("Linus",),
        look_again="when traffic doubles",
        rejected={name: f"slower than wanted: {name}" for name in REST},
    )
    click(at, "Review and accept")
    assert records.records() == ()  # only shown so far
    said = texts(at)
    assert "The record as it would read" in " ".join(head.value for head in at.subheader)
    assert "It is the fastest one\\." in said
    assert "Save draft" not in labels(at)
    click(at, "Accept as a record")
    (record,) = records.records()
    assert (record.number, record.candidate_name, record.accepted_by) == (1, CHOSEN, LOCAL.name)
    assert decide.drafts() == ()
    assert at.query_params["record"] == "1"
    assert "Record 1: Ship int8 with two sequences" in " ".join(head.value for head in at.subheader)


def test_the_way_back_from_the_review_keeps_everything(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at)
    click(at, "Review and accept")
    click(at, "Back to writing")
    assert field(at, "Why this candidate").value == "It is the fastest one."
    assert field(at, "Why not int8?").value == "slower than wanted: int8"


def test_a_draft_that_was_accepted_leads_to_its_record(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at)
    click(at, "Review and accept")
    draft = the_draft().id
    click(at, "Accept as a record")
    again = opened("decide", {"draft": draft})
    assert "This draft was accepted as record 1." in texts(again)
    assert not again.text_area


def test_drafts_of_the_experiment_can_be_opened_and_discarded(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write(at, title="First")
    click(at, "Save draft")
    other = opened("decide", {"experiment": own_database.many, "candidate": "int8"})
    box = next(box for box in other.selectbox if box.label == "Draft (1 open)")
    assert box.value == ""
    assert field(other, "Title").value == ""
    box.set_value(the_draft().id).run()
    assert field(other, "Title").value == "First"
    assert next(box for box in other.selectbox if box.label == "Decide for").value == CHOSEN
    click(other, "Discard it")
    assert decide.drafts() == ()
    assert field(other, "Title").value == ""
    assert "draft" not in other.query_params


def test_a_decision_can_supersede_an_open_record_only(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at)
    click(at, "Review and accept")
    click(at, "Accept as a record")
    second = opened("decide", {"experiment": own_database.many, "candidate": "int8"})
    box = next(box for box in second.selectbox if box.label == "Supersedes")
    assert box.options == [
        "no earlier record",
        f"Record 1: Ship int8 with two sequences ({CHOSEN}, quickstart)",
    ]
    box.set_value(1)
    write_all(second, ("float32", CHOSEN, "float32 max-num-seqs=2"), title="Ship int8 after all")
    click(second, "Review and accept")
    click(second, "Accept as a record")
    assert [(record.number, record.supersedes, record.superseded_by) for record in records.records()] == [
        (2, 1, None),
        (1, None, 2),
    ]
    third = opened("decide", {"experiment": own_database.many})
    box = next(box for box in third.selectbox if box.label == "Supersedes")
    assert len(box.options) == 2
    assert box.options[1].startswith("Record 2: ")


# ---- refusals at the field


def test_what_is_missing_is_said_at_every_field_concerned_at_once(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write(at, title="Only a title")
    click(at, "Review and accept")
    missing = decide_page.problems(the_draft().content.model_dump(), REST)
    assert set(missing) == {"why", "consequences", "deciders", "look_again", *(f"rejected.{name}" for name in REST)}
    shown = [str(text.value) for text in at.markdown if ":material/error:" in str(text.value)]
    assert len(shown) == len(missing)
    for sentence in missing.values():
        assert any(markdown(sentence) in text for text in shown)
    assert markdown("The draft is saved. 7 fields need an answer") in texts(at)
    assert field(at, "Title").value == "Only a title"
    assert "Accept as a record" not in labels(at)


def test_a_refusal_goes_away_once_the_field_is_filled(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at, look_again="")
    click(at, "Review and accept")
    assert len([text for text in at.markdown if ":material/error:" in str(text.value)]) == 1
    write(at, look_again="in March")
    click(at, "Review and accept")
    assert "Accept as a record" in labels(at)


def test_too_long_a_text_is_refused_at_its_field_and_kept(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    long = ", ".join(["x" * 201, "Ada"])
    write(at, deciders=long, title="Kept")
    click(at, "Save draft")
    assert decide.drafts() == ()
    assert markdown("The draft is not saved: see the field marked below.") in texts(at)
    assert len([text for text in at.markdown if ":material/error:" in str(text.value)]) == 1
    assert field(at, "Who decides").value == long
    assert field(at, "Title").value == "Kept"


# ---- nothing that was typed is lost


def test_another_page_and_another_candidate_lose_nothing(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write(at, title="Half a title", why="because")
    field(at, "Why not int8?").set_value("a reason").run()
    at.switch_page("pages/runs.py")
    at.run()
    at.switch_page("pages/decide.py")
    at.run()  # as through the menu
    assert field(at, "Title").value == "Half a title"
    assert field(at, "Why this candidate").value == "because"
    assert field(at, "Why not int8?").value == "a reason"
    next(box for box in at.selectbox if box.label == "Decide for").set_value("int8").run()
    assert field(at, "Title").value == "Half a title"
    assert "Why not int8?" not in [box.label for box in at.text_area]
    next(box for box in at.selectbox if box.label == "Decide for").set_value(CHOSEN).run()
    assert field(at, "Why not int8?").value == "a reason"


def test_a_save_in_between_is_told_and_loses_nothing(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write(at, title="Mine", why="my reasons")
    click(at, "Save draft")
    write(at, why="my longer reasons")
    by_somebody_else(the_draft(), why="their reasons")
    click(at, "Save draft")
    said = texts(at)
    assert "Mia saved this draft at" in said
    assert field(at, "Why this candidate").value == "my longer reasons"
    assert "their reasons" in said  # both are there to be read
    assert the_draft().content.why == "their reasons"
    click(at, "Save mine over it")
    assert the_draft().content.why == "my longer reasons"
    assert "Mia saved" not in texts(at)


def test_theirs_can_be_taken(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write(at, title="Mine")
    click(at, "Save draft")
    write(at, title="Mine, changed")
    by_somebody_else(the_draft(), title="Theirs")
    at.run()
    click(at, "Take theirs, drop mine")
    assert field(at, "Title").value == "Theirs"


def test_a_form_without_changes_follows_the_draft(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write(at, title="Mine")
    click(at, "Save draft")
    by_somebody_else(the_draft(), title="Theirs")
    at.run()
    assert field(at, "Title").value == "Theirs"
    assert "after you opened it" not in texts(at)


def test_a_save_while_the_record_is_read_leads_back_to_the_fields(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at)
    click(at, "Review and accept")
    by_somebody_else(the_draft(), title="Theirs")
    click(at, "Accept as a record")
    assert records.records() == ()
    assert field(at, "Title").value == "Theirs"
    assert markdown("Mia saved this draft while you read it") in texts(at)


def test_results_that_changed_before_accepting_are_told_and_nothing_is_accepted(
    own_database: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at)
    click(at, "Review and accept")
    accept = decide.accept

    def after_a_result(*args: Any, **kwargs: Any) -> Any:
        store_a_result(own_database.many)
        return accept(*args, **kwargs)

    monkeypatch.setattr(decide, "accept", after_a_result)
    click(at, "Accept as a record")
    assert records.records() == ()
    assert markdown("What the record would say changed since you read it") in texts(at)
    monkeypatch.setattr(decide, "accept", accept)
    click(at, "Back to writing")
    assert field(at, "Why this candidate").value == "It is the fastest one."
    click(at, "Review and accept")
    click(at, "Accept as a record")  # of what is shown now
    assert len(records.records()) == 1


def test_a_price_that_changed_before_accepting_is_shown_first(
    own_database: Seeded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write_all(at)
    click(at, "Review and accept")
    dearer = tmp_path / "prices.yaml"
    book = settings().price_book.read_text(encoding="utf-8")
    dearer.write_text(re.sub(r"usd_per_hour: [0-9.]+", "usd_per_hour: 77", book), encoding="utf-8")
    monkeypatch.setenv("KITEDASH_PRICE_BOOK", str(dearer))
    settings.cache_clear()
    click(at, "Accept as a record")
    assert records.records() == ()
    said = texts(at)
    assert markdown("such as a result or a price: read it anew, then accept.") in said
    click(at, "Accept as a record")  # of what is shown now
    (record,) = records.records()
    priced = [option["price"]["usd_per_hour"] for option in records.record(record.number).document["options"]]
    assert set(priced) == {"77.0"}


def test_results_that_changed_while_writing_are_told(own_database: Seeded) -> None:
    at = opened("decide", {"experiment": own_database.many, "candidate": CHOSEN})
    write(at, title="Before")
    store_a_result(own_database.many)
    at.run()
    assert "Results changed since you opened this form" in texts(at)
    assert field(at, "Title").value == "Before"
