"""`python -m bench.load.trace_replay`: 10,000 recorded requests, replayed with each due time kept.

Makes a trace (bursts, lengths of every size, sessions, prefixes), imports it as `kitedash traces import` does, writes
the block's traffic from what was stored, and sends it with the product's load client to a scripted engine in a process
of its own. Says how many were sent, whether each due time is the recorded one, and how late they were; a session's
later requests may have waited for the one before them. Ends with status 1 where a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from bench.load.fidelity import scripted_engine
from kitedash.domain.trace import parse
from kitedash.measuring.traffic import Request, file_name, read

TOKENS_OUT = (4, 20)


def recorded(count: int, rate_per_s: float, seed: int) -> str:
    """JSON Lines: gaps of squared coefficient of variation 2, a tenth of the requests in sessions of five."""
    random = Random(seed)
    lines, at = [], 0.0
    for number in range(count):
        line = {
            "timestamp": round(at, 6),
            "input_length": min(1_500, max(80, round(random.lognormvariate(5.5, 0.6)))),
            "output_length": random.randint(*TOKENS_OUT),
            "prefix_id": f"p{random.randrange(8)}",
        }
        if number % 50 < 5:
            line["session_id"] = f"s{number // 50}"
        lines.append(json.dumps(line))
        at += random.gammavariate(0.5, 2 / rate_per_s)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=120.0, help="requests/s at which it was recorded")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, help="of the client; by default as the product chooses")
    parser.add_argument("--most-p99-ms", type=float, default=10.0, help="lateness that is claimed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KITEDASH_DATA_DIR"] = folder
        return replay(Path(folder), arguments)


def replay(folder: Path, arguments: argparse.Namespace) -> int:
    from kitedash.domain.experiment import LoadPlan, Workload
    from kitedash.measuring.model_store import DEFAULT_MODEL, unpack_default_model
    from kitedash.measuring.traffic_writing import Prefixes, block_lines, load_writer
    from kitedash.services.actor import LOCAL
    from kitedash.services.traces import export_trace, import_trace

    content = recorded(arguments.requests, arguments.rate, arguments.seed).encode()
    head = import_trace(LOCAL, "recorded", content, source="recorded.jsonl")
    trace = parse(export_trace("recorded"))
    original = [json.loads(line) for line in content.splitlines()]
    rate = head.rate_per_s
    plan = LoadPlan(rates_per_s=(rate / 4, rate / 2, rate), blocks=2, block_duration_s=trace.period_s)
    workload = Workload(trace="recorded", shared_prefix_tokens=64)
    began = time.monotonic()
    writer = load_writer(unpack_default_model(folder / "models"))
    path = folder / file_name(rate, 0)
    with path.open("w", encoding="utf-8") as file:
        for line in block_lines(writer, Prefixes(writer, workload), workload, plan, rate, 0, trace):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{head.n_requests:,} requests in {head.span_s:.1f} s, {rate:.1f}/s, dispersion {trace.dispersion:.1f}")
    print(f"{DEFAULT_MODEL}'s prompts: {path.stat().st_size / 1e6:.0f} MB in {time.monotonic() - began:.0f} s")
    traffic = read(path)
    with scripted_engine() as url:
        order = {"base_url": url, "model": "scripted", "traffic": str(path), "request_timeout_s": 30.0}
        (folder / "plan.json").write_text(json.dumps(order | {"processes": arguments.processes}))
        argv = [sys.executable, "-m", "kitedash.measuring.load_client", str(folder / "plan.json"), str(folder / "out")]
        subprocess.run(argv, check=True)
    result = json.loads((folder / "out").read_text())
    records = result["records"]
    column = {key: np.array([record[key] for record in records], dtype=float) for key in ("due_s", "sent_s", "ended_s")}
    recorded_s = np.array([line["timestamp"] for line in original])
    before = earlier_end_s(traffic.requests, column["ended_s"])
    kept = np.abs(column["due_s"] - np.maximum(recorded_s, before)) < 1e-6
    waited = before > recorded_s
    late_ms = (column["sent_s"] - column["due_s"]) * 1e3
    p50, p90, p99 = np.percentile(late_ms, [50, 90, 99])
    print(
        f"sent {np.sum(np.isfinite(column['sent_s'])):,}, failed {sum(bool(record['error']) for record in records):,}"
    )
    print(
        f"due times kept: {np.sum(kept):,} of {len(records):,}; of these {np.sum(waited):,} waited for the request "
        "before them in their session"
    )
    print(f"lateness P50 {p50:.2f}, P90 {p90:.2f}, P99 {p99:.2f}, largest {late_ms.max():.2f} ms")
    print(f"client: {result['processes']} processes, {result['cpu_s'] / result['wall_s']:.2f} of a core")
    claims = {
        "every request is sent and answered": bool(np.all(np.isfinite(late_ms)))
        and not any(record["error"] for record in records),
        "each due time is the recorded one": bool(np.all(kept)),
        f"P99 lateness at most {arguments.most_p99_ms:g} ms": bool(p99 <= arguments.most_p99_ms),
    }
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
    return 0 if all(claims.values()) else 1


def earlier_end_s(requests: Sequence[Request], ended_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """When the request before each in its session ended; -inf where there is none."""
    last: dict[int, float] = {}
    found = np.full(len(ended_s), -np.inf)
    for index, request in enumerate(requests):
        if request.session is not None:
            found[index] = last.get(request.session, -np.inf)
            last[request.session] = ended_s[index]
    return found


if __name__ == "__main__":
    sys.exit(main())
