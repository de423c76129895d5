"""`kitedash records`: what is printed and written, how it exits, and that any changed byte is found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from db.engine import dispose_engines, make_engine, sessions
from kitedash.services import records
from kitedash.settings import settings
from tests.db.decided import PRICES, a_draft, accepted, decided, store_experiment
from tests.db.test_cli import kitedash
from tests.unit.services.decisions import WRITTEN

pytestmark = pytest.mark.database
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    book = tmp_path / "prices.yaml"
    book.write_text(PRICES, encoding="utf-8")
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KITEDASH_PRICE_BOOK", str(book))
    monkeypatch.delenv("KITEDASH_DATABASE_URL", raising=False)
    settings.cache_clear()
    yield
    settings.cache_clear()
    dispose_engines()


@pytest.fixture
def two() -> None:
    store_experiment(sessions(settings().url))
    decided()
    decided(supersedes=1, title="Serve fp8 after all")


def test_nothing_recorded_is_said_and_is_no_failure() -> None:
    for command in ("list", "verify"):
        result = kitedash("records", command)
        assert result.exit_code == 0
        assert result.stdout.startswith("No decision has been recorded")
        assert json.loads(kitedash("records", command, "--json").stdout) == []


@pytest.mark.usefixtures("two")
def test_the_list_has_the_newest_first_with_their_status() -> None:
    lines = kitedash("records", "list").stdout.splitlines()
    assert lines[0].split() == ["RECORD", "TITLE", "CHOSEN", "EXPERIMENT", "ACCEPTED", "BY", "STATUS"]
    assert [line.split()[0] for line in lines[1:]] == ["2", "1"]
    assert lines[1].endswith("Ann  accepted")
    assert lines[2].endswith("Ann  superseded by record 2")
    listed = json.loads(kitedash("records", "list", "--json").stdout)
    assert [(one["number"], one["superseded_by"]) for one in listed] == [(2, None), (1, 2)]


@pytest.mark.usefixtures("two")
def test_show_prints_the_markdown_or_the_document() -> None:
    assert kitedash("records", "show", 2).stdout == records.export_markdown(2)
    shown = json.loads(kitedash("records", "show", 2, "--json").stdout)
    assert shown["document"]["title"] == "Serve fp8 after all"
    assert shown["sha256"] == records.record(2).sha256


@pytest.mark.usefixtures("two")
def test_exports_are_written_byte_for_byte_and_verified(tmp_path: Path) -> None:
    files = [tmp_path / "1.json", tmp_path / "1.md"]
    for file, form in zip(files, ("json", "markdown"), strict=True):
        assert kitedash("records", "export", 1, "--format", form, "--out", file).exit_code == 0
    assert files[0].read_bytes() == records.export_json(1) == kitedash("records", "export", 1).stdout_bytes
    assert files[1].read_text(encoding="utf-8") == records.export_markdown(1)
    result = kitedash("records", "verify", *files)
    assert result.exit_code == 0
    assert [line[:17] for line in result.stdout.splitlines()] == ["ok       record 1"] * 2


@pytest.mark.usefixtures("two")
def test_verify_prints_a_line_a_record_and_exits_with_1_on_a_finding(tmp_path: Path) -> None:
    result = kitedash("records", "verify")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"ok       record {number}: document, hash, table and chain and evidence agree." for number in (1, 2)
    ]
    file = tmp_path / "1.json"
    file.write_bytes(records.export_json(1).replace(b"the fastest", b"the fattest"))
    result = kitedash("records", "verify", file)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"CHANGED  record 1 ({file}): It was changed: the first difference is document.why, ")

    engine = make_engine(settings().url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER decision_records_no_update"))
        connection.execute(sa.text("UPDATE decision_records SET document = replace(document, 'Slower', 'Faster')"))
    engine.dispose()
    result = kitedash("records", "verify", "--no-evidence")
    assert result.exit_code == 1
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["CHANGED  record 1", "CHANGED  record 2"]
    found = json.loads(kitedash("records", "verify", "--json").stdout)
    assert [(one["what"], one["ok"]) for one in found] == [("record 1", False), ("record 2", False)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", 1), "There is no decision record 1."),
        (("show", 10**20), f"There is no decision record {10**20}."),
        (("export", 10**20), f"There is no decision record {10**20}."),
        (("export", 1), "There is no decision record 1."),
        (("export", 1, "--format", "pdf"), "--format: 'pdf' is not allowed; use json or markdown"),
        (("verify", "no-such.json"), "no-such.json: the file can't be read (No such file or directory)"),
        (("verify", "/"), "/: the file can't be read (Is a directory)"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_2(arguments: tuple[str, ...], sentence: str) -> None:
    result = kitedash("records", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"kitedash: {sentence}\n"


@pytest.mark.usefixtures("two")
def test_a_file_that_can_not_be_written_is_one_sentence(tmp_path: Path) -> None:
    result = kitedash("records", "export", 1, "--out", tmp_path / "nowhere" / "1.json")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "the file can't be written (No such file or directory)" in result.stderr


def test_a_huge_file_is_a_finding_and_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "huge.json"
    with file.open("wb") as opened:
        opened.truncate(10**12)  # a hole: 1 TB that takes no space
    result = kitedash("records", "verify", file)
    assert result.exit_code == 1
    assert result.stdout == f"CHANGED  {file}: It has more than 8,000,000 bytes, so it is no export.\n"


def test_listing_and_verifying_load_no_statistics() -> None:
    heavy = ("dbos", "alembic", "scipy", "pandas", "torch", "vllm", "streamlit")
    code = f"import sys, kitedash.services.records\nprint([name for name in {heavy} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_every_single_changed_byte_of_an_export_is_found() -> None:
    """Each position once with its lowest bit turned, so letters, quotes, braces, digits and the hash itself; some also
    with their highest, so that the file is no UTF-8 text any more."""
    store_experiment(sessions(settings().url), only=1)
    content = {**WRITTEN, "rejected": {}}
    accepted(a_draft(candidate_name="float32", content=content))
    data = records.export_json(1)
    assert records.verify_export("r.json", data).ok
    named = attempts = 0
    for at in range(len(data)):
        for turned in (0x01, 0x80) if at % 101 == 0 else (0x01,):
            attempts += 1
            changed = data[:at] + bytes([data[at] ^ turned]) + data[at + 1 :]
            found = records.verify_export("r.json", changed)
            assert not found.ok, at
            assert found.what == "record 1 (r.json)", (at, found)
            named += "first difference" in found.sentence
    assert named > 0.99 * attempts
