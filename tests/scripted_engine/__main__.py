"""`python -m tests.scripted_engine --port N [vLLM's arguments]`: start as vLLM would, log lines included."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import uvloop
from aiohttp import web

from tests.scripted_engine.http_api import application
from tests.scripted_engine.script import Script, read_script, refusal


def _log(who: str, text: str) -> None:
    print(f"({who} pid=1) INFO {time.strftime('%m-%d %H:%M:%S')} [scripted.py:1] {text}", flush=True)


def _refuse(sentence: str) -> None:
    """The shape in which vLLM dies: the reason in the engine's traceback, another traceback after it."""
    print(
        "(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:1] EngineCore failed to start.\n"
        "(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:1] Traceback (most recent call last):\n"
        '(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:1]   File "core.py", line 1, in run_engine_core\n'
        f"(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:1] ValueError: {sentence}\n"
        "(APIServer pid=1) Traceback (most recent call last):\n"
        '(APIServer pid=1)   File "api_server.py", line 1, in <module>\n'
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}",
        file=sys.stderr,
        flush=True,
    )
    raise SystemExit(1)


def _announce(script: Script, given: Mapping[str, str]) -> None:
    _log("APIServer", "  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0")
    _log("APIServer", f"non-default args: {dict(given)}")
    _log("EngineCore", f"Initializing a V1 LLM engine (v0.32.0) with config: model='{script.model}'")
    _log("Worker", "Loading weights took 0.01 seconds")
    tokens = script.kv_tokens_named
    concurrency = tokens / script.max_model_len
    _log(
        "EngineCore",
        f"CPU KV cache size: {tokens:,} tokens, Maximum concurrency for {script.max_model_len:,} tokens per request: "
        f"{concurrency:.2f}x",
    )
    _log("EngineCore", "init engine (profile, create kv cache, warmup model) took 0.01 s")


def main() -> None:
    script, given = read_script(sys.argv[1:])
    if script.ignore_terminate:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    children = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) for _ in range(script.child_processes)
    ]
    if sentence := refusal(script, given):
        _refuse(sentence)
    time.sleep(script.start_delay_s)
    _announce(script, given)
    gc.collect()
    gc.freeze()  # what was imported need not be looked through again: that takes longer than a token may be late
    _log("APIServer", f"Starting vLLM server on http://{script.host}:{script.port}")
    try:
        web.run_app(
            application(script, given),
            host=script.host,
            port=script.port,
            print=None,
            access_log=None,
            handle_signals=not script.ignore_terminate,
            shutdown_timeout=0.5,
            handler_cancellation=True,
            loop=uvloop.new_event_loop(),
        )
    finally:
        for child in children:
            child.kill()


if __name__ == "__main__":
    main()
