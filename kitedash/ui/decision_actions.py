"""What the buttons of the decide page do. Each runs before the page is drawn anew, and leaves its outcome on the form:
a sentence on top, or one at the field concerned. What was typed stays in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kitedash.domain.errors import InvalidInput, KiteDashError
from kitedash.domain.experiment import Targets
from kitedash.services import decide, decide_page
from kitedash.services.actor import Actor, lacks
from kitedash.services.decide import DraftView
from kitedash.services.decide_page import DecidePage
from kitedash.ui import address, decision_form
from kitedash.ui.decision_form import Form, Said


@dataclass(frozen=True)
class Deciding:
    """The page as it was drawn when a button was clicked: what the person has seen is what the action goes by."""

    actor: Actor
    experiment_id: str
    candidate_name: str
    targets: Targets
    reasons_needed: tuple[str, ...]
    results: str  # the revision of the results
    read_sha256: str  # of the record as it was shown; "" where it was not
    draft: DraftView | None
    scope: str


def deciding(actor: Actor, page: DecidePage, form: Form) -> Deciding:
    assert page.view is not None
    assert page.candidate is not None
    view, name = page.view, page.candidate.name
    return Deciding(
        actor=actor,
        experiment_id=view.experiment_id,
        candidate_name=name,
        targets=view.targets,
        reasons_needed=page.reasons_needed,
        results=view.revision,
        read_sha256=page.reading.sha256 if page.reading is not None else "",
        draft=page.draft,
        scope=form.scope,
    )


def refusal(actor: Actor) -> str:
    """Why the actor may not write decisions; "" for who may."""
    return lacks(actor, "engineer", "write or accept a decision")


def save(what: Deciding) -> None:
    """Stores the draft, complete or not."""
    saved = _save(what)
    if saved is not None:
        _say_on(saved.id, "Draft saved.", "success")


def save_over(what: Deciding) -> None:
    """Stores what was typed here over what somebody else saved in between."""
    form = decision_form.stored(what.scope)
    if form is not None and what.draft is not None:
        decision_form.keep(replace(form, revision=what.draft.revision))
        save(what)


def take_theirs(what: Deciding) -> None:
    decision_form.load(what.scope, what.draft, what.results)


def review(what: Deciding) -> None:
    """Stores the draft and, when nothing is missing, shows the record as it would read."""
    saved = _save(what)
    form = decision_form.stored(saved.id) if saved is not None else None
    if saved is None or form is None:
        return
    missing = decide_page.problems(decision_form.content(saved.id), what.reasons_needed)
    if missing:
        count = "One field needs" if len(missing) == 1 else f"{len(missing)} fields need"
        said: Said = ("error", f"The draft is saved. {count} an answer before it can be accepted.")
        decision_form.keep(replace(form, problems=missing, said=said))
    else:
        decision_form.keep(replace(form, reviewing=True))


def back_to_writing(what: Deciding) -> None:
    form = decision_form.stored(what.scope)
    if form is not None:
        decision_form.keep(replace(form, reviewing=False, said=None))


def accept(what: Deciding) -> None:
    """Freezes the draft as a record and goes there."""
    form = decision_form.stored(what.scope)
    if form is None or form.revision is None:
        return
    try:
        record = decide.accept(what.actor, what.scope, revision=form.revision, read_sha256=what.read_sha256)
    except InvalidInput as error:
        decision_form.keep(replace(form, problems={error.field: error.sentence}, reviewing=False))
    except KiteDashError as error:
        decision_form.keep(replace(form, said=("error", str(error))))
    else:
        decision_form.forget(what.scope)
        address.forget(address.DRAFT)
        address.go_to("pages/records.py", **{address.RECORD: str(record.number)})


def discard(what: Deciding) -> None:
    """Drops the draft and what was typed; what was never saved is only cleared."""
    if what.draft is not None:
        try:
            decide.discard_draft(what.actor, what.draft.id)
        except KiteDashError as error:
            _say_on(what.scope, str(error))
            return
    decision_form.forget(what.scope)
    address.forget(address.DRAFT)


def _save(what: Deciding) -> DraftView | None:
    form = decision_form.stored(what.scope)
    if form is None:
        return None
    try:
        saved = decide.save_draft(
            what.actor,
            experiment_id=what.experiment_id,
            candidate_name=what.candidate_name,
            content=decision_form.content(what.scope),
            targets=what.targets,
            supersedes=decision_form.supersedes(what.scope),
            draft_id=what.draft.id if what.draft is not None else None,
            revision=form.revision,
        )
    except InvalidInput as error:
        said: Said = ("error", "The draft is not saved: see the field marked below.")
        decision_form.keep(replace(form, problems={error.field: error.sentence}, said=said))
        return None
    except KiteDashError as error:
        _say_on(what.scope, str(error))
        return None
    decision_form.moved(form, saved)
    address.pick(address.DRAFT, saved.id)
    return saved


def _say_on(scope: str, sentence: str, kind: Literal["error", "success"] = "error") -> None:
    form = decision_form.stored(scope)
    if form is not None:
        decision_form.keep(replace(form, said=(kind, sentence)))
