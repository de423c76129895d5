"""Verifying exported records: here and elsewhere."""

from __future__ import annotations

import json

import pytest

from kitedash.domain import record_check
from kitedash.domain.canonical_json import sha256_of
from kitedash.services import records
from tests.db.decided import decided
from tests.db.decisions.forging import forge

pytestmark = pytest.mark.database


@pytest.mark.usefixtures("filled")
def test_an_untouched_export_agrees_here_and_with_itself_elsewhere(url: str) -> None:
    decided()
    for name, data in (("r.json", records.export_json(1)), ("r.md", records.export_markdown(1).encode())):
        found = records.verify_export(name, data)
        assert (found.what, found.ok) == (f"record 1 ({name})", True)
        assert found.sentence == "It agrees with its own hash and with the record stored here."
    kept = records.export_json(1), records.export_markdown(1).encode()
    decided(supersedes=1)
    for name, data in zip(("r.json", "r.md"), kept, strict=True):
        found = records.verify_export(name, data)
        assert found.ok
        assert found.sentence.endswith("Record 2 supersedes it.")
    assert records.verify_export("r.md", records.export_markdown(1).encode()).ok
    forge(url, "UPDATE decision_drafts SET accepted_number = NULL")
    forge(url, "DELETE FROM decision_records WHERE number = 2")
    forge(url, "DELETE FROM decision_records")
    for name, data in zip(("r.json", "r.md"), kept, strict=True):
        found = records.verify_export(name, data)
        assert (found.what, found.ok) == (f"record 1 ({name})", True)
        assert "no such record to compare it with" in found.sentence
        changed = data.replace(b"the fastest", b"the slowest")
        assert changed != data
        found = records.verify_export(name, changed)
        assert (found.what, found.ok) == (f"record 1 ({name})", False)
        assert found.sentence.startswith("It was changed")


@pytest.mark.usefixtures("filled")
def test_a_changed_field_of_an_export_is_named() -> None:
    decided()
    data = records.export_json(1)
    found = records.verify_export("r.json", data.replace(b'"value":"600.0"', b'"value":"500.0"', 1))
    assert (found.what, found.ok) == ("record 1 (r.json)", False)
    assert found.sentence.startswith("It was changed: the first difference is document.options[0].gives_up[0].chosen.")
    assert "'500.0' here and '600.0' stored" in found.sentence
    markdown = records.export_markdown(1)
    found = records.verify_export("r.md", markdown.replace("600 ms", "500 ms", 1).encode())
    line = next(i for i, text in enumerate(markdown.splitlines(), start=1) if "600 ms" in text)
    assert found.sentence.startswith(f"It was changed: the first difference is line {line} (Considered Options), ")


@pytest.mark.usefixtures("filled")
def test_an_export_of_another_database_is_not_the_record_here() -> None:
    decided()
    document = json.loads(records.export_json(1))["document"]
    document["title"] = "Another"
    text = record_check.written(document)
    found = records.verify_export("r.json", record_check.envelope(text, sha256_of(text)))
    assert not found.ok
    assert found.sentence == (
        "It agrees with itself, but is not the record stored here: the first difference is document.title, "
        "'Another' here and 'Serve fp8' stored."
    )


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("r.json", b""),
        ("r.json", b"\xff\xfe\x00"),
        ("r.json", b"{}"),
        ("r.json", b"[]"),
        ("r.json", b'{"document":{},"sha256":1}'),
        ("r.json", b'{"document":{"number":99999999999999999999},"sha256":"\\ud800"}'),
        ("r.json", b'{"document":{},"document":{},"sha256":""}'),
        ("r.json", b"[" * 1_000_000),
        ("r.json", b" " * 8_000_001),
        ("r.json", b'{"document":{"number":1},"sha256":"\\u0000"}'),
        ("r.json", b'{"document":{"number":100000000000000000000},"sha256":"' + b"0" * 64 + b'"}'),
        ("r.md", b'---\nsha256: "\\0"\nnumber: 1\n---\n'),
        ("r.md", b""),
        ("r.md", b"---\n"),
        ("r.md", b"---\nnumber: 1\n---\n"),
        ("r.md", b"---\nnumber: [*a]\n---\n"),
        ("r.md", b"---\nsha256: 5\nnumber: true\n---\n"),
        ("r.md", b"---\n\xff\n---\n"),
        ("r.md", b"---\n" + b"a: [" * 5_000 + b"\n---\n"),
        ("r.md", b"# no front matter\n"),
    ],
    ids=lambda value: str(value)[:24],
)
@pytest.mark.usefixtures("store")
def test_any_file_is_one_sentence(name: str, data: bytes) -> None:
    found = records.verify_export(name, data)
    assert not found.ok
    assert found.sentence.endswith(".")
    assert "\n" not in found.sentence


@pytest.mark.usefixtures("filled")
def test_a_changed_byte_of_a_markdown_export_is_found_wherever_it_is() -> None:
    decided()
    data = records.export_markdown(1).encode()
    for at in range(0, len(data), 101):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        found = records.verify_export("r.md", changed)
        assert not found.ok, (at, found)
