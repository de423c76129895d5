"""Checkpoints of a tiny random Llama, compared with what NumPy works out from its weights independently.

The files are read here without torch, safetensors' own reader or compressed-tensors: header, then raw numbers.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from kitedash.domain.errors import InvalidInput, KiteDashError, Refused
from kitedash.measuring import quantize as quantize_module
from kitedash.measuring.content_hash import content_sha256
from kitedash.measuring.model_store import ResolvedModel
from kitedash.measuring.quantize import RECIPE_VERSION, checkpoint_dir, ensure_checkpoint, main, quantize

# transformers and torch warn of what is theirs to mend while a model is built and saved
pytestmark = pytest.mark.filterwarnings("ignore")
Schemes = Literal["fp8", "int8"]


def read_tensors(file: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a safetensors file as float64: 8 bytes of header length, JSON header, raw little-endian data."""
    raw = file.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = raw[8 + size + begin : 8 + size + end]
        found[name] = DECODE[entry["dtype"]](data).astype(np.float64).reshape(entry["shape"])
    return found


def decode_bfloat16(data: bytes) -> np.ndarray[Any, Any]:
    """bfloat16 is the upper half of a float32."""
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)


def decode_fp8(data: bytes) -> np.ndarray[Any, Any]:
    """E4M3 without infinities: 1 sign, 4 exponent (bias 7), 3 mantissa bits; exponent 0 is subnormal."""
    bits = np.frombuffer(data, np.uint8).astype(np.int64)
    assert not np.any(bits & 0x7F == 0x7F), "holds a NaN"
    sign, exponent, mantissa = 1 - 2 * (bits >> 7), (bits >> 3) & 15, bits & 7
    normal, subnormal = (1 + mantissa / 8) * 2.0 ** (exponent - 7), mantissa / 8 * 2.0**-6
    return sign * np.where(exponent > 0, normal, subnormal)


