"""The knobs of the scripted engine: `--first-token-ms 200` or SCRIPTED_ENGINE='{"first_token_ms": 200}'."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

VARIABLE = "SCRIPTED_ENGINE"


@dataclass(frozen=True)
class Script:
    """Times in ms. What vLLM would also take carries vLLM's name; everything else is the script."""

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str = ""
    model: str = ""
    served_model_name: str = ""
    max_num_seqs: int = 128
    max_model_len: int = 2048
    block_size: int = 16
    enable_prefix_caching: bool = True
    kv_cache_tokens: int = 0  # of running requests at once, in whole blocks; 0: no limit, and 93,184 are named
    kv_cache_memory_bytes: int = 0  # what it names as the size of the KV cache; 0: it names none

    start_delay_s: float = 0.0
    first_token_ms: float = 20.0  # from being scheduled to the first token
    token_ms: float = 1.0
    computed_token_ms: float = 0.0  # added to the first token per prompt token that the prefix cache lacks
    front_end_ms: float = 0.0  # spent before the engine sees the request
    count_tokens: bool = True  # by the model's tokenizer where `model` is a folder that has one
    answer: str = "yes"
    answers_file: str = ""  # JSON object: the first key found in the last message decides the answer
    ignore_prefix_resets: bool = False  # a cache that stays warm although it was told to be flushed
    role_chunk_early_ms: float = 0.0  # the role-only chunk comes so long before the first token

    fail_every: int = 0  # every n-th generation request fails with `fail_status`
    fail_status: int = 500
    empty_every: int = 0  # every n-th one ends at once without a token
    stall_every: int = 0  # every n-th one stops for good after `stall_after_tokens`
    stall_after_tokens: int = 1
    die_after: int = 0  # the process kills itself at the n-th generation request
    die_at_tokens: int = 0  # it runs out of memory when the requests in it have so many tokens
    refuse_to_start: str = ""  # prints a traceback ending in this sentence and exits 1
    refuse_if: dict[str, Any] = field(default_factory=dict)  # {"max-num-seqs": 7}: refuses when an argument is that
    child_processes: int = 0  # sleeping children, as vLLM's engine core and workers are
    ignore_terminate: bool = False  # does not end on SIGTERM

    @property
    def kv_tokens_named(self) -> int:
        return self.kv_cache_tokens or 93_184

    @property
    def served_name(self) -> str:
        return self.served_model_name or self.model or "scripted"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.scripted_engine", allow_abbrev=False)
    for knob in fields(Script):
        flag = "--" + knob.name.replace("_", "-")
        if knob.type == "bool":
            parser.add_argument(flag, dest=knob.name, action=argparse.BooleanOptionalAction, default=None)
        elif knob.name == "refuse_if":
            parser.add_argument(flag, dest=knob.name, type=json.loads, default=None)
        else:
            kind = {"int": int, "float": float, "str": str}[str(knob.type)]
            parser.add_argument(flag, dest=knob.name, type=kind, default=None)
    return parser


def read_script(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> tuple[Script, dict[str, str]]:
    """The script and the arguments as given (name -> text), the latter for `refuse_if` and /server_info.

    Arguments win over the variable; unknown arguments (vLLM's own) are ignored.
    """
    parsed, unknown = _parser().parse_known_args(argv)
    values = {**json.loads(environment.get(VARIABLE, "{}"))}
    given = {name: value for name, value in vars(parsed).items() if value is not None}
    values.update(given)
    if not values.get("api_key"):
        values["api_key"] = environment.get("VLLM_API_KEY", "")
    names = {name.replace("_", "-"): str(value) for name, value in given.items()}
    names.update(_pairs(unknown))
    return Script(**values), names


def _pairs(unknown: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    name = ""
    for part in unknown:
        if part.startswith("--"):
            name, _, value = part[2:].partition("=")
            pairs[name] = value or "true"
        elif name:
            pairs[name] = part
    return pairs


def refusal(script: Script, given: Mapping[str, str]) -> str:
    """Why this start is refused, or ""."""
    for name, value in script.refuse_if.items():
        if given.get(name) == str(value):
            return script.refuse_to_start or f"scripted refusal: {name} is {value}"
    return script.refuse_to_start if not script.refuse_if else ""


def load_answers(script: Script) -> dict[str, str]:
    if not script.answers_file:
        return {}
    texts: dict[str, str] = json.loads(Path(script.answers_file).read_text())
    return texts
