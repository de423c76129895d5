"""A candidate's vLLM server: started on demand, watched, asked for its facts, and stopped with its whole tree."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp

from kitedash.domain.command import SERVER_MODULE, engine_argv, engine_environment
from kitedash.domain.errors import EngineFailed
from kitedash.domain.experiment import Candidate
from kitedash.domain.results import ServerFacts
from kitedash.measuring import server_log
from kitedash.measuring.device import Device, processes_on
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.model_store import ResolvedModel
from kitedash.measuring.process import PASSED_ON, Process, Spawn, clean_environment
from kitedash.measuring.server_facts import read_endpoint, read_facts

HOST = "127.0.0.1"
POLL_INTERVAL_S = 0.25
NOTE_INTERVAL_S = 5.0
RELEASE_TIMEOUT_S = 15.0  # a driver may take so long to give back the memory of a process that has ended
HEALTH_TIMEOUT_S = 10.0
RESTARTS_PER_STAGE = 1


@dataclass(frozen=True)
class EngineProgram:
    """What is started. Only tests start another one: ground truth with vLLM's interface."""

    module: str = SERVER_MODULE
    environment: Mapping[str, str] = field(default_factory=dict)


VLLM = EngineProgram()


class VllmServer:
    """`ensure` is all a stage calls. `facts` are those of the latest start, None before it."""

    def __init__(
        self,
        *,
        candidate: Candidate,
        model: ResolvedModel,
        device: Device,
        spawn: Spawn,
        log_path: Path,
        start_timeout_s: float,
        cpu_kv_cache_gib: float,
        program: EngineProgram = VLLM,
    ) -> None:
        self.facts: ServerFacts | None = None
        self._candidate, self._model, self._device = candidate, model, device
        self._spawn, self._log_path, self._start_timeout_s = spawn, log_path, start_timeout_s
        self._cpu_kv_cache_gib, self._program = cpu_kv_cache_gib, program
        self._process: Process | None = None
        self._endpoint: Endpoint | None = None
        self._log_offset = 0
        self._restarts_left = RESTARTS_PER_STAGE

    def begin_stage(self) -> None:
        """Gives the stage its own allowance of restarts."""
        self._restarts_left = RESTARTS_PER_STAGE

    async def ensure(self, progress: Callable[[str], None]) -> Endpoint:
        """A server that answers: the one that runs, or a new one. `progress` hears how far a start has come.

        Raises EngineFailed with the engine's own reason where it does not become ready, or has died again after
        the one restart that a stage is allowed.
        """
        if self._endpoint is not None:
            if await self.is_healthy():
                return self._endpoint
            await self.stop()  # an engine core may be dead under a front end that still ends in order
            if not self._restarts_left:
                raise self.failure()
            self._restarts_left -= 1
        try:
            return await self._start(progress)
        except BaseException:
            await self.stop()
            raise

    async def is_healthy(self) -> bool:
        """Whether the process lives and /health does not deny it. A server too busy to answer in time is alive."""
        if self._endpoint is None or self._process is None or self._process.returncode is not None:
            return False
        try:
            async with self._session(HEALTH_TIMEOUT_S) as session, session.get("/health") as response:
                return response.status == 200
        except TimeoutError:
            return self._process.returncode is None
        except aiohttp.ClientError:
            return False

    def failure(self) -> EngineFailed:
        """What the log says of the death of the latest server."""
        log = self._read_log()
        returncode = self._process.returncode if self._process else None
        reason = server_log.failure_reason(log, returncode)
        if not reason:
            ending = "does not answer" if returncode is None else f"ended with status {returncode}"
            reason = f"it {ending} and its log names no reason"
        return EngineFailed(f"the engine failed: {reason}", server_log.tail(log))

    async def stop(self) -> None:
        """Ends the server; returns when its whole tree is gone."""
        self._endpoint = None
        if self._process is not None:
            await self._process.stop()

    async def _start(self, progress: Callable[[str], None]) -> Endpoint:
        await self._wait_for_empty_device()
        port, key = _free_port(), secrets.token_urlsafe(24)
        arguments = self._argv(port)
        environment = self._environment()
        self._log_offset = server_log.size_of(self._log_path)
        began = time.monotonic()
        self._process = await self._spawn(
            [sys.executable, *arguments], env={**environment, "VLLM_API_KEY": key}, log_path=self._log_path
        )
        base_url = f"http://{HOST}:{port}"
        await self._wait_until_ready(base_url, began, progress)
        start_up_s = time.monotonic() - began
        log = server_log.facts(self._read_log())
        shown = {name: value for name, value in environment.items() if name not in PASSED_ON}
        endpoint, info = await read_endpoint(base_url, key, self._candidate, self._model, log)
        self.facts = await asyncio.to_thread(
            read_facts,
            info=info,
            log=log,
            model=self._model,
            device=self._device,
            guard_pid=self._process.pid,
            argv=("python", *arguments),
            environment=shown,
            start_up_s=start_up_s,
        )
        self._endpoint = replace(endpoint, pid=self._process.pid, device_ids=self._device.ids)
        return self._endpoint

    def _argv(self, port: int) -> list[str]:
        arguments = engine_argv(
            self._candidate,
            model_dir=str(self._model.path),
            served_name=self._model.served_name,
            host=HOST,
            port=port,
            device_kind=self._device.kind,
        )
        return [self._program.module if argument == SERVER_MODULE else argument for argument in arguments]

    def _environment(self) -> dict[str, str]:
        engine = engine_environment(
            self._candidate,
            device_kind=self._device.kind,
            device_ids=self._device.ids,
            cpu_kv_cache_gib=self._cpu_kv_cache_gib,
            cpu_cores=self._device.cpu_cores,
        )
        return {**clean_environment(), "PYTHONUNBUFFERED": "1", **engine, **self._program.environment}

    async def _wait_until_ready(self, base_url: str, began: float, progress: Callable[[str], None]) -> None:
        assert self._process is not None
        said, said_at = "", began
        async with aiohttp.ClientSession(base_url, timeout=aiohttp.ClientTimeout(total=5)) as session:
            while True:
                if self._process.returncode is not None:
                    raise self.failure()
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get("/health") as response:
                        if response.status == 200:
                            return
                now = time.monotonic()
                stage = server_log.progress(self._read_log())
                if now - began > self._start_timeout_s:
                    raise EngineFailed(
                        f"the engine was not ready after {self._start_timeout_s:g} s; it had come as far as: {stage}",
                        server_log.tail(self._read_log()),
                    )
                if stage != said or now - said_at >= NOTE_INTERVAL_S:
                    said, said_at = stage, now
                    progress(f"starting the engine: {stage} ({now - began:.0f} s)")
                await asyncio.sleep(POLL_INTERVAL_S)

    async def _wait_for_empty_device(self) -> None:
        give_up = time.monotonic() + RELEASE_TIMEOUT_S
        while busy := await asyncio.to_thread(processes_on, self._device):
            if time.monotonic() > give_up:
                gpu, pids = next(iter(busy.items()))
                listed = ", ".join(map(str, pids))
                raise EngineFailed(f"GPU {gpu} is not empty: process {listed} computes on it")
            await asyncio.sleep(0.5)

    def _session(self, timeout_s: float) -> aiohttp.ClientSession:
        assert self._endpoint is not None
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        return aiohttp.ClientSession(self._endpoint.base_url, headers=self._endpoint.headers, timeout=timeout)

    def _read_log(self) -> str:
        return server_log.read_from(self._log_path, self._log_offset)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
