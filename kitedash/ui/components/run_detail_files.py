"""What it takes to repeat a run, and its raw data as files."""

from __future__ import annotations

import shlex
from functools import partial

import pandas as pd
import streamlit as st

from kitedash.domain.command import shell_line
from kitedash.domain.results import ServerFacts
from kitedash.domain.run_plan import as_run
from kitedash.services import raw_data
from kitedash.services.raw_data import Format, What
from kitedash.services.run_page import RunDetail
from kitedash.ui import address, formats
from kitedash.ui.escape import printable

_WORDS: dict[What, str] = {
    "requests": "Requests",
    "timeline": "Server by the second",
    "levels": "Load levels",
    "answers": "Answers",
}
_FORMATS: dict[Format, str] = {"parquet": "Parquet", "csv": "CSV"}


def reproduce(detail: RunDetail) -> None:
    """The command as it was run, what the engine said of itself, and the end of its log."""
    facts = detail.run.facts
    if facts is not None:
        st.markdown("**The engine's command**, for a shell")
        st.code(printable(shell_line(facts.argv, facts.environment)), language="bash", wrap_lines=True)
        st.caption(
            "The key is left out: without VLLM_API_KEY in its environment the engine asks for none. "
            "The model's folder and the port are those of the machine that it ran on."
        )
        st.dataframe(
            pd.DataFrame(fact_rows(facts), columns=["Fact", "Value"]),
            hide_index=True,
            height="content",
            alt="What the engine and the machine said of themselves",
            column_config={
                "Fact": st.column_config.TextColumn(width=180),
                "Value": st.column_config.TextColumn(width=900),
            },
        )
    else:
        st.caption("The engine was never ready, so nothing is known of it but what it was to be started with.")
        planned(detail)
    load = detail.spec.load
    st.caption(
        f"Load: {', '.join(formats.rate(rate) for rate in load.rates_per_s)}; {load.blocks} blocks of "
        f"{load.block_duration_s:g} s each, {load.warm_up_s:g} s warm-up, seed {load.seed}{_search(detail)}."
    )
    st.page_link(
        "pages/launch.py",
        label="Launch it again, or with a change",
        icon=":material/content_copy:",
        query_params={address.CLONE: detail.run.experiment_id},
    )
    log(detail)


def _search(detail: RunDetail) -> str:
    """The rest of the sentence, where the run searches; "" where it does not."""
    load = as_run(detail.spec, detail.run.purpose).load
    if not load.search:
        return ""
    return (
        f"; then a rate search to {100 * load.search_precision:g} %, at most {load.search_most_blocks} further blocks"
    )


def planned(detail: RunDetail) -> None:
    """The candidate as stored, before an engine has said anything."""
    candidate = detail.settings
    rows = [("Model", candidate.model), ("Number format", candidate.quantization), ("Devices", str(candidate.devices))]
    rows += [(f"--{name}", str(value)) for name, value in candidate.engine_args.items()]
    rows += list(candidate.environment.items())
    st.dataframe(
        pd.DataFrame([(printable(name), printable(value)) for name, value in rows], columns=["Setting", "Value"]),
        hide_index=True,
        alt="What the engine is started with",
        column_config={
            "Setting": st.column_config.TextColumn(width=280),
            "Value": st.column_config.TextColumn(width=800),
        },
    )


def log(detail: RunDetail) -> None:
    st.markdown("**End of the engine's log**")
    tail = detail.run.log_tail
    if tail:
        st.code(printable(tail), language=None, wrap_lines=True, height=320 if tail.count("\n") > 12 else "content")
    else:
        st.caption("There is no log here: it stays on the machine that the run was on, or nothing was written yet.")


