"""What a launch would queue: candidates, exact commands, devices, refusals and how long it takes. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime

from db import runs, workers
from db.engine import sessions
from db.models import Worker
from kitedash.domain.command import CPU, engine_argv, engine_environment
from kitedash.domain.experiment import Candidate, ExperimentSpec
from kitedash.domain.results import RunStatus
from kitedash.domain.run_order import PlannedRun, planned_runs
from kitedash.domain.run_plan import AGAIN, planned_blocks
from kitedash.domain.run_time import NOTHING, History, RunKind, Span, ends, least_blocks_s
from kitedash.domain.run_time import Minutes as Minutes
from kitedash.domain.wording import listed, minutes
from kitedash.measuring.device import gpu_count
from kitedash.measuring.model_store import served_name_of
from kitedash.services.launch_check import DeviceKind, LaunchCheck, check_launch, local_device
from kitedash.services.run_time import history_of, kind_of, open_runs
from kitedash.services.traces import note_on
from kitedash.settings import settings

HOST = "127.0.0.1"  # the engine listens for its own machine only
MODEL_FOLDER = "<model folder>"
PORT = "<port>"
GPU_NUMBER = "<GPU>"


@dataclass(frozen=True)
class CandidatePreview:
    """`argv` is the whole command from `python` on, with <model folder> and <port> where they are known only later.

    `served`: a live worker serves the queue. `refusal` is one sentence, "" where nothing is known against the
    candidate; `refused_field` is its place in the specification, such as "candidates[2]" or "matrix". `minutes` is
    how long one run of it takes, None where too little is known: then it takes at least `at_least_minutes`, the
    load blocks that are measured even where rates are overloaded.
    """

    name: str
    is_baseline: bool
    model: str
    devices: int
    queue: str
    served: bool
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    refusal: str
    refused_field: str
    minutes: Minutes | None
    at_least_minutes: float


@dataclass(frozen=True)
class LaunchPreview:
    """`minutes` is the whole experiment from its first run on, as its slots would work through it; `wait` is until
    that begins. Both are None where too little is known (`basis` says so); `at_least_minutes` is then that of the
    load blocks that are measured in any case. `waiting_runs` are queued before it in the same queues; `noise_floor`
    says that one of its own `runs` measures the baseline again. `load_blocks` is the most that a run measures,
    `further_blocks` the most of these that a search measures beyond the listed rates (0: nothing is searched)."""

    device_kind: DeviceKind
    device_name: str
    candidates: tuple[CandidatePreview, ...]
    runs: int
    noise_floor: bool
    load_blocks: int
    further_blocks: int
    minutes: Minutes | None
    at_least_minutes: float
    basis: str
    waiting_runs: int
    wait: Minutes | None
    warnings: tuple[str, ...]


def preview(spec: ExperimentSpec, *, device_kind: DeviceKind | None = None) -> LaunchPreview:
    """Raises InvalidInput as a launch would; what the device can't do is in the candidates' refusals."""
    now = datetime.now(UTC)
    with sessions(settings().url)() as session:
        check = check_launch(session, spec, device_kind)
        past, alive = history_of(session), workers.alive(session, now)
        queues = set(check.queues.values())
        waiting_runs = sum(run.status == RunStatus.QUEUED and run.queue in queues for run in runs.unfinished(session))
        queued = open_runs(session, now, past).queues
    kinds = {one.name: kind_of(one, _device_name(check, one, alive)) for one in check.candidates}
    spans = {name: past.run(spec, kind) for name, kind in kinds.items()}
    planned = planned_runs(spec, check.candidates)
    able = [one for one in planned if one.candidate.name not in check.refused]
    slots = {queue: sum(worker.queue == queue for worker in alive) for queue in queues}
    taking = [past.run(spec, kinds[one.candidate.name], one.purpose) for one in able]
    whole = _whole(check, able, taking, slots) if able else None
    least_s = least_blocks_s(spec.load)
    at_least = _whole(check, able, [Span(least_s, least_s, least_s)] * len(able), slots) or NOTHING
    return LaunchPreview(
        device_kind=check.kind,
        device_name=next((kind.device_name for kind in kinds.values() if kind.device_name), ""),
        candidates=tuple(_candidate(spec, check, candidate, spans[candidate.name]) for candidate in check.candidates),
        runs=len(planned),
        noise_floor=any(one.purpose == AGAIN for one in planned),
        load_blocks=planned_blocks(spec.load),
        further_blocks=spec.load.search_most_blocks if spec.load.search else 0,
        minutes=whole.minutes if whole else None,
        at_least_minutes=at_least.middle / 60,
        basis=_basis(
            spec, past, [kind for name, kind in kinds.items() if name not in check.refused], known=whole is not None
        ),
        waiting_runs=waiting_runs,
        wait=_wait([queued[queue].wait if queue in queued else None for queue in queues]),
        warnings=_warnings(spec, check),
    )


def _candidate(spec: ExperimentSpec, check: LaunchCheck, candidate: Candidate, span: Span | None) -> CandidatePreview:
    queue, refusal = check.queues[candidate.name], check.refused.get(candidate.name, "")
    command = engine_argv(
        candidate,
        model_dir=MODEL_FOLDER,
        served_name=served_name_of(candidate.model),
        host=HOST,
        port=0,
        device_kind=check.kind,
    )
    port_at = command.index("--port") + 1
    return CandidatePreview(
        name=candidate.name,
        is_baseline=candidate.name == spec.baseline,
        model=candidate.model,
        devices=candidate.devices,
        queue=queue,
        served=queue in check.served,
        argv=("python", *command[:port_at], PORT, *command[port_at + 1 :]),
        environment=engine_environment(
            candidate,
            device_kind=check.kind,
            device_ids=[GPU_NUMBER] * candidate.devices,
            cpu_kv_cache_gib=settings().cpu_kv_cache_gib,
            cpu_cores=local_device(CPU, 1).cpu_cores if check.kind == CPU else "",
        ),
        refusal=refusal,
        refused_field=check.fields[candidate.name] if refusal else "",
        minutes=span.minutes if span else None,
        at_least_minutes=least_blocks_s(spec.load) / 60,
    )


def _device_name(check: LaunchCheck, candidate: Candidate, alive: Sequence[Worker]) -> str:
    """Of a slot that would take the candidate, else of this machine's own devices; "" where there is neither."""
    queue = check.queues[candidate.name]
    if slot := next((worker for worker in alive if worker.queue == queue), None):
        return slot.device_name
    if check.kind == CPU or candidate.devices <= gpu_count():
        return local_device(check.kind, 1 if check.kind == CPU else candidate.devices).name
    return ""


