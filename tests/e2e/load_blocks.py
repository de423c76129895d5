"""For the load tests: a scripted engine in a process of its own, and blocks measured on it through the product."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from kitedash.domain.experiment import LoadPlan, Workload
from kitedash.domain.load_checks import LATENESS
from kitedash.domain.results import BlockResult
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.load_stage import measure_block
from kitedash.measuring.process import Process, direct_spawn

ROOT = Path(__file__).resolve().parents[2]
KEY = "a-key-of-this-test"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def scripted_engine(
    model_dir: Path, log_path: Path, *arguments: str, prefix_caching: bool = True
) -> AsyncIterator[Endpoint]:
    port = free_port()
    argv = [sys.executable, "-m", "tests.scripted_engine", "--port", str(port), "--model", str(model_dir), *arguments]
    environment = {**os.environ, "VLLM_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    process = await direct_spawn(argv, env=environment, log_path=log_path)
    base_url = f"http://127.0.0.1:{port}"
    try:
        await _ready(base_url, process, log_path)
        yield Endpoint(base_url, KEY, str(model_dir), model_dir, 2048, prefix_caching, None, pid=process.pid)
    finally:
        await process.stop()


async def _ready(base_url: str, process: Process, log_path: Path) -> None:
    deadline = time.monotonic() + 60
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline and process.returncode is None:
            try:
                async with session.get(f"{base_url}/health") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
    raise AssertionError(f"the scripted engine did not start: {await asyncio.to_thread(log_path.read_text)}")


async def measure(
    endpoint: Endpoint,
    workload: Workload,
    plan: LoadPlan,
    rate_per_s: float,
    work_dir: Path,
    block: int = 0,
    tries: int = 3,
) -> BlockResult:
    """Measures one block; again, up to so many times, where this machine was too busy for the client to be in time."""
    for attempt in range(tries):
        result = await measure_block(
            endpoint,
            workload=workload,
            plan=plan,
            rate_per_s=rate_per_s,
            block=block,
            spawn=direct_spawn,
            work_dir=work_dir,
        )
        if attempt == tries - 1 or not result.reason.startswith(LATENESS):
            break
    return result
