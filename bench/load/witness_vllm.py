"""`vllm bench serve` on a given traffic file, as an independent witness of what KiteDash's client says.

It is `vllm.benchmarks.serve.benchmark` with `self_timed=True`: it then takes each request's own time stamp, so prompts
and due times are the same to the byte. In chat mode it takes the role-only chunk for the first token.
`python -m bench.load.witness_vllm TRAFFIC URL MODEL OUT` writes what `bench.load.fidelity` compares.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

from kitedash.measuring.traffic import Traffic, read


async def vllm_bench(url: str, model: str, traffic: Traffic) -> dict[str, Any]:
    """Its result as it gives it: a request that failed keeps its place with TTFT 0, so it is told by its error."""
    from vllm.benchmarks.datasets import SampleRequest
    from vllm.benchmarks.serve import TaskType, benchmark

    requests = [
        SampleRequest(
            prompt=request.question,
            prompt_len=request.tokens_in,
            expected_output_len=request.tokens_out,
            chat_messages=traffic.messages(request),
            timestamp=request.due_s,
        )
        for request in traffic.requests
    ]
    result: dict[str, Any] = await benchmark(
        task_type=TaskType.GENERATION,
        endpoint_type="openai-chat",
        api_url=f"{url}/v1/chat/completions",
        base_url=url,
        model_id=model,
        model_name=model,
        tokenizer=None,
        input_requests=requests,
        logprobs=None,
        request_rate=float("inf"),
        burstiness=1.0,
        disable_tqdm=True,
        num_warmups=0,
        profile=False,
        selected_percentile_metrics=["ttft"],
        selected_percentiles=[50, 90, 99],
        ignore_eos=True,
        goodput_config_dict={},
        max_concurrency=None,
        lora_modules=None,
        extra_headers=None,
        extra_body={"temperature": 0, "min_tokens": traffic.requests[0].tokens_out},
        ready_check_timeout_sec=0,
        self_timed=True,
    )
    return result


def main() -> None:
    path, url, model, out = sys.argv[1:]
    traffic = read(Path(path))
    import vllm.benchmarks.serve  # noqa: F401 - what importing takes is no part of measuring

    before = _cpu_s()
    result = asyncio.run(vllm_bench(url, model, traffic))
    cpu_s = _cpu_s() - before
    good = [index for index, error in enumerate(result["errors"]) if not error]
    # It does not say when it started; the request that was least late is taken for punctual, which flatters it.
    late = [start - (traffic.requests[index].due_s or 0.0) for index, start in enumerate(result["start_times"])]
    found = {
        "ttft_ms": [result["ttfts"][index] * 1e3 for index in good],
        "tpot_ms": [
            (result["latencies"][index] - result["ttfts"][index]) / (traffic.requests[index].tokens_out - 1) * 1e3
            for index in good
        ],
        "lateness_ms": [(moment - min(late)) * 1e3 for moment in late],
        "sent": len(good),
        "cpu_s": cpu_s,
    }
    Path(out).write_text(json.dumps(found))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
