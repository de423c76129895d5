"""`python -m bench.load.fidelity --guidellm-python PYTHON`: how true KiteDash's load client is, beside two witnesses.

A scripted engine gives the first token after 200 ms and one each 10 ms from then on, 16 tokens, whatever comes: what a
client says beyond that is its own doing, the engine's or the machine's. The same traffic (Poisson) is driven by
KiteDash's client, `vllm bench serve` and GuideLLM, one after the other in changing order, several times; each number
is the median over these repeats. The engine's own delay is in everyone's numbers.

KiteDash's TTFT counts from the due moment, as it does in the product. A witness's counts from when it sent, as it
reports it: its lateness is beside it and not in it, which is to its advantage. Ends with one line for each claim,
and with status 1 where one does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kitedash.domain.schedule import due_times_s
from kitedash.measuring.traffic import FORMAT

ROOT = Path(__file__).resolve().parents[2]
FIRST_MS, TOKEN_MS, TOKENS_OUT = 200.0, 10.0, 16
TRUTH_MS = {"TTFT": FIRST_MS, "TPOT": TOKEN_MS}
QUANTILES = (50, 90, 99)
OURS, VLLM, GUIDELLM = "KiteDash", "vllm bench serve", "GuideLLM"
MODEL = "scripted"

MOST_P99_MS = 10.0
CLAIMED_UP_TO_PER_S = 200.0
SHARE_OF_THE_WITNESS = 1 / 3
SAME_SHARE = 0.001  # errors that differ by less than this share of the truth are the same


@dataclass(frozen=True)
class Pass:
    """What one client said about one traffic file."""

    ttft_ms: Sequence[float]
    tpot_ms: Sequence[float]
    lateness_ms: Sequence[float]
    sent: int  # requests that came to a right end
    due: int
    cpu_s: float
    processes: int = 1

    def error_ms(self, metric: str, quantile: int) -> float:
        values = self.ttft_ms if metric == "TTFT" else self.tpot_ms
        return abs(float(np.percentile(values, quantile)) - TRUTH_MS[metric]) if len(values) else float("inf")

    def request_error_ms(self, quantile: int) -> float:
        """Of the single requests' TPOT. A percentile can come out right where the requests are not: a client that is
        late with every first token says less for all of them, which makes up for those that really took longer."""
        errors = np.abs(np.array(self.tpot_ms) - TOKEN_MS)
        return float(np.percentile(errors, quantile)) if len(errors) else float("inf")


@dataclass
class Cell:
    """All passes of one client at one rate."""

    passes: list[Pass] = field(default_factory=list)

    def error_ms(self, metric: str, quantile: int) -> float:
        return statistics.median(one.error_ms(metric, quantile) for one in self.passes)

    def request_error_ms(self, quantile: int) -> float:
        return statistics.median(one.request_error_ms(quantile) for one in self.passes)

    def lateness_ms(self, quantile: int) -> float:
        return statistics.median(float(np.percentile(one.lateness_ms, quantile)) for one in self.passes)

    @property
    def sent(self) -> int:
        return sum(one.sent for one in self.passes)

    @property
    def due(self) -> int:
        return sum(one.due for one in self.passes)

    @property
    def cpu_s(self) -> float:
        return statistics.median(one.cpu_s for one in self.passes)


Cells = dict[tuple[float, str], Cell]


def write_traffic(path: Path, rate_per_s: float, seconds: float, repeat: int) -> int:
    """The same for every client; another draw each repeat."""
    due = due_times_s(seed=1, rate_per_s=rate_per_s, block=repeat, duration_s=seconds)
    head = {
        "format": FORMAT,
        "rate_per_s": rate_per_s,
        "block": repeat,
        "seed": 1,
        "duration_s": seconds,
        "prefixes": {"shared": "You answer questions about this repository."},
    }
    lines = [
        {
            "index": index,
            "due_s": moment,
            "prefix": "shared",
            "question": f"Question {index}: where is it decided?",
            "tokens_in": 16,
            "tokens_out": TOKENS_OUT,
        }
        for index, moment in enumerate(due)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in [head, *lines]))
    return len(due)


@contextlib.contextmanager
def scripted_engine() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = ["--first-token-ms", str(FIRST_MS), "--token-ms", str(TOKEN_MS), "--max-num-seqs", "100000"]
    argv = [sys.executable, "-m", "tests.scripted_engine", "--port", str(port), *script]
    engine = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health"):
                break
            time.sleep(0.1)
        yield url
    finally:
        engine.terminate()
        engine.wait()


def drive(client: str, traffic: Path, due: int, url: str, seconds: float, guidellm_python: str) -> Pass:
    """One client in a process of its own. Raises CalledProcessError with its output where it breaks down."""
    out = traffic.with_suffix(".out.json")
    out.unlink(missing_ok=True)
    if client == OURS:
        return drive_ours(traffic, due, url, None)
    if client == VLLM:
        argv = [sys.executable, "-m", "bench.load.witness_vllm", str(traffic), url, MODEL, str(out)]
    else:
        # What it has not sent long after the last due moment it will not be asked to send.
        script, limit = ROOT / "bench/load/witness_guidellm.py", str(seconds + 15)
        argv = [guidellm_python, str(script), str(traffic), url, MODEL, limit, str(out)]
    log = traffic.with_suffix(".log")
    with log.open("w") as output:
        status = subprocess.run(argv, cwd=ROOT, stdout=output, stderr=output, env=environment()).returncode
    if status:
        raise SystemExit(f"{client} ended with status {status}:\n{log.read_text()[-2_000:]}")
    found = json.loads(out.read_text())
    found.pop("targeted_s", None)  # GuideLLM's, for `bench.load.replay` alone
    return Pass(**found, due=due)


def drive_ours(traffic: Path, due: int, url: str, processes: int | None) -> Pass:
    plan, out = traffic.with_suffix(".plan.json"), traffic.with_suffix(".out.json")
    order = {"base_url": url, "model": MODEL, "traffic": str(traffic), "request_timeout_s": 60, "processes": processes}
    plan.write_text(json.dumps(order))
    argv = [sys.executable, "-m", "kitedash.measuring.load_client", str(plan), str(out)]
    subprocess.run(argv, cwd=ROOT, check=True, env=environment())
    result = json.loads(out.read_text())
    good = [record for record in result["records"] if not record["error"]]
    return Pass(
        ttft_ms=[(one["first_token_s"] - one["due_s"]) * 1e3 for one in good],
        tpot_ms=[(one["last_token_s"] - one["first_token_s"]) / (TOKENS_OUT - 1) * 1e3 for one in good],
        lateness_ms=[(one["sent_s"] - one["due_s"]) * 1e3 for one in result["records"] if one["sent_s"] is not None],
        sent=len(good),
        due=due,
        cpu_s=result["cpu_s"],
        processes=result["processes"],
    )


def environment() -> dict[str, str]:
    """No hub is asked for anything: neither client needs a tokenizer here."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none"}


