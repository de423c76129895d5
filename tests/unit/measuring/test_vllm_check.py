"""vLLM's own parser, asked in a process of its own; and the allow-list held against it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from kitedash.domain.engine_args import ALLOWED, QUANTIZATION
from kitedash.domain.environment import ALLOWED_ENVIRONMENT
from kitedash.domain.experiment import ArgValue, Candidate
from kitedash.measuring import vllm_check
from kitedash.measuring.vllm_check import one_sentence, parser_refusals

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed here")


def test_one_sentence_of_a_message() -> None:
    assert one_sentence("It is\n  too long (1.5 of 2). Set X to allow it.\n") == "It is too long (1.5 of 2)"
    assert one_sentence("argument --dtype: invalid choice: 'x'") == "argument --dtype: invalid choice: 'x'"
    assert len(one_sentence("x" * 900)) == 300


def test_without_vllm_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = Candidate(name="a", model="m", engine_args={"nonsense": 1})
    assert parser_refusals([found, found], device_kind="cpu") == (None, None)


@needs_vllm
def test_a_parser_that_does_not_answer_refuses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    found = Candidate(name="a", model="m", engine_args={"nonsense": 2})
    assert parser_refusals([found], device_kind="cpu", timeout_s=0.01) == (None,)
    assert "did not answer within" in caplog.text


@needs_vllm
@pytest.mark.real
def test_the_allow_list_is_what_vllms_parser_accepts() -> None:
    labels: list[tuple[str, ArgValue]] = []
    for rule in ALLOWED.values():
        if rule.name == QUANTIZATION:
            continue
        bounds: dict[str, tuple[ArgValue, ...]] = {
            "bool": (True, False),
            "choice": rule.choices,
            "int": (int(rule.low), int(rule.high)),
            "float": (rule.low, rule.high),
        }
        labels += [(rule.name, value) for value in bounds[rule.kind]]
    allowed = [Candidate(name="a", model="m", engine_args={name: value}) for name, value in labels]
    wrong = [
        Candidate(name="a", model="m", engine_args={"nonsense": 3}),
        Candidate(name="a", model="m", engine_args={"dtype": "float8"}),
        Candidate(name="a", model="m", engine_args={"max-num-seqs": "x"}),
    ]
    answers = parser_refusals([*allowed, *wrong], device_kind="cpu")
    refused = {label: said for label, said in zip(labels, answers[: len(labels)], strict=True) if said}
    assert refused == {}
    assert answers[len(labels) :] == (
        "unrecognized arguments: --nonsense",
        "argument --dtype: invalid choice: 'float8' (choose from 'auto', 'bfloat16', 'float', 'float16', 'float32', "
        "'half')",
        "argument --max-num-seqs: invalid int value: 'x'",
    )


@needs_vllm
@pytest.mark.real
def test_a_second_question_is_answered_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Candidate(name="a", model="m", engine_args={"dtype": "float8"})
    first = parser_refusals([found], device_kind="cpu")
    monkeypatch.setattr(vllm_check, "_ask", lambda *_, **__: pytest.fail("vLLM was asked again"))
    assert parser_refusals([found], device_kind="cpu") == first
    assert first[0] is not None


@needs_vllm
@pytest.mark.real
def test_vllm_reads_the_allowed_variables() -> None:
    code = "import json, sys, vllm.envs; json.dump(sorted(vllm.envs.environment_variables), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    known = set(json.loads(done.stdout[done.stdout.index("[") :]))
    assert {name for name in ALLOWED_ENVIRONMENT if name.startswith("VLLM_")} <= known
