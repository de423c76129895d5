"""The default model is a real one: unpacked from its package it knows a fact, and so does its int8 checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitedash.measuring.model_store import DEFAULT_MODEL, resolve_model
from kitedash.measuring.quantize import ensure_checkpoint

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]  # transformers warns of what is its own to mend


def answer(folder: Path, question: str) -> str:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    chat = [{"role": "user", "content": question}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=12, do_sample=False)
    return str(tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def test_the_unpacked_model_knows_a_fact(default_model_dir: Path) -> None:
    assert "Paris" in answer(default_model_dir, "What is the capital of France?")


def test_its_int8_checkpoint_knows_it_too(default_model_dir: Path, data_dir: Path) -> None:
    model = resolve_model(DEFAULT_MODEL, models_dir=data_dir / "models", model_roots=[])
    assert model.path == default_model_dir
    made = ensure_checkpoint(model, "int8", data_dir / "checkpoints")
    weights = (made.path / "model.safetensors").stat().st_size / (model.path / "model.safetensors").stat().st_size
    assert 0.55 < weights < 0.65  # 106 of 134.5 million weights lie in linear layers and shrink to half
    assert "Paris" in answer(made.path, "What is the capital of France?")
