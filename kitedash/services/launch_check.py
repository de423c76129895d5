"""What a launch refuses, and on which devices and queues it would run: one set of rules for launch, preview, retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy.orm import Session

from db import traces, workers
from evals import registry
from kitedash.domain.errors import InvalidInput
from kitedash.domain.expand import expand
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.sentences import shown
from kitedash.measuring.device import CPU, Device, detect, gpu_count
from kitedash.measuring.engine_support import refusal
from kitedash.running.queue import queue_name

DeviceKind = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class LaunchCheck:
    """`candidates` are as they would run on `kind`; `queues` and `refused` (why it can't run) are by their names."""

    kind: DeviceKind
    candidates: tuple[Candidate, ...]
    queues: Mapping[str, str]
    served: frozenset[str]  # queues that a live worker serves
    refused: Mapping[str, str]
    fields: Mapping[str, str]  # where in the specification a candidate is written


def check_launch(session: Session, spec: ExperimentSpec, device_kind: DeviceKind | None = None) -> LaunchCheck:
    """By default on GPUs where this machine has any or a live worker serves some, else on the processor.

    Raises InvalidInput for what the specification gets wrong.
    """
    written = expand(spec)
    _check_suites(spec, written)
    _check_trace(session, spec, written)
    served = served_queues(session)
    kind: DeviceKind = device_kind or ("gpu" if gpu_count() or any(name != CPU for name in served) else "cpu")
    candidates = tuple(candidate.on(kind) for candidate in written)
    fields = [f"candidates[{index}]" for index in range(len(spec.candidates))]  # `expand` puts these first
    fields += ["matrix"] * (len(written) - len(fields))
    return LaunchCheck(
        kind=kind,
        candidates=candidates,
        queues={candidate.name: queue_name(kind, candidate.devices) for candidate in candidates},
        served=served,
        refused=refusals(candidates, kind, served),
        fields={candidate.name: field for candidate, field in zip(candidates, fields, strict=True)},
    )


def served_queues(session: Session) -> frozenset[str]:
    return frozenset(worker.queue for worker in workers.alive(session, datetime.now(UTC)))


def refusals(candidates: Sequence[Candidate], kind: DeviceKind, served: frozenset[str]) -> dict[str, str]:
    """Candidate -> why it can't run. Where a live worker of another machine may take it, only that machine can tell."""
    refused: dict[str, str] = {}
    gpus = gpu_count() if kind == "gpu" else 0
    devices: dict[int, Device] = {}
    for candidate in candidates:
        if kind == "cpu" and candidate.devices > 1:
            refused[candidate.name] = (
                f"{candidate.name} asks for {candidate.devices} devices; on the processor there is only 1."
            )
            continue
        if kind == "gpu" and candidate.devices > gpus:
            queue = queue_name(kind, candidate.devices)
            if queue not in served:
                refused[candidate.name] = (
                    f"{candidate.name} asks for {_gpus(candidate.devices)}; this machine has {gpus or 'none'} and no "
                    f"live worker serves queue {queue}."
                )
            continue
        if candidate.devices not in devices:
            devices[candidate.devices] = local_device(kind, candidate.devices)
        if reason := refusal(candidate, devices[candidate.devices]):
            refused[candidate.name] = f"{candidate.name} can't run here: {reason}"
    return refused


def local_device(kind: DeviceKind, count: int) -> Device:
    """The processor, or so many GPUs of this machine. Raises InvalidInput where it has fewer."""
    return detect([CPU] if kind == "cpu" else [str(index) for index in range(count)])


def _check_suites(spec: ExperimentSpec, candidates: Sequence[Candidate]) -> None:
    """Every suite is there, and its questions fit the shortest context."""
    for index, choice in enumerate(spec.suites):
        needed = registry.suite(choice.name).context_tokens
        for candidate in candidates:
            length = candidate.engine_args.get("max-model-len")
            if isinstance(length, int) and length < needed:
                raise InvalidInput(
                    f"suites[{index}]",
                    f"{choice.name} needs a max-model-len of {needed:,} or more, and {candidate.name} has {length:,}",
                )


def _check_trace(session: Session, spec: ExperimentSpec, candidates: Sequence[Candidate]) -> None:
    """The trace is there, and its longest request fits into the shortest context."""
    if spec.workload.trace is None:
        return
    known = {head.name: head for head in traces.heads(session)}
    trace = known.get(spec.workload.trace)
    if trace is None:
        there = f"is none of the imported ones; there are: {', '.join(known)}" if known else "is not imported"
        raise InvalidInput("workload.trace", f"{shown(spec.workload.trace)} {there}")
    for candidate in candidates:
        length = candidate.engine_args.get("max-model-len")
        if isinstance(length, int) and length < trace.longest_request_tokens:
            raise InvalidInput(
                "workload.trace",
                f"{trace.name} has a request of {trace.longest_request_tokens:,} tokens, prompt and answer, and "
                f"{candidate.name} has a max-model-len of {length:,}",
            )


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
