"""Four runs that are slow for four reasons, told apart by the parts of their requests alone.

Each is measured by the product on a scripted engine whose times are known. And the server's timeline is on the clock of
the requests.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from kitedash.domain.diagnosis import Cause, Diagnosis, Intended, diagnose_around, diagnose_request, usual_of
from kitedash.domain.diagnosis_text import sentence
from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.request_parts import requests_around
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.domain.workload import THE_ONE_KIND
from kitedash.measuring import timeline
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.load_stage import measure_block
from kitedash.measuring.parts_table import parts_table
from kitedash.measuring.process import Process, direct_spawn
from kitedash.measuring.request_table import decode
from tests.e2e.load_blocks import measure, scripted_engine

SHARED = 200
WORKLOAD = Workload(input_tokens=240, shared_prefix_tokens=SHARED, output_tokens=5)
PLAN = LoadPlan(rates_per_s=(5, 10, 15), blocks=2, block_duration_s=8, request_timeout_s=10, seed=3)
# 30 ms for any prefill and 1 ms for each token that is not cached: 192 of 200 are, in blocks of 16 tokens.
SCRIPT = ("--first-token-ms", "30", "--computed-token-ms", "1", "--token-ms", "5")


def explained(block: BlockResult, workload: Workload) -> tuple[Diagnosis, list[Cause | None]]:
    """Of the requests around the P90 together, and the main cause of each of them."""
    intended = Intended(
        prefix_caching=True,
        block_size=int(block.server_counters["block_size"]),
        shared_tokens={THE_ONE_KIND: workload.shared_prefix_tokens},
    )
    table = parts_table([block], warm_up_s=0.0)
    usual = usual_of(table, intended)
    around = diagnose_around(table, usual, intended)
    assert around is not None
    return around, [diagnose_request(table, int(i), usual, intended).main for i in requests_around(table)]


def most(causes: list[Cause | None]) -> Cause | None:
    """The commonest: a single one may be any accident of a busy machine."""
    return Counter(causes).most_common(1)[0][0]


async def test_a_time_stamp_at_the_head_of_the_system_prompt(default_model_dir: Path, tmp_path: Path) -> None:
    stamped = WORKLOAD.model_copy(update={"timestamp_first": True})
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *SCRIPT) as endpoint:
        block = await measure(endpoint, stamped, PLAN, 10.0, tmp_path)
    around, each = explained(block, stamped)
    assert (around.main, most(each)) == (Cause.PREFIX, Cause.PREFIX)
    # 30 ms + 1 ms x 240 tokens, of which 192 should have been cached: all requests alike, so their mean cost a token.
    assert around.causes[0].ms == pytest.approx(270 * 192 / 240, rel=0.05)
    assert "time stamp" in sentence(around)


async def test_a_queue(default_model_dir: Path, tmp_path: Path) -> None:
    """One place at a time: 30 + 48 + 4 x 5 = 98 ms a request, 8 a second."""
    script = (*SCRIPT, "--max-num-seqs", "1")
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *script) as endpoint:
        block = await measure(endpoint, WORKLOAD, PLAN, 5.0, tmp_path)
    around, each = explained(block, WORKLOAD)
    assert (around.main, most(each)) == (Cause.QUEUE, Cause.QUEUE)
    assert Cause.PREFIX not in around.all_ms or around.all_ms[Cause.PREFIX] == 0.0


async def test_long_prompts(default_model_dir: Path, tmp_path: Path) -> None:
    wide = WORKLOAD.model_copy(update={"input_tokens_p90": 900})
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *SCRIPT) as endpoint:
        block = await measure(endpoint, wide, PLAN, 10.0, tmp_path)
    around, each = explained(block, wide)
    assert (around.main, most(each)) == (Cause.LONG_PROMPT, Cause.LONG_PROMPT)
    # 1 ms a token above those of the median request.
    computed = around.facts.tokens_in - around.facts.tokens_cached
    assert around.causes[0].ms == pytest.approx(computed - around.usual.computed_tokens, rel=0.1)
    assert around.all_ms[Cause.PREFIX] == 0.0


async def held_up_spawn(argv: Sequence[str], *, env: Mapping[str, str], log_path: Path) -> Process:
    """As `direct_spawn`, but the load client stands still for 0.4 s of each second."""
    process = await direct_spawn(argv, env=env, log_path=log_path)
    if "kitedash.measuring.load_client" in argv:

        async def hold_up() -> None:
            while process.returncode is None:
                for what, seconds in ((signal.SIGSTOP, 0.4), (signal.SIGCONT, 0.6)):
                    if process.returncode is None:
                        os.killpg(os.getpgid(process.pid), what)
                    await asyncio.sleep(seconds)

        _HELD_UP.append(asyncio.create_task(hold_up()))
    return process


_HELD_UP: list[asyncio.Task[None]] = []


async def test_a_slow_client(default_model_dir: Path, tmp_path: Path) -> None:
    script = ("--first-token-ms", "20", "--token-ms", "5")
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *script) as endpoint:
        block = await measure_block(
            endpoint, workload=WORKLOAD, plan=PLAN, rate_per_s=15.0, block=0, spawn=held_up_spawn, work_dir=tmp_path
        )
    assert block.status is LevelStatus.INVALID, "the protocol does not believe such a block either"
    around, each = explained(block, WORKLOAD)
    assert (around.main, most(each)) == (Cause.CLIENT, Cause.CLIENT)
    assert "not the server" in sentence(around)


async def test_the_timeline_counts_the_requests_that_were_in_flight(default_model_dir: Path, tmp_path: Path) -> None:
    """At each second the engine's `running` against the request table: sent before and not ended."""
    script = ("--first-token-ms", "400", "--token-ms", "20")  # 0.5 s a request
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *script) as endpoint:
        block = await measure(endpoint, WORKLOAD, PLAN, 15.0, tmp_path)
    seconds, requests = timeline.decode(block.timeline_blob), decode(block.requests_blob)
    during = seconds[(seconds["t_s"] > 0) & (seconds["t_s"] < PLAN.block_duration_s)]
    assert len(during) >= 7
    sent, ended = requests["sent_s"].to_numpy(), requests["ended_s"].to_numpy()

    def in_flight(t: float) -> tuple[int, int]:
        """The least and the most within 50 ms of t: a request travels, and two clocks read beside each other."""
        moments = np.linspace(t - 0.05, t + 0.05, 41)
        counts = [int(np.sum((sent <= moment) & (moment < ended))) for moment in moments]
        return min(counts), max(counts)

    off = [
        (row.t_s, row.running, in_flight(row.t_s))
        for row in during.itertuples()
        if not in_flight(row.t_s)[0] <= row.running <= in_flight(row.t_s)[1]
    ]
    assert len(off) <= 1, off  # a machine that stood still in between
    assert during["running"].max() >= 5, "15 requests a second of 0.5 s each"
    assert block.server_counters["running_max"] >= during["running"].max()
    assert during["prompt_tokens"].is_monotonic_increasing
    total = block.server_counters["prompt_tokens"]
    assert 0.5 * total < during["prompt_tokens"].iloc[-1] <= total
    assert (during["machine_cpu_share"] > 0).all()


async def test_the_engines_processes_are_measured_where_they_are_known(default_model_dir: Path, tmp_path: Path) -> None:
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *SCRIPT) as endpoint:
        assert isinstance(endpoint, Endpoint)
        assert endpoint.pid is not None
        block = await measure(endpoint, WORKLOAD, PLAN, 15.0, tmp_path)
    seconds = timeline.decode(block.timeline_blob)
    assert (seconds["engine_rss_gib"] > 0.01).all()
    assert 0 < seconds["engine_cpu_cores"].mean() < 2
