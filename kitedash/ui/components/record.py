"""One decision record, drawn from its own document: what it says stays as it was, whatever is measured later."""

from __future__ import annotations

from typing import Final, cast

import pandas as pd
import streamlit as st

from kitedash.domain.argument_text import in_words
from kitedash.domain.command import shell_line
from kitedash.domain.comparison import Difference, Dimension, Outcome
from kitedash.domain.decision_document import DifferencePart, Document, NumbersPart, Option, StatusesPart
from kitedash.domain.experiment import Targets
from kitedash.domain.traffic_text import requests_said
from kitedash.ui import formats, theme
from kitedash.ui.components import gives_up
from kitedash.ui.definitions import DEFINITIONS
from kitedash.ui.escape import markdown, printable

_CHOSEN: Final = "chosen"
_OTHER: Final = "other"


def body(document: Document) -> None:
    """Everything from the choice to the hashes, in the order in which one asks."""
    chosen = next((option for option in document.options if option.role == _CHOSEN), None)
    if chosen is not None:
        _choice(document, chosen)
    _text("Why", document.why)
    _text("Consequences", document.consequences)
    _text("When to look again", document.look_again)
    _given_up(document)
    _every_candidate(document)
    with st.expander("How it was measured: traffic, settings, versions, prices", icon=":material/dns:"):
        _measured(document)
    with st.expander("Evidence: the runs and the hash of what each stored", icon=":material/fingerprint:"):
        _evidence(document)


def people(document: Document) -> None:
    """Who decided, when, and on which experiment."""
    parts = []
    if document.accepted_at is not None:
        parts.append(f"Accepted {formats.moment(document.accepted_at)} by {markdown(document.accepted_by)}")
    parts.append(f"decided by {markdown(', '.join(document.deciders))}")
    if document.consulted:
        parts.append(f"consulted: {markdown(', '.join(document.consulted))}")
    parts.append(f"experiment {markdown(document.experiment.name)}")
    st.markdown(" · ".join(parts))


def paragraphs(text: str) -> str:
    """What a person wrote, with its line breaks, as Markdown that is drawn as it was typed."""
    return "\n\n".join(
        "  \n".join(markdown(line) for line in block.split("\n")) for block in printable(text).split("\n\n")
    )


def _choice(document: Document, chosen: Option) -> None:
    st.markdown(f"##### Chosen: {markdown(chosen.name)}")
    st.table(
        _target_rows(document.targets.written, document.targets.used, chosen.numbers, chosen.statuses),
        border="horizontal",
        hide_index=True,
        alt="The chosen candidate's three numbers against the targets",
    )
    st.markdown(f"Recommendation at the time: {markdown(document.recommendation.sentence)}")
    if document.recommendation.differs_sentence:
        st.warning(markdown(document.recommendation.differs_sentence), icon=":material/help:")
    if document.targets.differ:
        st.warning(markdown(document.targets.sentence), icon=":material/tune:")
    else:
        st.caption(markdown(document.targets.sentence))
    for note in document.notes:
        st.caption(f":material/info: {markdown(note)}")


def _target_rows(written: Targets, used: Targets, numbers: NumbersPart, statuses: StatusesPart) -> pd.DataFrame:
    cost = numbers.cost.deployed_usd if numbers.cost is not None else None
    rows = (
        ("P90 TTFT", numbers.ttft_p90_ms, formats.ms, "≤", used.ttft_p90_ms, written.ttft_p90_ms, statuses.ttft_p90),
        (
            "Deployed cost per 1,000 requests",
            cost,
            formats.usd,
            "≤",
            used.cost_per_1000_requests_usd,
            written.cost_per_1000_requests_usd,
            statuses.cost,
        ),
        ("Pass rate", numbers.pass_rate, formats.share, "≥", used.pass_rate, written.pass_rate, statuses.pass_rate),
    )
    return pd.DataFrame(
        {
            "Number": name,
            "Value with its interval": markdown(formats.with_interval(estimate, write)),
            "Target used": markdown(f"{sign} {write(now)}" + ("" if now == then else f" (written: {write(then)})")),
            "Status": markdown(theme.sign(theme.STATUS_SIGN, status)),
        }
        for name, estimate, write, sign, now, then, status in rows
    )


def _text(label: str, text: str) -> None:
    st.markdown(f"##### {label}")
    st.markdown(paragraphs(text) or formats.MISSING)


def _given_up(document: Document) -> None:
    """The members of the front and the baseline that were not chosen, each with its reason."""
    rejected = [option for option in document.options if option.role not in (_CHOSEN, _OTHER)]
    st.markdown("##### Not chosen, and why", help=DEFINITIONS["Front"])
    if not rejected:
        st.caption("There was no other member of the front, and the choice was the baseline.")
        return
    for option in rejected:
        words = [word for word, holds in (("on the front", option.on_front), ("baseline", option.is_baseline)) if holds]
        lines = [f"**{markdown(option.name)}** ({', '.join(words)})", paragraphs(option.reason) or formats.MISSING]
        if option.product_reason:
            lines.append(f":small[The numbers say: {markdown(option.product_reason)}]")
        st.markdown("  \n".join(lines))
    table = [
        {"Chosen against": f"**{markdown(option.name)}**", **gives_up.cells(map(_difference, option.gives_up))}
        for option in rejected
        if option.gives_up
    ]
    if table:
        st.table(
            pd.DataFrame(table).set_index("Chosen against"),
            border="horizontal",
            alt="The chosen candidate against each of those that were not chosen",
        )


