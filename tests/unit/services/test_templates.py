"""What a form may begin from: the folder's files, and whatever somebody uploads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kitedash.domain.errors import InvalidInput
from kitedash.services.templates import FOLDER, read_upload, templates

GOOD = (FOLDER / "single-candidate.yaml").read_text(encoding="utf-8")


def test_the_folder_s_experiments_are_templates_and_its_price_book_is_none() -> None:
    found = {one.name: one for one in templates()}
    assert list(found) == ["kite-chat-and-tab", "kite-qwen3-30b-a3b", "quickstart", "single-candidate"]
    assert all(one.spec is not None and not one.refusal for one in found.values())
    assert found["quickstart"].title == "quickstart"
    assert found["quickstart"].description.startswith("Which number format, prefix caching and batch limit")
    assert found["single-candidate"].title == "single candidate"
    assert found["single-candidate"].description == ""


def test_a_file_that_is_refused_is_listed_with_the_reason_and_read_again_when_it_changes(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(GOOD.replace("tpot_p90_ms", "tpot"))
    (tmp_path / "notes.txt").write_text("not a template")
    (template,) = templates(tmp_path)
    assert template.spec is None
    assert template.refusal.startswith("guardrails.tpot: is not known (did you mean tpot_p90_ms?)")
    mine.write_text(GOOD)
    (template,) = templates(tmp_path)
    assert template.spec is not None


def test_a_folder_that_is_not_there_has_no_templates(tmp_path: Path) -> None:
    assert templates(tmp_path / "none") == ()


def test_a_file_from_an_editor_that_marks_its_encoding_is_read() -> None:
    assert read_upload("a.yaml", b"\xef\xbb\xbf" + GOOD.encode()).name == "single candidate"


ALIASES = "\n".join(["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"name: [1", "this is not valid YAML"),
        (b"\tname: x", "this is not valid YAML"),
        (b"- 1\n- 2\n", "an experiment is a group of keys such as name and model, not a list"),
        (b"x" * 10_000_000, "the file has 10,000,000 bytes; at most 256,000 characters"),
        (b"a: [" + b"1, " * 3_300_000 + b"]", "the file has 9,900,005 bytes; at most 256,000 characters"),
        ("ä".encode() * 300_000, "the file has 300,000 characters; at most 256,000"),
        (ALIASES.encode(), "an alias (*name) is not accepted"),
        (b"a: " + b"[" * 5_000, "nesting is deeper than 20 levels"),
        (b"a: " + b"{b: " * 5_000, "nesting is deeper than 20 levels"),
        (GOOD.encode() + b"\nratez: 1\n", "ratez: is not known"),
        (GOOD.encode() + b"\nname: again\n", "the key 'name' is there twice"),
        (GOOD.encode() + b'\ndescription: "a\\u0007b"\n', "holds the control character U+0007"),
        (GOOD.encode() + b"\ndescription: a\x07b\n", "this is not valid YAML"),
        (GOOD.encode() + b"\ndescription: !!python/name:os.system x\n", "a tag (!...) is not accepted"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "the file is not UTF-8 text"),
        (b"\x00" * 1_000, "this is not valid YAML"),
        (b"a: " + b"9" * 200_000, "a number has too many digits"),
        (b"a: 1\n---\nb: 2\n", "this is not valid YAML"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_is_uploaded_is_refused_in_one_sentence_and_quickly(content: bytes, says: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidInput) as caught:
        read_upload("mine\n\x1b[31m.yaml", content)
    assert time.process_time() - began < 1
    assert says in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
