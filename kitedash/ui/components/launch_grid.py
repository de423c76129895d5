"""A grid of the launch form's fields, each explained in the schema's own words, with their refusals below."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import streamlit as st
from pydantic import BaseModel

from kitedash.domain.experiment import ExperimentSpec, Guardrails, LoadPlan, MemoryPlan, Targets, Workload
from kitedash.domain.workload import RequestClass
from kitedash.ui.components import launch_fields as fields
from kitedash.ui.definitions import DEFINITIONS

_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "workload": Workload,
    "load": LoadPlan,
    "targets": Targets,
    "guardrails": Guardrails,
    "memory": MemoryPlan,
    "mix": RequestClass,
}
_KIND = re.compile(r"^mix\[\d+\]\.")
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "workload.arrivals": ["poisson", "constant", "gamma"],
    "workload.timestamp_first": ["false", "true"],
    "workload.kind": ["chat", "completion"],
}
_DEFINED = {
    "targets.ttft_p90_ms": DEFINITIONS["P90 TTFT"],
    "targets.cost_per_1000_requests_usd": DEFINITIONS["Deployed cost"],
    "targets.pass_rate": DEFINITIONS["Pass rate"],
    "guardrails.tpot_p90_ms": DEFINITIONS["P90 TPOT"],
    "guardrails.error_rate": DEFINITIONS["Error rate"],
}


def grid(
    rows: Sequence[Sequence[str]], refused: fields.Refused, *, widths: Mapping[int, Sequence[float]] | None = None
) -> None:
    """Rows of fields by their paths; `widths` of a row by its number."""
    for number, paths in enumerate(rows):
        for place, path in zip(st.columns((widths or {}).get(number, len(paths))), paths, strict=False):
            options = _CHOICES.get(_KIND.sub("workload.", path))
            if options is not None:
                fields.choice(place, path, options, refused, explanation=_description(path), required=True)
            else:
                placeholder = "1, 2, 4" if path == "load.rates_per_s" else ""
                fields.text(place, path, refused, explanation=_description(path), placeholder=placeholder)
    fields.refusals(refused, [path for paths in rows for path in paths])
    fields.refusals(refused, [path.partition(".")[0] for path in rows[0][:1] if "." in path])


def _description(path: str) -> str:
    """The schema's own words, or the definition of the metric."""
    if path in _DEFINED:
        return _DEFINED[path]
    group, _, name = _KIND.sub("mix.", path).partition(".")
    described = _MODELS[group].model_fields[name] if name else ExperimentSpec.model_fields[path]
    said = described.description or ""
    return said[:1].upper() + said[1:] + "."
