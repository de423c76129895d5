"""From an experiment to its candidates: shared settings, explicit candidates, the matrix and its excludes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from kitedash.domain.candidate_names import generated_name
from kitedash.domain.engine_args import (
    ALLOWED,
    PARALLEL,
    QUANTIZATION,
    canonical,
    canonical_name,
    canonical_value,
    check_each,
    check_engine_args,
    check_value,
    unknown_argument,
)
from kitedash.domain.environment import check_environment
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ArgValue, Candidate, CandidateSpec, ExperimentSpec
from kitedash.domain.sentences import not_among, not_known, shown

MAX_CANDIDATES = 64
MAX_COMBINATIONS = 4_096  # before excludes: more is a slip, and would be built only to be thrown away
MAX_DEVICES = 64


def expand(spec: ExperimentSpec) -> tuple[Candidate, ...]:
    """All candidates, the explicit ones first, then the matrix in the order written; the baseline is among them.

    Raises InvalidInput where an argument is not on the allow-list, two candidates are one, the baseline is missing,
    devices contradict the parallel sizes, a context is too short for the workload, or there are none or too many.
    """
    found = candidates_of(spec)
    names = [candidate.name for candidate in found]
    if spec.baseline not in names:
        raise InvalidInput("baseline", f"{shown(spec.baseline)} {not_among(spec.baseline, names)}")
    return found


def candidates_of(spec: ExperimentSpec) -> tuple[Candidate, ...]:
    """As `expand`, whatever the baseline is."""
    check_each(spec.engine_args, "engine_args")
    check_environment(spec.environment, "environment")
    found: list[tuple[str, Candidate]] = []  # with the field it comes from
    for index, written in enumerate(spec.candidates):
        where = f"candidates[{index}]"
        check_each(written.engine_args, f"{where}.engine_args")
        check_each(written.cpu_engine_args, f"{where}.cpu_engine_args")
        check_environment(written.environment, f"{where}.environment")
        found.append((where, _candidate(spec, written, f"{where}.engine_args", where)))
    for written in _from_matrix(spec):
        found.append(("matrix", _candidate(spec, written, "matrix", "matrix")))
    if not found:
        raise InvalidInput("candidates", "is empty; give at least one candidate, or a matrix")
    if len(found) > MAX_CANDIDATES:
        raise InvalidInput("candidates", f"with the matrix there are {len(found)}; at most {MAX_CANDIDATES}")
    _refuse_twins(found)
    return tuple(candidate for _, candidate in found)


def _candidate(spec: ExperimentSpec, written: CandidateSpec, args_field: str, where: str) -> Candidate:
    args = canonical(spec.engine_args, "engine_args") | canonical(written.engine_args, args_field)
    check_engine_args(args, args_field)
    tokens = spec.workload.longest_request_tokens
    length = args.get("max-model-len")
    # How long a trace's requests are is known where it is stored (services/launch_check.py).
    if isinstance(length, int) and length < tokens and spec.workload.trace is None:
        raise InvalidInput(
            f"{args_field}.max-model-len" if "max-model-len" in written.engine_args else "engine_args.max-model-len",
            f"must hold the workload's input and output tokens ({tokens:,}), not {length:,}",
        )
    cpu_args = canonical(written.cpu_engine_args, f"{where}.cpu_engine_args")
    for name in (QUANTIZATION, "max-model-len", *PARALLEL):
        if name in cpu_args:  # another candidate, or devices that the queue was not chosen for
            raise InvalidInput(f"{where}.cpu_engine_args.{name}", "can't differ by device; write it under engine_args")
    check_engine_args(args | cpu_args, f"{where}.cpu_engine_args")
    quantization = args.pop(QUANTIZATION, "none")
    return Candidate.model_validate(
        {
            "name": written.name,
            "model": written.model or spec.model,
            "quantization": quantization,
            "engine_args": args,
            "cpu_engine_args": cpu_args,
            "environment": {**spec.environment, **written.environment},
            "devices": _devices(spec, written, args, where),
        }
    )


def _devices(spec: ExperimentSpec, written: CandidateSpec, args: Mapping[str, ArgValue], where: str) -> int:
    """Devices follow from the parallel sizes; where both are written they must agree."""
    needed = math.prod(int(args.get(name, 1)) for name in PARALLEL)
    if needed > MAX_DEVICES:
        raise InvalidInput(where, f"{' x '.join(PARALLEL)} needs {needed:,} devices; at most {MAX_DEVICES}")
    shared = spec.devices if spec.devices != 1 else None  # 1 is also what an absent key holds
    given = written.devices if written.devices is not None else shared
    if given is not None and given != needed:
        field = f"{where}.devices" if written.devices is not None else "devices"
        raise InvalidInput(field, f"must equal {' x '.join(PARALLEL)}, which is {needed}, not {given}")
    return needed


def _from_matrix(spec: ExperimentSpec) -> Iterator[CandidateSpec]:
    """Each combination that no exclude names, as if it had been written by hand."""
    if not spec.matrix:
        if spec.exclude:
            raise InvalidInput("exclude", "needs a matrix to leave combinations out of")
        return
    matrix = _checked_matrix(spec)
    excludes = _checked_excludes(spec, matrix)
    combinations = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
    kept = [one for one in combinations if not any(exclude.items() <= one.items() for exclude in excludes)]
    if not kept:
        raise InvalidInput("exclude", "leaves no combination of the matrix")
    if len(kept) > MAX_CANDIDATES:
        raise InvalidInput("matrix", f"expands to {len(kept):,} candidates; at most {MAX_CANDIDATES}")
    for combination in kept:
        differing = {key: value for key, value in combination.items() if len(matrix[key]) > 1} or combination
        dtype = combination.get("dtype", canonical(spec.engine_args, "engine_args").get("dtype"))
        name = generated_name(differing, dtype=str(dtype) if dtype not in (None, "auto") else None)
        args = {key: value for key, value in combination.items() if key != "model"}
        model = str(combination["model"]) if "model" in combination else None
        yield CandidateSpec(name=name, model=model, engine_args=args)


def canonical_matrix(written: Mapping[str, tuple[ArgValue, ...]]) -> dict[str, tuple[ArgValue, ...]]:
    """The matrix under vLLM's spelling, values unchecked; InvalidInput if two spellings name one argument."""
    matrix: dict[str, tuple[ArgValue, ...]] = {}
    for name, values in written.items():
        key = canonical_name(name)
        if key in matrix:
            raise InvalidInput(f"matrix.{name}", f"is there under two spellings; keep {key}")
        matrix[key] = tuple(canonical_value(key, value) for value in values)
    return matrix


