"""How a candidate becomes a vLLM server: argument vector and environment. No shell, no free-form flags, no key.

The server is started by module, which works in vLLM's CUDA and CPU builds alike. Candidates of one experiment, and
the same candidate on a CPU and on a GPU, differ in nothing but their own settings and what the device demands.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from kitedash.domain.engine_args import VLLM_QUANTIZATION
from kitedash.domain.experiment import Candidate

SERVER_MODULE = "vllm.entrypoints.openai.api_server"
CPU = "cpu"

_MEASURED = (
    "--enable-per-request-metrics",  # queue, engine TTFT and generation time of each request
    "--enable-prompt-tokens-details",  # cached tokens of each request
    "--disable-uvicorn-access-log",  # a log line a request costs time that would be measured
)
_DECIDES_COMPILATION = ("enforce-eager", "optimization-level")
_SIZES_KV_CACHE = ("kv-cache-memory-bytes", "gpu-memory-utilization")


def engine_argv(
    candidate: Candidate, *, model_dir: str, served_name: str, host: str, port: int, device_kind: str
) -> list[str]:
    """What follows `python`. The key is not in it: it travels in the environment as VLLM_API_KEY.

    On a CPU --enforce-eager is added unless the candidate decides about compilation, which takes minutes there.
    """
    argv = ["-m", SERVER_MODULE, "--model", model_dir, "--served-model-name", served_name]
    argv += ["--host", host, "--port", str(port), *_MEASURED]
    if device_kind == CPU and not any(name in candidate.engine_args for name in _DECIDES_COMPILATION):
        argv.append("--enforce-eager")
    for name, value in candidate.engine_args.items():
        flag = "quantization" if name == VLLM_QUANTIZATION else name
        if isinstance(value, bool):
            argv.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            argv += [f"--{flag}", str(value)]
    return argv


def engine_environment(
    candidate: Candidate, *, device_kind: str, device_ids: Sequence[str], cpu_kv_cache_gib: float, cpu_cores: str
) -> dict[str, str]:
    """The variables that KiteDash sets for the engine, secrets left out; the candidate's own come last and win.

    `cpu_cores` is a list such as "0-1" ("": vLLM chooses). `cpu_kv_cache_gib` is cut to whole GiB, at least 1,
    because vLLM reads an integer (vllm/platforms/cpu.py).
    """
    environment = {
        "DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",  # the model is a local folder by now: nothing is fetched while measuring
        "VLLM_SERVER_DEV_MODE": "1",  # the call that flushes the prefix cache; the server listens on loopback only
    }
    if device_kind == CPU:
        if not any(name in candidate.engine_args for name in _SIZES_KV_CACHE):  # the variable would override them
            environment["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, int(cpu_kv_cache_gib)))
        if cpu_cores:
            environment["VLLM_CPU_OMP_THREADS_BIND"] = cpu_cores
    else:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(device_ids)
    return environment | candidate.environment


def shell_line(argv: Sequence[str], environment: Mapping[str, str], *, placeholders: bool = False) -> str:
    """The command as one quoted line for a POSIX shell, environment first, broken before each flag. For people to copy:
    KiteDash itself never goes through a shell. `argv` may or may not begin with the program. `placeholders`: what
    stands in <angle brackets> is not known yet, and left as it is."""

    def quoted(word: str) -> str:
        return word if placeholders and word.startswith("<") and word.endswith(">") else shlex.quote(word)

    names_are_plain = all(name.isidentifier() and name.isascii() for name in environment)
    prefix = [] if names_are_plain else ["env"]
    for name, value in environment.items():
        prefix.append(f"{name}={quoted(value)}" if names_are_plain else shlex.quote(f"{name}={value}"))
    words = list(argv) if argv and not argv[0].startswith("-") else ["python", *argv]
    lines = [" ".join(part) for part in (prefix,) if part]
    line: list[str] = []
    for word in words:
        if word.startswith("--") and line:
            lines.append(" ".join(line))
            line = []
        line.append(quoted(word))
    return " \\\n  ".join([*lines, " ".join(line)])
