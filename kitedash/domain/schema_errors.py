"""What is wrong with plain data, said in the words of an experiment file instead of a validator's."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from kitedash.domain.engine_args import ALLOWED, canonical_name
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import CandidateSpec, ExperimentSpec
from kitedash.domain.plain_yaml import MAX_DEPTH
from kitedash.domain.sentences import not_known, shown

Loc = tuple[str | int, ...]

_NAME = "must begin with a letter or digit and hold only letters, digits, spaces and . _ -, at most 80 characters"
_CANDIDATE_NAME = _NAME.replace(". _ -", ". _ + = · -")
_SUITE_NAME = "must be a suite's name in small letters, digits and _"


def plain_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which groups of arguments hold single values and the environment holds text.

    Raises InvalidInput on values that are not plain, text with control characters, and lists or groups where an
    argument has one value: checked here because a value of several types makes poor sentences later.
    """
    check_plain(data)
    copy = dict(data)
    for holder, loc in _holders(copy):
        for key in ("engine_args", "cpu_engine_args", "environment"):
            if isinstance(holder.get(key), Mapping):
                _check_single_values(holder[key], (*loc, key))
        if isinstance(holder.get("environment"), Mapping):
            # VLLM_CPU_KVCACHE_SPACE: 2 is what one writes; variables are text all the same
            holder["environment"] = {
                key: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
                for key, value in holder["environment"].items()
            }
    matrix = copy.get("matrix")
    for key, values in matrix.items() if isinstance(matrix, Mapping) else ():
        if not isinstance(values, list | tuple):
            raise InvalidInput(path(("matrix", key)), f"must be a list of values such as [4, 16], not {shown(values)}")
        _check_single_values(dict(enumerate(values)), ("matrix", key))
    excludes = copy.get("exclude")
    for index, exclude in enumerate(excludes if isinstance(excludes, list | tuple) else ()):
        if isinstance(exclude, Mapping):
            _check_single_values(exclude, ("exclude", index))
    return copy


def _holders(copy: dict[str, Any]) -> list[tuple[dict[str, Any], Loc]]:
    """What may hold engine_args: the experiment and each candidate, the candidates replaced by copies."""
    holders: list[tuple[dict[str, Any], Loc]] = [(copy, ())]
    if isinstance(copy.get("candidates"), list | tuple):
        copy["candidates"] = [dict(one) if isinstance(one, Mapping) else one for one in copy["candidates"]]
        holders += [(one, ("candidates", i)) for i, one in enumerate(copy["candidates"]) if isinstance(one, dict)]
    return holders


def _check_single_values(values: Mapping[Any, Any], loc: Loc) -> None:
    for key, value in values.items():
        if not isinstance(value, bool | int | float | str):
            lists = "; a list belongs under matrix" if isinstance(value, list | tuple) and loc[0] != "matrix" else ""
            raise InvalidInput(path((*loc, key)), f"must be a single value, not {shown(value)}{lists}")


