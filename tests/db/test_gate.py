"""`kitedash gate` over a database: its three answers, what it refuses, and what a pipeline reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from sqlalchemy.orm import Session, sessionmaker
from typer.testing import CliRunner

from db import experiments
from kitedash.cli import app
from kitedash.settings import settings
from tests.db.rows import NOON
from tests.db.test_tradeoff import PRICES, store_run
from tests.unit.services.evidence import SPEC

pytestmark = pytest.mark.database
# Both hold 4/s with P90 TTFT 900 [800, 950] ms: 3 replicas, 0.9 USD. float32 passes 300 of 400, 75 % [70.5, 79.2].
MEETS = "targets: {ttft_p90_ms: 1000, cost_per_1000_requests_usd: 2, pass_rate: 0.6}\n"
MISSES = "targets: {ttft_p90_ms: 1000, cost_per_1000_requests_usd: 2, pass_rate: 0.9}\n"
UNCERTAIN = "targets: {ttft_p90_ms: 1000, cost_per_1000_requests_usd: 2, pass_rate: 0.75}\n"


@pytest.fixture(autouse=True)
def stored(url: str, store: sessionmaker[Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    book = tmp_path / "prices.yaml"
    book.write_text(PRICES, encoding="utf-8")
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    monkeypatch.setenv("KITEDASH_PRICE_BOOK", str(book))
    settings.cache_clear()
    with store.begin() as session:
        experiments.add(session, "e1", SPEC, "0" * 64, created_by="test", now=NOON)
        store_run(session, "r1", "float32", 0)
        store_run(session, "r2", "fp8", 1, suites={"kitedash_repo": (400, 220), "hellaswag_100": (400, 200)})
    yield
    settings.cache_clear()


def gate(tmp_path: Path, targets: str, *arguments: object) -> Result:
    file = tmp_path / "targets.yaml"
    file.write_text(targets, encoding="utf-8")
    return CliRunner().invoke(app, ["gate", "e1", "--targets", str(file), *map(str, arguments)])


@pytest.mark.parametrize(("targets", "status"), [(MEETS, 0), (MISSES, 1), (UNCERTAIN, 2)])
def test_three_answers(tmp_path: Path, targets: str, status: int) -> None:
    assert gate(tmp_path, targets, "--candidate", "float32").exit_code == status


def test_one_candidate_is_enough_unless_both_are_named(tmp_path: Path) -> None:
    """fp8 lost 80 of 400 items, 20 points with a margin of 5."""
    assert gate(tmp_path, MEETS).exit_code == 0
    assert gate(tmp_path, MEETS, "--candidate", "fp8").exit_code == 1
    assert gate(tmp_path, MEETS, "--candidate", "float32", "--candidate", "fp8").exit_code == 1


def test_the_text_has_the_numbers(tmp_path: Path) -> None:
    said = gate(tmp_path, UNCERTAIN, "--candidate", "float32").stdout
    assert "float32: uncertain" in said
    assert "P90 TTFT: 900 ms [800 ms, 950 ms] n " in said
    assert "pass rate: 75.0 % [" in said
    assert "at least 75.0 %" in said


def test_junit_never_passes_what_is_uncertain(tmp_path: Path) -> None:
    out = tmp_path / "gate.xml"
    assert gate(tmp_path, UNCERTAIN, "--junit", out).exit_code == 2
    suites = {suite.get("name"): suite for suite in ElementTree.fromstring(out.read_bytes())}
    assert set(suites) == {"float32", "fp8"}
    float32, fp8 = suites["float32"], suites["fp8"]
    assert (float32.get("tests"), float32.get("failures"), float32.get("errors")) == ("5", "0", "1")
    (unsure,) = float32.findall("testcase/error")
    assert "75.0 %" in (unsure.get("message") or "")
    assert {case.get("name") for case in fp8.findall("testcase[failure]")} == {"pass rate", "quality on kitedash_repo"}


def test_json_for_a_script(tmp_path: Path) -> None:
    found = json.loads(gate(tmp_path, MISSES, "--json").stdout)
    assert found["status"] == "misses"
    assert [one["candidate"] for one in found["candidates"]] == ["float32", "fp8"]


@pytest.mark.parametrize(
    ("targets", "arguments", "sentence"),
    [
        ("targets: {ttft_p90_ms: 1}\n", (), "targets.cost_per_1000_requests_usd"),
        ("targets: 5\n", (), "targets"),
        ("- 1\n", (), "a targets file has the groups targets and guardrails"),
        (MEETS, ("--candidate", "int4"), "is none of the experiment's: "),
        (MEETS, ("--junit", "/nowhere/gate.xml"), "the file can't be written"),
    ],
)
def test_what_it_refuses_is_not_taken_for_uncertain(
    tmp_path: Path, targets: str, arguments: tuple[str, ...], sentence: str
) -> None:
    result = gate(tmp_path, targets, *arguments)
    assert result.exit_code == 3
    assert sentence in result.stderr


def test_an_unknown_experiment_and_a_missing_file(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["gate", "nothing"]).exit_code == 3
    missing = CliRunner().invoke(app, ["gate", "e1", "--targets", str(tmp_path / "none.yaml")])
    assert (missing.exit_code, "can't be read" in missing.stderr) == (3, True)
