"""Whether a form is an experiment, and if not, what is wrong with which of its fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kitedash.domain.engine_args import canonical_name, check_each
from kitedash.domain.environment import check_environment
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.experiment_file import experiment_from
from kitedash.domain.experiment_form import partial_data_of
from kitedash.domain.form_fields import COLUMN_OF, CandidateRow, ExperimentForm, value_at
from kitedash.domain.schema_errors import first_sentence, plain_data

_CANDIDATE = re.compile(r"candidates\[(\d+)\](?:\.(\w+)(?:\.(.+))?)?", re.DOTALL)
_LONG_LIST = re.compile(r"; allowed: .{100,}$", re.DOTALL)
_TWIN = "is the same configuration as"
# What is allowed, and whether 0 and 100 % are.
_SHARES = {
    "targets.pass_rate": ("above 0 and at most 100 %", False, True),
    "guardrails.error_rate": ("at least 0 and below 100 %", True, False),
}
_MARGIN = ("above 0 and below 100 %", False, False)


@dataclass(frozen=True)
class Refusal:
    """What is wrong with a field ("" for the form as a whole). `pending`: nothing wrong was typed, something is still
    to come, such as a name, or what a copied candidate is to differ in."""

    field: str
    sentence: str
    pending: bool = False


@dataclass(frozen=True)
class CheckedForm:
    """`spec` is None while anything is refused."""

    spec: ExperimentSpec | None
    refusals: tuple[Refusal, ...] = ()


def check(form: ExperimentForm) -> CheckedForm:
    """The experiment that the form holds, or what is wrong: of every field by itself, else of fields together."""
    data, unread = partial_data_of(form)
    found = {error.field: error.sentence for error in unread} | dict(_per_cent_errors(data))
    first: InvalidInput | None = None
    if not found:
        try:
            return CheckedForm(experiment_from(data))
        except InvalidInput as error:
            first = error
    of_fields = [*_field_errors(data), *_argument_errors(data)]
    if first is not None and not of_fields:
        of_fields = [(first.field, first.sentence)]
    for path, sentence in of_fields:
        field = field_of(path, form)
        found.setdefault(field, _in_field(path, field, sentence))
    return CheckedForm(None, tuple(_refusal(path, sentence, form) for path, sentence in found.items()))


def field_of(path: str, form: ExperimentForm) -> str:
    """The form's field for a path in the experiment: `candidates[2].engine_args.max-num-seqs` is the column
    `candidates[2].max_num_seqs`; `load.rates_per_s[0]` is `load.rates_per_s`. A field of the form is its own."""
    if match := _CANDIDATE.fullmatch(path):
        where, key, name = f"candidates[{match[1]}]", match[2], match[3]
        if int(match[1]) >= len(form.candidates):
            return "candidates"
        if key is None:
            return f"{where}.name"
        if key == "engine_args":
            return f"{where}.{_column_of(form.candidates[int(match[1])], name)}"
        return f"{where}.cpu_further" if key == "cpu_engine_args" else f"{where}.{key}"
    path = path.removeprefix("workload.") if path.startswith("workload.mix") else path
    path = re.sub(r"^environment\..*", "environment", path, flags=re.DOTALL)
    path = re.sub(r"^(load\.rates_per_s|exclude)\[(\d+)\].*", r"\1[\2]", path, flags=re.DOTALL)
    path = path.split("[")[0] if path.startswith(("load.", "matrix.")) else path
    return path if _is_field(path, form) else path.split(".")[0].split("[")[0]


def _column_of(row: CandidateRow, name: str | None) -> str:
    column = COLUMN_OF.get(canonical_name(name or ""), "further")
    return column if getattr(row, column) else "further"


def _is_field(path: str, form: ExperimentForm) -> bool:
    try:
        value_at(form, path)
    except (AttributeError, IndexError, StopIteration):
        return False
    return True


def _in_field(path: str, field: str, sentence: str) -> str:
    """A field that holds several arguments needs the name of the one that is meant, and no list of all the others."""
    sentence = _LONG_LIST.sub("", sentence)
    named = re.search(r"(?:^|\.)(?:engine_args|cpu_engine_args|environment|exclude\[\d+\])\.(.+)$", path, re.DOTALL)
    holds_several = re.search(r"(further|environment|exclude\[\d+\])$", field)
    return f"{named[1]} {sentence}" if named and holds_several else sentence


def _refusal(path: str, sentence: str, form: ExperimentForm) -> Refusal:
    typed = _is_field(path, form) and path != "candidates" and value_at(form, path).strip() != ""
    twin = _TWIN in sentence
    sentence = re.sub(r"candidates\[(\d+)\]", lambda found: f"candidate {int(found[1]) + 1}", sentence)
    return Refusal(path, f"{sentence}: change one thing" if twin else sentence, pending=twin or not typed)


def _per_cent_errors(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Shares are typed in per cent: what is out of range is said in per cent too."""
    shares = [(path, *allowed, _at(data, path)) for path, allowed in _SHARES.items()]
    shares += [(f"suites[{i}].margin", *_MARGIN, suite.get("margin")) for i, suite in enumerate(data.get("suites", ()))]
    for path, allowed, low_too, high_too, share in shares:
        if isinstance(share, bool) or not isinstance(share, int | float):
            continue
        good = (share >= 0 if low_too else share > 0) and (share <= 1 if high_too else share < 1)
        if not good:
            yield path, f"must be {allowed}, not {share * 100:g} %"


def _at(data: dict[str, Any], path: str) -> Any:
    group, name = path.split(".")
    return data[group].get(name)


def _argument_errors(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Of each group of arguments by itself, whatever else is wrong with the experiment."""
    holders = [("", data)] + [(f"candidates[{i}].", one) for i, one in enumerate(data.get("candidates", ()))]
    for where, holder in holders:
        try:
            check_each(holder.get("engine_args", {}), f"{where}engine_args")
            check_each(holder.get("cpu_engine_args", {}), f"{where}cpu_engine_args")
            check_environment(holder.get("environment", {}), f"{where}environment")
        except InvalidInput as error:
            yield error.field, error.sentence


def _field_errors(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Of each field by itself: what the schema refuses, in the schema's order."""
    try:
        ExperimentSpec.model_validate_json(json.dumps(plain_data(data)), strict=True)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            yield first_sentence([one])
    except InvalidInput as error:
        yield error.field, error.sentence
    except (TypeError, ValueError, RecursionError) as error:
        yield "", f"an experiment holds plain values only ({error})"
