"""The trade-off as a table for a terminal, and as rows for `--json` and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from textwrap import wrap

from kitedash.domain import wording
from kitedash.domain.results import Estimate
from kitedash.domain.targets import Status
from kitedash.services.views import CandidateView, TradeoffView

Cell = str | int | float | bool | None

CPU_SENTENCE = "Measured on a CPU: format speeds don't carry over to a GPU; quality differences do."
SIGNS = {Status.MEETS: "✓", Status.MISSES: "✗", Status.UNCERTAIN: "?", Status.PENDING: "…"}
HEADINGS = (
    ("", "candidate"),
    ("", "kernel"),
    ("held", "/s"),
    ("P90 TTFT at that rate", "ms [95 %] n"),
    ("P90", "TPOT ms"),
    ("saturated", "USD/1,000"),
    ("deployed cost", "USD/1,000 [95 %]"),
    ("pass rate", "% [95 %] n"),
    ("target status", "T C P"),
)
WIDTHS = (22, 16, 5, 24, 7, 9, 20, 21, 15)
RIGHT = frozenset({2, 4, 5})


def rows(view: TradeoffView) -> list[dict[str, Cell]]:
    """One flat row a candidate, in order; None where a number is unknown. Shares are 0..1, costs USD per 1,000
    requests.
    """
    return [_row(candidate) for candidate in view.candidates]


def render(view: TradeoffView) -> str:
    """The view as text: targets, a table of at most 155 columns, what is missing and why, the recommendation."""
    parts = [
        _targets_line(view),
        "",
        *_table(view),
        "",
        "T C P: P90 TTFT, cost, pass rate: ✓ meets  ✗ misses  ? uncertain  … pending",
    ]
    remarks = [f"{candidate.name}: {remark}" for candidate in view.candidates for remark in _remarks(candidate)]
    parts += ["", *remarks] if remarks else []
    parts += ["", view.recommendation.sentence]
    if view.recommendation.settles:
        parts += ["What would settle it:", *(f"  - {settles}" for settles in view.recommendation.settles)]
    parts += view.notes
    if len(view.candidates) > 1:
        parts += [sentence for sentence in (view.noise.sentence, view.noise.moved) if sentence]
    if view.device_kind == "cpu":
        parts.append(CPU_SENTENCE)
    return "\n".join(parts) + "\n"


def _row(candidate: CandidateView) -> dict[str, Cell]:
    level = candidate.point.summary if candidate.point is not None else None
    cost = candidate.cost
    return {
        "candidate": candidate.name,
        "run_id": candidate.run_id,
        "run_status": candidate.run_status,
        "error": candidate.error,
        "is_baseline": candidate.is_baseline,
        "kernel": candidate.facts.linear_kernel if candidate.facts is not None else None,
        "kernel_note": candidate.facts.kernel_note if candidate.facts is not None else None,
        "held_rate_per_s": level.rate_per_s if level is not None else None,
        **_estimate("ttft_p90", "_ms", level.ttft_p90_ms if level is not None else None),
        **_estimate("tpot_p90", "_ms", level.tpot_p90_ms if level is not None else None),
        **_estimate("saturated_cost", "_usd", cost.saturated_usd if cost is not None else None),
        **_estimate("deployed_cost", "_usd", cost.deployed_usd if cost is not None else None),
        "replicas": cost.replicas if cost is not None else None,
        **_estimate("pass_rate", "", candidate.pass_rate),
        "ttft_status": candidate.ttft_status.value,
        "cost_status": candidate.cost_status.value,
        "pass_rate_status": candidate.pass_rate_status.value,
        "status": candidate.status.value,
        "verdicts": "; ".join(f"{suite.name}: {suite.verdict}" for suite in candidate.suites),
        "on_front": candidate.on_front,
        "front_probability": candidate.front_probability,
        "settles": candidate.settles,
        "notes": " ".join(candidate.notes),
    }


def _estimate(name: str, unit: str, estimate: Estimate | None) -> dict[str, Cell]:
    estimate = estimate or Estimate(None)
    return {
        f"{name}{unit}": _finite(estimate.value),
        f"{name}_low{unit}": _finite(estimate.low),
        f"{name}_high{unit}": _finite(estimate.high),
        f"{name}_n": estimate.n,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _targets_line(view: TradeoffView) -> str:
    targets, guardrails = view.targets, view.guardrails
    return (
        f"{view.name}. Targets: P90 TTFT at most {wording.milliseconds(targets.ttft_p90_ms)}, deployed cost at most "
        f"{wording.usd(targets.cost_per_1000_requests_usd)} per 1,000 requests, pass rate at least "
        f"{wording.percent(targets.pass_rate)}.\n"
        f"Guardrails: P90 TPOT at most {wording.milliseconds(guardrails.tpot_p90_ms)}, "
        f"errors at most {wording.percent(guardrails.error_rate)}."
    )


def _table(view: TradeoffView) -> list[str]:
    lines = [_line([heading[i] for heading in HEADINGS]) for i in (0, 1)]
    lines.append("  ".join("-" * width for width in WIDTHS))
    for candidate in view.candidates:
        cells = [wrap(cell, width) or [""] for cell, width in zip(_cells(candidate), WIDTHS, strict=True)]
        for i in range(max(len(cell) for cell in cells)):
            lines.append(_line([cell[i] if i < len(cell) else "" for cell in cells]))
    return lines


def _line(cells: Sequence[str]) -> str:
    padded = [
        cell.rjust(width) if column in RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _cells(candidate: CandidateView) -> list[str]:
    level = candidate.point.summary if candidate.point is not None else None
    cost = candidate.cost
    signs = " ".join(SIGNS[s] for s in (candidate.ttft_status, candidate.cost_status, candidate.pass_rate_status))
    return [
        candidate.name + (" (baseline)" if candidate.is_baseline else ""),
        (candidate.facts.linear_kernel or wording.UNKNOWN) if candidate.facts is not None else wording.UNKNOWN,
        f"{level.rate_per_s:g}" if level is not None else wording.UNKNOWN,
        _interval(level.ttft_p90_ms) if level is not None else wording.UNKNOWN,
        wording.number(level.tpot_p90_ms.value) if level is not None else wording.UNKNOWN,
        wording.number(cost.saturated_usd.value) if cost is not None else wording.UNKNOWN,
        _interval(cost.deployed_usd, n=False) if cost is not None else wording.UNKNOWN,
        _interval(_hundredfold(candidate.pass_rate)) if candidate.pass_rate is not None else wording.UNKNOWN,
        f"{signs} {candidate.status.value}",
    ]


def _interval(estimate: Estimate, *, n: bool = True) -> str:
    """ "812 [700, 900] 480"; "too few" where neither bound is established."""
    if estimate.value is None:
        return wording.UNKNOWN
    if estimate.low is None and estimate.high is None:
        bounds = "too few" if n else wording.UNKNOWN
    else:
        bounds = f"{wording.number(estimate.low)}, {wording.number(estimate.high)}"
    return f"{wording.number(estimate.value)} [{bounds}]" + (f" {estimate.n:,}" if n else "")


def _hundredfold(share: Estimate) -> Estimate:
    value, low, high = (None if bound is None else 100 * bound for bound in (share.value, share.low, share.high))
    return Estimate(value, low, high, share.n, share.note)


def _remarks(candidate: CandidateView) -> list[str]:
    failed = [f"{candidate.run_status}: {candidate.error}"] if candidate.error else []
    # A number format in name only (without kernels of its own on this device) must be seen.
    kernel = [candidate.facts.kernel_note] if candidate.facts is not None and candidate.facts.kernel_note else []
    verdicts = [
        f"{suite.name}: {suite.verdict}" for suite in candidate.suites if suite.version and suite.verdict != "baseline"
    ]
    return [*failed, *kernel, *candidate.notes, *([f"quality {', '.join(verdicts)}"] if verdicts else [])]
