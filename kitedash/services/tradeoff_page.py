"""What the trade-off page shows: the list of experiments, the view of one of them, the candidate that is picked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kitedash.domain.presets import Preset
from kitedash.domain.run_time import number_format_of
from kitedash.services.change_token import change_token as change_token
from kitedash.services.compare import ComparisonView, compare
from kitedash.services.evidence import ExperimentEvidence
from kitedash.services.kept_evidence import kept_evidence, kept_view
from kitedash.services.limits import AskedLimits
from kitedash.services.presets import presets
from kitedash.services.runs import recent_experiments
from kitedash.services.views import CandidateView, ExperimentItem, TradeoffView


@dataclass(frozen=True)
class Picked:
    """The candidate that is looked at closely. `preset` picked it; None: the viewer did. `comparison` is with another
    candidate; None where there is no other. `is_default`: nothing was asked for, so it is the leading candidate."""

    candidate: CandidateView
    preset: Preset | None
    comparison: ComparisonView | None
    is_default: bool = False


@dataclass(frozen=True)
class TradeoffPage:
    """`view` is None while nothing is stored. `asked_preset` is the preset in force, with or without a candidate.
    `unknown`: names asked for that the experiment does not have."""

    experiments: tuple[ExperimentItem, ...]
    view: TradeoffView | None
    presets: tuple[Preset, ...] = ()
    asked_preset: Preset | None = None
    picked: Picked | None = None
    number_formats: Mapping[str, str] = field(default_factory=dict)  # candidate -> number format of its weights
    unknown: tuple[str, ...] = ()
    token: str = ""  # of `change_token`, from before all of this was read


def page(
    experiment_id: str | None,
    *,
    limits: AskedLimits | None = None,
    candidate: str | None = None,
    preset: str | None = None,
    against: str | None = None,
) -> TradeoffPage:
    """The newest experiment if none is named. Raises NotFound for an unknown experiment.

    Of the candidates it picks the one named, else the preset's, else the recommended or leading one, and compares it
    with `against`, else with the baseline (or for the baseline itself with the leading one).
    """
    recent = recent_experiments(experiment_id)
    if recent.chosen is None:
        return TradeoffPage(recent.items, None, token=change_token(None))
    token = change_token(recent.chosen)
    evidence = kept_evidence(recent.chosen)
    limits = limits or AskedLimits()
    view = kept_view(evidence, targets=limits.targets(evidence.spec), guardrails=limits.guardrails(evidence.spec))
    found = presets(view)
    names = {one.name for one in view.candidates}
    named = candidate if candidate in names else None
    asked = next((one for one in found if one.key == preset), None) if named is None else None
    return TradeoffPage(
        experiments=recent.items,
        view=view,
        presets=found,
        asked_preset=asked,
        picked=_picked(evidence, view, named, asked, against if against in names else None),
        number_formats={one.candidate.name: number_format_of(one.candidate) for one in evidence.candidates},
        unknown=tuple(name for name in dict.fromkeys((candidate, against)) if name and name not in names),
        token=token,
    )


def _picked(
    evidence: ExperimentEvidence, view: TradeoffView, named: str | None, preset: Preset | None, against: str | None
) -> Picked | None:
    leading = view.recommendation.candidate or view.recommendation.nearest
    is_default = named is None and preset is None
    name = named or (preset.candidate if preset is not None else leading)
    candidate = next((one for one in view.candidates if one.name == name), None)
    if candidate is None:
        return None
    other = against if against != candidate.name else None
    other = other or _counterpart(view, candidate, leading)
    comparison = compare(evidence, view, candidate.name, other) if other is not None else None
    return Picked(candidate, preset, comparison, is_default)


def _counterpart(view: TradeoffView, candidate: CandidateView, leading: str | None) -> str | None:
    """The baseline; for the baseline itself the leading candidate, else one that has an operating point, first of all
    on the front; else the first other one."""
    others = [one for one in view.candidates if one.name != candidate.name]
    if not others:
        return None
    return min(
        others, key=lambda one: (not one.is_baseline, one.name != leading, not one.on_front, one.point is None)
    ).name