def _difference(part: DifferencePart) -> Difference:
    """As the pages compare candidates now, so that it is drawn in the same words."""
    return Difference(
        dimension=cast(Dimension, part.dimension),
        mine=part.chosen,
        theirs=part.option,
        change=part.change,
        outcome=cast(Outcome, part.outcome),
        established=part.established,
        sentence=part.sentence,
    )


def _every_candidate(document: Document) -> None:
    """All of them, those that were never in question with what the numbers say against them."""
    with st.expander(f"All {len(document.options)} candidates with their numbers", icon=":material/table_rows:"):
        st.table(
            pd.DataFrame(_candidate_row(option) for option in document.options),
            border="horizontal",
            hide_index=True,
            alt="Every candidate with its numbers, its status and why it was not chosen",
        )


def _candidate_row(option: Option) -> dict[str, str]:
    numbers = option.numbers
    cost = numbers.cost.deployed_usd if numbers.cost is not None else None
    rate = numbers.rate_held_per_s.value if numbers.rate_held_per_s is not None else None
    verdicts = ", ".join(f"{suite.name}: {theme.sign(theme.VERDICT_SIGN, suite.verdict)}" for suite in option.suites)
    reason = " ".join(part for part in (option.reason, option.product_reason) if part)
    return {
        "Candidate": f"**{markdown(option.name)}**",
        "Status": markdown(theme.sign(theme.STATUS_SIGN, option.statuses.overall)),
        "Rate held": markdown(formats.rate(rate)),
        "P90 TTFT": markdown(formats.with_interval(numbers.ttft_p90_ms, formats.ms)),
        "Deployed cost": markdown(formats.with_interval(cost, formats.usd)),
        "Pass rate": markdown(formats.with_interval(numbers.pass_rate, formats.share)),
        "Verdicts": markdown(verdicts) or formats.MISSING,
        "Why not": "**chosen**" if option.role == _CHOSEN else markdown(formats.shorten(reason, 400)),
    }


def _measured(document: Document) -> None:
    given = document.workload.given.model_dump(mode="json")
    traffic, load = document.workload, document.load
    rates = ", ".join(formats.rate(rate) for rate in load.rates_per_s)
    st.markdown(
        f"- Traffic: {formats.number(traffic.requests_per_day)} requests a day, "
        f"{formats.rate(round(traffic.peak_rate_per_s, 3))} at the peak; {requests_said(given, markdown)}\n"
        f"- Load: {rates} in {load.blocks} blocks of {load.block_duration_s:g} s each\n"
        f"- Guardrails: P90 TPOT ≤ {formats.ms(document.guardrails.tpot_p90_ms)}, errors ≤ "
        f"{formats.share(document.guardrails.error_rate)}\n"
        f"- KiteDash {markdown(document.kitedash_version)}, document format {document.format}, results revision "
        f"{markdown(document.evidence_revision)}"
    )
    for option in document.options:
        st.markdown(f"**{markdown(option.name)}**" + (" (chosen)" if option.role == _CHOSEN else ""))
        st.code(printable(_settings(option)), language=None, wrap_lines=True)


def _settings(option: Option) -> str:
    settings, server, price = option.settings, option.server, option.price
    priced = (
        price.missing or "not known"
        if price.usd_per_hour is None
        else f"{formats.usd(price.usd_per_hour)} per device-hour ({price.source}, {price.date})"
    )
    arguments = " ".join(f"{name}={in_words(value)}" for name, value in settings.engine_args.items())
    lines = [
        f"model: {settings.model}",
        f"number format: {settings.quantization}",
        f"engine arguments: {arguments or 'none'}",
        f"environment: {' '.join(f'{k}={v}' for k, v in settings.environment.items()) or 'none'}",
        f"devices: {settings.devices}",
        f"price: {priced}",
    ]
    if server is not None:
        lines += [
            f"engine: {server.engine_package} {server.vllm_version}, torch {server.torch_version}",
            f"device: {server.device_name} ({server.device_kind})"
            + (f", driver {server.driver}" if server.driver else ""),
            f"checkpoint: {server.checkpoint}, weights {server.weight_dtype}, SHA-256 {server.model_sha256}",
            f"kernel: {server.linear_kernel or 'not named'}, attention: {server.attention_backend}",
            f"command:\n{shell_line(server.argv, server.environment)}",
        ]
    elif option.error:
        lines.append(f"no engine was ready: {option.error}")
    return "\n".join(lines)


def _evidence(document: Document) -> None:
    st.caption("Verify recomputes each hash from what is stored of the run.")
    lines = [
        f"{option.name}: run {run.run_id}, SHA-256 {run.sha256}"
        for option in document.options
        for run in option.evidence
    ]
    lines.append(f"specification of the experiment: SHA-256 {document.experiment.spec_sha256}")
    st.code(printable("\n".join(lines)), language=None, wrap_lines=True)
