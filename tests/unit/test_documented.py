"""What a person can set, type or read is written down: settings, command-line options, numbers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer.main

from kitedash.cli import app
from kitedash.domain import decision_document, results
from kitedash.domain.run_time import Minutes
from kitedash.services import table, views
from kitedash.settings import Settings
from tests.unit.services.decisions import gathered

ROOT = Path(__file__).resolve().parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
METRICS = ROOT / "docs" / "metrics.md"

# Numbers that a page, a table, an export or a record shows: the fields of these types that hold some.
NUMBERS = (
    *(results.LevelSummary, views.LevelPoint, views.CostAt, views.SuiteView, views.CandidateView, views.RunView),
    *(
        part
        for part in vars(decision_document).values()
        if getattr(part, "__module__", "") == decision_document.__name__
    ),
)
NUMBER_TYPES = {int, float, results.Estimate, Minutes}
NO_METRICS = {"format", "number", "supersedes"}  # of a record: its place in the list
# Columns of the trade-off's flat rows that hold text, or say which candidate it is.
NO_NUMBERS = {
    *("candidate", "run_id", "run_status", "error", "is_baseline", "kernel", "kernel_note", "verdicts", "settles"),
    *("ttft_status", "cost_status", "pass_rate_status", "status", "notes"),
}


def section(title: str) -> str:
    return OPERATING.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_setting_is_documented_and_nothing_else_is() -> None:
    documented = re.findall(r"^\| `(KITEDASH_\w+)` \|", section("Settings"), re.MULTILINE)
    assert sorted(documented) == sorted(f"KITEDASH_{name.upper()}" for name in Settings.model_fields)


@pytest.mark.parametrize(
    "name", [name for name, field in Settings.model_fields.items() if type(field.default) is not str]
)
def test_documented_defaults_are_the_real_ones(name: str) -> None:
    default = Settings.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, Path):
        default = default.relative_to(ROOT)
    said = re.search(rf"^\| `KITEDASH_{name.upper()}` \| ([^|]+) \|", OPERATING, re.MULTILINE)
    assert said is not None
    number = re.fullmatch(r"`([\d.]+)`", said[1])
    assert float(number[1]) == default if number else f"`{default}`" in said[1]


def commands() -> Iterator[tuple[str, list[str], str]]:
    """Name, long options and help of every command, such as "records list"; "" is the command without one."""
    group = typer.main.get_command(app)
    yield "", _options(group), group.help or ""
    for name, command in group.commands.items():  # type: ignore[attr-defined]  # it is a group
        inner = getattr(command, "commands", {None: command})
        for sub_name, sub_command in inner.items():
            yield " ".join(filter(None, (name, sub_name))), _options(sub_command), sub_command.help or ""


def _options(command: object) -> list[str]:
    found = [name for parameter in command.params for name in parameter.opts]  # type: ignore[attr-defined]
    return [name for name in found if name.startswith("--") and name != "--help"]


@pytest.mark.parametrize(("name", "options", "help_text"), list(commands()))
def test_every_command_and_option_is_documented(name: str, options: list[str], help_text: str) -> None:
    text = section("Commands")
    line = next((line for line in text.splitlines() if name and re.match(rf"\| `{name}\b", line)), text)
    assert name == "" or line is not text, f"docs/operating.md has no line for `kitedash {name}`"
    assert help_text, f"`kitedash {name} --help` says nothing"
    for option in options:
        assert f"`{option}" in (text if option == "--json" else line) or f"kitedash {option}`" in text, option


def test_no_command_is_documented_that_is_not_there() -> None:
    documented = set(re.findall(r"^\| `([a-z]+(?: [a-z]+)?)\b", section("Commands"), re.MULTILINE))
    assert documented == {name for name, _, _ in commands() if name}


def metric_names() -> Iterator[str]:
    """Fields that hold numbers, in view models and records."""
    for kind in filter(dataclasses.is_dataclass, NUMBERS):
        for name, hint in get_type_hints(kind).items():
            if {hint, *get_args(hint)} & NUMBER_TYPES and name not in NO_METRICS:
                yield name


def column_names() -> Iterator[str]:
    """Columns of the trade-off's table as a file. An interval's ends and the sample size go by their estimate."""
    keys = [key for key in table.rows(gathered().view)[0] if key not in NO_NUMBERS]
    estimates = [key.removesuffix("_n") for key in keys if key.endswith("_n")]
    yield from (key for key in keys if not any(re.match(rf"{stem}_(low|high|n)(?![a-z])", key) for stem in estimates))


@pytest.mark.parametrize("name", sorted({*metric_names(), *column_names()}))
def test_every_number_is_defined(name: str) -> None:
    names = METRICS.read_text(encoding="utf-8").split("\n## Names\n")[1]
    assert re.search(rf"^\|[^|]*`{name}`[^|]*\|", names, re.MULTILINE), f"docs/metrics.md does not name `{name}`"


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    for path in ROOT.glob("requirements*.txt"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "==" in line and not line.startswith("#"):
                package = re.split(r"=|\[", line)[0].lower()
                assert re.search(rf"\b{re.escape(package)}\b", text), f"{path.name}: {package}"


def test_every_make_target_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    described = dict(re.findall(r"^([a-z-]+):.*## (.+)$", text, re.MULTILINE))
    assert targets - {"setup-dev"} == set(described)


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_every_relative_link_and_picture_is_there(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} points to {target}"