def fact_rows(facts: ServerFacts) -> list[tuple[str, str]]:
    """Name and value of what is known; a fact that the engine did not say is left out."""
    rows = [
        ("vLLM", f"{facts.vllm_version} ({facts.engine_package})"),
        ("PyTorch", facts.torch_version),
        ("Device", facts.device_name),
        ("Driver", facts.driver),
        ("Model", facts.checkpoint),
        ("Model hash (SHA-256)", facts.model_sha256),
        ("Weights", " ".join(part for part in (facts.weight_dtype, _gib(facts.weights_gib)) if part)),
        ("Matrix kernel", facts.linear_kernel or "not named by vLLM"),
        ("Attention", facts.attention_backend or "not named by vLLM"),
        ("Note", facts.kernel_note),
        ("KV cache", _kv_cache(facts)),
        ("Memory in use", _gib(facts.memory_gib)),
        ("Start-up", f"{facts.start_up_s:.0f} s until it answered"),
    ]
    return [(name, printable(value)) for name, value in rows if value]


def downloads(detail: RunDetail) -> None:
    """A button builds its file when it is clicked; nothing of it stays on the page."""
    there: dict[What, int] = {
        "requests": len(detail.blocks),
        "timeline": detail.timelines,
        "levels": len(detail.levels),
        "answers": sum(suite.n_items for suite in detail.suites if suite.version),
    }
    rows = there | {"requests": sum(block.n_requests for block in detail.blocks)}
    units: dict[What, str] = {"requests": "blocks", "timeline": "blocks", "levels": "rates", "answers": "items"}
    for what in raw_data.WHATS:
        name, buttons, meanings = st.columns([1.3, 2, 3], vertical_alignment="center")
        count = there[what]
        with name, st.container(gap=None):
            st.markdown(f"**{_WORDS[what]}**")
            st.caption(f"{count:,} {units[what]}")
        with buttons:
            if rows[what] > raw_data.MOST_ROWS_ON_A_PAGE:
                _in_a_terminal(detail, what, rows[what])
            else:
                with st.container(horizontal=True):
                    for file_format, title in _FORMATS.items():
                        _download(detail, what, file_format, title, count)
        with meanings, st.popover(f"Columns of {_WORDS[what].lower()}", icon=":material/view_column:"):
            _columns(what)
    st.caption(
        "CSV: a text that begins with = + - @, a tab or a line break has an apostrophe in front, so that no "
        "spreadsheet runs it; numbers are as they are. The same files from a terminal: "
        f"`kitedash export {detail.run.id[:8]} --what requests --format csv --out FILE`."
    )


def _download(detail: RunDetail, what: What, file_format: Format, title: str, count: int) -> None:
    st.download_button(
        title,
        data=partial(_data, detail.run.id, what, file_format),
        file_name=detail.file_name(what, file_format) if count else None,
        mime=raw_data.MIME[file_format],
        key=f"_download_{what}_{file_format}",
        icon=":material/download:",
        on_click="ignore",
        disabled=not count,
        help=None if count else "Nothing of it is stored.",
    )


def _in_a_terminal(detail: RunDetail, what: What, rows: int) -> None:
    """A file that the dashboard does not build: it would take its memory and time from what is being measured."""
    st.caption(f"{rows:,} rows are too many for a download. In a terminal:")
    name = detail.file_name(what, "parquet")
    st.code(
        shlex.join(["kitedash", "export", detail.run.id[:8], "--what", what, "--out", name]),
        language="bash",
        wrap_lines=True,
    )


def _data(run_id: str, what: What, file_format: Format) -> bytes:
    return raw_data.raw_file(run_id, what, file_format).data


def _columns(what: What) -> None:
    rows = [(column.name, str(column.type), column.meaning) for column in raw_data.columns(what)]
    st.dataframe(
        pd.DataFrame(rows, columns=["Column", "Type", "Meaning"]),
        hide_index=True,
        width=640,
        height=320,
        alt=f"Columns of the {what} and what they mean",
    )


def _gib(value: float | None) -> str:
    return "" if value is None else f"{formats.number(value)} GiB"


def _kv_cache(facts: ServerFacts) -> str:
    tokens = "" if facts.kv_cache_tokens is None else f"{facts.kv_cache_tokens:,} tokens"
    return ", ".join(part for part in (tokens, _gib(facts.kv_cache_gib)) if part)
