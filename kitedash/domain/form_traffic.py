"""A form's traffic as one kind of requests, a mix of several, or a trace: what counts moves along, nothing is lost."""

from __future__ import annotations

from dataclasses import fields, replace

from kitedash.domain.form_fields import ExperimentForm, MixRow, WorkloadFields, free_name

_OF_A_KIND = tuple(one.name for one in fields(MixRow) if one.name not in ("name", "weight"))
_BESIDE_A_TRACE = ("kind", "shared_prefix_tokens")
_DEFAULT = WorkloadFields()


def with_kind(form: ExperimentForm) -> ExperimentForm:
    """One more kind of requests. The first one takes what the workload said of all; a further one copies the last."""
    if form.mix:
        last = form.mix[-1]
        first = form.mix[0].name
        name = free_name(first, [row.name for row in form.mix]) if first else ""
        return replace(form, mix=(*form.mix, replace(last, name=name)))
    row = MixRow(name="chat", **{name: getattr(form.workload, name) for name in _OF_A_KIND})
    plain = {name: getattr(_DEFAULT, name) for name in _OF_A_KIND}
    return replace(form, mix=(row,), workload=replace(form.workload, trace="", **plain))


def without_kind(form: ExperimentForm, index: int) -> ExperimentForm:
    """Without one of the mix; what the last one said goes back to the workload."""
    rows = (*form.mix[:index], *form.mix[index + 1 :])
    if rows:
        return replace(form, mix=rows)
    last = {name: getattr(form.mix[index], name) for name in _OF_A_KIND}
    return replace(form, mix=(), workload=replace(form.workload, **last))


def with_trace(form: ExperimentForm, name: str) -> ExperimentForm:
    """Replaying that trace ("": none): what it says itself goes back to its default, and a mix goes."""
    if not name:
        return replace(form, workload=replace(form.workload, trace=""))
    plain = {
        one: getattr(_DEFAULT, one) for one in (*_OF_A_KIND, "arrivals", "burstiness") if one not in _BESIDE_A_TRACE
    }
    return replace(form, mix=(), workload=replace(form.workload, trace=name, **plain))
