"""What the scripted engine counts, as Prometheus text under the names that vLLM uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.scripted_engine.script import Script
from tests.scripted_engine.timeline import Times

HISTOGRAMS = (
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
    "time_to_first_token_seconds",
    "e2e_request_latency_seconds",
)
COUNTERS = (
    "prompt_tokens",
    "prompt_tokens_cached",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "num_preemptions",
)


@dataclass
class Counters:
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, 0.0))
    finished: int = 0
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))
    open: dict[int, Times] = field(default_factory=dict)

    def enter(self, key: int, times: Times, tokens_in: int, cached: int, caching: bool) -> None:
        self.open[key] = times
        self.totals["num_preemptions"] += times.preempted
        self.totals["prompt_tokens"] += tokens_in
        self.totals["prompt_tokens_cached"] += cached
        if caching:
            self.totals["prefix_cache_queries"] += tokens_in
            self.totals["prefix_cache_hits"] += cached

    def tokens_in_system(self, block_size: int) -> int:
        return sum(times.blocks for times in self.open.values()) * block_size

    def leave(self, key: int, *, finished: bool, tokens_out: int) -> None:
        times = self.open.pop(key)
        self.totals["generation_tokens"] += tokens_out
        if not finished:
            return
        self.finished += 1
        seconds = {
            "request_queue_time_seconds": times.queue_s,
            "request_prefill_time_seconds": times.prefill_s,
            "request_decode_time_seconds": times.decode_s,
            "request_inference_time_seconds": times.prefill_s + times.decode_s,
            "time_to_first_token_seconds": times.queue_s + times.prefill_s,
            "e2e_request_latency_seconds": times.queue_s + times.prefill_s + times.decode_s,
        }
        for name, value in seconds.items():
            self.sums[name] += value

    def text(self, script: Script, now: float) -> str:
        label = f'{{engine="0",model_name="{script.served_name}"}}'
        running = sum(times.scheduled <= now for times in self.open.values())
        waiting = len(self.open) - running
        blocks = script.kv_cache_tokens // script.block_size - 1
        held = sum(times.blocks for times in self.open.values() if times.scheduled <= now)
        kv_share = held / blocks if script.kv_cache_tokens else running / script.max_num_seqs
        size = f'kv_cache_memory_bytes="{script.kv_cache_memory_bytes or None}"'
        lines = [
            "# TYPE vllm:num_requests_running gauge",
            f"vllm:num_requests_running{label} {running}",
            "# TYPE vllm:num_requests_waiting gauge",
            f"vllm:num_requests_waiting{label} {waiting}",
            "# TYPE vllm:kv_cache_usage_perc gauge",
            f"vllm:kv_cache_usage_perc{label} {min(1.0, kv_share)}",
            "# TYPE vllm:cache_config_info gauge",
            f'vllm:cache_config_info{{block_size="{script.block_size}",'
            f'enable_prefix_caching="{script.enable_prefix_caching}",engine="0",{size},'
            f'kv_cache_size_tokens="{script.kv_tokens_named}"}} 1.0',
            "# TYPE vllm:request_success counter",
            f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="{script.served_name}"}}'
            f" {self.finished}",
        ]
        for name, total in self.totals.items():
            lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}_total{label} {total}"]
        for name, total in self.sums.items():
            lines += [
                f"# TYPE vllm:{name} histogram",
                f'vllm:{name}_bucket{{engine="0",le="+Inf",model_name="{script.served_name}"}} {self.finished}',
                f"vllm:{name}_count{label} {self.finished}",
                f"vllm:{name}_sum{label} {total!r}",
            ]
        return "\n".join(lines) + "\n"
