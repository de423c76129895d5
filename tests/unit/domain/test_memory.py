"""KV bytes of known models, worked out by hand or published; and what fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kitedash.domain.memory import BATCH_LIMIT, KV_CACHE, ModelConfig, Room, Split, kv_bytes_per_token, kv_tokens

SMOL = ModelConfig("llama", layers=30, heads=9, kv_heads=3, hidden_size=576, head_dim=64, dtype="bfloat16")
QWEN = ModelConfig("qwen3_moe", layers=48, heads=32, kv_heads=4, hidden_size=2_048, head_dim=128, dtype="bfloat16")
DEEPSEEK = ModelConfig(
    "deepseek_v3",
    layers=61,
    heads=128,
    kv_heads=128,
    hidden_size=7_168,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    dtype="bfloat16",
)


@pytest.mark.parametrize(
    ("config", "arguments", "split", "expected"),
    [
        (SMOL, {}, Split(), 23_040),
        (SMOL, {"dtype": "float32"}, Split(), 46_080),
        (replace(SMOL, dtype="float32"), {}, Split(), 23_040),  # vLLM's auto makes 16 bits of it
        (replace(SMOL, head_dim=None), {}, Split(), 23_040),  # 576 / 9 = 64
        (replace(SMOL, kv_heads=None), {}, Split(), 69_120),  # as many as heads
        (QWEN, {}, Split(), 98_304),
        (QWEN, {"kv_cache_dtype": "fp8"}, Split(), 49_152),
        (replace(QWEN, kv_cache_bits=8), {}, Split(), 49_152),
        (QWEN, {"kv_cache_dtype": "bfloat16", "dtype": "float32"}, Split(), 98_304),
        (QWEN, {}, Split(tensor_parallel=2), 49_152),
        (QWEN, {}, Split(tensor_parallel=8), 24_576),  # 4 heads on 8 devices: one each
        (QWEN, {}, Split(pipeline_parallel=2), 49_152),
        (QWEN, {}, Split(pipeline_parallel=5), 20_480),  # the device with 10 of the 48 layers
        (QWEN, {}, Split(data_parallel=4), 98_304),
        (DEEPSEEK, {}, Split(), (512 + 64) * 2 * 61),
        (DEEPSEEK, {}, Split(tensor_parallel=8), (512 + 64) * 2 * 61),  # each device has the whole latent
    ],
)
def test_bytes_of_a_token(config: ModelConfig, arguments: dict[str, str], split: Split, expected: int) -> None:
    found = kv_bytes_per_token(config, **arguments, split=split)
    assert (found.bytes_per_token, found.reason) == (expected, "")


@pytest.mark.parametrize(
    ("config", "kv_cache_dtype", "reason"),
    [
        (replace(QWEN, other_layers=("linear attention",)), "auto", "mixes full attention with other layers (linear"),
        (replace(SMOL, sliding_window=4_096), "auto", "looks back 4,096 tokens only"),
        (replace(SMOL, model_type="brand_new"), "auto", "models of type brand_new"),
        (ModelConfig(""), "auto", "models of type unknown"),
        (ModelConfig("llama"), "auto", "no number of layers"),
        (ModelConfig("llama", layers=2, dtype="bfloat16"), "auto", "no attention heads"),
        (SMOL, "nvfp4", "KV cache format nvfp4"),
        (replace(SMOL, dtype="float64"), "auto", "KV cache format auto"),
    ],
)
def test_no_prediction_where_the_formula_does_not_hold(config: ModelConfig, kv_cache_dtype: str, reason: str) -> None:
    found = kv_bytes_per_token(config, kv_cache_dtype=kv_cache_dtype)
    assert found.bytes_per_token is None
    assert reason in found.reason


def test_tokens_come_in_whole_blocks() -> None:
    assert kv_tokens(4 * 2**30, 23_040, 128) == 186_368  # what vLLM reported of 4 GiB
    assert kv_tokens(90 * 2**20, 46_080, 32) == 2_048
    assert kv_tokens(100, 23_040, 16) == 0


ROOM = Room(
    block_size=32,
    max_model_len=512,
    batch_limit=16,
    step_tokens=2_048,
    bytes_per_token_predicted=46_080.0,
    kv_bytes_reported=90 * 2**20,
    kv_tokens_reported=2_048,
)


def test_reported_against_predicted() -> None:
    assert ROOM.bytes_per_token_reported == 46_080
    assert ROOM.bytes_ratio == 1
    assert ROOM.kv_tokens_predicted == 2_048
    unknown = replace(ROOM, bytes_per_token_predicted=None, no_prediction="hybrid", kv_tokens_reported=2_000)
    assert unknown.bytes_ratio is None
    assert unknown.kv_tokens == 2_000  # the engine's own word, where there is no prediction
    assert replace(ROOM, kv_bytes_reported=None).kv_tokens == 2_048


@pytest.mark.parametrize(
    ("prompt_tokens", "output_tokens", "room", "expected"),
    [
        (128, 16, ROOM, (12, KV_CACHE)),  # 63 usable blocks, 5 a request
        (128, 32, ROOM, (12, KV_CACHE)),
        (128, 33, ROOM, (12, KV_CACHE)),  # the last token of an answer takes no place
        (128, 34, ROOM, (10, KV_CACHE)),  # a sixth block begins
        (32, 16, ROOM, (16, BATCH_LIMIT)),
        (32, 16, replace(ROOM, batch_limit=None), (31, KV_CACHE)),
        (496, 16, ROOM, (3, KV_CACHE)),
        (497, 16, ROOM, (0, "longest request")),
        (128, 16, replace(ROOM, replicas=2), (24, KV_CACHE)),
        (32, 16, replace(ROOM, replicas=2), (32, BATCH_LIMIT)),
        (128, 16, Room(32, 512, None, 2_048), (None, "")),
    ],
)
def test_requests_at_once(prompt_tokens: int, output_tokens: int, room: Room, expected: tuple[int | None, str]) -> None:
    assert room.at_once(prompt_tokens, output_tokens) == expected
