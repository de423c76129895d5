"""The generator on small sources whose answers can be read off, on this repository and on the standard library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evals.admission import MAX_PROMPT_CHARS, chance, item_score, refusal
from evals.format import Item, read_items
from evals.generate import generate, main
from evals.python_questions import questions
from kitedash.settings import PROJECT_ROOT

SOURCE = """
import os
from enum import StrEnum

LIMIT = 20
NAMES = ("a", "b")
COMPUTED = 60 * 60
lower = 3
EMPTY = ""
if os.environ.get("NEVER"):
    raise SystemExit("this file was run")


class Color(StrEnum):
    RED = "red"


class Loose(object):
    pass


class Both(Color, Loose):
    pass


class Box(Color):
    size: int = 4
    label: str = ""

    def fill(self, what, depth=7, *, kind="x", where=None, when=LIMIT, **rest):
        def inner(deep=(1, 2)):
            return deep
        return inner
"""


def asked() -> dict[str, tuple[str, str]]:
    return {question.name: (question.kind, question.answer) for question in questions(SOURCE)}


def test_questions_are_those_a_reader_would_find() -> None:
    assert asked() == {
        "LIMIT": ("constant_value", "20"),
        "NAMES": ("constant_value", '("a", "b")'),
        "Color": ("base_class", "StrEnum"),
        "Color.RED": ("constant_value", '"red"'),
        "Box": ("base_class", "Color"),
        "Box.size": ("default_value", "4"),
        "Box.fill(depth)": ("default_value", "7"),
        "Box.fill(kind)": ("default_value", '"x"'),
        "Box.fill(where)": ("default_value", "None"),
        "Box.fill.inner(deep)": ("default_value", "(1, 2)"),
    }


def test_the_shown_code_holds_the_answer_and_is_what_the_lines_say() -> None:
    lines = SOURCE.splitlines()
    for question in questions(SOURCE):
        assert question.answer in question.code
        assert question.code_start <= question.line <= question.end_line <= question.code_end
        shown = lines[question.code_start - 1 : question.code_end]
        assert [line.strip() for line in question.code.splitlines()] == [line.strip() for line in shown]


def test_code_that_is_too_long_is_cut_but_never_before_the_answer() -> None:
    wide = "def f(\n" + "".join(f"    parameter_{i}={i},\n" for i in range(30)) + "):\n    pass\n"
    found = {question.subject: question for question in questions(wide)}
    assert "parameter_3" in found
    assert "parameter_29" not in found  # its header would not fit
    assert all(question.code.startswith("def f(") for question in found.values())


def test_a_file_that_is_no_python_asks_nothing() -> None:
    assert questions("def (") == []
    assert questions("") == []
    assert questions("A_B = 1\0") == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for number in range(12):
        text = f"class C{number}(Base{number}):\n    pass\n\n\nSIZE_{number} = {number + 100}\nFLAG_{number} = True\n"
        text += f"OTHER_{number} = {number + 500}\n\n\ndef f{number}(x={number + 900}):\n    return x\n"
        (tmp_path / f"m{number}.py").write_text(text)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.py").write_text("SECRET = 1\n")
    return tmp_path


def test_caps_hold_and_the_same_files_give_the_same_items(repository: Path) -> None:
    items = generate(repository, repo="r", per_kind=10, per_file=2, per_answer=3)
    kinds = [item.kind for item in items]
    assert {kind: kinds.count(kind) for kind in kinds} == {"base_class": 10, "constant_value": 10, "default_value": 10}
    for kind in set(kinds):
        paths = [item.path for item in items if item.kind == kind]
        assert max(paths.count(path) for path in paths) <= 2
        answers = [item.reference[0] for item in items if item.kind == kind]
        assert max(answers.count(answer) for answer in answers) <= 3
    assert not any(item.path.startswith("tests/") for item in items)
    assert items == generate(repository, repo="r", per_kind=10, per_file=2, per_answer=3)


def test_nothing_is_run(repository: Path) -> None:
    (repository / "danger.py").write_text("raise SystemExit('run')\nDANGER = 5\n")
    before = set(sys.modules)
    items = generate(repository, repo="r", per_kind=50, per_file=9, per_answer=9)
    assert any(item.id == "constant_value/danger.py/DANGER" for item in items)
    assert "danger" not in set(sys.modules) - before


def test_one_command_writes_a_file_that_reads_back(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "items.jsonl"
    assert main([str(repository), str(out), "--all-folders", "--name", "r"]) == 0
    assert "items in" in capsys.readouterr().out
    first = out.read_bytes()
    assert read_items(out)
    main([str(repository), str(out), "--all-folders", "--name", "r"])
    assert out.read_bytes() == first
    assert "schema" in json.loads(first.splitlines()[0])
    (tmp_path / "none").mkdir()
    assert main([str(tmp_path / "none"), str(out)]) == 1


def test_the_standard_library_gives_a_suite_that_is_admissible() -> None:
    root = Path(json.__file__).parent.parent / "email"
    items = generate(root, repo="cpython", per_kind=20, per_file=4, per_answer=3)
    assert len(items) > 25
    assert all(refusal(item, items) is None for item in items)


def test_this_repository_gives_the_size_that_was_promised() -> None:
    items = generate(
        PROJECT_ROOT, repo="kitedash", per_kind=32, per_file=4, per_answer=4, folders=["kitedash", "db", "evals"]
    )
    assert len(items) >= 60
    assert {item.kind for item in items} == {"default_value", "constant_value", "base_class"}
    assert max(item.prompt_chars for item in items) <= MAX_PROMPT_CHARS
    assert chance(items) < 0.25


def test_admission_refuses_what_measures_nothing(repository: Path) -> None:
    items = generate(repository, repo="r", per_kind=4, per_file=1, per_answer=1)
    item = items[0]

    def changed(**values: object) -> Item:
        return item.model_copy(update=values)

    assert refusal(item, items) is None
    assert item_score(item, item.reference[0]) == 1.0
    assert "stop string" in (refusal(changed(stop=(item.reference[0],)), items) or "")
    assert "characters" in (
        refusal(changed(messages=(item.messages[0].model_copy(update={"content": "x" * 5000}),)), items) or ""
    )
    assert "no other item" in (refusal(item, [item]) or "")
    foreign = next(other for other in items[1:] if other.kind == item.kind)
    assert "passes as well" in (refusal(changed(reference=(*item.reference, foreign.reference[0])), items) or "")
