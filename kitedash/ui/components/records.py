"""Around a record: the list, the open drafts, its head with the downloads, and the verification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd
import streamlit as st

from kitedash.services.actor import Actor
from kitedash.services.decide import DraftView
from kitedash.services.records import Finding, RecordItem, RecordView
from kitedash.services.records_page import RecordsPage
from kitedash.ui import address, formats, record_actions
from kitedash.ui.components import glossary
from kitedash.ui.components import record as record_parts
from kitedash.ui.escape import markdown, printable

_ROW_PX: Final = 35
_ROWS_SHOWN: Final = 5


def nothing_decided(page: RecordsPage) -> None:
    """The empty state: how a decision comes about, from the experiment on."""
    if page.nothing_launched:
        st.info(
            "Nothing has been decided yet, and no experiment has been started that there could be a decision about.",
            icon=":material/gavel:",
        )
        st.page_link("pages/launch.py", label="Describe one and launch it", icon=":material/rocket_launch:")
    else:
        st.info("Nothing has been decided yet.", icon=":material/gavel:")
    st.markdown(
        "A decision is made in three steps:\n\n"
        "1. On the **trade-off** page, pick the candidate to ship.\n"
        "2. On the **decide** page, see what it gives up against the others, and write why; drafts can be saved.\n"
        "3. **Accept** it: it gets a number, its numbers are frozen with their intervals, and it can be downloaded, "
        "sent around and verified."
    )
    if not page.nothing_launched:
        st.page_link("pages/decide.py", label="Write a decision", icon=":material/how_to_vote:")
    open_drafts(page.drafts)


def record_missing(sentence: str) -> None:
    st.error(markdown(sentence), icon=":material/link_off:")
    st.button("Show the newest record", on_click=address.forget, args=(address.RECORD,))


def record_rows(records: Sequence[RecordItem]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Number": record.number,
            "Accepted": _accepted(record),
            "Title": printable(record.title),
            "Candidate": printable(record.candidate_name),
            "Experiment": printable(record.experiment_name),
            "By": printable(record.accepted_by),
            "Status": ("✓ " if record.superseded_by is None else "→ ") + record.status,
        }
        for record in records
    )


def record_list(page: RecordsPage) -> None:
    """The table and the box that picks one."""
    assert page.chosen is not None
    count = len(page.records)
    st.dataframe(
        record_rows(page.records),
        hide_index=True,
        height=_ROW_PX * (min(count, _ROWS_SHOWN) + 1) + 3,
        alt="Every record with its number, date, title, candidate, experiment, who accepted it and its status",
        column_config={
            "Number": st.column_config.NumberColumn(width=64),
            "Accepted": st.column_config.TextColumn(width=150),
            "Title": st.column_config.TextColumn(width=360),
        },
    )
    by_number = {record.number: record for record in page.records}
    st.session_state[address.RECORD_BOX] = page.chosen.number
    box, definitions = st.columns([5, 1.2], vertical_alignment="center")
    with definitions:
        glossary.popover("records")
    box.selectbox(
        "Record",
        [*by_number],
        format_func=lambda number: (
            f"Record {number}: {by_number[number].title}" if number in by_number else str(number)
        ),
        key=address.RECORD_BOX,
        on_change=_record_picked,
        label_visibility="collapsed",
    )


def open_drafts(drafts: Sequence[DraftView]) -> None:
    if not drafts:
        return
    with st.expander(f"Open drafts ({len(drafts)})", icon=":material/edit_note:"):
        for draft in drafts:
            title = draft.content.title or "no title yet"
            st.page_link(
                "pages/decide.py",
                label=f"{markdown(title)} · {markdown(draft.candidate_name)} · last saved by "
                f"{markdown(draft.updated_by)}, {formats.moment(draft.updated_at)}",
                icon=":material/edit:",
                query_params={address.EXPERIMENT: draft.experiment_id, address.DRAFT: draft.id},
            )


def head(page: RecordsPage, actor: Actor, refusal: str) -> None:
    """Title, status, who and when, the downloads and the ways on. `refusal`: why the actor may not supersede."""
    record = page.chosen
    assert record is not None
    st.subheader(f"Record {record.number}: {markdown(record.title)}")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _status(record)
    if page.document is not None:
        record_parts.people(page.document)
    else:
        st.markdown(f"Accepted {_accepted(record)} by {markdown(record.accepted_by)}")
    name = f"kitedash-decision-{record.number:04d}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.download_button(
            "JSON",
            page.json,
            f"{name}.json",
            "application/json",
            icon=":material/download:",
            on_click="ignore",
            disabled=not page.json,
        )
        st.download_button(
            "Markdown",
            page.view.markdown if page.view is not None else "",
            f"{name}.md",
            "text/markdown",
            icon=":material/download:",
            on_click="ignore",
            disabled=page.view is None,
        )
        st.button(
            "Supersede",
            icon=":material/edit_document:",
            on_click=record_actions.supersede,
            args=(actor, record.number),
            disabled=bool(refusal) or record.superseded_by is not None,
            help=refusal
            or (
                "Begins a draft that starts from this record and takes its place once accepted."
                if record.superseded_by is None
                else f"Record {record.superseded_by} has taken its place already."
            ),
        )
        query = {address.EXPERIMENT: record.experiment_id}
        st.page_link(
            "pages/tradeoff.py",
            label="Trade-off",
            icon=":material/scatter_plot:",
            query_params=query | {address.CANDIDATE: record.candidate_name},
        )
        st.page_link("pages/runs.py", label="Runs", icon=":material/list_alt:", query_params=query)
    st.markdown(f":small[SHA-256 `{record.sha256}`  \nof the record before it: {_previous(page)}]")


def _previous(page: RecordsPage) -> str:
    if page.view is None:
        return "not known"
    return f"`{page.view.previous_sha256}`" if page.view.previous_sha256 else "none, this is the first"


def unreadable(page: RecordsPage) -> None:
    """What is stored, as it is, where it is not what was accepted."""
    st.error(markdown(page.broken), icon=":material/broken_image:")
    if page.json:
        with st.expander("What is stored"):
            st.code(printable(page.json.decode("utf-8", "replace")), language="json", wrap_lines=True)


def raw(view: RecordView) -> None:
    with st.expander("The exported Markdown", icon=":material/article:"):
        st.code(printable(view.markdown), language="markdown", wrap_lines=True)


def verification(findings: Sequence[Finding] | None) -> None:
    """The button for what is stored, the upload for what was exported, and what came out."""
    with st.expander("Verify", icon=":material/verified_user:", expanded=findings is not None):
        stored, exported = st.columns(2, gap="large")
        with stored:
            st.markdown(
                "**What is stored**: each record's hash, the chain from one to the next, the evidence behind it. "
                "Evidence that this dashboard has read before counts as it was then; `kitedash records verify` reads "
                "all of it anew."
            )
            st.button("Verify all records", icon=":material/verified_user:", on_click=record_actions.verify_stored)
        with exported:
            st.file_uploader(
                "**What was exported**: a JSON or Markdown file of a record "
                f"(at most {record_actions.MAX_EXPORT_MB} MB)",
                type=["json", "md"],
                key=address.EXPORT_BOX,
                max_upload_size=record_actions.MAX_EXPORT_MB,
                on_change=record_actions.verify_exported,
            )
        if findings is not None:
            _findings(findings)


def _findings(findings: Sequence[Finding]) -> None:
    bad = [found for found in findings if not found.ok]
    if not findings:
        st.info("There is no record to verify.", icon=":material/info:")
    elif bad:
        st.error(f"{len(bad)} of {len(findings)} checks failed.", icon=":material/gpp_bad:")
    else:
        count = "The check found" if len(findings) == 1 else f"All {len(findings)} checks found"
        st.success(f"{count} everything as it was accepted.", icon=":material/verified:")
    lines = []
    for found in [*bad, *(found for found in findings if found.ok)]:
        sign = ":material/check_circle: ok" if found.ok else ":red[:material/cancel: **failed**]"
        lines.append(f"- {sign} · **{markdown(found.what)}**: {markdown(found.sentence)}\n")
    st.markdown("".join(lines))


def _accepted(record: RecordItem) -> str:
    return "at an unknown time" if record.accepted_at is None else formats.moment(record.accepted_at)


def _status(record: RecordItem) -> None:
    if record.superseded_by is None:
        st.badge("accepted", icon=":material/check:", color="green")
    else:
        st.page_link(
            "pages/records.py",
            label=f"Superseded by record {record.superseded_by}",
            icon=":material/arrow_forward:",
            query_params={address.RECORD: str(record.superseded_by)},
        )
    if record.supersedes is not None:
        st.page_link(
            "pages/records.py",
            label=f"Supersedes record {record.supersedes}",
            icon=":material/history:",
            query_params={address.RECORD: str(record.supersedes)},
        )


def _record_picked() -> None:
    address.pick(address.RECORD, str(st.session_state[address.RECORD_BOX]))
