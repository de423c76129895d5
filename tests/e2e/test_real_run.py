"""The main job on the real engine: two candidates measured and asked, one that can't start, a lost worker, a cancel.

One story, told once in the fixture and looked at by the tests: the engine takes most of a minute to start.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from db import engine, results, runs
from kitedash.domain.results import BlockResult
from kitedash.measuring.device import gpu_count
from kitedash.measuring.model_store import DEFAULT_MODEL
from kitedash.measuring.request_table import decode
from kitedash.running.slots import default_slots
from kitedash.settings import PROJECT_ROOT

pytestmark = pytest.mark.real

RUN_TIMEOUT_S = 900.0
HIGHEST_RATE_PER_S = 60 if gpu_count() else 6  # beyond what two at a time can do
# float32, since bfloat16 is emulated on a processor without such instructions, many times slower.
LAST_STAGE = "quality:hellaswag_100"
ASKED_FOR_S = 3.0  # into that stage, so that the engine is busy when the cancel comes
EXPERIMENT = f"""
name: real run
model: {DEFAULT_MODEL}
engine_args: {{dtype: float32, max-model-len: 1024, max-num-seqs: 32, block-size: 32}}
candidates:
  - name: batch 32
  - name: batch 2
    engine_args: {{max-num-seqs: 2}}
  - name: too long
    engine_args: {{max-model-len: 100000}}
baseline: batch 32
workload:
  mix:
    - {{name: chat, weight: 4, input_tokens: 300, shared_prefix_tokens: 285, output_tokens: 16}}
    - {{name: tab, kind: completion, input_tokens: 200, shared_prefix_tokens: 170, output_tokens: 16}}
    - {{name: talk, weight: 2, input_tokens: 300, shared_prefix_tokens: 285, output_tokens: 16, turns: 2,
        think_time_s: 0.5}}
