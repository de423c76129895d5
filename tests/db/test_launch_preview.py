"""What is said before a launch is what the launch then does: the same refusals, queues and commands."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from db import results, runs, workers
from db.engine import sessions
from kitedash.domain.errors import InvalidInput, Refused
from kitedash.domain.experiment import LoadPlan
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.measuring.device import Device
from kitedash.services import launch_check
from kitedash.services.actor import LOCAL
from kitedash.services.launch import launch
from kitedash.services.launch_preview import preview
from kitedash.services.runs import run_view, runs_view
from kitedash.settings import settings
from tests.db.rows import a_spec, going_on
from tests.ui.builders import facts

pytestmark = pytest.mark.database
PROCESSOR = Device("cpu", "a processor", ("cpu",), "", 16.0, frozenset({"avx2"}), "0-1")
BLOCKS = {"name": "blocks", "engine_args": {"block-size": 16}}  # on a CPU: multiples of 32


@pytest.fixture(autouse=True)
def configured(on_url: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_check, "detect", lambda _: PROCESSOR)


def beat(slot: str = "h:cpu", queue: str = "cpu", device: str = PROCESSOR.name) -> None:
    """An hour ahead, so that the worker is alive however long the test takes."""
    now = datetime.now(UTC) + timedelta(hours=1)
    with sessions(settings().url).begin() as session:
        workers.beat(session, slot, host="h", pid=1, queue=queue, device_name=device, now=now)


def finished_run(run_id: str, *, load_s: float, suites: tuple[str, ...] = ()) -> None:
    """A run like a worker's: prepared in 6 s, engine up after 31.2 s, each suite in 60 s, everything just now."""
    now = datetime.now(UTC)
    with sessions(settings().url).begin() as session:
        runs.begin(session, run_id, "h:cpu", now)
        runs.set_facts(session, run_id, replace(facts(), device_name=PROCESSOR.name))
        stages = {"prepare": 6.0, "load": load_s} | {f"quality:{name}": 60.0 for name in suites}
        for position, (name, seconds) in enumerate(stages.items()):
            runs.stage_begin(session, run_id, name, position, 18 if name == "load" else 1, now)
            runs.stage_finish(session, run_id, name, now + timedelta(seconds=seconds))
        runs.finish(session, run_id, now)


