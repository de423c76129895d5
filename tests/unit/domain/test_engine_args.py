"""The allow-list: what it lets through, what it never does, and that the documentation has all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitedash.domain.engine_args import ALLOWED, check_engine_args
from kitedash.domain.environment import ALLOWED_ENVIRONMENT, check_environment
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import (
    CandidateSpec,
    ExperimentSpec,
    Guardrails,
    LoadPlan,
    SuiteChoice,
    Targets,
    Workload,
)
from kitedash.domain.prices import Price

DOCS = Path(__file__).resolve().parents[3] / "docs" / "experiments.md"


@pytest.mark.parametrize(
    "args",
    [
        {"max-num-seqs": 1},
        {"max_num_seqs": 65_536},
        {"--max-num-seqs": 4},
        {"gpu-memory-utilization": 1},
        {"gpu-memory-utilization": 0.9},
        {"dtype": "half"},
        {"enable-prefix-caching": False},
        {"quantization": "int8"},
    ],
)
def test_allowed(args: dict[str, Any]) -> None:
    check_engine_args(args, "engine_args")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"max-num-seqs": 0}, "engine_args.max-num-seqs: must be a whole number from 1 to 65,536, not 0"),
        ({"max-num-seqs": True}, "must be a whole number from 1 to 65,536, not true"),
        ({"max-num-seqs": 4.0}, "must be a whole number from 1 to 65,536, not 4.0"),
        ({"max-num-seqs": "4"}, "must be a whole number from 1 to 65,536, not '4'"),
        ({"gpu-memory-utilization": 1.01}, "must be a number from 0.01 to 1, not 1.01"),
        ({"gpu-memory-utilization": float("nan")}, "must be a number from 0.01 to 1, not NaN"),
        ({"gpu-memory-utilization": True}, "must be a number from 0.01 to 1, not true"),
        ({"enable-prefix-caching": 1}, "must be true or false, not 1"),
        ({"dtype": "float8"}, "must be one of auto, bfloat16, float16, float32, not 'float8'"),
        ({"load-format": "runai_streamer"}, "must be one of auto, safetensors, dummy"),
        ({"generation-config": "/etc"}, "must be one of auto, vllm, not '/etc'"),
        ({"dtype": "x" * 200}, "not '" + "x" * 56 + "..."),
    ],
)
def test_type_range_and_choice(args: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_engine_args(args, "engine_args")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *("trust-remote-code", "model", "tokenizer", "host", "port", "uds", "api-key", "middleware", "config"),
        *("tool-parser-plugin", "reasoning-parser-plugin", "io-processor-plugin", "logits-processors", "worker-cls"),
        *("worker-extension-cls", "scheduler-cls", "download-dir", "hf-config-path", "hf-token", "hf-overrides"),
        *(
            "chat-template",
            "lora-modules",
            "ssl-keyfile",
            "allowed-local-media-path",
            "speculative-config",
            "root-path",
        ),
        *("compilation-config", "kv-transfer-config", "additional-config", "model-loader-extra-config", "spec-model"),
        *("log-config-file", "otlp-traces-endpoint", "served-model-name", "data-parallel-address", "master-addr"),
        *("mm-encoder-fp8-scale-path", "override-generation-config", "profiler-config", "compilation-config.mode"),
    ],
)
def test_never(name: str) -> None:
    assert name not in ALLOWED
    for spelled in (name, name.replace("-", "_"), f"--{name}"):
        with pytest.raises(InvalidInput):
            check_engine_args({spelled: "x"}, "engine_args")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/tmp/x.so"),
        ("PYTHONPATH", "/tmp"),
        ("VLLM_API_KEY", "x"),
        ("VLLM_PLUGINS", "x"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("VLLM_CPU_KVCACHE_SPACE", "0"),
        ("VLLM_CPU_KVCACHE_SPACE", "2\n"),
        ("VLLM_CPU_KVCACHE_SPACE", "٢"),
        ("VLLM_CPU_OMP_THREADS_BIND", "0-1; true"),
        ("OMP_NUM_THREADS", "-1"),
        ("VLLM_USE_DEEP_GEMM", "yes"),
    ],
)
def test_environment_never(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=f"environment.{name}: "):
        check_environment({name: value}, "environment")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_CPU_KVCACHE_SPACE", "40"),
        ("VLLM_CPU_OMP_THREADS_BIND", "auto"),
        ("VLLM_CPU_OMP_THREADS_BIND", "0-1,4,6-7|8-9"),
        ("OMP_NUM_THREADS", "2"),
        ("VLLM_FLOAT32_MATMUL_PRECISION", "high"),
    ],
)
def test_environment_allowed(name: str, value: str) -> None:
    check_environment({name: value}, "environment")


def test_the_documentation_lists_every_argument_variable_and_key() -> None:
    text = DOCS.read_text(encoding="utf-8")
    arguments = text.split("## Engine arguments")[1].split("\n## ")[0].splitlines()
    for rule in ALLOWED.values():
        row = next((line for line in arguments if line.startswith(f"| `{rule.name}` |")), None)
        assert row is not None, rule.name
        assert rule.allowed in row, row
        assert rule.description in row, row
    for variable in ALLOWED_ENVIRONMENT.values():
        assert f"| `{variable.name}` | {variable.allowed} | {variable.description} |" in text
    for model in (ExperimentSpec, CandidateSpec, Workload, LoadPlan, SuiteChoice, Targets, Guardrails, Price):
        for name, field in model.model_fields.items():
            assert field.description, name
            assert any(f"`{name}`" in line and field.description in line for line in text.splitlines()), name


def test_the_documentation_lists_nothing_else() -> None:
    section = DOCS.read_text(encoding="utf-8").split("## Engine arguments")[1].split("\n## ")[0]
    listed = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
    assert listed == set(ALLOWED)
