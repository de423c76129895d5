"""What a person types about a decision, kept for the session: neither another page, nor a refused save, nor a draft
that somebody else saved in between may lose it.

The fields live under keys of a scope: the draft's id, or the experiment of a decision that was not saved yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import streamlit as st

from kitedash.services.decide import DraftView
from kitedash.services.decide_page import DecidePage
from kitedash.ui import address

TEXTS: Final = ("title", "why", "consequences", "look_again")
NAMES: Final = ("deciders", "consulted")  # lists of people, typed with commas between them
SUPERSEDES: Final = "supersedes"
NOTHING: Final = 0  # no record is superseded: their numbers begin at 1
_REASON: Final = "reason."
_STATE: Final = "state"

Said = tuple[Literal["error", "success"], str]


@dataclass(frozen=True)
class Form:
    """`revision` is that of the draft when the fields were last loaded or saved, `saved` what they held then.
    `results` is the revision of the results that the person has seen."""

    scope: str
    revision: int | None
    saved: Mapping[str, Any]
    results: str
    problems: Mapping[str, str] = field(default_factory=dict)  # a sentence by field, as the service names it
    said: Said | None = None
    reviewing: bool = False

    @property
    def is_changed(self) -> bool:
        return fields(self.scope) != self.saved


def scope_of(page: DecidePage) -> str:
    if page.draft is not None:
        return page.draft.id
    assert page.view is not None
    return f"new.{page.view.experiment_id}"


def opened(page: DecidePage) -> Form:
    """The form of this page's draft. Its fields are filled when it is first opened, and again when the draft was saved
    elsewhere while nothing was typed here."""
    assert page.view is not None
    scope = scope_of(page)
    form = stored(scope)
    moved_on = form is not None and page.draft is not None and form.revision != page.draft.revision
    if form is None or (moved_on and not form.is_changed):
        was_read = form is not None and form.reviewing
        form = load(scope, page.draft, page.view.revision)
        if was_read and page.draft is not None:
            said = f"{page.draft.updated_by} saved this draft while you read it: these are the fields as they are now."
            form = keep(replace(form, said=("error", said)))
    return form


def load(scope: str, draft: DraftView | None, results: str) -> Form:
    """Fills the fields from the draft, over whatever they held."""
    forget(scope)
    if draft is not None:
        for name in TEXTS:
            _set(scope, name, getattr(draft.content, name))
        for name in NAMES:
            _set(scope, name, ", ".join(getattr(draft.content, name)))
        for candidate, reason in draft.content.rejected.items():
            _set(scope, _REASON + candidate, reason)
        _set(scope, SUPERSEDES, draft.supersedes or NOTHING)
    return keep(Form(scope, draft.revision if draft is not None else None, fields(scope), results))


def is_reviewed(draft_id: str | None) -> bool:
    form = stored(draft_id) if draft_id else None
    return form is not None and form.reviewing


def moved(form: Form, draft: DraftView) -> Form:
    """The form after a save: what was typed now belongs to the draft."""
    if form.scope != draft.id:
        typed = fields(form.scope)
        forget(form.scope)
        for name, value in typed.items():
            _set(draft.id, name, value)
    return keep(replace(form, scope=draft.id, revision=draft.revision, saved=fields(draft.id), problems={}, said=None))


def keep(form: Form) -> Form:
    st.session_state[address.decision_key(form.scope, _STATE)] = form
    return form


def stored(scope: str) -> Form | None:
    found = st.session_state.get(address.decision_key(scope, _STATE))
    return found if isinstance(found, Form) else None


def forget(scope: str) -> None:
    for key in [key for key in st.session_state if str(key).startswith(address.decision_key(scope, ""))]:
        del st.session_state[key]


def field_key(scope: str, name: str) -> str:
    """The widget's key. Its entry is made first, so that the widget needs no value of its own."""
    key = address.decision_key(scope, name)
    if key not in st.session_state:
        st.session_state[key] = NOTHING if name == SUPERSEDES else ""
    return key


def reason_key(scope: str, candidate: str) -> str:
    return field_key(scope, _REASON + candidate)


def content(scope: str) -> dict[str, Any]:
    """What the service stores. Reasons for candidates that need none at the moment are kept as well."""
    typed = fields(scope)
    return {
        **{name: str(typed.get(name, "")).strip() for name in TEXTS},
        **{name: _people(str(typed.get(name, ""))) for name in NAMES},
        "rejected": {
            name.removeprefix(_REASON): str(value).strip()
            for name, value in typed.items()
            if name.startswith(_REASON) and str(value).strip()
        },
    }


def reasons(scope: str) -> tuple[str, ...]:
    """The candidates for which a reason is typed."""
    return tuple(content(scope)["rejected"])


def supersedes(scope: str) -> int | None:
    value = fields(scope).get(SUPERSEDES)
    return value if isinstance(value, int) else None  # `fields` leaves NOTHING out


def fields(scope: str) -> dict[str, Any]:
    """Every field that holds something, by name."""
    prefix, state = address.decision_key(scope, ""), address.decision_key(scope, _STATE)
    return {
        str(key).removeprefix(prefix): value
        for key, value in st.session_state.items()
        if str(key).startswith(prefix) and key != state and value not in ("", None, NOTHING)
    }


def _set(scope: str, name: str, value: object) -> None:
    st.session_state[address.decision_key(scope, name)] = value


def _people(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
