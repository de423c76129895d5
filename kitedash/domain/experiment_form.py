"""An experiment as a form holds it: `form_of` and `data_of` lead there and back without loss.

Whether a form is an experiment is for `form_checks.py`; its fields are in `form_fields.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from kitedash.domain.argument_text import (
    environment_text,
    in_words,
    pairs_text,
    parse_environment,
    parse_pairs,
    parse_values,
    text_of,
    value_of,
    values_text,
)
from kitedash.domain.engine_args import QUANTIZATION, canonical_name
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ArgValue, CandidateSpec, ExperimentSpec, Strict
from kitedash.domain.form_fields import (
    BATCH_LIMIT,
    GROUPS,
    NUMBER_FORMATS,
    PER_CENT,
    PREFIX_CACHING,
    PREFIX_CHOICES,
    ArgumentRow,
    CandidateRow,
    ExperimentForm,
    GuardrailFields,
    LoadFields,
    MemoryFields,
    MixRow,
    SuiteRow,
    TargetFields,
    WorkloadFields,
)


def form_of(spec: ExperimentSpec) -> ExperimentForm:
    """The form that holds an experiment."""
    return ExperimentForm(
        name=spec.name,
        description=spec.description,
        model=spec.model,
        engine_args=tuple(ArgumentRow(name, text_of(value)) for name, value in spec.engine_args.items()),
        environment=environment_text(spec.environment),
        devices="" if spec.devices == 1 else str(spec.devices),
        candidates=tuple(row_of(candidate) for candidate in spec.candidates),
        matrix=tuple(ArgumentRow(name, values_text(values)) for name, values in spec.matrix.items()),
        exclude=tuple(pairs_text(one) for one in spec.exclude),
        baseline=spec.baseline,
        workload=WorkloadFields(**_texts("workload", spec)),
        mix=tuple(MixRow(**_texts_of(one)) for one in spec.workload.mix),
        load=LoadFields(**_texts("load", spec) | {"rates_per_s": values_text(map(_whole, spec.load.rates_per_s))}),
        suites=tuple(SuiteRow(suite.name, per_cent_text(suite.margin)) for suite in spec.suites),
        targets=TargetFields(**_texts("targets", spec)),
        guardrails=GuardrailFields(**_texts("guardrails", spec)),
        repeats=str(spec.repeats),
        noise_floor=in_words(spec.noise_floor),
        memory=MemoryFields() if spec.memory is None else MemoryFields("true", **_texts("memory", spec)),
    )


def row_of(candidate: CandidateSpec) -> CandidateRow:
    """A candidate's row: what has a column stands there, everything else under the further arguments."""
    args = dict(candidate.engine_args)
    number_format = batch_limit = prefix_caching = ""
    for choice, (name, value) in NUMBER_FORMATS.items():
        if args.get(name) == value and (name == QUANTIZATION or QUANTIZATION not in args):
            number_format = choice
            del args[name]
            break
    if type(args.get(BATCH_LIMIT)) is int:
        batch_limit = text_of(args.pop(BATCH_LIMIT))
    if isinstance(args.get(PREFIX_CACHING), bool):
        prefix_caching = "on" if args.pop(PREFIX_CACHING) else "off"
    return CandidateRow(
        name=candidate.name,
        number_format=number_format,
        max_num_seqs=batch_limit,
        prefix_caching=prefix_caching,
        further=pairs_text(args),
        cpu_further=pairs_text(candidate.cpu_engine_args),
        environment=environment_text(candidate.environment),
        model=candidate.model or "",
        devices="" if candidate.devices is None else str(candidate.devices),
    )


def data_of(form: ExperimentForm) -> dict[str, Any]:
    """Plain data as `experiment_from` takes it. What is no number stays text there and is refused by it.

    Raises InvalidInput where a text of name=value pairs is none.
    """
    data, unread = partial_data_of(form)
    if unread:
        raise unread[0]
    return data


