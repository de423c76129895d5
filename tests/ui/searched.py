"""An experiment whose candidates' highest rates held were searched: one found, one undecided, one under way;
and the baseline measured again, without a search.

By hand: `python -m tests.ui.searched DATA_FOLDER` prints its id.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy.orm import Session

from db import engine, experiments, results, runs, stages, workers
from kitedash.domain.experiment import Candidate, CandidateSpec, ExperimentSpec, LoadPlan, Targets
from kitedash.domain.results import LevelStatus
from kitedash.domain.run_plan import AGAIN, planned_blocks
from tests.ui import builders, request_blobs
from tests.ui.seed import WORKLOAD

LOAD = LoadPlan(rates_per_s=(1, 2, 4), search=True, search_precision=0.2, search_most_blocks=20)
TARGET_MS = 500  # intervals are 10 % to both sides: 455 and below are surely held, 556 and above surely missed
# name -> rate, P90 TTFT in ms, blocks; the listed rates first
MEASURED: dict[str, tuple[tuple[float, float, int], ...]] = {
    "float32": ((1, 260, 6), (2, 350, 6), (4, 900, 3), (2.6, 430, 3), (3, 560, 3)),
    "int8": ((1, 200, 6), (2, 300, 6), (4, 700, 3), (2.9, 480, 6), (3.3, 520, 6)),
    "bfloat16": ((1, 280, 6), (2, 360, 6), (4, 2_400, 3), (2.4, 410, 3)),
}
UNDER_WAY = "bfloat16"
MEASURED_AGAIN = ((1, 270, 6), (2, 364, 6), (4, 880, 3))  # the baseline, for the noise floor: 4 % slower at 2/s


def seed_searched(data_dir: Path) -> str:
    """Stores it in `data_dir`/kitedash.db; its id. Its runs are <first 8 characters>-0 to -3."""
    now, experiment_id = datetime.now(UTC), str(UUID(int=5 << 124 | 5))
    with engine.sessions(f"sqlite:///{data_dir / 'kitedash.db'}").begin() as session:
        spec = ExperimentSpec(
            name="searched",
            model="SmolLM2-135M-Instruct",
            candidates=tuple(CandidateSpec(name=name) for name in MEASURED),
            baseline="float32",
            workload=WORKLOAD,
            load=LOAD,
            suites=(),
            targets=Targets(ttft_p90_ms=TARGET_MS, cost_per_1000_requests_usd=0.1, pass_rate=0.5),
            guardrails=builders.GUARDRAILS,
        )
        experiments.add(session, experiment_id, spec, "5" * 64, created_by="a test", now=now)
        for position, name in enumerate(MEASURED):
            run_id = f"{experiment_id[:8]}-{position}"
            runs.add(
                session,
                run_id,
                experiment_id=experiment_id,
                position=position,
                repeat=0,
                candidate=Candidate(name=name, model=spec.model),
                is_baseline=position == 0,
                queue="cpu",
                now=now,
            )
            _run(session, run_id, MEASURED[name], now, goes_on=name == UNDER_WAY)
        again = f"{experiment_id[:8]}-{len(MEASURED)}"
        runs.add(
            session,
            again,
            experiment_id=experiment_id,
            position=len(MEASURED),
            repeat=0,
            candidate=Candidate(name=spec.baseline, model=spec.model),
            is_baseline=True,
            purpose=AGAIN,
            queue="cpu",
            now=now,
        )
        _run(session, again, MEASURED_AGAIN, now, goes_on=False)
    return experiment_id


def _run(
    session: Session, run_id: str, levels: Sequence[tuple[float, float, int]], now: datetime, *, goes_on: bool
) -> None:
    began = now - timedelta(minutes=9)
    runs.begin(session, run_id, "test-host:cpu", began)
    runs.set_facts(session, run_id, builders.facts())
    stages.stage_begin(session, run_id, "prepare", 0, 1, began)
    stages.stage_finish(session, run_id, "prepare", now - timedelta(minutes=8))
    stages.stage_begin(session, run_id, "load", 1, planned_blocks(LOAD), now - timedelta(minutes=8))
    for rate, latency, blocks in levels:
        level = builders.level(rate, latency).summary
        results.store_level(session, run_id, replace(level, blocks=blocks, n_requests=40 * blocks))
        for block in request_blobs.blocks(rate, latency, LevelStatus.OK)[:blocks]:
            results.store_block(session, run_id, block)
    if goes_on:
        note = "rate search (2.7/s), block 1; 3 of at most 20 further blocks measured"
        stages.stage_advance(session, run_id, "load", 21, planned_blocks(LOAD), note)
        alive = now + timedelta(hours=1)  # however long the test takes
        workers.beat(
            session, "test-host:cpu", host="test-host", pid=4242, queue="cpu", device_name="AMD EPYC 7B13", now=alive
        )
        return
    stages.stage_finish(session, run_id, "load", now - timedelta(minutes=1))
    runs.finish(session, run_id, now)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(seed_searched(folder))
