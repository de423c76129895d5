"""What the page on which a decision is written shows: the candidate, what it gives up, and what is still to be said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kitedash.domain.decision_content import DecisionContent, content_from, require_reasons
from kitedash.domain.errors import InvalidInput
from kitedash.services import decide, records
from kitedash.services.compare import ComparisonView, against_front
from kitedash.services.decide import DraftView, Reading
from kitedash.services.kept_evidence import kept_evidence, kept_view
from kitedash.services.limits import AskedLimits
from kitedash.services.records import RecordItem
from kitedash.services.runs import recent_experiments
from kitedash.services.views import CandidateView, ExperimentItem, TradeoffView

# Content that nothing is wrong with: what is asked of a field can so be found out field by field.
_STAND_INS: Final[Mapping[str, Any]] = {
    "title": "-",
    "why": "-",
    "consequences": "-",
    "deciders": ("-",),
    "consulted": (),
    "look_again": "-",
    "rejected": {},
}


@dataclass(frozen=True)
class DecidePage:
    """`view` is None while nothing is stored, `candidate` while nothing of the experiment is measured."""

    experiments: tuple[ExperimentItem, ...]
    view: TradeoffView | None
    measured: tuple[CandidateView, ...] = ()  # what can be decided for
    candidate: CandidateView | None = None
    asked: str = ""  # the candidate that was asked for and cannot be decided for; "" otherwise
    against: tuple[ComparisonView, ...] = ()
    reasons_needed: tuple[str, ...] = ()
    drafts: tuple[DraftView, ...] = ()  # the open ones of this experiment, the last saved first
    draft: DraftView | None = None  # the one that is open on the page; accepted ones too
    reading: Reading | None = None  # the record as the saved draft would make it; None unless asked for
    decided: tuple[RecordItem, ...] = ()  # records of this experiment
    guardrails_asked: bool = False  # other guardrails than those written down were asked for, and do not count
    open_records: tuple[RecordItem, ...] = ()  # what can be superseded: of this experiment first, then the newest


def page(
    experiment_id: str | None,
    candidate_name: str | None,
    draft_id: str | None,
    *,
    limits: AskedLimits | None = None,
    reading: bool = False,
) -> DecidePage:
    """The newest experiment if none is named. A draft brings its experiment, its candidate and its targets; a candidate
    that is named as well goes before the draft's.

    Without a draft the targets are those that the viewer asks for. Guardrails are always those written down: a record
    has no others. `reading` asks for the record as the saved draft would make it. A draft, and a candidate, of another
    experiment count as none named. Raises NotFound.
    """
    draft = decide.draft(draft_id) if draft_id else None
    if draft is not None and experiment_id not in (None, draft.experiment_id):
        draft = None
    recent = recent_experiments(draft.experiment_id if draft is not None else experiment_id)
    if recent.chosen is None:
        return DecidePage(recent.items, None)
    evidence = kept_evidence(recent.chosen)
    limits = limits or AskedLimits()
    view = kept_view(evidence, targets=draft.targets if draft is not None else limits.targets(evidence.spec))
    every_record = records.records()
    found = DecidePage(
        experiments=recent.items,
        view=view,
        measured=tuple(candidate for candidate in view.candidates if candidate.is_measured),
        drafts=decide.drafts(view.experiment_id),
        draft=draft,
        decided=tuple(record for record in every_record if record.experiment_id == view.experiment_id),
        guardrails_asked=limits.guardrails(evidence.spec) != evidence.spec.guardrails,
        open_records=_open(every_record, view.experiment_id),
    )
    wanted = candidate_name if _names(view, candidate_name) else draft.candidate_name if draft is not None else None
    chosen = _chosen(found.measured, view, wanted)
    if chosen is None:
        return replace(found, asked=wanted or "")
    found = replace(
        found,
        candidate=chosen,
        asked=wanted if wanted and wanted != chosen.name else "",
        against=against_front(evidence, view, chosen.name),
        reasons_needed=decide.reasons_needed(view, chosen.name),
    )
    if not reading or draft is None or draft.accepted_number is not None:
        return found
    return replace(found, reading=decide.as_it_would_read(draft, evidence))


def _missing(name: str) -> str:
    return f"is missing: {DecisionContent.model_fields[name].description}"


def _chosen(measured: tuple[CandidateView, ...], view: TradeoffView, wanted: str | None) -> CandidateView | None:
    """The candidate asked for, else the one that the rule recommends or that comes nearest, else the first."""
    by_name = {candidate.name: candidate for candidate in measured}
    order = (wanted, view.recommendation.candidate, view.recommendation.nearest, *by_name)
    return next((by_name[name] for name in order if name in by_name), None)


def _names(view: TradeoffView, name: str | None) -> bool:
    return any(candidate.name == name for candidate in view.candidates)


def _open(every: tuple[RecordItem, ...], experiment_id: str) -> tuple[RecordItem, ...]:
    still = [record for record in every if record.superseded_by is None]
    return tuple(sorted(still, key=lambda record: (record.experiment_id != experiment_id, -record.number)))


def problems(content: Mapping[str, Any], reasons_needed: tuple[str, ...]) -> dict[str, str]:
    """What keeps this content from being accepted, all at once: a sentence by field (`title`, `rejected.int8`)."""
    found: dict[str, str] = {}
    data = {**content}
    for _ in _STAND_INS:  # each round finds one field and fills it, so that the next one is seen
        try:
            content_from(data)
            break
        except InvalidInput as error:
            name = re.split(r"[.\[]", error.field)[0]
            empty = not str(data.get(name) or "").strip() and name in DecisionContent.model_fields
            found[error.field] = _missing(name) if empty else error.sentence
            data[name] = _STAND_INS.get(name, "")
    given = content.get("rejected") or {}
    complete = content_from({**_STAND_INS, "rejected": {name: "-" for name in given if str(given[name]).strip()}})
    for name in reasons_needed:
        try:
            require_reasons(complete, (name,))
        except InvalidInput as error:
            found.setdefault(error.field, error.sentence)
    return found
