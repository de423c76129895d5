"""Which runs an experiment has, and in which order they are queued.

Every repeat measures all candidates once before the next one begins, each time in another random order that follows
from the load's seed: a machine that grows slower over the hours, or a candidate that leaves it warm, then touches all
alike instead of passing for a difference between two of them (a randomised block design: Fisher, The Design of
Experiments, 1935). Only the very first run is no draw: it is the baseline's, which the last one repeats where the
experiment asks for a noise floor, so that the two span the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from kitedash.domain.errors import InvalidInput
from kitedash.domain.expand import candidates_of
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.run_plan import AGAIN, MEASURED


@dataclass(frozen=True)
class PlannedRun:
    """`purpose`: see `run_plan`. A run of purpose AGAIN has the repeat, and so the requests, of the first run."""

    candidate: Candidate
    repeat: int = 0
    purpose: str = MEASURED


def planned_runs(spec: ExperimentSpec, candidates: Sequence[Candidate]) -> tuple[PlannedRun, ...]:
    """The runs in their order; `candidates` are the experiment's, as written."""
    first = [candidate for candidate in candidates if candidate.name == spec.baseline]
    others = [candidate for candidate in candidates if candidate.name != spec.baseline]
    found: list[PlannedRun] = []
    for repeat in range(spec.repeats):
        drawn = others if repeat == 0 else [*first, *others]
        order = Random(f"{spec.load.seed}/order/{repeat}").sample(drawn, len(drawn))
        found += [PlannedRun(candidate, repeat) for candidate in ([*first, *order] if repeat == 0 else order)]
    if has_noise_floor(spec, len(candidates)):
        found += [PlannedRun(candidate, purpose=AGAIN) for candidate in first]
    return tuple(found)


def has_noise_floor(spec: ExperimentSpec, candidates: int) -> bool:
    """Whether the baseline is measured again: with nothing to compare, noise is nothing to be told apart from."""
    return spec.noise_floor and candidates > 1


def as_written(spec: ExperimentSpec, names: Iterable[str]) -> list[str]:
    """The names of candidates in the order in which they are shown: the baseline, then the others as written.

    Names that the experiment as it is read today does not have come last, in the order given.
    """
    try:
        written = [candidate.name for candidate in candidates_of(spec)]
    except InvalidInput:  # written for another version of the allow-list: those of the matrix have no place then
        written = [candidate.name for candidate in spec.candidates]
    places = {name: place for place, name in enumerate(written)}
    return sorted(names, key=lambda name: (name != spec.baseline, places.get(name, len(places))))
