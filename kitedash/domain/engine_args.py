"""The engine arguments that KiteDash passes on to vLLM: an allow-list.

Names, choices and bounds are vLLM 0.32's own (vllm/entrypoints/launchers/cli_args.py, vllm/config/*.py). What is not
here is refused: an experiment file must not be able to run code, read files, open ports or set keys through an engine
argument. docs/experiments.md lists the same table; a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ArgValue
from kitedash.domain.sentences import not_known, shown

QUANTIZATION = "quantization"  # KiteDash's own number format; vLLM's argument of that name is VLLM_QUANTIZATION here
VLLM_QUANTIZATION = "vllm-quantization"
PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


@dataclass(frozen=True)
class ArgRule:
    """What one argument may hold. `label` is its short form in names that a matrix makes."""

    name: str
    kind: Literal["bool", "int", "float", "choice"]
    description: str
    label: str
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """What is allowed, as the end of a sentence: "a whole number from 1 to 65,536"."""
        match self.kind:
            case "bool":
                return "true or false"
            case "choice":
                return f"one of {', '.join(self.choices)}"
            case "int":
                return f"a whole number from {self.low:,.0f} to {self.high:,.0f}"
            case _:
                return f"a number from {self.low:g} to {self.high:g}"


def _flag(name: str, label: str, description: str) -> ArgRule:
    return ArgRule(name, "bool", description, label)


def _int(name: str, label: str, low: int, high: int, description: str) -> ArgRule:
    return ArgRule(name, "int", description, label, low, high)


def _float(name: str, label: str, low: float, high: float, description: str) -> ArgRule:
    return ArgRule(name, "float", description, label, low, high)


def _choice(name: str, label: str, choices: str, description: str) -> ArgRule:
    return ArgRule(name, "choice", description, label, choices=tuple(choices.split()))


_RULES = (
    _choice(QUANTIZATION, "", "none fp8 int8", "KiteDash's number format: a checkpoint of the model made once"),
    _choice(
        "dtype", "", "auto bfloat16 float16 float32", "format of weights that are not quantised, and of activations"
    ),
    _choice(
        VLLM_QUANTIZATION,
        "vllm",
        "fp8_per_tensor fp8_per_channel fp8_per_block",
        "vLLM's --quantization: quantise while loading, no checkpoint is made",
    ),
    _choice(
        "kv-cache-dtype",
        "kv",
        "auto bfloat16 float16 fp8 fp8_e4m3 fp8_e5m2 fp8_per_token_head int8_per_token_head int4_per_token_head nvfp4 "
        "turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc",
        "number format of the KV cache",
    ),
    _int("max-model-len", "length", 16, 10_000_000, "longest request in tokens, prompt and answer together"),
    _int("max-num-seqs", "seqs", 1, 65_536, "batch limit: requests computed at once"),
    _int("max-num-batched-tokens", "batched", 1, 4_194_304, "token limit of one engine step"),
    _int(
        "long-prefill-token-threshold", "long prefill", 0, 10_000_000, "prompts above it are prefilled in parts of it"
    ),
    _flag("enable-prefix-caching", "prefix cache", "reuse the KV cache of a shared prompt head"),
    _flag("enable-chunked-prefill", "chunked prefill", "split a long prefill over engine steps"),
    _int("block-size", "block", 1, 1_024, "tokens a KV cache block; a prefix is reused in whole blocks"),
    _float("gpu-memory-utilization", "memory", 0.01, 1, "share of the device's memory that the engine may use"),
    _int("kv-cache-memory-bytes", "kv bytes", 2**20, 2**44, "size of the KV cache in bytes, instead of the share"),
    _int("num-gpu-blocks-override", "kv blocks", 1, 2**31, "number of KV cache blocks, instead of what fits"),
    _float("cpu-offload-gb", "offload GiB", 0, 4_096, "GiB of weights a GPU that are kept in the host's memory"),
    _float(
        "kv-offloading-size", "kv offload GiB", 0.01, 65_536, "GiB of the host's memory that take KV cache overflow"
    ),
    _int("tensor-parallel-size", "tp", 1, 64, "devices that share each layer"),
    _int("pipeline-parallel-size", "pp", 1, 64, "devices that take groups of layers one after the other"),
    _int("data-parallel-size", "dp", 1, 64, "whole copies of the model behind one address"),
    _flag("enable-expert-parallel", "expert parallel", "share the experts of a mixture, not each expert's weights"),
    _flag("disable-custom-all-reduce", "nccl all-reduce", "use NCCL for all reductions"),
    _flag("enforce-eager", "eager", "no compilation and no CUDA graphs"),
    _int("optimization-level", "O", 0, 3, "how much vLLM compiles at start"),
    _int("max-cudagraph-capture-size", "graphs to", 1, 65_536, "largest batch that gets a CUDA graph"),
    _choice("performance-mode", "", "balanced interactivity throughput", "vLLM's preset of scheduling defaults"),
    _flag("async-scheduling", "async scheduling", "schedule the next step while this one runs"),
    _choice("scheduling-policy", "policy", "fcfs priority", "order of waiting requests"),
    _choice(
        "attention-backend",
        "",
        "CPU_ATTN FLASH_ATTN FLASHINFER TRITON_ATTN FLEX_ATTENTION FLASH_ATTN_MLA FLASHINFER_MLA CUTLASS_MLA FLASHMLA "
        "TRITON_MLA",
        "attention kernels",
    ),
    _choice(
        "moe-backend",
        "moe",
        "auto triton deep_gemm cutlass marlin flashinfer_trtllm flashinfer_cutlass",
        "kernels of a mixture of experts",
    ),
    _choice(
        "linear-backend",
        "linear",
        "auto torch triton cutlass deep_gemm marlin machete flashinfer_cutlass flashinfer_trtllm",
        "kernels of linear layers",
    ),
    _flag("disable-cascade-attn", "no cascade", "never compute a shared prefix once for a whole batch"),
    _choice("spec-method", "spec", "ngram", "speculative decoding without a second model"),
    _int("spec-tokens", "spec tokens", 1, 32, "tokens speculated a step"),
    _choice("load-format", "load", "auto safetensors dummy", "dummy: random weights, speed only, never quality"),
    _choice("generation-config", "generation", "auto vllm", "sampling defaults: the model's own, or vLLM's"),
    _int("seed", "seed", 0, 2**31 - 1, "seed of the engine"),
)
ALLOWED: Mapping[str, ArgRule] = MappingProxyType({rule.name: rule for rule in _RULES})

_DTYPE_ALIASES = {"half": "float16", "float": "float32"}  # vLLM's own second names
_SET_BY_KITEDASH = frozenset(
    (
        *("host", "port", "uds", "api-key", "served-model-name", "tokenizer", "config", "disable-uvicorn-access-log"),
        *("enable-per-request-metrics", "enable-prompt-tokens-details"),
    )
)
_RUNS_CODE = frozenset(
    (
        *(
            "trust-remote-code",
            "middleware",
            "worker-cls",
            "worker-extension-cls",
            "scheduler-cls",
            "logits-processors",
        ),
        *("tool-parser-plugin", "reasoning-parser-plugin", "io-processor-plugin"),
    )
)


def canonical_name(name: str) -> str:
    """vLLM's spelling: max_num_seqs and --max-num-seqs are max-num-seqs."""
    return name.removeprefix("--").replace("_", "-")


