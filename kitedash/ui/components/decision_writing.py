"""The lower part of the decide page: what a person writes, the buttons, and the record as it would read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import streamlit as st

from kitedash.domain.decision_content import DraftContent
from kitedash.services.compare import ComparisonView
from kitedash.services.decide_page import DecidePage
from kitedash.services.records import RecordItem
from kitedash.ui import decision_actions, decision_form, formats
from kitedash.ui.components import gives_up, record
from kitedash.ui.decision_actions import Deciding
from kitedash.ui.decision_form import Form
from kitedash.ui.escape import markdown, printable

_LABELS: Final = {
    "title": "Title",
    "why": "Why this candidate",
    "consequences": "Consequences",
    "deciders": "Who decides",
    "consulted": "Consulted",
    "look_again": "When to look again",
}
_HINTS: Final = {
    "title": "What is decided, in one line",
    "why": "What it is to achieve, and why this one and no other",
    "consequences": "What follows from it, good and bad; what has to be done",
    "deciders": "Names, with commas between them",
    "consulted": "Names, with commas between them; may stay empty",
    "look_again": "A date or an event, such as: when traffic doubles",
}
_REASON_MAX_CHARS: Final = 2_000


def writing(page: DecidePage, form: Form, what: Deciding, refusal: str) -> None:
    """The fields with their refusals, and the buttons below. `refusal` says why the actor may not save; "" if so."""
    st.subheader("Write the decision")
    _notices(page, form, what)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _field(form, "title")
        _field(form, "why", lines=5)
        _field(form, "consequences", lines=5)
    with right:
        for name in ("deciders", "consulted", "look_again"):
            _field(form, name)
        _supersedes(page, form)
    _reasons(page, form)
    _buttons(form, what, refusal)


def review(page: DecidePage, form: Form, what: Deciding, refusal: str) -> None:
    """The confirming step: the record as it would read, then accept."""
    st.subheader("The record as it would read")
    if form.said is not None:
        _say(*form.said)
    st.info(
        "Accepting gives the record the next number and freezes it with every number behind it. It is then never "
        "changed: a later decision supersedes it.",
        icon=":material/lock:",
    )
    accept, back, _ = st.columns([1.4, 1.4, 4])
    accept.button(
        "Accept as a record",
        type="primary",
        icon=":material/gavel:",
        on_click=decision_actions.accept,
        args=(what,),
        disabled=bool(refusal),
        help=refusal or None,
        width="stretch",
    )
    back.button("Back to writing", on_click=decision_actions.back_to_writing, args=(what,), width="stretch")
    assert page.reading is not None
    with st.container(border=True):
        st.markdown(f"### {markdown(page.reading.document.title)}")
        record.people(page.reading.document)
        record.body(page.reading.document)
    with st.expander("As exported Markdown", icon=":material/article:"):
        st.code(printable(page.reading.markdown), language="markdown", wrap_lines=True)


def _notices(page: DecidePage, form: Form, what: Deciding) -> None:
    """What happened on the last click, and what changed elsewhere since the form was opened."""
    assert page.view is not None
    draft = page.draft
    if form.said is not None:
        _say(*form.said)
    if draft is not None and form.revision is not None and draft.revision != form.revision:
        st.warning(
            f"{markdown(draft.updated_by)} saved this draft at {formats.moment(draft.updated_at)}, after you opened "
            "it. What you typed is still here.",
            icon=":material/group:",
        )
        mine, theirs, _ = st.columns([1.6, 1.6, 3])
        mine.button("Save mine over it", on_click=decision_actions.save_over, args=(what,), width="stretch")
        theirs.button("Take theirs, drop mine", on_click=decision_actions.take_theirs, args=(what,), width="stretch")
        with st.expander("What was saved in between"):
            st.code(saved_text(draft.content), language=None, wrap_lines=True)
    if form.results != page.view.revision:
        st.info(
            "Results changed since you opened this form: the numbers above are the new ones. What you typed is still "
            "here.",
            icon=":material/update:",
        )


def saved_text(content: DraftContent) -> str:
    """Everything of a draft as plain text."""
    parts = [(_LABELS[name], str(getattr(content, name))) for name in decision_form.TEXTS]
    parts += [(_LABELS[name], ", ".join(getattr(content, name))) for name in decision_form.NAMES]
    parts += [(f"Why not {name}", reason) for name, reason in content.rejected.items()]
    return printable("\n".join(f"{label}: {text or formats.MISSING}" for label, text in parts))


def _field(form: Form, name: str, *, lines: int = 1) -> None:
    key = decision_form.field_key(form.scope, name)
    limit = _max_chars(name)
    label, hint = _LABELS[name], _HINTS[name]
    if lines > 1:
        st.text_area(label, key=key, height=30 + 24 * lines, max_chars=limit, placeholder=hint, persist_state="session")
    else:
        st.text_input(label, key=key, max_chars=limit, placeholder=hint, persist_state="session")
    _refusals(form.problems, name)


def _max_chars(name: str) -> int | None:
    """The limit of a text; that of a list of names is on each of them."""
    bounds = [getattr(rule, "max_length", None) for rule in DraftContent.model_fields[name].metadata]
    return None if name in decision_form.NAMES else next((bound for bound in bounds if bound is not None), None)


def _refusals(problems: Mapping[str, str], name: str) -> None:
    """At the field concerned: `name` itself or a part of it."""
    for field, sentence in problems.items():
        if field == name or field.startswith((f"{name}.", f"{name}[")):
            st.markdown(f":red[:material/error: {markdown(sentence)}]")


def _supersedes(page: DecidePage, form: Form) -> None:
    key = decision_form.field_key(form.scope, decision_form.SUPERSEDES)
    by_number = {one.number: one for one in page.open_records}
    chosen = st.session_state[key]
    numbers = [*by_number] if chosen == decision_form.NOTHING or chosen in by_number else [chosen, *by_number]
    if not numbers:
        return
    st.selectbox(
        "Supersedes",
        [decision_form.NOTHING, *numbers],
        format_func=lambda number: _record_title(by_number.get(number), number),
        key=key,
        persist_state="session",
        help="The record that this decision takes the place of. It stays readable, and says which one superseded it.",
    )
    _refusals(form.problems, decision_form.SUPERSEDES)


def _record_title(found: RecordItem | None, number: int) -> str:
    if number == decision_form.NOTHING:
        return "no earlier record"
    if found is None:
        return f"Record {number} (no longer open)"
    return f"Record {number}: {found.title} ({found.candidate_name}, {found.experiment_name})"


def _reasons(page: DecidePage, form: Form) -> None:
    """A reason for each candidate that only a person can say no to, with what it would have been better in; and those
    that were typed for others, since a record would hold them."""
    assert page.candidate is not None
    typed = [name for name in decision_form.reasons(form.scope) if name != page.candidate.name]
    names = tuple(dict.fromkeys((*page.reasons_needed, *typed)))
    if not names:
        return
    against = {one.other: one for one in page.against}
    st.markdown("**Why not the others** on the front, and the baseline")
    columns = [column for _ in range(0, len(names), 2) for column in st.columns(2, gap="medium")]
    for column, name in zip(columns, names, strict=False):
        with column:
            st.text_area(
                f"Why not {markdown(name)}?",
                key=decision_form.reason_key(form.scope, name),
                height=68,
                max_chars=_REASON_MAX_CHARS,
                placeholder=_better(against.get(name)),
                persist_state="session",
            )
            _refusals(form.problems, f"rejected.{name}")


def _better(one: ComparisonView | None) -> str:
    """What the other candidate has over the chosen one, as a hint."""
    found = [] if one is None else [found for found in one.differences if found.outcome == "worse"]
    if not found:
        return "It is better in none of the three numbers"
    words = [
        f"{f.dimension} ({gives_up.amount(f)}, {'established' if f.established else 'not established'})" for f in found
    ]
    return f"The choice is worse in {', '.join(words)}"


def _buttons(form: Form, what: Deciding, refusal: str) -> None:
    save, accept, discard, _ = st.columns([1.2, 1.6, 1.2, 2.6])
    saved = what.draft is not None and not form.is_changed
    save.button(
        "Save draft",
        icon=":material/save:",
        on_click=decision_actions.save,
        args=(what,),
        disabled=bool(refusal),
        help=refusal or None,
        width="stretch",
    )
    accept.button(
        "Review and accept",
        type="primary",
        icon=":material/preview:",
        on_click=decision_actions.review,
        args=(what,),
        disabled=bool(refusal),
        help=refusal or "Shows the record as it would read; nothing is accepted yet.",
        width="stretch",
    )
    with discard.popover("Discard", icon=":material/delete:", width="stretch", disabled=bool(refusal and what.draft)):
        st.markdown("The draft and what you typed are dropped." if what.draft else "What you typed is dropped.")
        st.button("Discard it", on_click=decision_actions.discard, args=(what,))
    if refusal:
        st.caption(markdown(refusal))
    elif what.draft is not None:
        when = formats.moment(what.draft.updated_at)
        state = "Saved" if saved else "Not all of it is saved: last saved"
        st.caption(f"{state} by {markdown(what.draft.updated_by)}, {when} (revision {what.draft.revision}).")
    else:
        st.caption("Not saved yet: what you type stays in this browser tab until you save it or close the tab.")


def _say(kind: str, sentence: str) -> None:
    show = {"error": st.error, "success": st.success}.get(kind, st.info)
    show(markdown(sentence), icon=":material/error:" if kind == "error" else ":material/check:")
