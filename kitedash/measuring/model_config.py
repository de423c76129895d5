"""Reads a served model's config.json for what decides the size of its KV cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kitedash.domain.memory import ModelConfig

_FULL = ("full_attention", "attention")  # of `layer_types`
# Keys that only models with other kinds of layers have, and what those are called.
_OTHER = {
    "linear_num_key_heads": "linear attention",
    "full_attention_interval": "linear attention",
    "mamba_d_state": "state space",
    "mamba_num_heads": "state space",
    "ssm_state_size": "state space",
    "hybrid_override_pattern": "state space",
    "attention_chunk_size": "chunked attention",
    "index_topk": "sparse attention with an index of its own",
    "compress_ratios": "compressed attention",
}


def read_model_config(folder: Path) -> ModelConfig:
    """Of a model that also sees or hears, its text part. A file that can't be read says nothing: an empty config."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ModelConfig("")
    if not isinstance(found, dict):
        return ModelConfig("")
    nested = found.get("text_config")
    text: Mapping[str, Any] = {**found, **nested} if isinstance(nested, dict) else found

    def number(name: str) -> int | None:
        value = text.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    return ModelConfig(
        model_type=str(text.get("model_type") or ""),
        layers=number("num_hidden_layers"),
        heads=number("num_attention_heads"),
        kv_heads=number("num_key_value_heads"),
        hidden_size=number("hidden_size"),
        head_dim=number("head_dim"),
        kv_lora_rank=number("kv_lora_rank"),
        qk_rope_head_dim=number("qk_rope_head_dim"),
        dtype=str(text.get("dtype") or text.get("torch_dtype") or ""),
        kv_cache_bits=_kv_cache_bits(found),
        sliding_window=None if text.get("use_sliding_window") is False else number("sliding_window"),
        other_layers=_other_layers(text),
        vocab_size=number("vocab_size"),
        positions=number("max_position_embeddings"),
    )


def _other_layers(config: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = config.get("layer_types")
    named = [str(kind).replace("_", " ") for kind in kinds if kind not in _FULL] if isinstance(kinds, list) else []
    named += [words for key, words in _OTHER.items() if config.get(key) not in (None, 0, "", [])]
    return tuple(dict.fromkeys(named))


def _kv_cache_bits(config: Mapping[str, Any]) -> int | None:
    quantization = config.get("quantization_config")
    scheme = quantization.get("kv_cache_scheme") if isinstance(quantization, dict) else None
    bits = scheme.get("num_bits") if isinstance(scheme, dict) else None
    return bits if isinstance(bits, int) else None