def canonical_value(name: str, value: ArgValue) -> ArgValue:
    return _DTYPE_ALIASES.get(value, value) if name == "dtype" and isinstance(value, str) else value


def canonical(args: Mapping[str, ArgValue], where: str) -> dict[str, ArgValue]:
    """The arguments under vLLM's spelling, unchecked but for this: InvalidInput if two spellings name one."""
    found: dict[str, ArgValue] = {}
    for name, value in args.items():
        spelled = canonical_name(name)
        if spelled in found:
            raise InvalidInput(f"{where}.{name}", f"is there under two spellings; keep {spelled}")
        found[spelled] = canonical_value(spelled, value)
    return found


def check_engine_args(args: Mapping[str, ArgValue], where: str) -> None:
    """Raise InvalidInput, with `where` as the head of the field, on the first argument that is not allowed, and on
    arguments that contradict each other."""
    check_each(args, where)
    _check_together(canonical(args, where), where)


def check_each(args: Mapping[str, ArgValue], where: str) -> None:
    """As `check_engine_args`, each argument by itself: for a part of a candidate's arguments."""
    for name, value in canonical(args, where).items():
        rule = ALLOWED.get(name)
        if rule is None:
            raise InvalidInput(f"{where}.{name}", unknown_argument(name))
        check_value(rule, value, f"{where}.{name}")


def check_value(rule: ArgRule, value: object, field: str) -> None:
    """Raise InvalidInput unless the value has the type, range or choice of the rule."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match rule.kind:
        case "bool":
            good = isinstance(value, bool)
        case "choice":
            good = isinstance(value, str) and value in rule.choices
        case "int":
            good = isinstance(value, int) and number and rule.low <= value <= rule.high
        case _:
            good = isinstance(value, int | float) and number and math.isfinite(value)
            good = good and isinstance(value, int | float) and rule.low <= value <= rule.high
    if not good:
        raise InvalidInput(field, f"must be {rule.allowed}, not {shown(value)}")


def unknown_argument(name: str) -> str:
    """The sentence for an argument that is not on the list."""
    if name in ("model", "devices"):
        return f"is a key of its own: write `{name}` beside engine_args"
    if name in _SET_BY_KITEDASH:
        return "is set by KiteDash and can't be chosen"
    if name in _RUNS_CODE:
        return "is refused because it can run code that comes with a model or a file"
    return not_known(name, ALLOWED)


def _check_together(args: Mapping[str, ArgValue], where: str) -> None:
    """Pairs that vLLM refuses at start (vllm/config/scheduler.py, verify_max_model_len; speculative.py)."""

    def number(name: str) -> int | None:
        value = args.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    batched, seqs, length = number("max-num-batched-tokens"), number("max-num-seqs"), number("max-model-len")
    if batched is not None and seqs is not None and batched < seqs:
        raise InvalidInput(
            f"{where}.max-num-batched-tokens", f"must be at least max-num-seqs ({seqs:,}), not {batched:,}"
        )
    if args.get("enable-chunked-prefill") is False and batched is not None and length is not None and batched < length:
        raise InvalidInput(
            f"{where}.max-num-batched-tokens",
            f"must be at least max-model-len ({length:,}) where enable-chunked-prefill is false, not {batched:,}",
        )
    threshold = number("long-prefill-token-threshold")
    if threshold is not None and length is not None and threshold > length:
        raise InvalidInput(
            f"{where}.long-prefill-token-threshold", f"must be at most max-model-len ({length:,}), not {threshold:,}"
        )
    if ("spec-method" in args) != ("spec-tokens" in args):
        there, missing = sorted(("spec-method", "spec-tokens"), key=lambda name: name not in args)
        raise InvalidInput(f"{where}.{there}", f"needs {missing} beside it")
    if args.get(QUANTIZATION, "none") != "none" and VLLM_QUANTIZATION in args:
        raise InvalidInput(f"{where}.{VLLM_QUANTIZATION}", f"can't be combined with {QUANTIZATION}: choose one of them")