def check_plain(value: Any, loc: Loc = (), depth: int = 0) -> None:
    """Raise InvalidInput on what is neither text, number, boolean, list nor group, and on control characters."""
    if depth > MAX_DEPTH:
        raise InvalidInput(path(loc[:2]), f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        _check_text(value, loc)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            if not isinstance(key, str):
                raise InvalidInput(path(loc), f"a key must be text, not {shown(key)}")
            _check_text(key, loc)
            check_plain(one, (*loc, key), depth + 1)
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            check_plain(one, (*loc, index), depth + 1)
    elif value is not None and not isinstance(value, bool | int | float):
        raise InvalidInput(path(loc), f"must be text, a number, true, false, a list or a group, not {shown(value)}")


def _check_text(text: str, loc: Loc) -> None:
    kept = "\n\t" if loc[-1:] == ("description",) else ""
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in kept:
            raise InvalidInput(path(loc), f"holds the control character U+{ord(character):04X}, which is not allowed")


def path(loc: Sequence[str | int]) -> str:
    """("load", "rates_per_s", 0) -> "load.rates_per_s[0]"."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step if len(step) <= 60 and step.isprintable() and step else shown(step)
            text += f".{plain}" if text else plain
    return text


def first_sentence(errors: Sequence[ErrorDetails], root: type[BaseModel] = ExperimentSpec) -> tuple[str, str]:
    """Field and sentence of the error to tell first: unknown keys before missing ones, as a slip makes both.

    `root` is the model that was validated: its descriptions say what is allowed."""
    first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    loc = first["loc"]
    if first["type"] == "broken_rule":
        ctx = first["ctx"]
        return path((*loc, ctx["field"])), ctx["sentence"]
    return path(loc), _sentence(first["type"], loc, first["input"], first.get("ctx", {}), root)


def _sentence(kind: str, loc: Loc, value: Any, ctx: Mapping[str, Any], root: type[BaseModel]) -> str:
    said = f"not {shown(value)}"
    match kind:
        case "extra_forbidden":
            return _unknown_key(loc, root)
        case "missing":
            return f"is missing ({_description(loc, root)})"
        case "int_type" | "int_from_float" | "int_parsing" | "int_parsing_size":
            return f"must be a whole number in digits, {said}{_unquote(value)}"
        case "float_type" | "float_parsing":
            return f"must be a number, {said}{_unquote(value)}"
        case "finite_number":
            return f"must be a finite number, {said}"
        case "greater_than":
            return f"must be above {ctx['gt']:,g}, {said}"
        case "greater_than_equal":
            return f"must be at least {_number(ctx['ge'])}, {said}"
        case "less_than":
            return f"must be below {ctx['lt']:,g}, {said}"
        case "less_than_equal":
            return f"must be at most {_number(ctx['le'])}, {said}"
        case "string_type":
            quotes = "; put it in quotes" if isinstance(value, bool | int | float) else ""
            return f"must be text, {said}{quotes}"
        case "string_pattern_mismatch":
            rule = {"candidates": _CANDIDATE_NAME, "suites": _SUITE_NAME}.get(str(loc[0]), _NAME)
            return f"{rule}, {said}"
        case "string_too_short":
            return f"must not be empty ({_description(loc, root)})"
        case "string_too_long":
            return f"has {len(value):,} characters; at most {ctx['max_length']:,}"
        case "literal_error" | "enum":
            return f"must be {ctx['expected']}, {said}"
        case "tuple_type" | "list_type":
            return f"must be a list, {said}"
        case "bool_type" | "bool_parsing":
            return f"must be true or false, {said}"
        case "date_type" | "date_parsing" | "date_from_datetime_parsing" | "date_from_datetime_inexact":
            return f"must be a day such as 2026-11-30, {said}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"must be a group of keys, {said}"
        case "too_short":
            return f"holds {_values(ctx['actual_length'])}; at least {ctx['min_length']}"
        case "too_long":
            return f"holds {_values(ctx.get('actual_length') or len(value))}; at most {ctx['max_length']}"
        case _:
            return f"can't be {shown(value)} ({_description(loc, root)})"


def _unquote(value: Any) -> str:
    return "; leave out the quotes" if isinstance(value, str) and value.replace(".", "", 1).isdigit() else ""


def _number(bound: float) -> str:
    return f"{bound:,.0f}" if float(bound).is_integer() else f"{bound:,g}"


def _values(count: int) -> str:
    return f"{count:,} value" if count == 1 else f"{count:,} values"


def _unknown_key(loc: Loc, root: type[BaseModel]) -> str:
    key = str(loc[-1])
    model = _model_at(loc[:-1], root)
    if model in (ExperimentSpec, CandidateSpec) and canonical_name(key) in ALLOWED:
        return "is an engine argument: write it under engine_args"
    return not_known(key, model.model_fields if model else ())


def _model_at(loc: Loc, root: type[BaseModel]) -> type[BaseModel] | None:
    model: type[BaseModel] | None = root
    for step in loc:
        if isinstance(step, str):
            field = model.model_fields.get(step) if model else None
            model = _model_in(field.annotation) if field else None
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one))), None)


def _description(loc: Loc, root: type[BaseModel]) -> str:
    steps = [step for step in loc if isinstance(step, str)]
    model = _model_at(tuple(steps[:-1]), root) if steps else None
    field: FieldInfo | None = model.model_fields.get(steps[-1]) if model else None
    return field.description if field and field.description else "another kind of value"
