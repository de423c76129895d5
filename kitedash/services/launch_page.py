"""What the launch page shows: where to begin from, the form with what is refused of it, and what would run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from db import experiments
from db.engine import sessions
from evals import registry
from kitedash.domain import plain_yaml
from kitedash.domain.engine_args import QUANTIZATION
from kitedash.domain.errors import InvalidInput, KiteDashError, NotFound
from kitedash.domain.expand import expand
from kitedash.domain.experiment import CandidateSpec, ExperimentSpec
from kitedash.domain.experiment_file import to_yaml
from kitedash.domain.experiment_form import data_of, form_of, row_of
from kitedash.domain.form_checks import CheckedForm, Refusal, check, field_of
from kitedash.domain.form_fields import ExperimentForm, free_name
from kitedash.domain.spec_changes import Change, spec_changes
from kitedash.services.actor import Actor, lacks
from kitedash.services.launch_preview import LaunchPreview, preview
from kitedash.services.templates import Template, templates
from kitedash.services.traces import TraceHead, traces
from kitedash.settings import settings

RECENT_EXPERIMENTS = 50


@dataclass(frozen=True)
class Start:
    """What a form begins from: nothing, a template by its name, an experiment by its id, or an uploaded file.

    `candidate` is one of the experiment's: a copy of it is appended, ready for the one change.
    """

    kind: Literal["nothing", "template", "experiment", "file"] = "nothing"
    name: str = ""
    candidate: str = ""


@dataclass(frozen=True)
class EarlierExperiment:
    id: str
    name: str
    created_at: datetime


@dataclass(frozen=True)
class KnownSuite:
    """`refusal` is "" unless the suite's data is not installed; then the counts are 0."""

    name: str
    title: str
    role: str
    n_items: int
    context_tokens: int
    refusal: str = ""


@dataclass(frozen=True)
class LaunchPage:
    """`spec` and `preview` are None while `refusals` holds what is in their way. `yaml` is the form as a file, as far
    as it can be written. `changes` are those since `changed_from`. `not_allowed` is why the actor may not launch."""

    form: ExperimentForm
    templates: tuple[Template, ...]
    earlier: tuple[EarlierExperiment, ...]
    suites: tuple[KnownSuite, ...]
    traces: tuple[TraceHead, ...]
    spec: ExperimentSpec | None
    refusals: tuple[Refusal, ...]
    preview: LaunchPreview | None
    yaml: str
    changes: tuple[Change, ...]
    changed_from: str
    not_allowed: str

    @property
    def all_refused(self) -> bool:
        """No candidate can run."""
        return self.preview is not None and all(one.refusal for one in self.preview.candidates)


def page(
    actor: Actor, start: Start, form: ExperimentForm | None = None, base: ExperimentSpec | None = None
) -> LaunchPage:
    """The form as it was left, or a new one where `form` is None. `base` is what an uploaded file held.

    Raises NotFound where what the form begins from is not there (any more), InvalidInput where it can't be read.
    """
    found = templates()
    begun = _begin(start, found, base)
    form = form or (ExperimentForm() if begun is None else form_with_copy(begun, start.candidate))
    checked = check(form)
    shown, checked = _previewed(checked, form)
    return LaunchPage(
        form=form,
        templates=found,
        earlier=_earlier(),
        suites=tuple(_suite(name) for name in registry.names()),
        traces=traces(),
        spec=checked.spec,
        refusals=checked.refusals,
        preview=shown,
        yaml=_yaml(checked, form),
        changes=spec_changes(begun, checked.spec) if begun is not None and checked.spec is not None else (),
        changed_from="" if begun is None else begun.name,
        not_allowed=lacks(actor, "engineer", "launch experiments"),
    )


def form_with_copy(spec: ExperimentSpec, candidate: str) -> ExperimentForm:
    """The form of an experiment; with a candidate's name, a copy of that one follows the others under a new name.

    Raises NotFound for a name that is none.
    """
    form = form_of(spec)
    if not candidate:
        return form
    written = next((one for one in spec.candidates if one.name == candidate), None)
    row = row_of(written or _from_matrix(spec, candidate))
    copy = replace(row, name=free_name(row.name, [one.name for one in spec.candidates]))
    return replace(form, candidates=(*form.candidates, copy))


def _begin(start: Start, found: Sequence[Template], base: ExperimentSpec | None) -> ExperimentSpec | None:
    match start.kind:
        case "template":
            template = next((one for one in found if one.name == start.name), None)
            if template is None:
                raise NotFound(f"There is no template {start.name!r} any more.")
            if template.spec is None:
                raise InvalidInput("", template.refusal)
            return template.spec
        case "experiment":
            with sessions(settings().url)() as session:
                return experiments.spec_of(experiments.get(session, start.name))
        case _:
            return base


def _from_matrix(spec: ExperimentSpec, name: str) -> CandidateSpec:
    """A candidate that the matrix made, as it would be written by hand."""
    found = next((one for one in expand(spec) if one.name == name), None)
    if found is None:
        raise NotFound(f"The experiment {spec.name} has no candidate {name!r}.")
    args = dict(found.engine_args)
    if QUANTIZATION in spec.engine_args or found.quantization != "none":
        args[QUANTIZATION] = found.quantization
    return CandidateSpec(
        name=found.name,
        model=None if found.model == spec.model else found.model,
        engine_args={key: value for key, value in args.items() if spec.engine_args.get(key) != value},
    )


def _previewed(checked: CheckedForm, form: ExperimentForm) -> tuple[LaunchPreview | None, CheckedForm]:
    """The preview, or what a launch would refuse beyond the form's own rules."""
    if checked.spec is None:
        return None, checked
    try:
        return preview(checked.spec), checked
    except InvalidInput as error:
        refusal = Refusal(field_of(error.field, form), error.sentence)
    except KiteDashError as error:
        refusal = Refusal("", str(error))
    return None, CheckedForm(None, (refusal,))


def _yaml(checked: CheckedForm, form: ExperimentForm) -> str:
    if checked.spec is not None:
        return to_yaml(checked.spec)
    try:
        return plain_yaml.dump(data_of(form))
    except InvalidInput:
        return ""


def _earlier() -> tuple[EarlierExperiment, ...]:
    with sessions(settings().url)() as session:
        recent = experiments.list_recent(session, RECENT_EXPERIMENTS)
        return tuple(EarlierExperiment(one.id, one.name, one.created_at) for one in recent)


def _suite(name: str) -> KnownSuite:
    try:
        suite = registry.suite(name)
    except KiteDashError as error:
        return KnownSuite(name, name, "", 0, 0, str(error))
    return KnownSuite(suite.name, suite.title, suite.role, suite.n_items, suite.context_tokens)
