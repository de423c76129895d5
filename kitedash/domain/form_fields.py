"""The fields of an experiment's form: every one holds its text as typed, right or wrong, so that nothing is lost.

Fields go by their path in the experiment file, `workload.users`; within a candidate's row they are the columns. From
an experiment to its form and back: `experiment_form.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kitedash.domain.engine_args import QUANTIZATION

# Column "number format": each choice is one engine argument.
NUMBER_FORMATS: Mapping[str, tuple[str, str]] = {
    "bfloat16": ("dtype", "bfloat16"),
    "float16": ("dtype", "float16"),
    "float32": ("dtype", "float32"),
    "fp8": (QUANTIZATION, "fp8"),
    "int8": (QUANTIZATION, "int8"),
    "unquantised": (QUANTIZATION, "none"),
}
BATCH_LIMIT, PREFIX_CACHING = "max-num-seqs", "enable-prefix-caching"
COLUMN_OF = {"dtype": "number_format", QUANTIZATION: "number_format"} | {
    BATCH_LIMIT: "max_num_seqs",
    PREFIX_CACHING: "prefix_caching",
}
PREFIX_CHOICES = {"on": True, "off": False}


@dataclass(frozen=True)
class ArgumentRow:
    """An engine argument with its value, or with a matrix's values, as typed. Without a value it does not count."""

    name: str
    value: str = ""


@dataclass(frozen=True)
class CandidateRow:
    """`number_format` is one of NUMBER_FORMATS, `prefix_caching` on or off; "" leaves a column to what is shared.
    `further` and `cpu_further` are name=value texts, `environment` one variable a line."""

    name: str = ""
    number_format: str = ""
    max_num_seqs: str = ""
    prefix_caching: str = ""
    further: str = ""
    cpu_further: str = ""
    environment: str = ""
    model: str = ""
    devices: str = ""


@dataclass(frozen=True)
class SuiteRow:
    """`margin` in points, per cent of the items."""

    name: str
    margin: str = "5"


@dataclass(frozen=True)
class MixRow:
    """A kind of requests. The defaults are the experiment file's."""

    name: str = ""
    weight: str = "1"
    kind: str = "chat"
    input_tokens: str = "6000"
    input_tokens_p90: str = ""
    shared_prefix_tokens: str = "5700"
    timestamp_first: str = "false"
    output_tokens: str = "400"
    output_tokens_p90: str = ""
    turns: str = "1"
    think_time_s: str = "0"


@dataclass(frozen=True)
class WorkloadFields:
    users: str = "10000"
    requests_per_user_per_day: str = "20"
    peak_factor: str = "5"
    input_tokens: str = "6000"
    input_tokens_p90: str = ""
    shared_prefix_tokens: str = "5700"
    output_tokens: str = "400"
    output_tokens_p90: str = ""
    timestamp_first: str = "false"
    kind: str = "chat"
    turns: str = "1"
    think_time_s: str = "0"
    arrivals: str = "poisson"
    burstiness: str = "1"
    trace: str = ""
    spare_replicas: str = "0"


@dataclass(frozen=True)
class LoadFields:
    rates_per_s: str = ""
    blocks: str = "6"
    block_duration_s: str = "30"
    warm_up_s: str = "0"
    ramp_s: str = "0"
    request_timeout_s: str = "60"
    seed: str = "1"
    client_processes: str = ""
    search: str = "false"
    search_precision: str = "0.1"
    search_most_blocks: str = "30"


@dataclass(frozen=True)
class TargetFields:
    """`pass_rate` in per cent."""

    ttft_p90_ms: str = ""
    cost_per_1000_requests_usd: str = ""
    pass_rate: str = ""


@dataclass(frozen=True)
class GuardrailFields:
    """`error_rate` in per cent."""

    tpot_p90_ms: str = ""
    error_rate: str = "1"


@dataclass(frozen=True)
class MemoryFields:
    """`tried`: "true" or "false"; where it is false the others count for nothing."""

    tried: str = "false"
    most_prompt_tokens: str = ""
    most_concurrency: str = ""
    output_tokens: str = "16"


