"""A decision's document, gathered from what is stored: the numbers that the trade-off shows, and their provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from db import experiments, runs
from kitedash import __version__
from kitedash.domain import decision
from kitedash.domain.decision import DraftContent
from kitedash.domain.decision_document import FORMAT, Document, ExperimentPart, Option
from kitedash.domain.experiment import Targets
from kitedash.domain.results import RunStatus
from kitedash.domain.wording import listed
from kitedash.services import decision_parts as parts
from kitedash.services.compare import ComparisonView, against_front
from kitedash.services.evidence import CandidateEvidence, ExperimentEvidence, experiment_evidence
from kitedash.services.evidence_hashes import experiment_spec, run_hashes
from kitedash.services.noise_view import noise_apart
from kitedash.services.pricing import Prices
from kitedash.services.table import CPU_SENTENCE
from kitedash.services.tradeoff import assemble
from kitedash.services.views import CandidateView, TradeoffView

Numbers = tuple[float, float, float]  # P90 TTFT, deployed cost, pass rate


@dataclass(frozen=True)
class Gathered:
    """What a document is made from: read once, so that all of it speaks of the same moment."""

    evidence: ExperimentEvidence
    view: TradeoffView
    prices: Prices
    hashes: Mapping[str, str]  # run -> hash of its evidence; of the runs that have ended
    experiment: ExperimentPart


@dataclass(frozen=True)
class Acceptance:
    """What accepting adds to the document: none of it is known of a draft."""

    number: int
    at: datetime
    by: str
    previous_sha256: str


def gather(
    session: Session, experiment_id: str, targets: Targets, evidence: ExperimentEvidence | None = None
) -> Gathered:
    """`evidence` that was read already is not read again. Raises NotFound.

    What a run that goes on has stored is left out of the hashes: it is going to change.
    """
    evidence, prices = evidence or experiment_evidence(experiment_id), Prices()
    ended = {run.id for run in runs.of_experiment(session, experiment_id) if RunStatus(run.status).is_final}
    view = assemble(evidence, prices, targets=targets)
    run_ids = [
        run_id
        for candidate in evidence.candidates
        for run_id in _evidence_of(candidate, evidence, view)
        if run_id in ended
    ]
    return Gathered(
        evidence=evidence,
        view=view,
        prices=prices,
        hashes=run_hashes(session, run_ids),
        experiment=experiment_part(session, experiment_id),
    )


def _evidence_of(candidate: CandidateEvidence, evidence: ExperimentEvidence, view: TradeoffView) -> tuple[str, ...]:
    """The runs that a candidate's numbers rest on: of the baseline also the one that the noise floor rests on."""
    if not candidate.is_baseline or evidence.twice is None or not view.noise.is_measured:
        return candidate.run_ids
    return (*candidate.run_ids, evidence.twice.again_run_id)


def experiment_part(session: Session, experiment_id: str) -> ExperimentPart:
    """The experiment as it was launched. Raises NotFound."""
    row = experiments.get(session, experiment_id)
    spec_json, spec_sha256 = experiment_spec(session, experiment_id)
    return ExperimentPart(
        id=row.id,
        name=row.name,
        description=str(row.spec.get("description", "")),
        launched_at=row.created_at,
        launched_by=row.created_by,
        spec_sha256=spec_sha256,
        spec_json=spec_json,
    )


def document(
    gathered: Gathered,
    chosen: str,
    content: DraftContent,
    *,
    supersedes: int | None,
    accepted: Acceptance | None = None,
) -> Document:
    """The whole document; without `accepted` it is marked as a draft."""
    view, spec = gathered.view, gathered.view.spec
    against = {one.other: one for one in against_front(gathered.evidence, view, chosen)}
    front = [
        (one.name, numbers)
        for one, stored in zip(view.candidates, gathered.evidence.candidates, strict=True)
        if one.on_front and not stored.other_requests and (numbers := one.three_numbers) is not None
    ]
    recommended = view.recommendation
    return Document(
        format=FORMAT,
        kitedash_version=__version__,
        number=accepted.number if accepted is not None else None,
        title=content.title,
        status="accepted" if accepted is not None else "draft",
        accepted_at=accepted.at if accepted is not None else None,
        accepted_by=accepted.by if accepted is not None else "",
        deciders=content.deciders,
        consulted=content.consulted,
        supersedes=supersedes,
        previous_sha256=accepted.previous_sha256 if accepted is not None else "",
        experiment=gathered.experiment,
        baseline=spec.baseline,
        device_kind=view.device_kind,
        targets=decision.targets_part(spec.targets, view.targets),
        guardrails=view.guardrails,
        workload=decision.workload_part(spec.workload),
        load=spec.load,
        recommendation=decision.recommendation_part(
            recommended.kind.value, recommended.candidate, recommended.sentence, recommended.settles, chosen
        ),
        chosen=chosen,
        why=content.why,
        consequences=content.consequences,
        look_again=content.look_again,
        options=tuple(
            _option(found, stored, gathered, chosen, content, against.get(found.name), front)
            for found, stored in zip(view.candidates, gathered.evidence.candidates, strict=True)
        ),
        notes=_notes(view),
        evidence_revision=view.revision,
    )


