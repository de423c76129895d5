"""`python -m bench.load.replay FOLDER [--guidellm-python PYTHON]`: one block's traffic through KiteDash's client,
`vllm bench serve` and GuideLLM, in turn, on the real vLLM with the default model; the difference in TTFT per request.
About ten minutes on two quiet cores; status 1 where a claim fails. FOLDER takes the model, the traffic and the log.

The witnesses (bench/load/witness_vllm.py, witness_guidellm.py) get the same prompts and due times. A request's TTFT is
taken from when it was sent, by all three, since `vllm bench serve` knows no due time afterwards. In chat mode that one
takes the role-only chunk for the first token; vLLM sends it right before the first token, so the difference is well
below a millisecond on an idle machine. Every pass starts from a flushed and primed cache, and who comes first changes.

Claims: prompt tokens as written are the engine's own counter's, to the token, and so are the cached ones; each
request's TTFT (median over the rounds) differs from a witness's by at most 5 % in the median over the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import numpy as np

from bench.load.witness_vllm import vllm_bench
from kitedash.domain.experiment import Candidate, LoadPlan, Workload
from kitedash.measuring import load_client, request_table
from kitedash.measuring.device import detect
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.load_stage import measure_block
from kitedash.measuring.model_store import DEFAULT_MODEL, resolve_model
from kitedash.measuring.process import direct_spawn
from kitedash.measuring.server import VllmServer
from kitedash.measuring.traffic import PRIME_QUESTION, Traffic, ensure_traffic, file_name, messages_of, read

OURS = "KiteDash"
WITHIN = 0.05
RATE_PER_S = 1.5
ENGINE_ARGS = {"dtype": "float32", "max-model-len": 1024, "max-num-seqs": 16}
WORKLOAD = Workload(input_tokens=300, shared_prefix_tokens=200, output_tokens=12)
PLAN = LoadPlan(rates_per_s=(RATE_PER_S, 2, 3), blocks=2, block_duration_s=40, request_timeout_s=120, seed=4)


async def flush_and_prime(url: str, model: str, key: str, traffic: Traffic) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session:
        for _ in range(100):
            async with session.post(f"{url}/reset_prefix_cache") as response:
                response.raise_for_status()
                if (await response.json()).get("success", True):
                    break
            await asyncio.sleep(0.1)
        for prefix in traffic.prefixes.values():
            body = {"model": model, "messages": messages_of(prefix, PRIME_QUESTION), "max_completion_tokens": 1}
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                response.raise_for_status()
                await response.read()


async def ours(url: str, model: str, path: Path, timeout_s: float) -> list[float | None]:
    """TTFT from sending, ms, in the file's order; None where the request failed."""
    plan = {"base_url": url, "model": model, "traffic": str(path), "request_timeout_s": timeout_s}
    result = await load_client.measure(plan)
    return [
        None if record["error"] else (record["first_token_s"] - record["sent_s"]) * 1e3 for record in result["records"]
    ]


async def vllm(url: str, model: str, path: Path) -> list[float | None]:
    """The same by `vllm bench serve`; it keeps failed requests with TTFT 0, so they are told by their error."""
    result = await vllm_bench(url, model, read(path))
    return [None if error else ttft * 1e3 for ttft, error in zip(result["ttfts"], result["errors"], strict=True)]


async def guidellm(python: str, url: str, model: str, path: Path, timeout_s: float) -> list[float | None]:
    """The same by GuideLLM, which is another environment's. It leaves requests out without saying which."""
    requests = read(path).requests
    with TemporaryDirectory() as folder:
        out, limit_s = Path(folder) / "found.json", str(timeout_s + max(one.due_s or 0.0 for one in requests))
        script = Path(__file__).parent / "witness_guidellm.py"
        process = await asyncio.create_subprocess_exec(python, script, path, url, model, limit_s, out, stdout=DEVNULL)
        if await process.wait():
            raise SystemExit("GuideLLM ended with an error: see above")
        found = json.loads(out.read_text())
    return by_due([one.due_s or 0.0 for one in requests], found["targeted_s"], found["ttft_ms"])


def by_due(due_s: Sequence[float], targeted_s: Sequence[float], ttft_ms: Sequence[float]) -> list[float | None]:
    """Times of requests in the order of `due_s`, told by when they were to start, on a clock with another zero; None of
    those that are missing. Both are ascending, so one of the first few due moments is that of the first target."""
    if not targeted_s:
        return [None] * len(due_s)

    def places(first: int) -> list[int]:
        moved = np.array(targeted_s) - targeted_s[0] + due_s[first]
        return [int(np.argmin(np.abs(np.array(due_s) - moment))) for moment in moved]

    def apart(first: int) -> float:
        moved = np.array(targeted_s) - targeted_s[0] + due_s[first]
        return float(np.abs(np.array(due_s)[places(first)] - moved).sum())

    best = min(range(len(due_s) - len(targeted_s) + 1), key=apart)
    found: list[float | None] = [None] * len(due_s)
    for place, ttft in zip(places(best), ttft_ms, strict=True):
        found[place] = ttft
    return found