def partial_data_of(form: ExperimentForm) -> tuple[dict[str, Any], list[InvalidInput]]:
    """As `data_of`, without the pairs that can't be read, and what is wrong with these."""
    unread: list[InvalidInput] = []

    def environment(text: str, path: str) -> dict[str, str]:
        try:
            return parse_environment(text, path)
        except InvalidInput as error:
            unread.append(error)
            return {}

    def pairs(text: str, path: str) -> dict[str, ArgValue | None]:
        try:
            return parse_pairs(text, path)
        except InvalidInput as error:
            unread.append(error)
            return {}

    def values(text: str, path: str) -> list[ArgValue | None]:
        try:
            return parse_values(text, path)
        except InvalidInput as error:
            unread.append(error)
            return []

    def candidate(row: CandidateRow, where: str) -> dict[str, Any]:
        args = _columns(row)
        for name, value in pairs(row.further, f"{where}.further").items():
            if canonical_name(name) in args:
                unread.append(InvalidInput(f"{where}.further", f"{name} is set in its column already"))
            args[name] = value
        return _filled(
            {
                "name": row.name,
                "model": row.model,
                "engine_args": args,
                "cpu_engine_args": pairs(row.cpu_further, f"{where}.cpu_further"),
                "environment": environment(row.environment, f"{where}.environment"),
                "devices": number(row.devices),
            }
        )

    data: dict[str, Any] = {
        "name": form.name,
        "description": form.description,
        "model": form.model,
        "engine_args": {row.name: value_of(row.value) for row in form.engine_args if row.value.strip()},
        "environment": environment(form.environment, "environment"),
        "devices": number(form.devices),
        "candidates": [candidate(row, f"candidates[{index}]") for index, row in enumerate(form.candidates)],
        "matrix": {row.name: values(row.value, f"matrix.{row.name}") for row in form.matrix if row.value.strip()},
        "exclude": [pairs(text, f"exclude[{index}]") for index, text in enumerate(form.exclude)],
        "baseline": form.baseline,
    }
    for group in GROUPS:
        data[group] = _numbers(group, getattr(form, group), values)
    if form.mix:
        data["workload"]["mix"] = [_numbers("mix", row, values) for row in form.mix]
    data["suites"] = [_filled({"name": suite.name, "margin": share_of(suite.margin)}) for suite in form.suites]
    data["repeats"] = number(form.repeats)
    data["noise_floor"] = number(form.noise_floor)
    if form.memory.tried == "true":
        data["memory"] = _numbers("memory", replace(form.memory, tried=""), values)
    return {key: value for key, value in data.items() if value not in ("", [], {}) or key in GROUPS}, unread


def number(text: str) -> ArgValue | None:
    """A typed number; what is none stays as typed. Thousands may be parted: 10,000."""
    text = text.strip()
    if re.fullmatch(r"[1-9]\d{0,2}(,\d{3})+", text, re.ASCII):
        return int(text.replace(",", ""))
    return value_of(text)


def per_cent_text(share: float) -> str:
    """0.05 -> "5", exactly: by decimals, since 0.07 x 100 is not 7."""
    return f"{Decimal(repr(share)).scaleb(2).normalize():f}"


def share_of(text: str) -> ArgValue | None:
    """ "5" -> 0.05; what is no number stays as typed."""
    typed = number(text)
    if isinstance(typed, bool) or not isinstance(typed, int | float):
        return typed
    try:
        return float(Decimal(text.strip().replace(",", "")).scaleb(-2))
    except InvalidOperation:
        return typed


def _columns(row: CandidateRow) -> dict[str, ArgValue | None]:
    args: dict[str, ArgValue | None] = {}
    if row.number_format:
        name, value = NUMBER_FORMATS.get(row.number_format, (QUANTIZATION, row.number_format))
        args[name] = value
    if row.max_num_seqs.strip():
        args[BATCH_LIMIT] = number(row.max_num_seqs)
    if row.prefix_caching:
        args[PREFIX_CACHING] = PREFIX_CHOICES.get(row.prefix_caching, row.prefix_caching)
    return args


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in ("", {})}


def _texts(group: str, spec: ExperimentSpec) -> dict[str, str]:
    """The fields of a group as text, but for those that hold several values."""
    found = _texts_of(getattr(spec, group))
    return {
        name: per_cent_text(getattr(getattr(spec, group), name)) if f"{group}.{name}" in PER_CENT else text
        for name, text in found.items()
    }


def _texts_of(values: Strict) -> dict[str, str]:
    return {
        name: "" if value is None else value if isinstance(value, str) else in_words(_whole(value))
        for name, value in values
        if not isinstance(value, tuple)
    }


def _numbers(group: str, typed: Any, values: Callable[[str, str], list[ArgValue | None]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(typed):
        text: str = getattr(typed, one.name)
        if not text.strip():
            continue
        if one.name in ("name", "trace"):
            found[one.name] = text
        elif one.name == "rates_per_s":
            found[one.name] = values(text, f"{group}.{one.name}")
        else:
            found[one.name] = share_of(text) if f"{group}.{one.name}" in PER_CENT else number(text)
    return found


def _whole(value: float) -> float:
    """20.0 as 20: what a field of decimal numbers shows. Large ones keep their exponent."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