def _checked_matrix(spec: ExperimentSpec) -> dict[str, tuple[ArgValue, ...]]:
    matrix = canonical_matrix(spec.matrix)
    for key, values in matrix.items():
        if key != "model" and key not in ALLOWED:
            raise InvalidInput(f"matrix.{key}", unknown_argument(key))
        if not values:
            raise InvalidInput(f"matrix.{key}", "is empty; give at least one value")
    count = math.prod(len(values) for values in matrix.values())
    if count > MAX_COMBINATIONS:
        raise InvalidInput("matrix", f"expands to {count:,} candidates; at most {MAX_CANDIDATES}")
    for key, values in matrix.items():
        field = f"matrix.{key}"
        for index, value in enumerate(values):
            if key != "model":
                check_value(ALLOWED[key], value, field)
            elif not isinstance(value, str) or not 1 <= len(value) <= 500:
                raise InvalidInput(field, f"must hold names of models, not {shown(value)}")
            if value in values[:index]:
                raise InvalidInput(field, f"holds {shown(value)} twice")
    return matrix


def _checked_excludes(spec: ExperimentSpec, matrix: Mapping[str, tuple[ArgValue, ...]]) -> list[dict[str, ArgValue]]:
    excludes: list[dict[str, ArgValue]] = []
    for index, written in enumerate(spec.exclude):
        field = f"exclude[{index}]"
        exclude = canonical(written, field)
        if not exclude:
            raise InvalidInput(field, "is empty; name the values that a combination to leave out holds")
        for key, value in exclude.items():
            if key not in matrix:
                raise InvalidInput(f"{field}.{key}", not_known(key, matrix))
            if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in matrix[key]):
                there = ", ".join(shown(one) for one in matrix[key])
                raise InvalidInput(f"{field}.{key}", f"matches nothing: the matrix holds {there}, not {shown(value)}")
        excludes.append(exclude)
    return excludes


def _refuse_twins(found: list[tuple[str, Candidate]]) -> None:
    names: dict[str, str] = {}
    configurations: dict[str, str] = {}
    for where, candidate in found:
        if candidate.name in names:
            raise InvalidInput(where, f"the name {shown(candidate.name)} is taken by {names[candidate.name]}")
        names[candidate.name] = where
        configuration = repr(
            (
                candidate.model,
                candidate.quantization,
                sorted(candidate.engine_args.items()),
                sorted(candidate.cpu_engine_args.items()),
                sorted(candidate.environment.items()),
            )
        )
        if configuration in configurations:
            twin = configurations[configuration]
            raise InvalidInput(where, f"{shown(candidate.name)} is the same configuration as {shown(twin)}")
        configurations[configuration] = candidate.name
