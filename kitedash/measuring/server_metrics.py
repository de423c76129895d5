"""What the engine says of itself on /metrics: counters as deltas over a block, gauges as maxima polled during it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

# Product name -> sample name in vLLM's exposition. Sums over all label sets: engines of a data-parallel group add up.
COUNTERS: Mapping[str, str] = {
    "queue_s": "vllm:request_queue_time_seconds_sum",
    "prefill_s": "vllm:request_prefill_time_seconds_sum",
    "decode_s": "vllm:request_decode_time_seconds_sum",
    "inference_s": "vllm:request_inference_time_seconds_sum",
    "finished": "vllm:request_prefill_time_seconds_count",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prompt_tokens_cached_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
}
GAUGES: Mapping[str, str] = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "kv_cache_share": "vllm:kv_cache_usage_perc",
}
# Read once a second during a block, beside the gauges.
SAMPLED = ("prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "preemptions")
_SAMPLED_NAMES: Mapping[str, str] = {**GAUGES, **{name: COUNTERS[name] for name in SAMPLED}}


def _lines_of(samples: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"^({'|'.join(map(re.escape, samples))})(?:{{[^}}]*}})? (\S+)", re.MULTILINE)


_GAUGE_LINES, _SAMPLED_LINES = _lines_of(GAUGES.values()), _lines_of(_SAMPLED_NAMES.values())


@dataclass(frozen=True)
class Snapshot:
    """Values by the names of COUNTERS and GAUGES; what the engine does not report is missing."""

    values: Mapping[str, float]
    block_size: int | None = None
    kv_cache_tokens: int | None = None

    def since(self, before: Snapshot) -> dict[str, float]:
        """Counter deltas. A counter that went back (the engine restarted) raises ValueError."""
        deltas = {name: self.values[name] - before.values.get(name, 0.0) for name in COUNTERS if name in self.values}
        if back := [name for name, delta in deltas.items() if delta < 0]:
            raise ValueError(f"the engine's counter {back[0]} went back: it was restarted during the block")
        return deltas

    @property
    def in_system(self) -> float:
        return self.values.get("running", 0.0) + self.values.get("waiting", 0.0)


def parse(text: str) -> Snapshot:
    """Reads Prometheus text. Raises ValueError where it is none."""
    by_sample = {sample: name for name, sample in (*COUNTERS.items(), *GAUGES.items())}
    values: dict[str, float] = {}
    info: Mapping[str, str] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if name := by_sample.get(sample.name):
                values[name] = values.get(name, 0.0) + sample.value
            elif sample.name == "vllm:cache_config_info":
                info = sample.labels
    return Snapshot(values, _integer(info.get("block_size", "")), _integer(info.get("kv_cache_size_tokens", "")))


def _integer(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def parse_gauges(text: str) -> dict[str, float]:
    """Only GAUGES, by a scan: the full parser costs tens of ms, several times a second that would load the machine
    that is being measured."""
    return _scan(text, _GAUGE_LINES, GAUGES)


def parse_sampled(text: str) -> dict[str, float]:
    """GAUGES and the counters of SAMPLED, by the same scan."""
    return _scan(text, _SAMPLED_LINES, _SAMPLED_NAMES)


def _scan(text: str, lines: re.Pattern[str], samples: Mapping[str, str]) -> dict[str, float]:
    names = {sample: name for name, sample in samples.items()}
    found: dict[str, float] = {}
    for sample, value in lines.findall(text):
        found[names[sample]] = found.get(names[sample], 0.0) + float(value)
    return found


async def fetch_text(session: aiohttp.ClientSession, base_url: str) -> str:
    async with session.get(f"{base_url}/metrics") as response:
        response.raise_for_status()
        return await response.text()


async def snapshot(session: aiohttp.ClientSession, base_url: str) -> Snapshot:
    return parse(await fetch_text(session, base_url))


@dataclass
class Maxima:
    """The largest value of each gauge over the polls, and how many polls there were."""

    values: dict[str, float] = field(default_factory=dict)
    polls: int = 0

    def take(self, gauges: Mapping[str, float]) -> None:
        self.polls += 1
        for name, value in gauges.items():
            self.values[name] = max(value, self.values.get(name, value))


@contextlib.asynccontextmanager
async def polling(
    session: aiohttp.ClientSession,
    base_url: str,
    *,
    interval_s: float,
    watch: Callable[[str, float], Awaitable[None]] | None = None,
) -> AsyncIterator[Maxima]:
    """Polls the gauges while the body runs. A poll that fails is skipped: the block's own requests tell why.

    `watch` gets each text and the moment, of time.perf_counter, halfway between asking and having it.
    """
    maxima = Maxima()

    async def poll() -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                asked = time.perf_counter()
                text = await fetch_text(session, base_url)
                moment = (asked + time.perf_counter()) / 2
                maxima.take(parse_gauges(text))
                if watch is not None:
                    await watch(text, moment)
            await asyncio.sleep(interval_s)

    task = asyncio.create_task(poll())
    try:
        yield maxima
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
