"""The load client as a process, against the scripted engine: sessions, several processes, and what goes wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.results import LevelStatus
from kitedash.measuring import load_client
from kitedash.measuring.process import direct_spawn
from kitedash.measuring.request_table import decode
from kitedash.measuring.traffic import FORMAT, read
from tests.e2e.load_blocks import KEY, ROOT, free_port, measure, scripted_engine

TOKENS_OUT = 5
FAST = ("--first-token-ms", "50", "--token-ms", "5")  # a turn takes 70 ms


def line(index: int, due_s: float | None, **more: Any) -> dict[str, Any]:
    question = f"Question {index}?"
    return {
        "index": index,
        "due_s": due_s,
        "prefix": "shared",
        "question": question,
        "tokens_in": 9,
        "tokens_out": TOKENS_OUT,
    } | more


async def sent_by_client(
    base_url: str, lines: Sequence[Mapping[str, Any]], folder: Path, processes: int | None = 1, timeout_s: float = 20
) -> dict[str, Any]:
    head = {
        "format": FORMAT,
        "rate_per_s": 10.0,
        "block": 0,
        "seed": 1,
        "duration_s": 5.0,
        "prefixes": {"shared": "Be brief."},
    }
    path, plan, out = folder / "traffic.jsonl", folder / "plan.json", folder / "out.json"
    path.write_text("".join(json.dumps(one) + "\n" for one in [head, *lines]))
    order = {"base_url": base_url, "model": "m", "traffic": str(path), "request_timeout_s": timeout_s}
    plan.write_text(json.dumps(order | {"processes": processes}))
    argv = [sys.executable, "-m", "kitedash.measuring.load_client", str(plan), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), load_client.KEY_VARIABLE: KEY}
    process = await direct_spawn(argv, env=environment, log_path=folder / "client.log")
    assert await process.wait() == 0, await asyncio.to_thread((folder / "client.log").read_text)
    result: dict[str, Any] = json.loads(await asyncio.to_thread(out.read_text))
    return result


def sessions(count: int, turns: int, *, apart_s: float) -> list[dict[str, Any]]:
    """Sessions that overlap; each further turn comes after a think time of its own."""
    first = [line(number, 0.1 + apart_s * number, session=number) for number in range(count)]
    later = [(number, turn) for turn in range(1, turns) for number in range(count)]
    return first + [
        line(count + place, None, session=number, turn=turn, think_time_s=0.05 + 0.02 * number + 0.01 * turn)
        for place, (number, turn) in enumerate(later)
    ]


@pytest.mark.parametrize("processes", [1, 2])
async def test_sessions_keep_their_order_and_think_times(
    default_model_dir: Path, tmp_path: Path, processes: int
) -> None:
    lines = sessions(6, 4, apart_s=0.03)
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST) as endpoint:
        result = await sent_by_client(endpoint.base_url, lines, tmp_path, processes)
    records = result["records"]
    assert [record["index"] for record in records] == list(range(len(lines)))
    assert not any(record["error"] for record in records)
    assert result["processes"] == processes
    for number in range(6):
        mine = sorted(
            (record for record, told in zip(records, lines, strict=True) if told["session"] == number),
            key=lambda record: lines[record["index"]].get("turn", 0),
        )
        assert len({record["process"] for record in mine}) == 1, "a session stays in one process"
        assert mine[0]["due_s"] == pytest.approx(0.1 + 0.03 * number)
        for before, after in itertools.pairwise(mine):
            think_s = lines[after["index"]]["think_time_s"]
            assert after["due_s"] == pytest.approx(before["ended_s"] + think_s, abs=1e-6)
            assert before["ended_s"] < after["due_s"] <= after["sent_s"] < after["first_token_s"]
    assert len({record["process"] for record in records}) == processes


async def test_a_turn_with_a_time_of_its_own_waits_for_the_turn_before_it(
    default_model_dir: Path, tmp_path: Path
) -> None:
    """As in a trace: turn 1 would come in the middle of turn 0 (70 ms), turn 2 long after turn 1."""
    lines = [line(0, 0.1, session=0), line(1, 0.12, session=0, turn=1), line(2, 0.6, session=0, turn=2)]
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST) as endpoint:
        records = (await sent_by_client(endpoint.base_url, lines, tmp_path))["records"]
    assert records[1]["due_s"] == pytest.approx(records[0]["ended_s"], abs=1e-6)
    assert records[1]["due_s"] >= 0.1 + 0.07
    assert records[2]["due_s"] == pytest.approx(0.6)


async def test_a_session_goes_on_after_a_failed_turn(default_model_dir: Path, tmp_path: Path) -> None:
    lines = sessions(1, 5, apart_s=0.0)
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST, "--fail-every", "2") as endpoint:
        records = (await sent_by_client(endpoint.base_url, lines, tmp_path))["records"]
    assert [record["error"] for record in records] == ["", "scripted failure", "", "scripted failure", ""]
    assert [record["http_status"] for record in records] == [200, 500, 200, 500, 200]
    assert records[2]["due_s"] == pytest.approx(records[1]["ended_s"] + lines[2]["think_time_s"], abs=1e-6)


async def test_several_processes_send_one_block(default_model_dir: Path, tmp_path: Path) -> None:
    workload = Workload(input_tokens=120, shared_prefix_tokens=90, output_tokens=TOKENS_OUT)
    plan = LoadPlan(
        rates_per_s=(10, 20, 40), blocks=2, block_duration_s=4, request_timeout_s=5, seed=3, client_processes=3
    )
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST) as endpoint:
        block = await measure(endpoint, workload, plan, 40.0, tmp_path)
    assert block.status is LevelStatus.OK, block.reason
    requests = decode(block.requests_blob)
    (path,) = await asyncio.to_thread(lambda: list(tmp_path.glob("traffic-*/rate-40.0-block-0.jsonl")))
    assert requests["due_s"].to_numpy() == pytest.approx([one.due_s for one in read(path).requests])
    assert requests["process"].tolist() == [index % 3 for index in range(len(requests))]
    assert block.server_counters["client_processes"] == 3.0
    assert block.server_counters["finished"] == len(requests)


async def test_without_a_server_nothing_counts_as_sent(tmp_path: Path) -> None:
    result = await sent_by_client(f"http://127.0.0.1:{free_port()}", [line(0, 0.0), line(1, 0.1)], tmp_path)
    for record in result["records"]:
        assert record["error"].startswith("not sent, ConnectionRefusedError")
        assert (record["sent_s"], record["first_byte_s"], record["http_status"]) == (None, None, 0)


async def test_a_wrong_key_is_said_as_the_server_says_it(default_model_dir: Path, tmp_path: Path) -> None:
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST) as endpoint:
        result = await sent_by_client(endpoint.base_url + "/nowhere", [line(0, 0.0)], tmp_path)
    assert result["records"][0]["http_status"] == 404
    assert result["records"][0]["error"] == "404: Not Found"


async def test_a_long_block_is_read_while_it_runs(
    default_model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has come in is read when it would fill the memory; the moments are those at which it came."""
    monkeypatch.setattr(load_client, "MOST_UNREAD_BYTES", 0)
    read_early: list[int] = []
    record = load_client.Client._record

    def noting(client: load_client.Client, flight: load_client.Flight) -> dict[str, Any]:
        read_early.append(flight.answer.chunks)
        return record(client, flight)

    monkeypatch.setattr(load_client.Client, "_record", noting)
    monkeypatch.setenv(load_client.KEY_VARIABLE, KEY)
    async with scripted_engine(default_model_dir, tmp_path / "engine.log", *FAST) as endpoint:
        await sent_by_client(endpoint.base_url, [line(index, 0.05 * index) for index in range(20)], tmp_path)
        plan = json.loads((tmp_path / "plan.json").read_text())
        records = (await load_client.measure(plan))["records"]
    assert not any(one["error"] for one in records)
    assert read_early.count(TOKENS_OUT) >= len(records) - 1, "the last answer may be read at the end"
    for one in records:
        assert one["chunks"] == TOKENS_OUT
        assert one["due_s"] + 0.05 <= one["first_token_s"] <= one["last_token_s"] <= one["ended_s"]