@dataclass(frozen=True)
class ExperimentForm:
    """The defaults are the experiment file's; what has none is empty."""

    name: str = ""
    description: str = ""
    model: str = ""
    engine_args: tuple[ArgumentRow, ...] = ()
    environment: str = ""
    devices: str = ""
    candidates: tuple[CandidateRow, ...] = (CandidateRow("baseline"),)
    matrix: tuple[ArgumentRow, ...] = ()
    exclude: tuple[str, ...] = ()
    baseline: str = "baseline"
    workload: WorkloadFields = field(default_factory=WorkloadFields)
    mix: tuple[MixRow, ...] = ()  # the file's workload.mix
    load: LoadFields = field(default_factory=LoadFields)
    suites: tuple[SuiteRow, ...] = ()
    targets: TargetFields = field(default_factory=TargetFields)
    guardrails: GuardrailFields = field(default_factory=GuardrailFields)
    repeats: str = "1"
    noise_floor: str = "true"
    memory: MemoryFields = field(default_factory=MemoryFields)


GROUPS = ("workload", "load", "targets", "guardrails")
PER_CENT = ("targets.pass_rate", "guardrails.error_rate")  # and every suite's margin
_CELL = re.compile(r"(?P<rows>\w+)\[(?P<index>\d+)\](?:\.(?P<column>\w+))?")


def value_at(form: ExperimentForm, path: str) -> str:
    """What was typed into a field: `name`, `workload.users`, `engine_args.dtype`, `candidates[0].further`,
    `mix[0].weight`, `exclude[1]`."""
    if cell := _CELL.fullmatch(path):
        row = getattr(form, cell["rows"])[int(cell["index"])]
        return str(getattr(row, cell["column"]) if cell["column"] else row)
    group, _, name = path.partition(".")
    holder = getattr(form, group)
    if group in ("engine_args", "matrix"):
        return next(str(row.value) for row in holder if row.name == name)
    return str(getattr(holder, name) if name else holder)


def with_value(form: ExperimentForm, path: str, text: str) -> ExperimentForm:
    """The form with another text in one field; see `value_at`. A baseline goes along with its candidate's name; an
    argument or an exclude that is emptied goes."""
    changed: dict[str, Any] = {}
    group, _, name = path.partition(".")
    if cell := _CELL.fullmatch(path):
        rows, index, column = list(getattr(form, cell["rows"])), int(cell["index"]), cell["column"]
        before = rows[index]
        after = replace(before, **{column: text}) if column else text
        rows[index : index + 1] = [after] if after != "" else []
        changed[cell["rows"]] = tuple(rows)
        if cell["rows"] == "candidates" and column == "name" and before.name == form.baseline:
            changed["baseline"] = text
    elif group in ("engine_args", "matrix"):
        rows = [replace(row, value=text) if row.name == name else row for row in getattr(form, group)]
        changed[group] = tuple(row for row in rows if row.name != name or text.strip())
    else:
        changed[group] = replace(getattr(form, group), **{name: text}) if name else text
    return replace(form, **changed)


def free_name(name: str, taken: Sequence[str]) -> str:
    """The name with the lowest number behind it that makes it new: "int8" -> "int8 2"."""
    stem = name[:76].rstrip()
    return next(f"{stem} {number}" for number in range(2, len(taken) + 3) if f"{stem} {number}" not in taken)


def with_copy(form: ExperimentForm, index: int) -> ExperimentForm:
    """A copy of a candidate right below it, under a new name and ready for the one change."""
    row = form.candidates[index]
    name = free_name(row.name, [one.name for one in form.candidates]) if row.name else ""
    rows = (*form.candidates[: index + 1], replace(row, name=name), *form.candidates[index + 1 :])
    return replace(form, candidates=rows)


def without(form: ExperimentForm, index: int) -> ExperimentForm:
    """Without a candidate; where it was the baseline, the first of the others is."""
    rows = (*form.candidates[:index], *form.candidates[index + 1 :])
    was_baseline = form.candidates[index].name == form.baseline
    return replace(form, candidates=rows, baseline=rows[0].name if was_baseline and rows else form.baseline)