def test_candidates_commands_and_queues_are_those_of_the_launch() -> None:
    spec = a_spec(engine_args={"max-model-len": 8192}, environment={"VLLM_CPU_KVCACHE_SPACE": "3"})
    seen = preview(spec)
    assert (seen.device_kind, seen.device_name, seen.runs, seen.waiting_runs) == ("cpu", "a processor", 2, 0)
    assert [(one.name, one.is_baseline, one.queue, one.served) for one in seen.candidates] == [
        ("float32", True, "cpu", False),
        ("bf16", False, "cpu", False),
    ]
    assert " ".join(seen.candidates[1].argv) == (
        "python -m vllm.entrypoints.openai.api_server --model <model folder> --served-model-name SmolLM2-135M-Instruct "
        "--host 127.0.0.1 --port <port> --enable-per-request-metrics --enable-prompt-tokens-details "
        "--disable-uvicorn-access-log --enforce-eager --max-model-len 8192 --dtype bfloat16"
    )
    assert seen.candidates[0].environment["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert seen.candidates[0].environment["VLLM_CPU_OMP_THREADS_BIND"] == "0-1"
    assert seen.warnings == ("No live worker serves queue cpu: runs wait until one is started with: kitedash worker.",)
    view = runs_view(launch(spec, LOCAL))
    assert [(run.candidate_name, run.is_baseline, run.queue) for run in view.runs] == [
        (one.name, one.is_baseline, one.queue) for one in seen.candidates
    ]
    assert preview(spec).waiting_runs == 2


@pytest.mark.parametrize(
    ("changes", "kind", "field"),
    [
        ({"candidates": ({"name": "float32"}, BLOCKS)}, None, "candidates[1]"),
        ({"matrix": {"block-size": (16, 32)}}, None, "matrix"),
        ({"devices": 2, "engine_args": {"tensor-parallel-size": 2}}, "cpu", "candidates[0]"),
        ({}, "gpu", "candidates[0]"),
    ],
)
def test_what_is_refused_is_what_the_launch_refuses_with_its_field(
    changes: dict[str, object], kind: launch_check.DeviceKind | None, field: str
) -> None:
    seen = preview(a_spec(**changes), device_kind=kind)  # type: ignore[arg-type]
    refused = next(one for one in seen.candidates if one.refusal)
    assert refused.refused_field == field
    with pytest.raises(Refused) as raised:
        launch(a_spec(**changes), LOCAL, device_kind=kind)  # type: ignore[arg-type]
    assert str(raised.value) == refused.refusal
    assert all(not one.refused_field for one in seen.candidates if not one.refusal)


def test_where_no_candidate_can_run_no_time_is_given() -> None:
    seen = preview(a_spec(candidates=(BLOCKS,), baseline="blocks"))
    assert (seen.minutes, seen.at_least_minutes, seen.basis) == (None, 0, "No candidate can run on these devices.")


@pytest.mark.parametrize("changes", [{"baseline": "nobody"}, {"suites": ({"name": "none"},)}, {"candidates": ()}])
def test_what_is_wrong_with_the_specification_is_raised_as_by_the_launch(changes: dict[str, object]) -> None:
    sentences = []
    for attempt in (preview, lambda spec: launch(spec, LOCAL)):
        with pytest.raises(InvalidInput) as raised:
            attempt(a_spec(**changes))  # type: ignore[arg-type]
        sentences.append((raised.value.field, raised.value.sentence))
    assert sentences[0] == sentences[1]


def test_without_earlier_runs_the_time_is_unknown_and_the_load_blocks_are_its_lower_bound() -> None:
    spec = a_spec(load=LoadPlan(rates_per_s=(1, 2, 3), blocks=6, block_duration_s=20))
    seen = preview(spec)
    assert (seen.minutes, seen.wait, [one.minutes for one in seen.candidates]) == (None, None, [None, None])
    assert [one.at_least_minutes for one in seen.candidates] == [
        2,
        2,
    ]  # 6 of 18 blocks of 20 s: overload ends others
    assert seen.at_least_minutes == 4
    assert "No earlier run" in seen.basis
    assert "the load blocks alone take at least 2 min a run." in seen.basis


def test_times_come_from_earlier_runs_and_add_up_over_the_slots() -> None:
    beat()
    spec = a_spec(
        candidates=(
            {"name": "a", "engine_args": {"dtype": "float32"}},
            {"name": "b", "engine_args": {"dtype": "half"}},
        ),
        baseline="a",
        repeats=2,
        load=LoadPlan(rates_per_s=(1, 2, 3), blocks=6, block_duration_s=10, request_timeout_s=20),
        suites=({"name": "kitedash_repo"},),
    )
    baseline, *others = (run.id for run in runs_view(launch(spec, LOCAL)).runs)
    finished_run(baseline, load_s=31.2, suites=("kitedash_repo",))  # without blocks: the load is unknown
    for run_id in others:
        with sessions(settings().url).begin() as session:
            runs.cancel(session, run_id)
    seen = preview(spec)
    assert seen.minutes is None
    assert "No earlier run" in seen.basis
    with sessions(settings().url).begin() as session:
        _measure_18_blocks(session, baseline)
    seen = preview(spec)
    # The run took 6 s, 31.2 s until ready, 18 blocks of 10 s with nothing around them, and 60 s.
    of_a, of_b = (one.minutes for one in seen.candidates)
    assert of_a is not None
    assert of_b is not None
    assert of_a.middle == pytest.approx((6 + 31.2 + 180 + 60) / 60)
    assert of_b.middle == of_a.middle
    assert of_b.low < of_a.low < of_a.middle < of_a.high < of_b.high  # another number format: less is known
    assert seen.minutes is not None
    assert seen.minutes.middle == pytest.approx(2 * (of_a.middle + of_b.middle))
    assert seen.wait is not None
    assert seen.wait.high == 0
    assert seen.basis.startswith(
        "From earlier runs on such a device, of the same model and number format for 1 and of the same model in "
        "another number format for 1 of 2 candidates."
    )
    beat("h2:cpu")  # a second slot halves it
    halved = preview(spec).minutes
    assert halved is not None
    assert halved.middle == pytest.approx(of_a.middle + of_b.middle)


def test_what_waits_before_it_and_when_it_ends_is_said() -> None:
    beat()
    spec = a_spec(load=LoadPlan(rates_per_s=(1, 2, 3), blocks=6, block_duration_s=10))
    done, queued = (run.id for run in runs_view(launch(spec, LOCAL)).runs)
    assert run_view(queued).remaining is None
    finished_run(done, load_s=31.2 + 180)
    with sessions(settings().url).begin() as session:
        _measure_18_blocks(session, done)
    ends = run_view(queued).remaining
    assert ends is not None
    assert ends.middle == pytest.approx((6 + 31.2 + 180) / 60)
    seen = preview(spec)
    assert seen.waiting_runs == 1
    assert seen.wait == ends


def _measure_18_blocks(session: Session, run_id: str) -> None:
    with going_on(session, run_id):
        for number in range(18):
            block = BlockResult(1.0, number, 1, LevelStatus.OK, "", (), 10, 0, 10.0, "0" * 64, b"")
            results.store_block(session, run_id, block, datetime.now(UTC))