def compare(arguments: argparse.Namespace, folder: Path) -> Cells:
    clients = [OURS, VLLM, *([GUIDELLM] if arguments.guidellm_python else [])]
    cells: Cells = {}
    for repeat in range(arguments.repeats):
        for rate in arguments.rates:
            path = folder / f"rate-{rate}-{repeat}.jsonl"
            due = write_traffic(path, rate, arguments.seconds, repeat)
            turn = repeat % len(clients)
            for client in clients[turn:] + clients[:turn]:
                with scripted_engine() as url:
                    one = drive(client, path, due, url, arguments.seconds, arguments.guidellm_python)
                cells.setdefault((rate, client), Cell()).passes.append(one)
                say_pass(rate, client, repeat, one)
    return cells


def push_further(arguments: argparse.Namespace, folder: Path) -> Cells:
    """KiteDash's client alone at rates beyond the comparison: one process, then as many as it chooses itself."""
    cells: Cells = {}
    for repeat in range(arguments.repeats):
        for rate in arguments.more:
            path = folder / f"rate-{rate}-{repeat}.jsonl"
            due = write_traffic(path, rate, arguments.seconds, repeat)
            for processes in (1, None):
                with scripted_engine() as url:
                    one = drive_ours(path, due, url, processes)
                name = f"{OURS}, {one.processes} process{'es' if one.processes > 1 else ''}"
                cells.setdefault((rate, name), Cell()).passes.append(one)
                say_pass(rate, name, repeat, one)
    return cells


def say_pass(rate: float, client: str, repeat: int, one: Pass) -> None:
    load = os.getloadavg()[0]
    ttft = " / ".join(f"{one.error_ms('TTFT', quantile):.2f}" for quantile in QUANTILES)
    print(
        f"# {rate:g}/s, {client}, repeat {repeat}: TTFT error {ttft} ms, load average {load:.1f}",
        file=sys.stderr,
        flush=True,
    )


