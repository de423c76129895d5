"""Excerpts of vLLM 0.32's own logs, shortened; what must be read from them was read by eye."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitedash.measuring import server_log

INT8_START = """\
(APIServer pid=60) INFO 11-30 16:11:22 [api_utils.py:347]   █▄█▀ █     █     █     █  model   m-W8A8
(APIServer pid=60) WARNING 11-30 16:11:31 [vllm.py:1703] Enforce eager set, disabling torch.compile
(EngineCore pid=74) INFO 11-30 16:11:41 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m', \
dtype=torch.float32, max_seq_len=2048, quantization=compressed-tensors, quantization_config=None, enforce_eager=True, \
enable_prefix_caching=False, enable_chunked_prefill=True
(Worker pid=86) INFO 11-30 16:11:50 [__init__.py:846] Selected CPUInt8ScaledMMLinearKernel for CompressedTensorsW8A8Int8
(Worker pid=86) INFO 11-30 16:11:51 [default_loader.py:501] Loading weights took 0.79 seconds
(Worker pid=86) INFO 11-30 16:11:52 [cpu_worker.py:260] Explicitly set (2.0/9.34) GiB for KV cache on node 0.
(EngineCore pid=74) INFO 11-30 16:11:52 [kv_cache_utils.py:2327] CPU KV cache size: 46,592 tokens, Maximum concurrency \
for 2,048 tokens per request: 22.75x
(EngineCore pid=74) INFO 11-30 16:11:55 [core.py:402] init engine (profile, create kv cache, warmup model) took 3.06 s
"""
GPU_LINES = """\
(Worker pid=9) INFO 11-30 16:11:50 [cuda.py:446] Using FLASH_ATTN backend.
(Worker pid=9) INFO 11-30 16:11:50 [gpu_model_runner.py:1] Model loading took 56.93 GiB and 31.1 seconds
(Worker pid=9) INFO 11-30 16:11:50 [gpu_worker.py:1] Available KV cache memory: 65.12 GiB
(Worker pid=9) INFO 11-30 16:11:50 [unquantized.py:1] Using TRITON Unquantized MoE backend
(Worker pid=9) INFO 11-30 16:11:50 [cuda.py:547] Using backend FLASH_ATTN for vit attention
(Worker pid=9) INFO 11-30 16:11:50 [x.py:1] Selected CutlassFP8ScaledMMLinearKernel for CompressedTensorsW8A8Fp8
(Worker pid=9) INFO 11-30 16:11:50 [x.py:1] Selected CutlassFP8ScaledMMLinearKernel for CompressedTensorsW8A8Fp8
(Worker pid=9) WARNING 11-30 16:11:50 [m.py:108] Your GPU does not have native support for FP8 computation but FP8
"""
BAD_ARGUMENT = """\
usage: api_server.py [-h] [--headless]
api_server.py: error: argument --max-num-seqs: invalid int value: 'abc'
"""
TOO_LONG = """\
Traceback (most recent call last):
  File "/somewhere/lib/vllm/config/model.py", line 5, in __post_init__
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (999999) is greater than the derived max_model_len \
(max_position_embeddings=8192.0 or model_max_length=None in model's config.json). To allow overriding this maximum, \
set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. [type=value_error, input_value=ArgsKwargs((), {'model': 'm'}), \
input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
BELOW_ONE = """\
pydantic_core._pydantic_core.ValidationError: 2 validation errors for SchedulerConfig
max_num_batched_tokens
  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]
    For further information visit https://errors.pydantic.dev/2.14/v/greater_than_equal
max_num_seqs
  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]
"""
NO_MEMORY = """\
(Worker pid=7) ERROR 11-30 16:21:41 [multiproc_executor.py:953] WorkerProc hit an exception.
(Worker pid=7) ERROR 11-30 16:21:41 [multiproc_executor.py:953] Traceback (most recent call last):
(Worker pid=7) ERROR 11-30 16:21:41 [multiproc_executor.py:953] ValueError: Available memory on node 0 (10.98/13.46 \
GiB) on kv cache allocation is less than requested memory for kv (4000.0 GiB). Decrease VLLM_CPU_KVCACHE_SPACE.
(EngineCore pid=5) ERROR 11-30 16:21:44 [core.py:1510] EngineCore failed to start.
(EngineCore pid=5) ERROR 11-30 16:21:44 [core.py:1510] RuntimeError: Worker failed with error 'Available memory on \
node 0', please check the stack trace above for the root cause
(EngineCore pid=5) RuntimeError: Worker failed with error 'x', please check the stack trace above for the root cause
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
OUT_OF_MEMORY = """\
(Worker pid=7) ERROR 11-30 16:21:41 [x.py:9] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. \
GPU 0 has a total capacity of 79.10 GiB of which 1.10 GiB is free.
(EngineCore pid=5) ERROR 11-30 16:21:44 [core.py:1510] Exception: WorkerProc initialization failed due to an exception \
in a background process. See stack trace for root cause.
"""


def test_facts_of_an_int8_start_on_a_processor() -> None:
    facts = server_log.facts(INT8_START)
    assert facts.linear_kernels == ("CPUInt8ScaledMMLinearKernel",)
    assert (facts.kv_cache_tokens, facts.kv_cache_gib, facts.max_concurrency) == (46_592, 2.0, 22.75)
    assert (facts.dtype, facts.quantization, facts.max_model_len) == ("float32", "compressed-tensors", 2048)
    assert facts.prefix_caching is False
    assert facts.engine_init_s == 3.06
    assert (facts.weights_gib, facts.attention_backend, facts.weight_only) == (None, "", False)
    assert facts.warnings == ("Enforce eager set, disabling torch.compile",)


def test_facts_of_a_gpu() -> None:
    facts = server_log.facts(GPU_LINES)
    assert facts.linear_kernels == ("CutlassFP8ScaledMMLinearKernel",)
    assert facts.attention_backend == "FLASH_ATTN"
    assert facts.moe_backends == ("TRITON",)
    assert (facts.weights_gib, facts.kv_cache_gib) == (56.93, 65.12)
    assert facts.weight_only


def test_what_the_log_does_not_say_stays_empty() -> None:
    assert server_log.facts("") == server_log.LogFacts()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (0, "starting Python"),
        (1, "reading the model's configuration"),
        (3, "starting the engine core"),
        (5, "profiling memory"),
        (7, "warming up"),
        (8, "warmed up"),
    ],
)
def test_progress_follows_the_log(lines: int, words: str) -> None:
    log = "\n".join(INT8_START.replace("model   m-W8A8", "version 0.32.0").splitlines()[:lines])
    assert server_log.progress(log) == words


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (BAD_ARGUMENT, "argument --max-num-seqs: invalid int value: 'abc'"),
        (
            TOO_LONG,
            "User-specified max_model_len (999999) is greater than the derived max_model_len "
            "(max_position_embeddings=8192.0 or model_max_length=None in model's config.json).",
        ),
        (
            BELOW_ONE,
            "max_num_batched_tokens: Input should be greater than or equal to 1; "
            "max_num_seqs: Input should be greater than or equal to 1",
        ),
        (
            NO_MEMORY,
            "Available memory on node 0 (10.98/13.46 GiB) on kv cache allocation is less than requested memory for kv "
            "(4000.0 GiB).",
        ),
        (OUT_OF_MEMORY, "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        ("python: No module named vllm\n", "No module named vllm"),
        ("ModuleNotFoundError: No module named 'vllm'\n", "ModuleNotFoundError: No module named 'vllm'"),
        ("RuntimeError: Engine core initialization failed. See root cause above.\n", ""),
        (INT8_START, ""),
    ],
)
def test_the_reason_is_the_root_cause_in_one_sentence(log: str, reason: str) -> None:
    assert server_log.failure_reason(log) == reason


def test_a_killed_engine_names_the_signal_only_where_the_log_names_nothing() -> None:
    assert "signal 9" in server_log.failure_reason(INT8_START, 137)
    assert "abc" in server_log.failure_reason(BAD_ARGUMENT, 137)


def test_a_reason_shows_no_path_of_this_machine_and_has_an_end() -> None:
    reason = server_log.failure_reason("OSError: can't load /srv/models/secret/m: " + "word " * 200)
    assert "/srv" not in reason
    assert "can't load m:" in reason
    assert len(reason) <= server_log.SENTENCE_LIMIT + 4


def test_the_log_of_an_earlier_start_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    assert (server_log.size_of(path), server_log.read_from(path, 0)) == (0, "")
    path.write_text(BAD_ARGUMENT)
    offset = server_log.size_of(path)
    with path.open("a") as file:
        file.write("new\n")
    assert server_log.read_from(path, offset) == "new\n"


def test_tail_leaves_out_empty_lines() -> None:
    assert server_log.tail("a\n\nb\n  \nc\n", 2) == "b\nc"
