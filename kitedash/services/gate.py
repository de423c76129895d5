"""The gate: whether an experiment's candidates meet targets, for a pipeline. Reads what is stored, measures nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from pydantic import ValidationError

from kitedash.domain import plain_yaml, wording
from kitedash.domain.candidate_names import same_name
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import Guardrails, Targets
from kitedash.domain.gate import Check, Gated, gate_status, suite_status, without_pending
from kitedash.domain.results import Estimate
from kitedash.domain.schema_base import Strict
from kitedash.domain.schema_errors import first_sentence, plain_data
from kitedash.domain.sentences import shown
from kitedash.domain.targets import Status
from kitedash.services.table import SIGNS
from kitedash.services.tradeoff import tradeoff_view
from kitedash.services.views import CandidateView, SuiteView, TradeoffView


class TargetsFile(Strict):
    """What a targets file holds: the two groups of an experiment file. Guardrails left out are the experiment's."""

    targets: Targets
    guardrails: Guardrails | None = None


@dataclass(frozen=True)
class GateView:
    """`every`: whether all of `candidates` have to meet."""

    experiment_id: str
    name: str
    targets: Targets
    guardrails: Guardrails
    candidates: tuple[Gated, ...]
    every: bool
    status: Status


def parse_targets(text: str, *, source: str = "") -> TargetsFile:
    """The targets in a YAML text. Raises InvalidInput."""
    data = plain_yaml.load(text, source=source)
    if not isinstance(data, dict):
        raise InvalidInput("", f"a targets file has the groups targets and guardrails, not {shown(data)}")
    try:
        return TargetsFile.model_validate_json(json.dumps(plain_data(data)), strict=True)
    except ValidationError as error:
        raise InvalidInput(*first_sentence(error.errors(include_url=False))) from None


def gate(experiment_id: str, *, limits: TargetsFile | None = None, candidates: Sequence[str] = ()) -> GateView:
    """The gate over the named candidates, all of which have to meet, or over all of them, one of which has to.

    Without `limits` the targets are those written down with the experiment. Raises NotFound, InvalidInput.
    """
    view = tradeoff_view(
        experiment_id,
        targets=limits.targets if limits else None,
        guardrails=limits.guardrails if limits else None,
    )
    chosen = [_named(view, name) for name in candidates] or list(view.candidates)
    gated = tuple(Gated(one.name, _checks(one, view)) for one in chosen)
    return GateView(
        experiment_id=view.experiment_id,
        name=view.name,
        targets=view.targets,
        guardrails=view.guardrails,
        candidates=gated,
        every=bool(candidates),
        status=gate_status(gated, every=bool(candidates)),
    )


def _named(view: TradeoffView, name: str) -> CandidateView:
    for candidate in view.candidates:
        if same_name(candidate.name, name):
            return candidate
    names = wording.listed([shown(candidate.name) for candidate in view.candidates])
    raise InvalidInput("--candidate", f"{shown(name)} is none of the experiment's: {names}")


def _checks(candidate: CandidateView, view: TradeoffView) -> tuple[Check, ...]:
    point = candidate.point.summary if candidate.point is not None else None
    at = f" at {wording.rate(point.rate_per_s)}" if point is not None else ""
    ttft = _said(point.ttft_p90_ms if point is not None else None, wording.milliseconds)
    usd = _said(candidate.cost.deployed_usd if candidate.cost is not None else None, wording.usd)
    passed = _said(candidate.pass_rate, wording.percent)
    targets = view.targets
    return (
        Check(
            "P90 TTFT",
            without_pending(candidate.ttft_status),
            f"{ttft}{at}; at most {wording.milliseconds(targets.ttft_p90_ms)}",
        ),
        Check(
            "cost per 1,000 requests",
            without_pending(candidate.cost_status),
            f"{usd}; at most {wording.usd(targets.cost_per_1000_requests_usd)}",
        ),
        Check(
            "pass rate",
            without_pending(candidate.pass_rate_status),
            f"{passed}; at least {wording.percent(targets.pass_rate)}",
        ),
        *(
            Check(f"quality on {suite.name}", suite_status(suite.verdict), _verdict(suite))
            for suite in candidate.suites
        ),
    )


def _verdict(suite: SuiteView) -> str:
    return f"{suite.verdict}: {suite.verdict_sentence}" if suite.verdict_sentence else suite.verdict


def _said(estimate: Estimate | None, write: Callable[[float | None], str]) -> str:
    if estimate is None or estimate.value is None:
        return "no number"
    low, high = (wording.UNKNOWN if bound is None else write(bound) for bound in (estimate.low, estimate.high))
    return f"{write(estimate.value)} [{low}, {high}] n {estimate.n:,}"


def render(view: GateView) -> str:
    """The gate as text, a line a check."""
    who = "every candidate named" if view.every else "one candidate at least"
    lines = [f"{view.name} ({view.experiment_id}): {view.status.value}. To meet all: {who}."]
    for one in view.candidates:
        lines.append(f"{SIGNS[one.status]} {one.candidate}: {one.status.value}")
        lines += [f"    {SIGNS[check.status]} {check.name}: {check.said}" for check in one.checks]
    return "\n".join(lines) + "\n"


def junit(view: GateView) -> bytes:
    """The gate as JUnit XML: a suite a candidate, a case a check. What misses is a failure, what is uncertain an error,
    so that no reader takes it for passed."""
    root = ElementTree.Element("testsuites", name=f"kitedash gate: {view.name}")
    for one in view.candidates:
        missed = sum(check.status == Status.MISSES for check in one.checks)
        unsure = sum(check.status == Status.UNCERTAIN for check in one.checks)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_printable(one.candidate),
            tests=str(len(one.checks)),
            failures=str(missed),
            errors=str(unsure),
        )
        for check in one.checks:
            case = ElementTree.SubElement(suite, "testcase", classname=_printable(one.candidate), name=check.name)
            if check.status == Status.MISSES:
                ElementTree.SubElement(case, "failure", type="misses", message=_printable(check.said))
            elif check.status == Status.UNCERTAIN:
                ElementTree.SubElement(case, "error", type="uncertain", message=_printable(check.said))
            else:
                ElementTree.SubElement(case, "system-out").text = _printable(check.said)
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _printable(text: str) -> str:
    """XML 1.0 has no control characters, not even escaped."""
    return "".join(char if char.isprintable() else " " for char in text)
