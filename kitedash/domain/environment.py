"""The environment variables that a candidate may set for its engine: an allow-list (vLLM 0.32, vllm/envs.py).

Attention kernels are no longer chosen by a variable there but by the engine argument attention-backend.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kitedash.domain.errors import InvalidInput
from kitedash.domain.sentences import not_known, shown


@dataclass(frozen=True)
class EnvRule:
    """What an environment variable may hold, as a pattern over the whole value."""

    name: str
    pattern: str
    allowed: str
    description: str


_ON_OFF = ("[01]", "0 or 1")
_CORES = r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*"
_ENV_RULES = (
    EnvRule("VLLM_CPU_KVCACHE_SPACE", r"[1-9]\d{0,3}", "a whole number of GiB from 1 to 9999", "KV cache on a CPU"),
    EnvRule(
        "VLLM_CPU_OMP_THREADS_BIND",
        rf"auto|nobind|{_CORES}(\|{_CORES})*",
        "auto, nobind or cores such as 0-1",
        "cores that compute on a CPU",
    ),
    EnvRule("VLLM_CPU_NUM_OF_RESERVED_CPU", r"\d{1,3}", "a whole number up to 999", "cores left free on a CPU"),
    EnvRule("OMP_NUM_THREADS", r"[1-9]\d{0,3}", "a whole number from 1 to 9999", "threads of one process"),
    EnvRule("VLLM_BATCH_INVARIANT", *_ON_OFF, "the same answer in any batch, where kernels exist"),
    EnvRule("VLLM_FLOAT32_MATMUL_PRECISION", "highest|high|medium", "highest, high or medium", "float32 products"),
    EnvRule("VLLM_USE_FLASHINFER_SAMPLER", *_ON_OFF, "FlashInfer's sampler"),
    EnvRule("VLLM_USE_DEEP_GEMM", *_ON_OFF, "DeepGEMM kernels for fp8"),
    EnvRule("VLLM_USE_V2_MODEL_RUNNER", *_ON_OFF, "vLLM's second model runner"),
)
ALLOWED_ENVIRONMENT: Mapping[str, EnvRule] = MappingProxyType({rule.name: rule for rule in _ENV_RULES})


def check_environment(environment: Mapping[str, str], where: str) -> None:
    """Raise InvalidInput on the first variable that is not on the list or holds what it may not."""
    for name, value in environment.items():
        rule = ALLOWED_ENVIRONMENT.get(name)
        if rule is None:
            raise InvalidInput(f"{where}.{name}", not_known(name, ALLOWED_ENVIRONMENT))
        if not isinstance(value, str) or not re.fullmatch(rule.pattern, value, re.ASCII):
            raise InvalidInput(f"{where}.{name}", f"must be {rule.allowed}, not {shown(value)}")
