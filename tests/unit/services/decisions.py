"""A decision's document put together without a database: two members of the front, one dominated, one failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kitedash.domain.canonical_json import sha256_of
from kitedash.domain.decision import DraftContent, content_from
from kitedash.domain.decision_document import Document, ExperimentPart
from kitedash.domain.experiment import Targets
from kitedash.domain.results import RunStatus
from kitedash.services.decision_document import Acceptance, Gathered, document
from kitedash.services.evidence import CandidateEvidence
from kitedash.services.tradeoff import assemble
from tests.unit.domain.levels import level, spread
from tests.unit.services.evidence import FACTS, PUBLIC, REPO, SPEC, answers, candidate, experiment, suite
from tests.unit.services.price_books import prices

WRITTEN: Mapping[str, Any] = {
    "title": "Serve fp8",
    "why": "It is the fastest that meets the targets.",
    "consequences": "Two points fewer pass.",
    "deciders": ["Ann", "Bo"],
    "consulted": ["Cy"],
    "look_again": "When the traffic doubles.",
    "rejected": {"float32": "Slower, and its lead in quality is small."},
}
ACCEPTED = Acceptance(7, datetime(2026, 11, 30, 12, 0, tzinfo=UTC), "Ann", "ab" * 32)
SPEC_JSON = '{"name":"formats"}'


def suites(passed: int) -> list[Any]:
    return [suite(REPO, answers(400, passed)), suite(PUBLIC, answers(400, 200))]


def candidates() -> tuple[CandidateEvidence, ...]:
    """float32 passes most, fp8 is fastest, slow is dominated by both, broken never ran."""
    fast = [level(rate, spread(ms, 0.9 * ms, 1.1 * ms)) for rate, ms in ((1.0, 200.0), (2.0, 400.0), (4.0, 600.0))]
    slow = [level(rate, spread(ms, 0.9 * ms, 1.1 * ms)) for rate, ms in ((1.0, 500.0), (2.0, 800.0), (4.0, 990.0))]
    return (
        candidate("float32", suites=suites(310)),
        candidate("fp8", fast, suites=suites(300)),
        candidate("slow", slow, suites=suites(290)),
        candidate("broken", (), suites=(), status=RunStatus.FAILED, facts=None, error="The engine ran out of memory."),
    )


def gathered(*found: CandidateEvidence, targets: Targets | None = None) -> Gathered:
    evidence, book = experiment(*(found or candidates())), prices(2.5)
    return Gathered(
        evidence=evidence,
        view=assemble(evidence, book, targets=targets),
        prices=book,
        hashes={run_id: sha256_of(run_id) for one in evidence.candidates for run_id in one.run_ids},
        experiment=ExperimentPart(
            id="e1",
            name=SPEC.name,
            description="Which number format?",
            launched_at=datetime(2026, 11, 29, 8, 30, tzinfo=UTC),
            launched_by="an engineer",
            spec_sha256=sha256_of(SPEC_JSON),
            spec_json=SPEC_JSON,
        ),
    )


def a_document(
    *found: CandidateEvidence,
    content: DraftContent | None = None,
    chosen: str = "fp8",
    targets: Targets | None = None,
    accepted: Acceptance | None = ACCEPTED,
) -> Document:
    return document(
        gathered(*found, targets=targets),
        chosen,
        content or content_from(WRITTEN),
        supersedes=3,
        accepted=accepted,
    )


def hostile(text: str) -> tuple[CandidateEvidence, ...]:
    """The candidates with `text` in everything that an engine, a machine or an error may say."""
    facts = replace(
        FACTS,
        argv=("python", "-m", "vllm", "--model", text),
        environment={"SOME_VARIABLE": text},
        device_name=text,
        driver=text,
        checkpoint=text,
        linear_kernel=text,
        kernel_note=text,
        model_sha256=text,
    )
    overloaded = replace(level(1, spread(300, 250, 350)), reason=text)
    float32, _, slow, broken = candidates()
    fp8 = candidate("fp8", [overloaded, *slow.levels[1:]], suites=suites(300), facts=facts)
    return float32, fp8, slow, replace(broken, error=text)