def compare(first: Sequence[float | None], second: Sequence[float | None]) -> dict[str, float]:
    """Per request (second - first) / first: its median, and that of its absolute value; n pairs without a failure."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    shares = [(b - a) / a for a, b in pairs]
    return {
        "n": len(pairs),
        "first_median_ms": statistics.median(a for a, _ in pairs),
        "second_median_ms": statistics.median(b for _, b in pairs),
        "median_difference": statistics.median(shares),
        "median_absolute_difference": statistics.median(map(abs, shares)),
    }


async def replay(
    path: Path, url: str, model: str, key: str, rounds: int, timeout_s: float, guidellm_python: str
) -> list[dict[str, Any]]:
    traffic = read(path)
    for variable in (load_client.KEY_VARIABLE, "OPENAI_API_KEY"):  # KiteDash's own, the witnesses'
        os.environ[variable] = key
    clients: dict[str, Callable[[], Awaitable[list[float | None]]]] = {
        OURS: lambda: ours(url, model, path, timeout_s),
        "vllm bench serve": lambda: vllm(url, model, path),
    }
    if guidellm_python:
        clients["GuideLLM"] = lambda: guidellm(guidellm_python, url, model, path, timeout_s)
    passes: dict[str, list[list[float | None]]] = {name: [] for name in clients}
    results = []
    for number in range(rounds):
        # Who comes first changes, so that a machine that slows down is held against nobody.
        order = list(clients)[number % len(clients) :] + list(clients)[: number % len(clients)]
        for name in order:
            await flush_and_prime(url, model, key, traffic)
            passes[name].append(await clients[name]())
        for name in order:
            if name != OURS:
                found = compare(passes[OURS][-1], passes[name][-1])
                results.append({"round": number, "pair": f"{OURS}, {name}", **found})
        if number:
            # The noise floor: the same client twice. A difference below it says nothing.
            results.append({"round": number, "pair": f"{OURS} twice", **compare(*passes[OURS][-2:])})
    # Each request's median over the rounds first: one burst of other work then moves neither side.
    medians = {name: _by_request(found) for name, found in passes.items()}
    for name in clients:
        if name != OURS:
            results.append({"round": "all", "pair": f"{OURS}, {name}", **compare(medians[OURS], medians[name])})
    return results


def _by_request(rounds: Sequence[Sequence[float | None]]) -> list[float | None]:
    columns = [[value for value in column if value is not None] for column in zip(*rounds, strict=True)]
    return [statistics.median(column) if column else None for column in columns]


async def tokens(endpoint: Endpoint, folder: Path) -> bool:
    """Prints what was written, what each answer reported and what the engine counted over a block; whether they are
    equal."""
    block = await measure_block(
        endpoint,
        workload=WORKLOAD,
        plan=PLAN,
        rate_per_s=RATE_PER_S,
        block=0,
        spawn=direct_spawn,
        work_dir=folder,
    )
    rows = request_table.decode(block.requests_blob)
    counted = block.server_counters
    found = {
        "written": int(rows["tokens_in_expected"].sum()),
        "reported": int(rows["tokens_in"].sum()),
        "counted": int(counted["prompt_tokens"]),
        "cached_reported": int(rows["tokens_cached"].sum()),
        "cached_counted": int(counted["cached_tokens"]),
    }
    print(json.dumps({"requests": len(rows), "block": block.status.value, "tokens": found}), flush=True)
    return found["written"] == found["counted"] == found["reported"] and (
        found["cached_reported"] == found["cached_counted"]
    )


async def run(folder: Path, rounds: int, guidellm_python: str) -> int:
    model = await asyncio.to_thread(resolve_model, DEFAULT_MODEL, models_dir=folder / "models", model_roots=[])
    server = VllmServer(
        candidate=Candidate(name="replay", model=DEFAULT_MODEL, engine_args=ENGINE_ARGS),
        model=model,
        device=detect(("cpu",)),
        spawn=direct_spawn,
        log_path=folder / "vllm.log",
        start_timeout_s=600,
        cpu_kv_cache_gib=1,
    )
    try:
        endpoint = await server.ensure(lambda said: None)
        equal = await tokens(endpoint, folder)
        written = await ensure_traffic(endpoint, workload=WORKLOAD, plan=PLAN, spawn=direct_spawn, work_dir=folder)
        path = written / file_name(RATE_PER_S, 0)
        results = await replay(
            path, endpoint.base_url, endpoint.model, endpoint.api_key, rounds, PLAN.request_timeout_s, guidellm_python
        )
    finally:
        await server.stop()
    for result in results:
        print(json.dumps(result))
    claims = {"prompt and cached tokens are the engine's own counters'": equal} | {
        f"{result['pair']}: {result['median_difference']:+.1%} (median per request, n {result['n']})": (
            abs(result["median_difference"]) <= WITHIN
        )
        for result in results
        if result["round"] == "all"
    }
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'FAILS'}: {claim}")
    return 0 if all(claims.values()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--guidellm-python", default="", help="Python of an environment with requirements-bench.txt")
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(run(folder, asked.rounds, asked.guidellm_python))


if __name__ == "__main__":
    sys.exit(main())
