"""A candidate's argument vector and environment."""

from __future__ import annotations

import shlex

import pytest

from kitedash.domain.command import engine_argv, engine_environment, shell_line
from kitedash.domain.experiment import Candidate

CANDIDATE = Candidate(
    name="a",
    model="m",
    quantization="fp8",
    engine_args={
        "max-num-seqs": 4,
        "enable-prefix-caching": False,
        "enable-chunked-prefill": True,
        "dtype": "bfloat16",
    },
)


def argv(candidate: Candidate = CANDIDATE, device_kind: str = "gpu") -> list[str]:
    return engine_argv(
        candidate, model_dir="/models/m", served_name="m", host="127.0.0.1", port=8123, device_kind=device_kind
    )


def environment(candidate: Candidate = CANDIDATE, device_kind: str = "gpu", cores: str = "0-1") -> dict[str, str]:
    return engine_environment(
        candidate, device_kind=device_kind, device_ids=("2", "3"), cpu_kv_cache_gib=2.9, cpu_cores=cores
    )


def test_argument_vector() -> None:
    assert argv() == [
        *("-m", "vllm.entrypoints.openai.api_server", "--model", "/models/m", "--served-model-name", "m"),
        *("--host", "127.0.0.1", "--port", "8123"),
        *("--enable-per-request-metrics", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log"),
        *("--max-num-seqs", "4", "--no-enable-prefix-caching", "--enable-chunked-prefill", "--dtype", "bfloat16"),
    ]


def test_cpu_and_gpu_differ_by_eager_mode_only() -> None:
    on_cpu, on_gpu = argv(device_kind="cpu"), argv()
    assert [one for one in on_cpu if one != "--enforce-eager"] == on_gpu
    assert on_cpu.count("--enforce-eager") == 1


@pytest.mark.parametrize(
    ("args", "flags"),
    [
        ({"enforce-eager": False}, ["--no-enforce-eager"]),
        ({"enforce-eager": True}, ["--enforce-eager"]),
        ({"optimization-level": 1}, []),
    ],
)
def test_a_candidate_decides_about_compilation_itself(args: dict[str, bool | int], flags: list[str]) -> None:
    candidate = Candidate.model_validate({"name": "a", "model": "m", "engine_args": args})
    assert [one for one in argv(candidate, "cpu") if "eager" in one] == flags


def test_formats_made_while_loading_go_by_vllms_flag() -> None:
    candidate = Candidate(name="a", model="m", engine_args={"vllm-quantization": "fp8_per_channel"})
    assert argv(candidate)[-2:] == ["--quantization", "fp8_per_channel"]


def test_kitedashs_own_format_is_no_flag() -> None:
    assert "--quantization" not in argv()


def test_environment_of_a_gpu() -> None:
    found = environment()
    assert found["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert not any(name.startswith("VLLM_CPU_") for name in found)
    assert found["HF_HUB_OFFLINE"] == found["VLLM_NO_USAGE_STATS"] == found["VLLM_SERVER_DEV_MODE"] == "1"


def test_environment_of_a_cpu() -> None:
    found = environment(device_kind="cpu")
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "2"  # vLLM reads an integer
    assert found["VLLM_CPU_OMP_THREADS_BIND"] == "0-1"
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert "VLLM_CPU_OMP_THREADS_BIND" not in environment(device_kind="cpu", cores="")


def test_the_cpus_cache_is_sized_once() -> None:
    for name, value in (("kv-cache-memory-bytes", 2**30), ("gpu-memory-utilization", 0.5)):
        candidate = Candidate(name="a", model="m", engine_args={name: value})
        assert "VLLM_CPU_KVCACHE_SPACE" not in environment(candidate, "cpu")


def test_the_candidates_own_environment_wins() -> None:
    candidate = Candidate(name="a", model="m", environment={"VLLM_CPU_KVCACHE_SPACE": "5", "OMP_NUM_THREADS": "1"})
    found = environment(candidate, "cpu")
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "5"
    assert found["OMP_NUM_THREADS"] == "1"


def test_no_key_in_either() -> None:
    for kind in ("cpu", "gpu"):
        assert not any("key" in one.lower() for one in argv(device_kind=kind))
        assert not any("KEY" in name for name in environment(device_kind=kind))


def test_the_shell_line_is_what_was_run_when_a_shell_reads_it() -> None:
    words = ["python", *argv(CANDIDATE.model_copy(update={"engine_args": {"chat-template": "a b'; $(rm x)\n"}}))]
    line = shell_line(words, {"OMP_NUM_THREADS": "2", "ODD": "a b"})
    read = shlex.split(line.replace("\\\n", ""))
    assert read == ["OMP_NUM_THREADS=2", "ODD=a b", *words]
    assert "ODD='a b'" in line


def test_the_shell_line_names_the_program_once_and_takes_any_variable() -> None:
    for argv in (["-m", "x", "--flag"], ["python", "-m", "x", "--flag"]):
        assert shell_line(argv, {}) == "python -m x \\\n  --flag"
    assert shell_line(["python", "-m", "x"], {"A.B": "1 2"}) == "env 'A.B=1 2' \\\n  python -m x"


def test_what_is_not_known_yet_stands_in_angle_brackets_unless_it_is_to_be_run() -> None:
    words, environment = ["python", "--model", "<model folder>", "--x", "a b"], {"GPUS": "<GPU>,<GPU>"}
    assert shell_line(words, environment, placeholders=True) == (
        "GPUS=<GPU>,<GPU> \\\n  python \\\n  --model <model folder> \\\n  --x 'a b'"
    )
    assert "--model '<model folder>'" in shell_line(words, environment)