def _whole(
    check: LaunchCheck, planned: Sequence[PlannedRun], spans: Sequence[Span | None], slots: Mapping[str, int]
) -> Span | None:
    """Until the last of the runs ends, each queue by itself; where no worker is live, as if one were. `spans`: how long
    each takes."""
    found = NOTHING
    for queue in slots:
        of_queue = [span for one, span in zip(planned, spans, strict=True) if check.queues[one.candidate.name] == queue]
        for end in ends([NOTHING] * max(1, slots[queue]), of_queue):
            if end is None:
                return None
            found = Span(max(found.low, end.low), max(found.middle, end.middle), max(found.high, end.high))
    return found


def _wait(of_queues: Sequence[Span | None]) -> Minutes | None:
    """Until the first of several queues has a free slot; None where that is unknown of one of them."""
    known = [span for span in of_queues if span is not None]
    if len(known) < len(of_queues):
        return None
    return Span(*(min(bounds) for bounds in zip(*map(astuple, known), strict=True))).minutes


def _basis(spec: ExperimentSpec, past: History, kinds: Sequence[RunKind], *, known: bool) -> str:
    """From which earlier runs the times are, or that there are none."""
    if not kinds:
        return "No candidate can run on these devices."
    if not known:
        return (
            "No earlier run of these stages on such a device is stored, so the time is unknown; the load blocks alone "
            f"take at least {minutes(least_blocks_s(spec.load) / 60)} a run."
        )
    likest = [past.likest(kind) for kind in kinds]
    words = ("of the same model and number format", "of the same model in another number format", "of another model")
    parts = [f"{words[place]} for {n}" for place in range(len(words)) if (n := likest.count(place))]
    candidates = "1 candidate" if len(kinds) == 1 else f"{len(kinds)} candidates"
    return f"From earlier runs on such a device, {listed(parts)} of {candidates}. Ranges are as wide as these are few."


def _warnings(spec: ExperimentSpec, check: LaunchCheck) -> tuple[str, ...]:
    of_trace = note_on(spec.workload.trace) if spec.workload.trace and spec.workload.kind == "chat" else ""
    unserved = [queue for queue in dict.fromkeys(check.queues.values()) if queue not in check.served]
    waits = [
        f"No live worker serves queue {queue}: runs wait until one is started with: kitedash worker."
        for queue in unserved
    ]
    return (of_trace, *waits) if of_trace else tuple(waits)
