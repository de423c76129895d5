"""GuideLLM on a given traffic file, as an independent witness of what KiteDash's client says.

`PYTHON bench/load/witness_guidellm.py TRAFFIC URL MODEL SECONDS OUT` with the Python of an environment that has
requirements-bench.txt, hence no import of KiteDash. It replays the same due times (its profile "replay", one worker),
and keeps its own records: request start, first token, last token, and when the request was to start.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

os.environ["GUIDELLM__MAX_WORKER_PROCESSES"] = "1"


async def replayed(rows: Path, url: str, model: str, count: int, seconds: float, tokens_out: int) -> list[Any]:
    from guidellm.benchmark import benchmark_generative_text
    from guidellm.schemas.benchmark import BenchmarkScenario

    scenario = BenchmarkScenario.create(
        scenario=None,
        spec={
            "backend": {
                "kind": "openai_http",
                "target": url,
                "model": model,
                "http2": False,
                "api_key": os.environ.get("OPENAI_API_KEY") or None,
                "extras": {"body": {"temperature": 0, "ignore_eos": True, "min_tokens": tokens_out}},
            },
            "profile": {"kind": "replay"},
            "constraints": [
                {"kind": "max_requests", "count": count},
                {"kind": "max_duration", "seconds": seconds},
            ],
            "data": [{"kind": "json_file", "path": str(rows)}],
            "outputs": [],
        },
    )
    report, _ = await benchmark_generative_text(scenario, progress=False)
    return list(report.benchmarks[0].requests.successful)


def main() -> None:
    path, url, model, seconds, out = sys.argv[1:]
    head, *requests = [json.loads(line) for line in Path(path).read_text().splitlines()]
    rows = Path(out).with_suffix(".rows.jsonl")
    rows.write_text(
        "".join(
            json.dumps(
                {
                    "system_prompt": head["prefixes"][request["prefix"]],
                    "prompt": request["question"],
                    "output_tokens_count": request["tokens_out"],
                    "relative_timestamp": request["due_s"],
                }
            )
            + "\n"
            for request in requests
        )
    )
    import guidellm.benchmark  # noqa: F401 - what importing takes is no part of measuring

    before = _cpu_s()
    tokens_out = requests[0]["tokens_out"]
    records = asyncio.run(replayed(rows, url, model, len(requests), float(seconds), tokens_out))
    # In the file's order. A record keeps no number of its row, only when it was to start.
    times = sorted((record.info.timings for record in records), key=lambda time: time.targeted_start)
    found = {
        "ttft_ms": [(time.first_token_iteration - time.request_start) * 1e3 for time in times],
        "tpot_ms": [
            (time.last_token_iteration - time.first_token_iteration) / (tokens_out - 1) * 1e3 for time in times
        ],
        "lateness_ms": [(time.request_start - time.targeted_start) * 1e3 for time in times],
        "targeted_s": [time.targeted_start for time in times],
        "sent": len(records),
        "cpu_s": _cpu_s() - before,
    }
    Path(out).write_text(json.dumps(found))


def _cpu_s() -> float:
    """Of this process and of its ended workers."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
