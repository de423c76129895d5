from __future__ import annotations

import pytest

from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ExperimentSpec, Workload
from kitedash.domain.experiment_file import parse_experiment, to_yaml

FILE = """
name: kinds
model: m
candidates: [{name: a, engine_args: {max-model-len: LENGTH}}]
baseline: a
workload: WORKLOAD
load: {rates_per_s: [1, 2, 4], warm_up_s: 5, ramp_s: RAMP}
targets: {ttft_p90_ms: 1000, cost_per_1000_requests_usd: 1, pass_rate: 0.5}
guardrails: {tpot_p90_ms: 150}
"""
CHAT = "{name: chat, weight: 3, input_tokens: 300, shared_prefix_tokens: 200, output_tokens: 50}"
TAB = "{name: tab, kind: completion, input_tokens: 100, shared_prefix_tokens: 50, output_tokens: 10}"


def experiment(workload: str, length: int = 4_096, ramp: float = 0) -> ExperimentSpec:
    text = FILE.replace("WORKLOAD", workload).replace("LENGTH", str(length)).replace("RAMP", str(ramp))
    return parse_experiment(text)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (f"{{mix: [{CHAT}], input_tokens: 500}}", "workload.input_tokens: counts for nothing beside a mix"),
        (f"{{mix: [{CHAT}], turns: 2}}", "workload.turns: counts for nothing beside a mix"),
        (f"{{mix: [{CHAT}, {CHAT}]}}", "workload.mix: holds 'chat' twice"),
        (f"{{mix: [{CHAT}], trace: monday}}", "workload.trace: can't stand beside a mix"),
        ("{trace: monday, output_tokens: 5}", "workload.output_tokens: counts for nothing beside a trace"),
        ("{trace: monday, arrivals: gamma}", "workload.arrivals: counts for nothing beside a trace"),
        ("{trace: ../x}", "workload.trace: must begin with a letter or digit and hold only letters"),
        ("{mix: [{weight: 1}]}", "workload.mix[0].name: is missing"),
        ("{mix: [{name: a, weight: 0}]}", "workload.mix[0].weight: must be above 0, not 0"),
        ("{mix: [{name: a, input_tokens: 100}]}", "workload.mix[0].shared_prefix_tokens: must be at least 4 below"),
        ("{kind: completion, turns: 2}", "workload.turns: must be 1 where kind is completion"),
        ("{kind: chatter}", "workload.kind: must be 'chat' or 'completion', not 'chatter'"),
    ],
)
def test_what_goes_together(workload: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        experiment(workload, length=10_000)
    assert says in str(caught.value)


def test_a_context_must_hold_the_longest_turn_of_the_longest_kind() -> None:
    # 300 at first; two more turns of 100 own tokens, each with the 50 of the answer before it; and 50 of its own.
    talk = CHAT.replace("output_tokens: 50", "output_tokens: 50, turns: 3")
    needed = 300 + 2 * (100 + 50) + 50
    assert experiment(f"{{mix: [{talk}, {TAB}]}}", needed).workload.longest_request_tokens == needed
    with pytest.raises(InvalidInput, match=f"max-model-len: must hold.*{needed}"):
        experiment(f"{{mix: [{talk}, {TAB}]}}", needed - 1)
    assert experiment("{trace: monday}", 16).workload.trace == "monday", "a trace is asked at launch"


def test_files_with_a_mix_or_a_trace_are_written_back() -> None:
    for workload in (f"{{mix: [{CHAT}, {TAB}], arrivals: gamma, burstiness: 4}}", "{trace: monday}", "{turns: 1}"):
        spec = experiment(workload, 10_000)
        assert parse_experiment(to_yaml(spec)) == spec


def test_the_ramp_is_part_of_the_warm_up() -> None:
    assert experiment("{}", 10_000, ramp=5).load.ramp_s == 5
    with pytest.raises(InvalidInput, match=r"load\.ramp_s: must be at most warm_up_s \(5\), which is left out, not 6"):
        experiment("{}", 10_000, ramp=6)


def test_a_trace_may_share_more_than_the_default_prompt_holds() -> None:
    workload = experiment("{trace: monday, shared_prefix_tokens: 20000}", 16).workload
    assert workload.classes[0].shared_prefix_tokens == 20_000


def test_the_mean_answer_of_a_mix() -> None:
    assert experiment(f"{{mix: [{CHAT}, {TAB}]}}").workload.mean_output_tokens == (3 * 50 + 10) / 4
    assert Workload().mean_output_tokens == 400
    assert Workload(trace="monday").mean_output_tokens is None