load: {{rates_per_s: [1, 2, {HIGHEST_RATE_PER_S}], blocks: 2, block_duration_s: 6, request_timeout_s: 60}}
suites: [{{name: kitedash_repo}}, {{name: hellaswag_100}}]
targets: {{ttft_p90_ms: 2000, cost_per_1000_requests_usd: 10, pass_rate: 0.3}}
guardrails: {{tpot_p90_ms: 500}}
noise_floor: false
"""


@dataclass
class Story:
    """What happened. Times in seconds."""

    data_dir: Path
    run_ids: dict[str, str] = field(default_factory=dict)
    left_after_kill: list[list[str]] = field(default_factory=list)
    blocks_before_kill: int = 0
    command_s: float = 0.0
    cancel_s: float = 0.0

    def session(self) -> Any:
        return engine.sessions(f"sqlite:///{self.data_dir / 'kitedash.db'}")()

    def environment(self) -> dict[str, str]:
        return {**os.environ, "KITEDASH_DATA_DIR": str(self.data_dir)}

    def cli(self, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "kitedash.cli", *arguments, "--json"],
            cwd=PROJECT_ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def launch(self) -> dict[str, str]:
        file = self.data_dir / "experiment.yaml"
        file.write_text(EXPERIMENT)
        return {run["candidate_name"]: run["id"] for run in self.cli("launch", str(file))["runs"]}

    def worker(self) -> subprocess.Popen[bytes]:
        with (self.data_dir / "worker.out").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "kitedash.running.worker", default_slots()[0]],
                cwd=PROJECT_ROOT,
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def engines(self) -> list[psutil.Process]:
        """Processes that serve a model of this data folder, and what they started."""
        found = []
        for process in psutil.process_iter():
            try:
                if any("api_server" in part for part in process.cmdline()) and str(self.data_dir) in " ".join(
                    process.cmdline()
                ):
                    found += [process, *process.children(recursive=True)]
            except psutil.Error:
                continue
        return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = RUN_TIMEOUT_S) -> float:
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout_s:
                logs = "\n".join(path.read_text()[-4_000:] for path in (self.data_dir / "logs").glob("*.log"))
                raise AssertionError(f"not within {timeout_s:g} s: {what}\n{logs}")
            time.sleep(0.2)
        return time.monotonic() - began

    def is_in_stage(self, run_id: str, name: str) -> bool:
        with self.session() as session:
            return any(stage.name == name for stage in runs.stages(session, [run_id]).get(run_id, ()))

    def status(self, run_id: str) -> str:
        with self.session() as session:
            return str(runs.get(session, run_id).status)

    def blocks(self, run_id: str) -> int:
        with self.session() as session:
            return len(results.stored_blocks(session, run_id))

    def requests(self, run_id: str) -> pd.DataFrame:
        with self.session() as session:
            blocks = results.blocks(session, run_id)
        return pd.concat([decode(block.requests_blob).assign(rate_per_s=block.rate_per_s) for block in blocks])


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, default_model_dir: Path) -> Iterator[Story]:
    told = Story(tmp_path_factory.mktemp("real"))
    shutil.copytree(default_model_dir, told.data_dir / "models" / DEFAULT_MODEL)
    told.run_ids = told.launch()
    first = told.run_ids["batch 32"]
    worker = told.worker()
    try:
        told.wait(lambda: told.blocks(first) >= 2, "two blocks of the first candidate")
        told.wait(lambda: len(told.engines()) > 0, "the engine")
        worker.kill()
        worker.wait()
        told.blocks_before_kill = told.blocks(first)
        owned = told.engines()
        psutil.wait_procs(owned, timeout=5)
        told.left_after_kill = [process.cmdline() for process in owned if process.is_running()]

        worker = told.worker()
        second = told.run_ids["batch 2"]
        told.wait(lambda: told.is_in_stage(second, LAST_STAGE), "the last suite of the second candidate")
        time.sleep(ASKED_FOR_S)
        owned = told.engines()
        assert owned
        began = time.monotonic()
        told.cli("runs")
        told.command_s = time.monotonic() - began
        began = time.monotonic()
        told.cli("cancel", second)
        psutil.wait_procs(owned, timeout=30)
        told.cancel_s = time.monotonic() - began
        told.wait(
            lambda: all(told.status(run) not in ("queued", "running") for run in told.run_ids.values()), "the end"
        )
        yield told
    finally:
        worker.kill()
        worker.wait()
        engine.dispose_engines()


def test_a_lost_worker_leaves_no_engine_and_the_run_goes_on(story: Story) -> None:
    assert story.left_after_kill == []
    assert story.blocks_before_kill < 6
    with story.session() as session:
        run = runs.get(session, story.run_ids["batch 32"])
        stages = {stage.name: stage for stage in runs.stages(session, [run.id])[run.id]}
        blocks = results.stored_blocks(session, run.id)
    assert (run.status, run.attempts) == ("finished", 2)
    assert (stages["prepare"].executions, stages["load"].executions) == (1, 2)
    assert {name: stage.status for name, stage in stages.items()} == {
        "prepare": "finished",
        "load": "finished",
        "quality:kitedash_repo": "finished",
        "quality:hellaswag_100": "finished",
    }
    assert blocks == {(rate, block) for rate in (1.0, 2.0, float(HIGHEST_RATE_PER_S)) for block in (0, 1)}


def test_a_candidate_that_cannot_start_fails_with_the_engines_reason(story: Story) -> None:
    with story.session() as session:
        run = runs.get(session, story.run_ids["too long"])
    assert run.status == "failed"
    assert "max_model_len" in run.error
    assert "100000" in run.error
    assert "\n" not in run.error
    assert "Traceback" in (story.data_dir / run.log_path).read_text()
    assert story.status(story.run_ids["batch 32"]) == "finished"


def test_the_engines_facts_are_stored(story: Story) -> None:
    with story.session() as session:
        facts = runs.facts_of(runs.get(session, story.run_ids["batch 32"]))
    assert facts is not None
    assert facts.vllm_version.startswith("0.32.0")
    assert facts.kv_cache_tokens is not None
    assert facts.kv_cache_gib is not None
    # 2 (K and V) x 30 layers x 3 heads x 64 x 4 bytes = 46,080 bytes a token in float32
    assert facts.kv_cache_gib * 2**30 / facts.kv_cache_tokens == pytest.approx(46_080, rel=0.02)
    assert len(facts.model_sha256) == 64
    assert facts.start_up_s > 1
    assert "VLLM_API_KEY" not in json.dumps(facts.environment)


def test_the_parts_of_each_request_are_consistent(story: Story) -> None:
    table = story.requests(story.run_ids["batch 32"])
    answered = table[table["error"].fillna("") == ""]
    assert len(answered) == len(table) > 40
    ttft_ms = (answered["first_token_s"] - answered["due_s"]) * 1e3
    client_ms = (answered["sent_s"] - answered["due_s"]) * 1e3
    residual_ms = ttft_ms - client_ms - answered["queue_time_ms"] - answered["engine_ttft_ms"]
    assert residual_ms.min() >= -1.0
    assert set(answered["tokens_out"]) == {16}


def test_a_mix_with_completions_and_sessions_has_the_tokens_that_the_engine_counts(story: Story) -> None:
    with story.session() as session:
        blocks = results.blocks(session, story.run_ids["batch 32"])
    turns = 0
    for block in blocks:
        table = decode(block.requests_blob)
        for tokens, counter in (("tokens_in", "prompt_tokens"), ("tokens_cached", "cached_tokens")):
            if not block.n_failed:  # the engine counts what it computed for those too
                assert table[tokens].sum() == block.server_counters[counter], (block.rate_per_s, block.block, tokens)
        table = table[table["error"].fillna("") == ""]
        first = table[table["turn"].fillna(0) == 0]
        # Shared tokens in whole blocks of 32: 8 blocks of 285, 5 of 170.
        for kind, tokens, cached in (("chat", 300, 256), ("talk", 300, 256), ("tab", 200, 160)):
            mine = first[first["kind"] == kind]
            assert (np.abs(mine["tokens_in"] - tokens) <= tokens // 100).all()
            assert set(mine["tokens_cached"]) <= {cached}
        for _, talk in table[table["kind"] == "talk"].groupby("session"):
            for before, after in itertools.pairwise(talk.sort_values("turn").itertuples()):
                assert before.ended_s < after.due_s <= after.sent_s
                assert after.tokens_in > before.tokens_in + before.tokens_out
                assert after.tokens_cached == before.tokens_in // 32 * 32, "the conversation before it is in the cache"
                turns += 1
    assert turns >= 3


def test_the_engine_agrees_with_the_sums_of_its_own_counters(story: Story) -> None:
    with story.session() as session:
        blocks = results.blocks(session, story.run_ids["batch 32"])
    # Lateness is left out: it tells how busy this machine is, and a block that fails it says so itself.
    about_the_engine = (
        "engine answers after the block",
        "idle before the block",
        "prompt tokens, largest deviation",
        "cached prompt tokens, mean",
        "front end, smallest (ms)",
        "queue + prefill, requests / engine's counters",
    )
    for block in blocks:
        checks = {check.name: check for check in block.checks}
        for name in about_the_engine:
            assert checks[name].passed, checks[name]
        assert checks["queue + prefill, requests / engine's counters"].value == pytest.approx(1, abs=0.01)


def test_a_binding_batch_limit_is_reached_and_costs_latency(story: Story) -> None:
    """Seen in the requests and the engine's gauges themselves: they hold also where a block is called overloaded, or
    invalid because this machine was busy, and a level then has no latency to compare."""

    def at_highest_rate(candidate: str) -> list[BlockResult]:
        with story.session() as session:
            blocks = results.blocks(session, story.run_ids[candidate])
        return [block for block in blocks if block.rate_per_s == HIGHEST_RATE_PER_S]

    free, bound = at_highest_rate("batch 32"), at_highest_rate("batch 2")
    what = "\n".join(f"{block.status} {block.reason} {block.server_counters}" for block in (*free, *bound))
    assert max(block.server_counters["running_max"] for block in bound) == 2, what
    assert max(block.server_counters["running_max"] for block in free) > 2, what

    def median(candidate: str, milliseconds: str) -> float:
        requests = story.requests(story.run_ids[candidate]).query(f"rate_per_s == {HIGHEST_RATE_PER_S}")
        return float(requests.eval(milliseconds).median())

    assert median("batch 2", "queue_time_ms") > 100, what
    assert median("batch 2", "queue_time_ms") > 2 * median("batch 32", "queue_time_ms"), what
    for milliseconds in ("(first_token_s - due_s) * 1000", "(ended_s - due_s) * 1000"):
        assert median("batch 2", milliseconds) > 1.5 * median("batch 32", milliseconds), what


def test_every_answer_is_stored(story: Story) -> None:
    with story.session() as session:
        public = results.answers(session, story.run_ids["batch 32"], "hellaswag_100")
    assert len(public) == 100
    assert 0.25 < np.mean([answer.passed for answer in public]) < 0.55
    for candidate in ("batch 32", "batch 2"):
        with story.session() as session:
            repository = results.answers(session, story.run_ids[candidate], "kitedash_repo")
        assert len(repository) >= 40
        assert len({answer.kind for answer in repository}) >= 3
        assert all(answer.finish_reason for answer in [*repository, *public])
        share = np.mean([answer.passed for answer in repository])
        assert 0.1 < share < 1.0  # a signal: neither at the floor nor at the ceiling


def test_a_cancel_ends_the_whole_engine_within_five_seconds(story: Story) -> None:
    assert story.cancel_s < 5 + story.command_s  # less what it takes to start the command, as another one just did
    assert story.status(story.run_ids["batch 2"]) == "cancelled"
