"""Reading and writing experiment files; whatever is wrong with one is said in one sentence that names the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kitedash.domain import plain_yaml
from kitedash.domain.candidate_names import same_name
from kitedash.domain.engine_args import canonical
from kitedash.domain.errors import InvalidInput
from kitedash.domain.expand import candidates_of, canonical_matrix, expand
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.schema_errors import first_sentence, plain_data
from kitedash.domain.sentences import shown

MAX_REQUESTS = 1_000_000  # of one candidate: more would run for weeks, and its schedule would not fit in memory


def parse_experiment(text: str, *, source: str = "") -> ExperimentSpec:
    """The experiment in a YAML text; `source` names the file where a line is cited. Raises InvalidInput."""
    data = plain_yaml.load(text, source=source)
    if data is None:
        raise InvalidInput("", f"{source}: the file is empty" if source else "the file is empty")
    if not isinstance(data, dict):
        raise InvalidInput("", f"an experiment is a group of keys such as name and model, not {shown(data)}")
    return experiment_from(data)


def experiment_from(data: Mapping[str, Any]) -> ExperimentSpec:
    """The experiment in plain data, as YAML or a form gives it, checked as a whole. Raises InvalidInput."""
    data = plain_data(data)
    try:
        # JSON's strict mode takes lists for tuples, but neither text for numbers nor numbers for text.
        spec = ExperimentSpec.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise InvalidInput(*first_sentence(error.errors(include_url=False))) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("", f"an experiment holds plain values only ({error})") from None
    spec = _canonical(spec)
    check_experiment(spec)
    return spec


def check_experiment(spec: ExperimentSpec) -> None:
    """The rules over a whole experiment, beyond those of each field; raises InvalidInput."""
    expand(spec)
    load = spec.load
    seconds = load.block_duration_s - load.warm_up_s
    if load.rates_per_s[0] * seconds < 1:
        raise InvalidInput(
            "load.block_duration_s",
            f"must be longer: at {load.rates_per_s[0]:g} requests/s less than one request falls into {seconds:g} s",
        )
    requests = sum(load.rates_per_s) * load.blocks * load.block_duration_s
    if requests > MAX_REQUESTS:
        raise InvalidInput("load", f"asks for {requests:,.0f} requests a candidate; at most {MAX_REQUESTS:,}")
    seen: list[str] = []
    for index, suite in enumerate(spec.suites):
        if suite.name in seen:
            raise InvalidInput(f"suites[{index}].name", f"{shown(suite.name)} is there twice")
        seen.append(suite.name)


def to_yaml(spec: ExperimentSpec) -> str:
    """A file that `parse_experiment` reads back to an equal experiment. What decides numbers is written out even
    where it is the default; empty groups are left out."""
    data = spec.model_dump(mode="json", exclude_none=True)
    return plain_yaml.dump(_without_empty(data))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(one) for key, one in value.items() if one not in ({}, [], "")}
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    return value


def _canonical(spec: ExperimentSpec) -> ExperimentSpec:
    """One spelling for one meaning, so that equal experiments are equal: argument names and the baseline's name."""
    written = [
        candidate.model_copy(
            update={
                field: canonical(getattr(candidate, field), f"candidates[{index}].{field}")
                for field in ("engine_args", "cpu_engine_args")
            }
        )
        for index, candidate in enumerate(spec.candidates)
    ]
    spec = spec.model_copy(
        update={
            "engine_args": canonical(spec.engine_args, "engine_args"),
            "candidates": tuple(written),
            "matrix": canonical_matrix(spec.matrix),
            "exclude": tuple(canonical(one, f"exclude[{index}]") for index, one in enumerate(spec.exclude)),
        }
    )
    names = [candidate.name for candidate in candidates_of(spec)]
    alike = [name for name in names if same_name(name, spec.baseline)]
    if spec.baseline not in names and len(alike) == 1:
        return spec.model_copy(update={"baseline": alike[0]})
    return spec
