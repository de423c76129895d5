"""`python -m bench.load.replay TRAFFIC --url URL --model NAME`: one block's traffic through KiteDash's client and
through `vllm bench serve`, in turn, on the same server; the difference in TTFT per request. The key is in VLLM_API_KEY.

The witness (bench/load/witness_vllm.py) gets the same prompts and due times, to the byte. It knows no due time
afterwards, so both are compared from when they sent. In chat mode it takes the role-only chunk for the first token;
vLLM sends that one right before the first token, so the difference is well below a millisecond on an idle machine.
Every pass starts from a flushed and primed cache.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench.load.witness_vllm import vllm_bench
from kitedash.measuring import load_client
from kitedash.measuring.traffic import PRIME_QUESTION, Traffic, messages_of, read


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


async def witness(url: str, model: str, traffic: Traffic) -> list[float | None]:
    """The same by `vllm bench serve`; it keeps failed requests with TTFT 0, so they are told by their error."""
    result = await vllm_bench(url, model, traffic)
    return [None if error else ttft * 1e3 for ttft, error in zip(result["ttfts"], result["errors"], strict=True)]


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


async def replay(path: Path, url: str, model: str, rounds: int, timeout_s: float) -> list[dict[str, Any]]:
    traffic = read(path)
    key = os.environ.get("VLLM_API_KEY", "")
    os.environ[load_client.KEY_VARIABLE] = os.environ["OPENAI_API_KEY"] = key
    before: list[float | None] | None = None
    passes: dict[str, list[list[float | None]]] = {"kitedash": [], "witness": []}
    results = []
    for number in range(rounds):
        await flush_and_prime(url, model, key, traffic)
        mine = await ours(url, model, path, timeout_s)
        if before is not None:
            # The noise floor: the same client twice. A difference below it says nothing.
            results.append({"round": number, "pair": "kitedash twice", **compare(before, mine)})
        before = mine
        await flush_and_prime(url, model, key, traffic)
        theirs = await witness(url, model, traffic)
        results.append({"round": number, "pair": "kitedash, vllm bench serve", **compare(mine, theirs)})
        passes["kitedash"].append(mine)
        passes["witness"].append(theirs)
    # Each request's median over the rounds first: one burst of other work then moves neither side.
    medians = [_by_request(passes[name]) for name in ("kitedash", "witness")]
    results.append({"round": "all", "pair": "kitedash, vllm bench serve", **compare(*medians)})
    return results


def _by_request(rounds: Sequence[Sequence[float | None]]) -> list[float | None]:
    columns = [[value for value in column if value is not None] for column in zip(*rounds, strict=True)]
    return [statistics.median(column) if column else None for column in columns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "traffic", type=Path, help="a block's traffic file (rate-R-block-B.jsonl in a run's work folder)"
    )
    parser.add_argument("--url", required=True, help="such as http://127.0.0.1:8000")
    parser.add_argument("--model", required=True, help="the name that the server serves the model by")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout-s", type=float, default=120.0)
    arguments = parser.parse_args()
    results = asyncio.run(
        replay(arguments.traffic, arguments.url.rstrip("/"), arguments.model, arguments.rounds, arguments.timeout_s)
    )
    for result in results:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
