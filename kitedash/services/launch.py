"""Launching an experiment: checked, stored with its runs, and queued in one transaction. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from db import experiments, runs
from db.engine import hold_write_lock, sessions
from kitedash.domain.canonical_json import sha256_of, written
from kitedash.domain.errors import InvalidInput, Refused
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.results import RunStatus
from kitedash.domain.run_order import planned_runs
from kitedash.measuring.vllm_check import parser_refusals
from kitedash.running.queue import enqueue_in
from kitedash.services.actor import Actor, require
from kitedash.services.launch_check import DeviceKind as DeviceKind
from kitedash.services.launch_check import LaunchCheck, check_launch
from kitedash.settings import settings

LAUNCH_LOCK = 0x4C41554E  # "LAUN": one launch at a time, so that each finds what another just launched
LONGEST_KEY = 64


def launch(
    spec: ExperimentSpec,
    actor: Actor,
    *,
    once: bool = False,
    launch_key: str | None = None,
    device_kind: DeviceKind | None = None,
    ask_vllm: Callable[[], None] | None = None,
    leave_out: bool = False,
) -> str:
    """Stores the experiment with its runs, queues them, and returns the experiment's id.

    once: where the same specification was launched before, that experiment's id, unless all its runs failed or were
    cancelled. launch_key: at most 64 characters that a form makes once; where it was launched with before, that
    experiment's id, whatever else is given: a form that is sent twice launches once. device_kind: on what to run; by
    default on GPUs where this machine has any or a live worker serves some, else on the processor. ask_vllm: called
    before vLLM's own parser is asked, which takes 10 s and a process; None: it is not asked. leave_out: candidates
    that the device can't serve are stored as failed with the reason, and the others are queued, unless none is left.

    Raises NotAllowed, InvalidInput (what the specification gets wrong) and Refused (what the device can't do).
    """
    require(actor, "engineer", "launch experiments")
    if launch_key is not None and not 1 <= len(launch_key) <= LONGEST_KEY:
        raise InvalidInput("launch_key", f"must have 1 to {LONGEST_KEY} characters, not {len(launch_key):,}")
    url, spec_sha256 = settings().url, hash_of(spec)
    with sessions(url)() as session:
        if launch_key is not None and (earlier := experiments.by_launch_key(session, launch_key)):
            return earlier.id
        check = check_launch(session, spec, device_kind)
    if check.refused and (not leave_out or len(check.refused) == len(check.candidates)):
        raise Refused(next(iter(check.refused.values())))
    if ask_vllm is not None:
        ask_vllm()
        _refuse_unparsed(check)

    with sessions(url).begin() as session:
        hold_write_lock(session, LAUNCH_LOCK)
        if launch_key is not None and (earlier := experiments.by_launch_key(session, launch_key)):
            return earlier.id
        if once and (before := _launched_before(session, spec_sha256, set(check.queues.values()))):
            return before
        return _store(session, spec, check, actor, spec_sha256, launch_key)


def _store(
    session: Session, spec: ExperimentSpec, check: LaunchCheck, actor: Actor, spec_sha256: str, launch_key: str | None
) -> str:
    now, experiment_id, launched_before = datetime.now(UTC), str(uuid4()), runs.count(session)
    experiments.add(session, experiment_id, spec, spec_sha256, created_by=actor.name, now=now, launch_key=launch_key)
    for position, planned in enumerate(planned_runs(spec, check.candidates)):
        candidate = planned.candidate
        run_id, queue = str(uuid4()), check.queues[candidate.name]
        runs.add(
            session,
            run_id,
            experiment_id=experiment_id,
            position=position,
            repeat=planned.repeat,
            candidate=candidate,
            is_baseline=candidate.name == spec.baseline,
            queue=queue,
            now=now,
            purpose=planned.purpose,
        )
        if candidate.name in check.refused:
            runs.fail(session, run_id, check.refused[candidate.name], now)
            continue
        # A growing number, since the queue's own times are equal within a transaction.
        enqueue_in(session.connection(), run_id, queue, settings().url, priority=launched_before + position + 1)
    return experiment_id


def hash_of(spec: ExperimentSpec) -> str:
    """SHA-256 of the specification as canonical JSON: equal for files that differ only in layout and order of keys."""
    return sha256_of(written(spec.model_dump(mode="json")))


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
            and {run.queue for run in runs.newest_of_experiment(session, experiment_id)} == queues
        ),
        None,
    )


def _refuse_unparsed(check: LaunchCheck) -> None:
    for candidate, reason in zip(
        check.candidates, parser_refusals(check.candidates, device_kind=check.kind), strict=True
    ):
        if reason:
            raise Refused(f"{candidate.name}: vLLM refuses its arguments: {reason}")
