"""What the KV cache takes and holds, from a model's config: the prediction that the memory stage is held against.

Formulas and sources: docs/metrics.md, "Memory". Where the formula doesn't cover a model there is no prediction, and one
sentence says why: a number that is wrong for a hybrid model would be worse than none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GIB = 2**30
KV_CACHE, BATCH_LIMIT = "KV cache", "batch limit"

# Models whose layers all keep the keys and values of every token, by `model_type`.
_PLAIN = frozenset(
    (
        *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "phi3", "phimoe"),
        *("olmo", "olmo2", "olmoe", "granite", "granitemoe", "stablelm", "starcoder2", "smollm3", "glm", "glm4"),
        *("glm4_moe", "ernie4_5", "ernie4_5_moe", "internlm2", "internlm3", "nemotron", "exaone", "seed_oss"),
    )
)
_LATENT = frozenset(("deepseek_v2", "deepseek_v3", "kimi_k2"))  # one compressed vector a token instead (MLA)
_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
_KV_BYTES = {**_BYTES, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0}


@dataclass(frozen=True)
class ModelConfig:
    """What a model's config.json says; None where it does not. `kv_cache_bits`: of a checkpoint that brings a number
    format for the KV cache. `other_layers` names what kinds of layers there are beside full attention."""

    model_type: str
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    hidden_size: int | None = None
    head_dim: int | None = None
    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    dtype: str = ""
    kv_cache_bits: int | None = None
    sliding_window: int | None = None
    other_layers: tuple[str, ...] = ()
    vocab_size: int | None = None
    positions: int | None = None


@dataclass(frozen=True)
class Split:
    """How the engine spreads over devices."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1


@dataclass(frozen=True)
class KvPrediction:
    """`bytes_per_token`: of one token on one device, the one with the most layers. None: `reason` says why not."""

    bytes_per_token: float | None
    reason: str = ""


def kv_bytes_per_token(
    config: ModelConfig, *, dtype: str = "auto", kv_cache_dtype: str = "auto", split: Split | None = None
) -> KvPrediction:
    """2 x layers x KV heads x head size x bytes per value; of MLA, layers x (latent + RoPE part) x bytes per value.

    `dtype` and `kv_cache_dtype` are the engine's arguments. vLLM gives each device of a tensor-parallel group its share
    of the KV heads, at least one, and the whole latent of MLA.
    """
    split = split or Split()
    if refusal := _not_covered(config):
        return KvPrediction(None, refusal)
    value_bytes = _value_bytes(config, dtype, kv_cache_dtype)
    if value_bytes is None:
        return KvPrediction(None, f"the bytes of a value of KV cache format {kv_cache_dtype} are not known here")
    assert config.layers is not None
    layers = math.ceil(config.layers / split.pipeline_parallel)
    if config.model_type in _LATENT and config.kv_lora_rank:
        return KvPrediction(layers * (config.kv_lora_rank + (config.qk_rope_head_dim or 0)) * value_bytes)
    kv_heads, head_size = config.kv_heads or config.heads, _head_size(config)
    if kv_heads is None or head_size is None:
        return KvPrediction(None, "the model's config.json names no attention heads or no head size")
    return KvPrediction(2 * layers * max(1, kv_heads // split.tensor_parallel) * head_size * value_bytes)


def _head_size(config: ModelConfig) -> int | None:
    if config.head_dim:
        return config.head_dim
    return config.hidden_size // config.heads if config.hidden_size and config.heads else None


def _not_covered(config: ModelConfig) -> str:
    if config.other_layers:
        return f"the model mixes full attention with other layers ({', '.join(config.other_layers)})"
    if config.sliding_window:
        return f"the model's attention looks back {config.sliding_window:,} tokens only, so its cache stops growing"
    if config.model_type not in _PLAIN | _LATENT:
        return f"how models of type {config.model_type or 'unknown'} fill the KV cache is not known here"
    if not config.layers:
        return "the model's config.json names no number of layers"
    return ""


def _value_bytes(config: ModelConfig, dtype: str, kv_cache_dtype: str) -> float | None:
    if kv_cache_dtype != "auto":
        return _KV_BYTES.get(kv_cache_dtype)
    if config.kv_cache_bits is not None:
        return config.kv_cache_bits / 8
    own = config.dtype if dtype == "auto" else dtype
    if dtype == "auto" and own == "float32":
        return 2.0  # vLLM serves a float32 checkpoint in 16 bits unless it is told otherwise
    return _BYTES.get(own)


def kv_tokens(kv_bytes: float, bytes_per_token: float, block_size: int) -> int:
    """How many tokens so many bytes hold, in whole blocks."""
    return int(kv_bytes // (bytes_per_token * block_size)) * block_size


@dataclass(frozen=True)
class Room:
    """What an engine has, predicted and as it reports it. Bytes and tokens are those of one replica's device; None is
    not known. `kv_tokens_reported` is the engine's own count, `kv_bytes_reported` the size of its KV cache."""

    block_size: int
    max_model_len: int
    batch_limit: int | None
    step_tokens: int  # prompt tokens that one engine step takes at most
    replicas: int = 1  # whole copies behind the address
    bytes_per_token_predicted: float | None = None
    no_prediction: str = ""
    kv_bytes_reported: float | None = None
    kv_tokens_reported: int | None = None

    @property
    def bytes_per_token_reported(self) -> float | None:
        if self.kv_bytes_reported is None or not self.kv_tokens_reported:
            return None
        return self.kv_bytes_reported / self.kv_tokens_reported

    @property
    def bytes_ratio(self) -> float | None:
        """Reported / predicted: 1 where the engine takes what the config says."""
        reported = self.bytes_per_token_reported
        return (
            None
            if reported is None or not self.bytes_per_token_predicted
            else (reported / self.bytes_per_token_predicted)
        )

    @property
    def kv_tokens_predicted(self) -> int | None:
        """From the size of the KV cache, by the prediction of a token's bytes."""
        if self.kv_bytes_reported is None or self.bytes_per_token_predicted is None:
            return None
        return kv_tokens(self.kv_bytes_reported, self.bytes_per_token_predicted, self.block_size)

    @property
    def kv_tokens(self) -> int | None:
        """Of the limits that are drawn: as predicted, else as reported."""
        return self.kv_tokens_predicted if self.kv_tokens_predicted is not None else self.kv_tokens_reported

    def by_kv_cache(self, prompt_tokens: int, output_tokens: int) -> int | None:
        """Requests that fit into the KV cache at once, sharing nothing. Each takes whole blocks of its prompt and
        answer, but for the answer's last token, which nothing is computed from; one block is the engine's own (vLLM's
        null block)."""
        if self.kv_tokens is None:
            return None
        blocks = max(0, self.kv_tokens // self.block_size - 1)
        return blocks // math.ceil((prompt_tokens + output_tokens - 1) / self.block_size) * self.replicas

    @property
    def by_batch_limit(self) -> int | None:
        return None if self.batch_limit is None else self.batch_limit * self.replicas

    def at_once(self, prompt_tokens: int, output_tokens: int) -> tuple[int | None, str]:
        """(requests that run at once as predicted, which limit binds): KV_CACHE, BATCH_LIMIT or "" where none is known.
        0 requests where prompt and answer are longer than the engine takes."""
        if prompt_tokens + output_tokens > self.max_model_len:
            return 0, "longest request"
        known = [
            (limit, name)
            for limit, name in (
                (self.by_kv_cache(prompt_tokens, output_tokens), KV_CACHE),
                (self.by_batch_limit, BATCH_LIMIT),
            )
            if limit is not None
        ]
        return min(known) if known else (None, "")
