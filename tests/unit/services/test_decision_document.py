"""The document: each part of the contract is in it, with numbers as the trade-off shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kitedash import __version__
from kitedash.domain.canonical_json import canonical, sha256_of
from kitedash.domain.decision import DraftContent, content_from
from kitedash.domain.decision_document import Document, Option
from kitedash.domain.experiment import Targets
from kitedash.domain.results import LevelSummary, RunStatus
from kitedash.services.decide import reasons_needed
from kitedash.services.decision_document import document
from kitedash.services.evidence import MeasuredTwice
from kitedash.services.tradeoff import assemble
from tests.unit.services.decisions import WRITTEN, a_document, candidates, gathered
from tests.unit.services.evidence import REPO, answers, suite


def option(document: Document, name: str) -> Option:
    return next(found for found in document.options if found.name == name)


def test_each_candidate_has_its_role_and_reason() -> None:
    document = a_document()
    assert [(found.name, found.role) for found in document.options] == [
        ("float32", "rejected member of the front"),
        ("fp8", "chosen"),
        ("slow", "other"),
        ("broken", "other"),
    ]
    assert option(document, "float32").is_baseline
    assert option(document, "float32").reason == WRITTEN["rejected"]["float32"]
    assert option(document, "float32").product_reason == ""
    assert option(document, "fp8").reason == ""
    assert option(document, "slow").product_reason == (
        "float32 and fp8 are at least as good in all three numbers, and better in one."
    )
    assert option(document, "broken").product_reason == "Not measured: it failed with: The engine ran out of memory."


def test_reasons_are_needed_for_the_front_and_the_baseline() -> None:
    view = gathered().view
    assert reasons_needed(view, "fp8") == ("float32",)
    assert reasons_needed(view, "float32") == ("fp8",)
    assert reasons_needed(view, "slow") == ("float32", "fp8")


def test_numbers_are_those_of_the_view_with_interval_and_n() -> None:
    numbers = option(a_document(), "fp8").numbers
    assert numbers.ttft_p90_ms is not None
    assert (numbers.ttft_p90_ms.value, numbers.ttft_p90_ms.low, numbers.ttft_p90_ms.n) == (600, 540, 400)
    assert numbers.rate_held_per_s is not None
    assert numbers.rate_held_per_s.value == 4
    assert numbers.pass_rate is not None
    assert (numbers.pass_rate.value, numbers.pass_rate.n) == (0.75, 400)
    # 10,000 users x 20 requests a day x peak 5 = 11.57/s: 3 replicas at 4/s, 2.50 USD an hour each, 200,000 requests
    assert numbers.cost is not None
    assert numbers.cost.replicas == 3
    assert numbers.cost.deployed_usd.value == pytest.approx(3 * 2.5 * 24 / 200)
    assert numbers.cost.saturated_usd.value == pytest.approx(2.5 / (4 * 3600) * 1000)
    assert option(a_document(), "broken").numbers.cost is None


def test_what_the_chosen_one_gives_up_is_said_of_the_front_and_the_baseline_only() -> None:
    document = a_document()
    against = option(document, "float32").gives_up
    assert [one.dimension for one in against] == ["P90 TTFT", "deployed cost", "pass rate"]
    assert against[0].outcome == "better"
    assert against[2].outcome == "worse"
    assert against[2].change is not None
    assert against[2].change.value == pytest.approx(-10 / 400)
    broken_items = {one.suite: len(one.broken) for one in option(document, "float32").items}
    assert broken_items == {"kitedash_repo": 10, "hellaswag_100": 0}
    assert option(document, "slow").gives_up == ()


def test_provenance_is_complete() -> None:
    document = a_document()
    fp8 = option(document, "fp8")
    assert fp8.server is not None
    assert (fp8.server.vllm_version, fp8.server.torch_version, fp8.server.device_name) == ("0.32.0", "2.10", "Some CPU")
    assert (fp8.price.usd_per_hour, fp8.price.source, fp8.price.date) == (2.5, "a list", "2026-11-30")
    assert [(run.run_id, run.sha256) for run in fp8.evidence] == [("run-fp8", sha256_of("run-fp8"))]
    assert option(document, "broken").server is None
    assert document.kitedash_version == __version__
    assert document.experiment.spec_sha256 == sha256_of(document.experiment.spec_json)
    assert "Measured on a CPU" in document.notes[0]


def test_moved_targets_and_a_choice_against_the_recommendation_are_in_it() -> None:
    document = a_document(targets=Targets(ttft_p90_ms=950, cost_per_1000_requests_usd=1, pass_rate=0.6), chosen="slow")
    assert document.targets.written.ttft_p90_ms == 1_000
    assert document.targets.used.ttft_p90_ms == 950
    assert document.targets.differ
    assert document.recommendation.differs
    assert document.recommendation.candidate == "fp8"
    assert option(document, "slow").product_reason  # that the chosen one is dominated is not kept silent


def test_the_canonical_document_has_no_bare_fraction_and_keeps_every_key() -> None:
    def refuse(text: str) -> Any:
        raise AssertionError(text)

    document = a_document()
    parsed = json.loads(canonical(document), parse_float=refuse, parse_constant=refuse)
    assert parsed["options"][1]["numbers"]["ttft_p90_ms"]["value"] == "600.0"
    assert parsed["accepted_at"] == "2026-11-30T12:00:00Z"
    assert (parsed["number"], parsed["supersedes"], parsed["previous_sha256"]) == (7, 3, "ab" * 32)
    assert parsed["workload"]["requests_per_day"] == "200000.0"


def test_a_draft_says_that_it_is_one() -> None:
    document = a_document(content=DraftContent(), accepted=None)
    assert (document.status, document.number, document.accepted_at) == ("draft", None, None)


VERSIONS = "It did not answer the same version of the repository suite as the baseline, so it was not compared."
REQUESTS = "It was measured with other requests than the baseline, so its latency and its cost do not compare."
RIVALS = "Only what was measured with other requests than the baseline is at least as good in all three numbers."
OTHER_VERSION = {REPO: suite(REPO, answers(400, 290), version="v2")}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "float32 and fp8 are at least as good in all three numbers, and better in one."),
        ({"suites": OTHER_VERSION}, VERSIONS),
        ({"other_requests": True}, REQUESTS),
        ({"suites": {}}, "It has no pass rate, so it could not be compared in all three numbers."),
        ({"facts": None}, "It has no price of its device, so it could not be compared in all three numbers."),
    ],
)
def test_what_is_on_no_front_is_told_by_its_true_cause(changes: dict[str, Any], says: str) -> None:
    float32, fp8, slow, _ = candidates()
    assert option(a_document(float32, fp8, replace(slow, **changes)), "slow").product_reason == says


def test_what_was_measured_with_other_requests_is_named_as_better_by_no_number() -> None:
    float32, fp8, slow, _ = candidates()
    document = a_document(float32, replace(fp8, other_requests=True), slow)
    assert option(document, "slow").product_reason == (
        "float32 is at least as good in all three numbers, and better in one."
    )
    document = a_document(replace(float32, other_requests=True), replace(fp8, other_requests=True), slow)
    assert option(document, "slow").product_reason == RIVALS


@pytest.mark.parametrize(("factor", "noise"), [(1.2, " What parts it from float32 is no more than noise."), (1.05, "")])
def test_what_is_behind_by_noise_only_is_said_to_be(factor: float, noise: str) -> None:
    """slow takes 990 ms at 4/s where float32 takes 900 ms, 10 % more, and passes as many items; fp8 takes 600 ms."""
    float32, fp8, slow, _ = candidates()
    found = gathered(float32, fp8, replace(slow, suites=float32.suites))
    again = tuple(
        replace(one, ttft_p90_ms=replace(one.ttft_p90_ms, value=_times(one, factor))) for one in float32.levels
    )
    twice = MeasuredTwice("run-float32", "again", RunStatus.FINISHED, float32.levels, again)
    evidence = replace(found.evidence, twice=twice)
    noisy = replace(
        found, evidence=evidence, view=assemble(evidence, found.prices), hashes={**found.hashes, "again": "7"}
    )
    made = document(noisy, "fp8", content_from(WRITTEN), supersedes=None)
    assert option(made, "slow").product_reason == (
        f"float32 is at least as good in all three numbers, and better in one.{noise}"
    )
    assert [run.run_id for run in option(made, "float32").evidence] == ["run-float32", "again"]
    assert [run.run_id for run in option(made, "fp8").evidence] == ["run-fp8"]
    assert any(note.startswith("Noise floor: the baseline measured twice differs by") for note in made.notes)


def _times(one: LevelSummary, factor: float) -> float:
    assert one.ttft_p90_ms.value is not None
    return one.ttft_p90_ms.value * factor
