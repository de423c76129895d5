"""What differs between two experiments as written, for "clone with one change"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kitedash.domain.argument_text import in_words, pairs_text, values_text
from kitedash.domain.experiment import CandidateSpec, ExperimentSpec, MemoryPlan, Workload

ABSENT = ""
_GROUPS = ("load", "targets", "guardrails")


@dataclass(frozen=True)
class Change:
    """`path` names the field in words of the experiment file; "" stands for what is not there."""

    path: str
    before: str
    after: str


def spec_changes(before: ExperimentSpec, after: ExperimentSpec) -> tuple[Change, ...]:
    """Every field that differs, in the file's order. Candidates and suites are told by their names, so that another
    order is no change; one that is there on one side only is one row with all it holds."""
    rows = [
        *(
            (name, _text(getattr(before, name)), _text(getattr(after, name)))
            for name in ("name", "description", "model")
        ),
        *_groups("engine_args", before.engine_args, after.engine_args),
        *_groups("environment", before.environment, after.environment),
        ("devices", str(before.devices), str(after.devices)),
        *_candidates(before, after),
        *_groups("matrix", before.matrix, after.matrix),
        ("exclude", *("; ".join(map(pairs_text, spec.exclude)) for spec in (before, after))),
        ("baseline", before.baseline, after.baseline),
        *_groups("workload", _flat(before.workload), _flat(after.workload)),
        *_kinds(before, after),
        *(
            row
            for group in _GROUPS
            for row in _groups(group, dict(getattr(before, group)), dict(getattr(after, group)))
        ),
        *_groups("suites", {s.name: s.margin for s in before.suites}, {s.name: s.margin for s in after.suites}),
        ("repeats", str(before.repeats), str(after.repeats)),
        ("noise_floor", _text(before.noise_floor), _text(after.noise_floor)),
        *_memory(before.memory, after.memory),
    ]
    return tuple(Change(path, one, other) for path, one, other in rows if one != other)


Row = tuple[str, str, str]


def _groups(group: str, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[Row]:
    for name in [*before, *(name for name in after if name not in before)]:
        yield f"{group}.{name}", _text(before.get(name)), _text(after.get(name))


def _flat(workload: Workload) -> dict[str, object]:
    """What counts of it, without its kinds of requests."""
    return {name: value for name, value in workload if name != "mix" and workload.counts(name)}


def _kinds(before: ExperimentSpec, after: ExperimentSpec) -> Iterator[Row]:
    """Of a mix, each kind of requests by its name."""
    old, new = ({one.name: dict(one) for one in spec.workload.mix} for spec in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        one, other = old.get(name), new.get(name)
        if one is None or other is None:
            said = _pairs({key: value for key, value in (one or other or {}).items() if key != "name"})
            yield f"workload.mix {name}", said if one else ABSENT, said if other else ABSENT
        else:
            yield from _groups(f"workload.mix {name}", one, other)


def _memory(before: MemoryPlan | None, after: MemoryPlan | None) -> Iterator[Row]:
    """A stage that is there on one side only is one row with all it holds."""
    if before is not None and after is not None:
        yield from _groups("memory", dict(before), dict(after))
    else:
        one, other = (_pairs(dict(plan)) if plan else ABSENT for plan in (before, after))
        yield "memory", one, other


def _pairs(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in fields.items() if value is not None)


def _candidates(before: ExperimentSpec, after: ExperimentSpec) -> Iterator[Row]:
    old, new = ({one.name: one for one in spec.candidates} for spec in (before, after))
    for name in [*old, *(name for name in new if name not in old)]:
        one, other = old.get(name), new.get(name)
        if one is None or other is None:
            yield f"candidate {name}", _holds(one), _holds(other)
            continue
        yield f"{name}: model", one.model or "", other.model or ""
        for field in ("engine_args", "cpu_engine_args", "environment"):
            for path, left, right in _groups(field, getattr(one, field), getattr(other, field)):
                yield f"{name}: {path}", left, right
        yield f"{name}: devices", _text(one.devices), _text(other.devices)


def _holds(candidate: CandidateSpec | None) -> str:
    if candidate is None:
        return ABSENT
    own = pairs_text(candidate.engine_args | candidate.environment)
    return ", ".join(part for part in (candidate.model or "", own) if part) or "as shared"


def _text(value: object) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, tuple):
        return values_text(value)
    return in_words(value)  # type: ignore[arg-type]  # a plain value by now