def table(cells: Cells) -> str:
    lines = [
        "| requests/s | client | TTFT error P50 / P90 / P99, ms | TPOT error P50 / P90 / P99, ms "
        "| a request's TPOT error P50 / P90 / P99, ms | lateness P50 / P90 / P99, ms | right / due | client CPU, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (rate, client), cell in sorted(cells.items(), key=lambda item: item[0][0]):
        ttft = " / ".join(f"{cell.error_ms('TTFT', quantile):.2f}" for quantile in QUANTILES)
        tpot = " / ".join(f"{cell.error_ms('TPOT', quantile):.3f}" for quantile in QUANTILES)
        single = " / ".join(f"{cell.request_error_ms(quantile):.3f}" for quantile in QUANTILES)
        late = " / ".join(f"{cell.lateness_ms(quantile):.2f}" for quantile in QUANTILES)
        lines.append(
            f"| {rate:g} | {client} | {ttft} | {tpot} | {single} | {late} "
            f"| {cell.sent:,} / {cell.due:,} | {cell.cpu_s:.2f} |"
        )
    return "\n".join(lines)


def claims(cells: Cells) -> list[tuple[bool, str]]:
    """Each claim with whether it holds, worst cell named."""
    found: list[tuple[bool, str]] = []
    rates = sorted({rate for rate, _ in cells})
    witnesses = sorted({client for _, client in cells if not client.startswith(OURS)})
    for (rate, client), cell in cells.items():
        if client.startswith(OURS):
            found.append((cell.sent == cell.due, f"{rate:g}/s, {client}: {cell.sent:,} of {cell.due:,} requests sent"))
    for rate in rates:
        ours = cells.get((rate, OURS))
        if ours is None or rate > CLAIMED_UP_TO_PER_S:
            continue
        p99 = ours.error_ms("TTFT", 99)
        found.append((p99 <= MOST_P99_MS, f"{rate:g}/s: TTFT P99 error {p99:.2f} ms, at most {MOST_P99_MS:g}"))
        for metric in TRUTH_MS if witnesses else ():
            for quantile in QUANTILES:
                mine = ours.error_ms(metric, quantile)
                theirs, who = min((cells[rate, name].error_ms(metric, quantile), name) for name in witnesses)
                if (rate, metric, quantile) == (CLAIMED_UP_TO_PER_S, "TTFT", 99):
                    bound, words = theirs * SHARE_OF_THE_WITNESS, "at most a third of"
                else:
                    bound, words = theirs + SAME_SHARE * TRUTH_MS[metric], "no more than"
                found.append(
                    (
                        mine <= bound,
                        f"{rate:g}/s: {metric} P{quantile} error {mine:.3f} ms, {words} {who}'s {theirs:.3f}",
                    )
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[10, 50, 100, 200], help="requests/s, compared")
    parser.add_argument("--more", type=float, nargs="*", default=[300, 500], help="requests/s, KiteDash alone")
    parser.add_argument("--seconds", type=float, default=20, help="length of each pass")
    parser.add_argument("--repeats", type=int, default=3, help="passes of each client at each rate")
    parser.add_argument("--guidellm-python", default="", help="Python of an environment with requirements-bench.txt")
    arguments = parser.parse_args()
    if not arguments.guidellm_python:
        print("GuideLLM is left out: give --guidellm-python.", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="kitedash-fidelity-") as name:
        before = os.getloadavg()
        cells = compare(arguments, Path(name)) | push_further(arguments, Path(name))
    print(
        f"First token {FIRST_MS:g} ms, {TOKEN_MS:g} ms a token, {TOKENS_OUT} tokens, Poisson, {arguments.seconds:g} s "
        f"a pass, medians over {arguments.repeats} repeats, {os.cpu_count()} CPUs, load average {before[0]:.1f} before "
        f"and {os.getloadavg()[0]:.1f} after. GuideLLM's CPU has its workers' start in it.\n"
    )
    print(table(cells) + "\n")
    checked = claims(cells)
    for holds, sentence in checked:
        print(f"{'holds' if holds else 'FAILS'}: {sentence}")
    sys.exit(0 if all(holds for holds, _ in checked) else 1)


if __name__ == "__main__":
    main()
