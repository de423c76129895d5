"""The suites of a run, and every answer: a list that can be narrowed, and one answer in full. Answers are data, so
they stand in code blocks and tables and never in Markdown."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from kitedash.domain.results import Answer
from kitedash.services.answers import AnswerInFull, AnswerItem, SuiteAnswers
from kitedash.services.run_page import RunDetail
from kitedash.services.views import SuiteView
from kitedash.ui import address, formats, theme
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown, printable

EVERY = "all"
OUTCOMES = ("passed", "failed", "cut off", "error")
CHANGES = ("fixed", "broken")
_Text = st.column_config.TextColumn
_LONG = 14  # lines from which on a text gets a box of its own height


def suites(detail: RunDetail) -> None:
    """The suites of this run, then the answers of the one that is picked."""
    if not detail.suites:
        alone = "It measures the load alone: no suite is asked."
        st.caption(alone if detail.run.is_again else "This experiment has no suites.")
        return
    st.dataframe(
        suite_rows(detail.suites),
        hide_index=True,
        placeholder=formats.MISSING,
        alt="Suites with pass rate, verdict against the baseline and counts",
        column_config={
            "Suite": _Text(width=210),
            "Verdict": _Text(width=115, help=DEFINITIONS["Quality verdict"]),
            "Pass rate": _Text(width=190, help=DEFINITIONS["Pass rate"]),
            "Cut off": st.column_config.NumberColumn(width=62, help="At the token limit: they do not pass."),
            "No answer": st.column_config.NumberColumn(width=80, help="The request failed: they do not pass."),
            "Change": _Text("Change to the baseline (90 %)", width=210, help=DEFINITIONS["Change to the baseline"]),
        },
    )
    st.markdown("\n".join(f"- **{markdown(s.name)}**: {markdown(s.verdict_sentence)}" for s in detail.suites))
    answered = [suite.name for suite in detail.suites if suite.version]
    if detail.answers is None or not answered:
        st.caption("No suite has been answered yet.")
        return
    _answers(detail.answers, answered)


def suite_rows(found: tuple[SuiteView, ...]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = [
        {
            "Suite": f"{suite.name} ({suite.role})" if suite.role else suite.name,
            "Verdict": theme.sign(theme.VERDICT_SIGN, suite.verdict),
            "Pass rate": _pass_rate(suite),
            "Passed": f"{suite.n_passed} of {suite.n_items}" if suite.version else formats.MISSING,
            "Cut off": suite.n_truncated if suite.version else None,
            "No answer": suite.n_failed if suite.version else None,
            "Change": _points(suite),
        }
        for suite in found
    ]
    return pd.DataFrame(rows)


def narrowed(items: tuple[AnswerItem, ...], wanted: str) -> tuple[AnswerItem, ...]:
    """The items of one outcome, or of one change to the baseline; `EVERY` is all of them."""
    if wanted in CHANGES:
        return tuple(item for item in items if item.against_baseline == wanted)
    return items if wanted not in OUTCOMES else tuple(item for item in items if item.outcome == wanted)


def _answers(answers: SuiteAnswers, answered: list[str]) -> None:
    left, right = st.columns([1, 2.4])
    with left:
        _choice("Suite", answered, address.SUITE, answers.suite, default=answered[0])
    counts = Counter(item.outcome for item in answers.items)
    counts.update(item.against_baseline for item in answers.items)
    counts[EVERY] = len(answers.items)
    options = [EVERY, *(name for name in (*OUTCOMES, *CHANGES) if counts[name])]
    with right:
        wanted = _choice(
            "Answers",
            options,
            address.ANSWERS,
            address.value(address.ANSWERS),
            default=EVERY,
            words=lambda name: f"{theme.sign(theme.ANSWER_SIGN, name)} {counts[name]}",
        )
    if answers.note:
        st.caption(markdown(answers.note))
    shown = narrowed(answers.items, wanted)
    key = f"_answers_{answers.suite}_{wanted}"
    st.dataframe(
        item_rows(shown),
        hide_index=True,
        height=260 if len(shown) > 6 else "auto",
        placeholder=formats.MISSING,
        alt="Answers with their outcome and how they compare with the baseline's",
        key=key,
        on_select=partial(_row_picked, key, tuple(item.item_id for item in shown)),
        selection_mode="single-row",
        column_config={
            "Item": _Text(width=430, pinned=True),
            "Outcome": _Text(width=95, help="cut off: at the token limit. Only a whole answer can pass."),
            "Against the baseline": _Text(
                width=150, help="fixed: only this run passes. broken: only the baseline does."
            ),
            "Score": st.column_config.NumberColumn(width=62, format="%.2f"),
            "Error": _Text(width=260),
        },
    )
    _item_box(answers, shown)
    if answers.chosen is not None:
        _in_full(answers.chosen, answers)


def item_rows(items: tuple[AnswerItem, ...]) -> pd.DataFrame:
    columns = ["Item", "Outcome", "Against the baseline", "Kind", "Score", "Finish reason", "Error"]
    rows = [
        [
            printable(item.item_id),
            theme.sign(theme.ANSWER_SIGN, item.outcome),
            theme.sign(theme.ANSWER_SIGN, item.against_baseline),
            printable(item.kind),
            item.score,
            printable(item.finish_reason),
            printable(item.error),
        ]
        for item in items
    ]
    return pd.DataFrame(rows, columns=columns)


def _item_box(answers: SuiteAnswers, shown: tuple[AnswerItem, ...]) -> None:
    """A row of the table can be clicked; the box does the same by keyboard, and says which one is open."""
    ids = [item.item_id for item in shown]
    chosen = answers.chosen.answer.item_id if answers.chosen is not None else None
    if chosen is not None and chosen not in ids:
        ids.insert(0, chosen)
    st.session_state[address.ITEM_BOX] = chosen
    st.selectbox(
        "Answer in full",
        ids,
        index=None,
        format_func=printable,
        key=address.ITEM_BOX,
        on_change=_item_picked,
        placeholder="Pick a row above, or an item here",
    )


def _in_full(found: AnswerInFull, answers: SuiteAnswers) -> None:
    with st.container(border=True):
        mine, theirs = st.columns(2)
        with mine:
            _one_answer("This run", found.answer, found.outcome)
        with theirs:
            if found.baseline is not None:
                _one_answer("Baseline", found.baseline, found.baseline_outcome)
            else:
                st.markdown("**Baseline**")
                st.caption(markdown(answers.note or "It did not answer this item."))
        if found.answer.reference:
            st.markdown("**Expected**")
            _text(found.answer.reference)
        st.markdown("**Prompt**")
        if found.asked.parts:
            for role, text in found.asked.parts:
                st.caption(markdown(role))
                _text(text)
        else:
            st.caption(markdown(found.asked.note))
        if found.asked.parts:
            st.caption(f"SHA-256 of the prompt: {markdown(found.answer.prompt_sha256)}")


def _one_answer(title: str, answer: Answer, outcome: str) -> None:
    tokens = "" if answer.tokens_out is None else f" · {answer.tokens_out:,} tokens"
    st.markdown(f"**{title}** · {theme.sign(theme.ANSWER_SIGN, outcome)}")
    st.caption(f"score {answer.score:.2f} · finish reason {markdown(answer.finish_reason or 'none')}{tokens}")
    if answer.error:
        st.code(printable(answer.error), language=None, wrap_lines=True)
    elif answer.text:
        _text(answer.text)
    else:
        st.caption("It is empty.")


def _text(text: str) -> None:
    long = text.count("\n") > _LONG
    st.code(printable(text), language=None, wrap_lines=True, height=300 if long else "content")


def _choice(label: str, options: list[str], key: str, asked: str, *, default: str, words: formats.Words = str) -> str:
    box = address.box(key)
    st.session_state[box] = asked if asked in options else default
    chosen = st.segmented_control(
        label, options, format_func=words, required=True, key=box, on_change=_write, args=(key, default)
    )
    return chosen or default


def _write(key: str, default: str) -> None:
    address.put(key, st.session_state[address.box(key)] or default, default)


def _row_picked(key: str, ids: tuple[str, ...]) -> None:
    """A row that is clicked again is let go, and its answer stays open."""
    rows = st.session_state[key]["selection"]["rows"]
    if rows and rows[0] < len(ids):
        address.put(address.ITEM, ids[rows[0]])


def _item_picked() -> None:
    address.put(address.ITEM, st.session_state[address.ITEM_BOX] or "")


def _pass_rate(suite: SuiteView) -> str:
    rate = suite.pass_rate
    if rate.value is None:
        return rate.note or formats.MISSING
    return f"{formats.share(rate.value)} [{formats.interval(rate, formats.share)}]"


def _points(suite: SuiteView) -> str:
    change = suite.change
    if change is None or change.value is None:
        return formats.MISSING
    low, high = (formats.MISSING if v is None else f"{100 * v:+.1f}" for v in (change.low, change.high))
    return f"{100 * change.value:+.1f} points [{low} to {high}]"
