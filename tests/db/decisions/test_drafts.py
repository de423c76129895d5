"""Drafts on both databases: kept as typed, never overwritten by somebody else's."""

from __future__ import annotations

from typing import Any

import pytest

from kitedash.domain.errors import InvalidInput, NotAllowed, NotFound, Refused
from kitedash.domain.experiment import Targets
from kitedash.services import decide, records
from kitedash.services.actor import Actor
from tests.db.decided import ENGINEER, a_draft, accepted
from tests.unit.services.evidence import SPEC

pytestmark = pytest.mark.database


@pytest.mark.usefixtures("filled")
def test_a_draft_keeps_what_was_typed_so_far() -> None:
    targets = Targets(ttft_p90_ms=950, cost_per_1000_requests_usd=1, pass_rate=0.6)
    first = decide.save_draft(
        ENGINEER, experiment_id="e1", candidate_name="fp8", content={"title": "Serve"}, targets=targets
    )
    assert (first.content.title, first.content.why, first.targets, first.revision) == ("Serve", "", targets, 1)
    again = decide.save_draft(
        Actor("Bo", "engineer"),
        experiment_id="e1",
        candidate_name="slow",
        content={"title": "Serve", "rejected": {"fp8": "new"}},
        targets=SPEC.targets,
        draft_id=first.id,
        revision=1,
    )
    assert (again.candidate_name, again.revision, again.created_by, again.updated_by) == ("slow", 2, "Ann", "Bo")
    assert decide.draft(first.id) == again
    assert decide.drafts("e1") == (again,)
    assert decide.drafts("another") == ()
    decide.discard_draft(ENGINEER, first.id)
    assert decide.drafts() == ()
    with pytest.raises(NotFound, match="No draft has the id"):
        decide.draft(first.id)


@pytest.mark.usefixtures("filled")
def test_a_save_over_what_somebody_else_saved_is_refused_and_says_who() -> None:
    draft = a_draft()
    arguments: dict[str, Any] = {"experiment_id": "e1", "candidate_name": "fp8", "targets": SPEC.targets}
    decide.save_draft(Actor("Bo", "engineer"), content={"why": "Bo's"}, draft_id=draft.id, revision=1, **arguments)
    with pytest.raises(Refused, match=r"^Bo saved this draft at .* after you opened it"):
        decide.save_draft(ENGINEER, content={"why": "Ann's"}, draft_id=draft.id, revision=1, **arguments)
    assert decide.draft(draft.id).content.why == "Bo's"


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"candidate_name": "fp9"}, InvalidInput, r"candidate_name: .*did you mean fp8"),
        ({"experiment_id": "nowhere"}, NotFound, "No experiment"),
        ({"content": {"title": 3}}, InvalidInput, "^title: must be text"),
        ({"draft_id": "nowhere"}, NotFound, "No draft"),
    ],
)
def test_what_no_draft_can_hold_is_refused(changes: dict[str, Any], error: type[Exception], says: str) -> None:
    arguments: dict[str, Any] = {"experiment_id": "e1", "candidate_name": "fp8", "content": {}}
    with pytest.raises(error, match=says):
        decide.save_draft(ENGINEER, targets=SPEC.targets, **(arguments | changes))
    assert decide.drafts() == ()


@pytest.mark.usefixtures("filled")
def test_a_viewer_may_neither_draft_nor_accept_nor_discard() -> None:
    draft, viewer = a_draft(), Actor("Vi", "viewer")
    with pytest.raises(NotAllowed, match="Vi is viewer and may not draft decisions"):
        a_draft(actor=viewer)
    with pytest.raises(NotAllowed, match="may not accept decisions"):
        accepted(draft, actor=viewer)
    with pytest.raises(NotAllowed, match="may not discard drafts"):
        decide.discard_draft(viewer, draft.id)
    assert decide.drafts() == (draft,)
    assert records.records() == ()


@pytest.mark.usefixtures("filled")
def test_a_draft_can_be_read_as_the_record_that_it_would_be() -> None:
    text = decide.as_it_would_read(a_draft(content={"title": "Serve fp8"})).markdown
    assert "# Draft: Serve fp8" in text
    assert "Nobody has accepted it" in text
    assert "600 ms (95 % 540 ms to 660 ms, n = 400)" in text