DECODE = {
    "BF16": decode_bfloat16,
    "F32": lambda data: np.frombuffer(data, "<f4"),
    "I8": lambda data: np.frombuffer(data, np.int8),
    "F8_E4M3": decode_fp8,
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ResolvedModel:
    """Two layers of random bfloat16 weights. One output channel is all zero, one has a single large outlier."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(5)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 40}
    config = LlamaConfig(**shape, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True)
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[3] = 0
        model.model.layers[1].mlp.down_proj.weight[2, 7] = 3.0
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "<unk>": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)
    return ResolvedModel(name="tiny", path=folder, sha256=content_sha256(folder), served_name="tiny")


@pytest.fixture(scope="module")
def checkpoints(tiny: ResolvedModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ResolvedModel]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {"int8": ensure_checkpoint(tiny, "int8", folder), "fp8": ensure_checkpoint(tiny, "fp8", folder)}


def linear_layers(tensors: dict[str, np.ndarray[Any, Any]]) -> list[str]:
    return sorted(name for name in tensors if "_proj" in name and name.endswith(".weight"))


def test_int8_weights_are_the_nearest_steps(tiny: ResolvedModel, checkpoints: dict[str, ResolvedModel]) -> None:
    """The range -128..127 has 255 steps, so that the largest magnitude of a row lies 127.5 steps from zero."""
    originals = read_tensors(tiny.path / "model.safetensors")
    made = read_tensors(checkpoints["int8"].path / "model.safetensors")
    assert len(linear_layers(made)) == 2 * 7
    for name in linear_layers(made):
        weight, steps, scale = originals[name], made[name], made[f"{name}_scale"]
        largest = np.abs(weight).max(axis=1, keepdims=True)
        np.testing.assert_allclose(scale[largest > 0], (largest / 127.5)[largest > 0], rtol=1e-6)
        assert steps.min() >= -128
        assert steps.max() <= 127
        error = np.abs(steps * scale - weight)
        assert (error <= scale * (0.5 + 1e-4)).all()


def test_fp8_weights_are_the_nearest_numbers(tiny: ResolvedModel, checkpoints: dict[str, ResolvedModel]) -> None:
    """The largest magnitude of a row becomes 448, the largest number of the format; each weight its nearest one."""
    originals = read_tensors(tiny.path / "model.safetensors")
    made = read_tensors(checkpoints["fp8"].path / "model.safetensors")
    numbers = np.unique(decode_fp8(bytes(code for code in range(256) if code & 0x7F != 0x7F)))
    assert (numbers.max(), len(numbers)) == (448.0, 253)
    assert len(linear_layers(made)) == 2 * 7
    for name in linear_layers(made):
        weight, value, scale = originals[name], made[name], made[f"{name}_scale"]
        largest = np.abs(weight).max(axis=1, keepdims=True)
        np.testing.assert_allclose(scale[largest > 0], (largest / 448)[largest > 0], rtol=1e-6)
        wanted = weight / scale
        after = np.clip(np.searchsorted(numbers, wanted), 1, len(numbers) - 1)
        least = np.minimum(np.abs(numbers[after] - wanted), np.abs(numbers[after - 1] - wanted))
        assert (np.abs(value - wanted) <= least + 1e-3).all()


@pytest.mark.parametrize("scheme", ["int8", "fp8"])
def test_what_is_not_a_linear_layer_stays(
    tiny: ResolvedModel, checkpoints: dict[str, ResolvedModel], scheme: str
) -> None:
    originals = read_tensors(tiny.path / "model.safetensors")
    made = read_tensors(checkpoints[scheme].path / "model.safetensors")
    rest = set(originals) - set(linear_layers(originals))
    assert {"model.embed_tokens.weight", "model.norm.weight"} <= rest
    for name in rest:
        np.testing.assert_array_equal(made[name], originals[name])
    zeros = made["model.layers.0.mlp.up_proj.weight"][3]
    assert not zeros.any()  # a channel of zeros stays one, and divides by no zero
    assert set(made) == set(originals) | {f"{name}_scale" for name in linear_layers(originals)}


@pytest.mark.parametrize(("scheme", "bits", "kind"), [("int8", 8, "int"), ("fp8", 8, "float")])
def test_the_config_tells_vllm_the_format(
    checkpoints: dict[str, ResolvedModel], scheme: str, bits: int, kind: str
) -> None:
    folder = checkpoints[scheme].path
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    assert config["quant_method"] == "compressed-tensors"
    (group,) = config["config_groups"].values()
    for part in (group["weights"], group["input_activations"]):
        assert (part["num_bits"], part["type"], part["symmetric"]) == (bits, kind, True)
    assert (group["weights"]["strategy"], group["input_activations"]["strategy"]) == ("channel", "token")
    assert (group["weights"]["dynamic"], group["input_activations"]["dynamic"]) == (False, True)
    assert (folder / "tokenizer.json").is_file()


def test_a_checkpoint_is_made_once_and_keyed_by_what_it_is_made_from(
    tiny: ResolvedModel, checkpoints: dict[str, ResolvedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoints["int8"].path.parent
    monkeypatch.setattr(quantize_module, "_quantize", lambda *_: pytest.fail("made again"))
    assert ensure_checkpoint(tiny, "int8", folder) == checkpoints["int8"]
    assert checkpoints["int8"].sha256 == content_sha256(checkpoints["int8"].path)
    assert len({tiny.sha256, checkpoints["int8"].sha256, checkpoints["fp8"].sha256}) == 3
    assert {made.served_name for made in checkpoints.values()} == {"tiny"}

    other = ResolvedModel("tiny", tiny.path, "0" * 64, "tiny")
    keys = {checkpoint_dir(model, scheme, folder) for model in (tiny, other) for scheme in SCHEMES}
    monkeypatch.setattr(quantize_module, "RECIPE_VERSION", RECIPE_VERSION + 1)
    assert len(keys | {checkpoint_dir(tiny, "int8", folder)}) == 5


SCHEMES: tuple[Schemes, Schemes] = ("fp8", "int8")


def test_a_quantised_model_is_not_quantised_again(checkpoints: dict[str, ResolvedModel], tmp_path: Path) -> None:
    with pytest.raises(Refused, match="quantised already: ask for quantization none"):
        quantize(checkpoints["int8"].path, "fp8", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_that_would_be_8_bit_in_name_only_is_refused(tmp_path: Path) -> None:
    """The experts of a mixture are one tensor each, not linear layers: here they hold most of the weights."""
    import torch
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(5)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 40}
    config = MixtralConfig(**shape, num_attention_heads=2, num_key_value_heads=1, num_local_experts=4)
    MixtralForCausalLM(config).save_pretrained(tmp_path / "mixture")
    with pytest.raises(Refused, match="8-bit in name only"):
        quantize(tmp_path / "mixture", "int8", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_little_memory_is_said_before_loading(
    tiny: ResolvedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Memory:
        available = 1_000

    monkeypatch.setattr(quantize_module.psutil, "virtual_memory", Memory)
    monkeypatch.setattr(quantize_module, "_quantize", lambda *_: pytest.fail("loaded"))
    with pytest.raises(KiteDashError, match="of memory, but 0 GiB are free"):
        ensure_checkpoint(tiny, "int8", tmp_path)


def test_an_unknown_scheme_is_one_sentence(tiny: ResolvedModel, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must be one of fp8, int8, not 'int4'"):
        ensure_checkpoint(tiny, "int4", tmp_path)  # type: ignore[arg-type]


def test_the_command_says_its_one_sentence(
    checkpoints: dict[str, ResolvedModel], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(checkpoints["int8"].path, tmp_path / "copy")
    assert main([str(copy), "int8", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "copy is quantised already: ask for quantization none"
    assert main(["only", "two"]) == 2
