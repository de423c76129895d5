"""vLLM's own verdict on candidates, before a server is started: its argument parser, and with a model at hand its
configuration, which knows what depends on the model (context length, attention heads, experts).

One process answers for all candidates, since importing vLLM is what takes the time (10 to 30 s).
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kitedash.domain.command import SERVER_MODULE, engine_argv, engine_environment
from kitedash.domain.experiment import Candidate
from kitedash.measuring.process import clean_environment

TIMEOUT_S = 180.0
_PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
_answers: dict[tuple[str, ...], str | None] = {}  # by argument vector: vLLM does not change while a process lives
_log = logging.getLogger(__name__)


def parser_refusals(
    candidates: Sequence[Candidate], *, device_kind: str, model_dir: str | None = None, timeout_s: float = TIMEOUT_S
) -> tuple[str | None, ...]:
    """For each candidate vLLM's message as one sentence, or None where vLLM accepts it, or could not be asked: it is
    not installed, or did not answer in time (which is logged). Blocking, 10 to 30 s the first time.

    With `model_dir` (a local folder) vLLM also builds its configuration, on this machine's device.
    """
    if importlib.util.find_spec("vllm") is None:
        return (None,) * len(candidates)
    argvs = [_argv(candidate, device_kind, model_dir) for candidate in candidates]
    keys = [(*argv, f"configure={model_dir is not None}") for argv in argvs]
    missing = {key: argv for key, argv in zip(keys, argvs, strict=True) if key not in _answers}
    if missing:
        answers = _ask(list(missing.values()), configure=model_dir is not None, kind=device_kind, timeout_s=timeout_s)
        if answers is None:
            return tuple(_answers.get(key) for key in keys)
        _answers.update(
            (key, None if message is None else one_sentence(message))
            for key, message in zip(missing, answers, strict=True)
        )
    return tuple(_answers[key] for key in keys)


def one_sentence(message: str) -> str:
    """The first sentence of a message on one line, without its full stop."""
    line = " ".join(message.split())
    first = re.split(r"(?<=[.!])\s+(?=[A-Z])", line, maxsplit=1)[0].rstrip(".")
    return first if len(first) <= 300 else first[:297] + "..."


def _argv(candidate: Candidate, device_kind: str, model_dir: str | None) -> list[str]:
    argv = engine_argv(
        candidate,
        model_dir=model_dir or "model",
        served_name="model",
        host="127.0.0.1",
        port=8_000,
        device_kind=device_kind,
    )
    return argv[argv.index(SERVER_MODULE) + 1 :]


def _ask(argvs: list[list[str]], *, configure: bool, kind: str, timeout_s: float) -> list[str | None] | None:
    neutral = Candidate(name="check", model="model")
    engine = engine_environment(neutral, device_kind=kind, device_ids=(), cpu_kv_cache_gib=1, cpu_cores="")
    engine.pop("CUDA_VISIBLE_DEVICES", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "kitedash.measuring.vllm_parser"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_PROJECT_ROOT,
        env={**clean_environment(), **engine},
        text=True,
        start_new_session=True,  # vLLM may start processes to look at a model's class: they go with it
    )
    try:
        out, err = process.communicate(json.dumps({"argvs": argvs, "configure": configure}), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        _log.warning("vLLM's parser did not answer within %.0f s; its check is left out", timeout_s)
        return None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if process.returncode != 0:
        _log.warning("vLLM's parser could not be asked (status %s): %s", process.returncode, err[-500:])
        return None
    found: list[str | None] = json.loads(out)
    return found
