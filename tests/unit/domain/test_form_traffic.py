from __future__ import annotations

from dataclasses import replace

from kitedash.domain.experiment_file import parse_experiment
from kitedash.domain.experiment_form import form_of
from kitedash.domain.form_checks import check, field_of
from kitedash.domain.form_fields import value_at, with_value
from kitedash.domain.form_traffic import with_kind, with_trace, without_kind
from kitedash.domain.workload import RequestClass

SMALLEST = """
name: one
model: m
candidates: [{name: a}]
baseline: a
workload: {}
load: {rates_per_s: [1, 2, 4]}
targets: {ttft_p90_ms: 1000, cost_per_1000_requests_usd: 1, pass_rate: 0.5}
guardrails: {tpot_p90_ms: 150}
"""
FORM = form_of(parse_experiment(SMALLEST))


def test_the_first_kind_of_a_mix_is_what_all_requests_were() -> None:
    form = replace(FORM, workload=replace(FORM.workload, input_tokens="900", shared_prefix_tokens="800", turns="2"))
    mixed = with_kind(form)
    found = check(mixed).spec
    assert found is not None
    assert found.workload.mix == (RequestClass(name="chat", input_tokens=900, shared_prefix_tokens=800, turns=2),)
    assert without_kind(mixed, 0) == form, "and back"


def test_a_further_kind_is_a_copy_under_a_new_name_to_be_changed() -> None:
    form = with_kind(with_kind(with_kind(FORM)))
    assert [row.name for row in form.mix] == ["chat", "chat 2", "chat 3"]
    form = with_value(form, "mix[1].weight", "2,000")
    assert value_at(form, "mix[1].weight") == "2,000"
    found = check(without_kind(form, 0)).spec
    assert found is not None
    assert [(one.name, one.weight) for one in found.workload.mix] == [("chat 2", 2_000), ("chat 3", 1)]


def test_a_trace_takes_the_place_of_a_mix_and_of_what_it_says_itself() -> None:
    form = with_kind(replace(FORM, workload=replace(FORM.workload, arrivals="gamma", burstiness="4")))
    traced = with_trace(form, "monday")
    found = check(traced).spec
    assert found is not None
    assert (found.workload.trace, found.workload.mix) == ("monday", ())
    assert check(with_trace(traced, "")).spec is not None
    assert with_kind(traced).workload.trace == ""


def test_what_is_refused_of_a_kind_is_said_at_its_field() -> None:
    form = with_value(with_kind(FORM), "mix[0].weight", "none")
    (refusal,) = check(form).refusals
    assert (refusal.field, refusal.sentence) == ("mix[0].weight", "must be a number, not 'none'")
    assert field_of("workload.mix[0].shared_prefix_tokens", form) == "mix[0].shared_prefix_tokens"
    (refusal,) = check(with_value(form := with_kind(FORM), "mix[0].input_tokens", "100")).refusals
    assert refusal.field == "mix[0].shared_prefix_tokens"
    (refusal,) = check(with_value(with_kind(form), "mix[1].name", "chat")).refusals
    assert (refusal.field, refusal.sentence[:18]) == ("mix", "holds 'chat' twice")