def _option(
    view: CandidateView,
    stored: CandidateEvidence,
    gathered: Gathered,
    chosen: str,
    content: DraftContent,
    against: ComparisonView | None,
    front: Sequence[tuple[str, Numbers]],
) -> Option:
    role = decision.role_of(view.name, chosen, on_front=view.on_front, is_baseline=view.is_baseline)
    return Option(
        name=view.name,
        role=role,
        is_baseline=view.is_baseline,
        on_front=view.on_front,
        front_probability=view.front_probability,
        reason="" if role == "chosen" else content.rejected.get(view.name, ""),
        product_reason="" if view.on_front else _product_reason(view, stored, front, gathered.view),
        run_status=view.run_status,
        error=view.error,
        statuses=parts.statuses(view),
        numbers=parts.numbers(view),
        levels=tuple(parts.level(level) for level in view.levels),
        suites=tuple(parts.suite(suite) for suite in view.suites),
        gives_up=tuple(parts.difference(one) for one in against.differences) if against is not None else (),
        items=tuple(parts.items(suite) for suite in against.suites) if against is not None else (),
        settings=parts.settings(stored.candidate),
        server=parts.server(view.facts) if view.facts is not None else None,
        price=parts.price(gathered.prices.of(view.facts, view.devices)),
        evidence=parts.run_evidence(_evidence_of(stored, gathered.evidence, gathered.view), gathered.hashes),
        settles=view.settles,
        notes=view.notes,
    )


def _product_reason(
    view: CandidateView, stored: CandidateEvidence, front: Sequence[tuple[str, Numbers]], of_all: TradeoffView
) -> str:
    mine = view.three_numbers
    compares = view.front_probability is not None and not stored.other_requests
    dominated_by = decision.dominating(mine, front) if mine is not None and compares else ()
    return decision.product_reason(
        view.name,
        run_status=view.run_status,
        error=view.error,
        measured=view.is_measured,
        held=view.point is not None,
        statuses=parts.statuses(view),
        failed_suites=[suite.name for suite in view.suites if suite.verdict == "fail"],
        dominated_by=dominated_by,
        noise_apart=[
            one.name for one in of_all.candidates if one.name in dominated_by and noise_apart(view, one, of_all)
        ],
        incomplete=_incomplete(view, stored),
    )


def _incomplete(view: CandidateView, stored: CandidateEvidence) -> str:
    """Why it is on no front although nothing on it can be said to be better. One that has no operating point has a
    reason already."""
    if stored.other_requests:
        return "It was measured with other requests than the baseline, so its latency and its cost do not compare."
    missing = [
        words
        for words, estimate in (
            ("no pass rate", view.pass_rate),
            ("no P90 TTFT that can be stated", view.point.summary.ttft_p90_ms if view.point is not None else None),
            ("no price of its device", view.cost.deployed_usd if view.cost is not None else None),
        )
        if estimate is None or estimate.value is None
    ]
    if missing:
        return f"It has {listed(missing)}, so it could not be compared in all three numbers."
    if view.front_probability is None:  # it took no part, though it has all three
        return "It did not answer the same version of the repository suite as the baseline, so it was not compared."
    return "Only what was measured with other requests than the baseline is at least as good in all three numbers."


def _notes(view: TradeoffView) -> tuple[str, ...]:
    notes = list(view.notes)
    if view.noise.is_measured:
        notes += [sentence for sentence in (view.noise.sentence, view.noise.moved) if sentence]
    if view.device_kind == "cpu":
        notes.append(CPU_SENTENCE)
    if view.runs_active:
        count = "1 run" if view.runs_active == 1 else f"{view.runs_active} runs"
        notes.append(
            f"{count} of the experiment had not ended when this was decided: what they store is no evidence of it."
        )
    return tuple(notes)
