"""Launching an experiment: checked, stored with its runs, and queued in one transaction. Nothing is measured here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal
from uuid import uuid4

from sqlalchemy.orm import Session

from db import experiments, runs, workers
from db.engine import hold_write_lock, sessions
from evals import registry
from kitedash.domain.errors import InvalidInput, Refused
from kitedash.domain.expand import expand
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.results import RunStatus
from kitedash.measuring.device import Device, detect, gpu_count
from kitedash.measuring.engine_support import refusal
from kitedash.measuring.vllm_check import parser_refusals
from kitedash.running.queue import enqueue_in, queue_name
from kitedash.services.actor import Actor, require
from kitedash.settings import settings

DeviceKind = Literal["cpu", "gpu"]
LAUNCH_LOCK = 0x4C41554E  # "LAUN": one launch at a time, so that `once` finds what another just launched


def launch(
    spec: ExperimentSpec,
    actor: Actor,
    *,
    once: bool = False,
    device_kind: DeviceKind | None = None,
    ask_vllm: Callable[[], None] | None = None,
    leave_out: bool = False,
) -> str:
    """Stores the experiment with its runs, queues them, and returns the experiment's id.

    once: where the same specification was launched before, that experiment's id, unless all its runs failed or were
    cancelled. device_kind: on what to run; by default on GPUs where this machine has any or a live worker serves
    some, else on the processor. ask_vllm: called before vLLM's own parser is asked, which takes 10 s and a
    process; None: it is not asked. leave_out: candidates that the device can't serve are stored as failed with the
    reason, and the others are queued, unless none is left.

    Raises NotAllowed, InvalidInput (what the specification gets wrong) and Refused (what the device can't do).
    """
    require(actor, "engineer", "launch experiments")
    written = expand(spec)
    _check_suites(spec, written)
    url, now, spec_sha256 = settings().url, datetime.now(UTC), hash_of(spec)
    with sessions(url).begin() as session:
        served = {worker.queue for worker in workers.alive(session, now)}
    kind: DeviceKind = device_kind or ("gpu" if gpu_count() or any(name != "cpu" for name in served) else "cpu")
    candidates = tuple(candidate.on(kind) for candidate in written)
    queues = {candidate.name: queue_name(kind, candidate.devices) for candidate in candidates}
    refused = _refusals(candidates, kind, served)
    if refused and (not leave_out or len(refused) == len(candidates)):
        raise Refused(next(iter(refused.values())))
    if ask_vllm is not None:
        ask_vllm()
        _refuse_unparsed(candidates, kind)

    with sessions(url).begin() as session:
        hold_write_lock(session, LAUNCH_LOCK)
        if once and (earlier := _launched_before(session, spec_sha256, set(queues.values()))):
            return earlier
        experiment_id, launched_before = str(uuid4()), runs.count(session)
        experiments.add(session, experiment_id, spec, spec_sha256, created_by=actor.name, now=now)
        for position, (repeat, candidate) in enumerate(run_order(candidates, spec.baseline, spec.repeats)):
            run_id = str(uuid4())
            runs.add(
                session,
                run_id,
                experiment_id=experiment_id,
                position=position,
                repeat=repeat,
                candidate=candidate,
                is_baseline=candidate.name == spec.baseline,
                queue=queues[candidate.name],
                now=now,
            )
            if candidate.name in refused:
                runs.fail(session, run_id, refused[candidate.name], now)
                continue
            # A growing number, since the queue's own times are equal within a transaction.
            enqueue_in(
                session.connection(), run_id, queues[candidate.name], url, priority=launched_before + position + 1
            )
    return experiment_id


def hash_of(spec: ExperimentSpec) -> str:
    """SHA-256 of the specification as canonical JSON: equal for files that differ only in layout and order of keys."""
    canonical = json.dumps(spec.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def run_order(candidates: Sequence[Candidate], baseline: str, repeats: int) -> Iterator[tuple[int, Candidate]]:
    """(repeat, candidate) as they are queued: the baseline first, the others as written, then all of them again.

    Repeats are interleaved, so that a slow drift of the machine touches all candidates alike.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.name != baseline)  # stable: the others keep order
    return ((repeat, candidate) for repeat in range(repeats) for candidate in ordered)


def _launched_before(session: Session, spec_sha256: str, queues: set[str]) -> str | None:
    """An experiment of this specification on the same kind of devices that came, or may come, to something."""
    hopeless = {RunStatus.FAILED, RunStatus.CANCELLED}
    found = [experiment.id for experiment in experiments.by_spec_hash(session, spec_sha256)]
    counts = experiments.run_counts(session, found)
    return next(
        (
            experiment_id
            for experiment_id in found
            if set(counts[experiment_id]) - hopeless
            and {run.queue for run in runs.of_experiment(session, experiment_id)} == queues
        ),
        None,
    )


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


def _refuse_unparsed(candidates: Sequence[Candidate], kind: DeviceKind) -> None:
    for candidate, reason in zip(candidates, parser_refusals(candidates, device_kind=kind), strict=True):
        if reason:
            raise Refused(f"{candidate.name}: vLLM refuses its arguments: {reason}")


def _refusals(candidates: Sequence[Candidate], kind: DeviceKind, served: set[str]) -> dict[str, str]:
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
            ids = ["cpu"] if kind == "cpu" else [str(index) for index in range(candidate.devices)]
            devices[candidate.devices] = detect(ids)
        if reason := refusal(candidate, devices[candidate.devices]):
            refused[candidate.name] = f"{candidate.name} can't run here: {reason}"
    return refused


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
