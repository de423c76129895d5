from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kitedash.domain.memory import ModelConfig
from kitedash.measuring.model_config import read_model_config

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
    "head_dim": 64,
    "dtype": "bfloat16",
    "vocab_size": 49_152,
    "max_position_embeddings": 8_192,
}


def read(folder: Path, config: Any) -> ModelConfig:
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return read_model_config(folder)


def test_what_a_plain_config_says(tmp_path: Path) -> None:
    assert read(tmp_path, LLAMA) == ModelConfig(
        "llama",
        layers=30,
        heads=9,
        kv_heads=3,
        hidden_size=576,
        head_dim=64,
        dtype="bfloat16",
        vocab_size=49_152,
        positions=8_192,
    )


def test_the_text_part_and_the_older_name_of_the_dtype(tmp_path: Path) -> None:
    found = read(tmp_path, {"model_type": "see", "torch_dtype": "float16", "text_config": {**LLAMA, "dtype": None}})
    assert (found.model_type, found.layers, found.dtype) == ("llama", 30, "float16")


@pytest.mark.parametrize(
    ("changes", "other_layers"),
    [
        ({"layer_types": ["full_attention"] * 30}, ()),
        ({"layer_types": ["sliding_attention", "full_attention"]}, ("sliding attention",)),
        ({"full_attention_interval": 4, "linear_num_key_heads": 16}, ("linear attention",)),
        ({"mamba_d_state": 128}, ("state space",)),
        ({"index_topk": 2_048}, ("sparse attention with an index of its own",)),
    ],
)
def test_layers_that_do_not_keep_every_token_are_named(
    tmp_path: Path, changes: dict[str, Any], other_layers: tuple[str, ...]
) -> None:
    assert read(tmp_path, {**LLAMA, **changes}).other_layers == other_layers


def test_a_window_counts_unless_it_is_switched_off(tmp_path: Path) -> None:
    assert read(tmp_path, {**LLAMA, "sliding_window": 4_096}).sliding_window == 4_096
    assert read(tmp_path, {**LLAMA, "sliding_window": 4_096, "use_sliding_window": False}).sliding_window is None


def test_a_checkpoint_may_bring_a_format_for_the_kv_cache(tmp_path: Path) -> None:
    scheme = {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}
    assert read(tmp_path, {**LLAMA, **scheme}).kv_cache_bits == 8
    assert read(tmp_path, {**LLAMA, "quantization_config": {"kv_cache_scheme": None}}).kv_cache_bits is None


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_file_that_says_nothing(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, content) == ModelConfig("")
    assert read_model_config(tmp_path / "nowhere") == ModelConfig("")
