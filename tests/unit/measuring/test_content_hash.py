"""The content hash: what it covers, what it does not, and that its cache is never believed wrongly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kitedash.measuring.content_hash import content_sha256, hashed_files

FILES = {
    "model.safetensors": b"weights",
    "config.json": b"{}",
    "tokenizer.json": b"[1]",
    "chat_template.jinja": b"{{ x }}",
}


def write_model(folder: Path, names: list[str]) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(FILES[name])
    return folder


def test_it_is_what_sha256sum_gives(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", sorted(FILES))
    listed = subprocess.run(["sha256sum", *sorted(FILES)], cwd=folder, capture_output=True, check=True).stdout
    expected = subprocess.run(["sha256sum"], input=listed, capture_output=True, check=True).stdout.split()[0].decode()
    assert content_sha256(folder) == expected


def test_it_depends_neither_on_the_order_of_files_nor_on_where_they_lie(tmp_path: Path) -> None:
    forward = write_model(tmp_path / "a", sorted(FILES))
    backward = write_model(tmp_path / "b", sorted(FILES, reverse=True))
    assert content_sha256(forward) == content_sha256(backward)


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_byte_that_decides_an_answer_counts(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path / "m", sorted(FILES))
    before = content_sha256(folder)
    (folder / name).write_bytes(FILES[name][:-1] + b"!")
    assert content_sha256(folder) != before


def test_swapped_contents_count(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", sorted(FILES))
    before = content_sha256(folder)
    (folder / "config.json").write_bytes(FILES["tokenizer.json"])
    (folder / "tokenizer.json").write_bytes(FILES["config.json"])
    assert content_sha256(folder) != before


def test_what_decides_no_answer_does_not_count(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", sorted(FILES))
    before = content_sha256(folder)
    (folder / "README.md").write_text("a card")
    (folder / "training.log").write_text("a log")
    assert content_sha256(folder) == before
    assert [path.name for path in hashed_files(folder)] == sorted(FILES)


def test_the_cache_is_used_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder, cache = write_model(tmp_path / "m", sorted(FILES)), tmp_path / "cache"
    first = content_sha256(folder, cache_dir=cache)
    (kept,) = (cache / ".hashes").glob("*.json")
    kept.write_text(json.dumps({"sha256": "f" * 64}))
    assert content_sha256(folder, cache_dir=cache) == "f" * 64  # so it is the cache that answers
    weights = folder / "model.safetensors"
    stat = weights.stat()
    weights.write_bytes(b"WEIGHTS")  # the same size, and the old times put back
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    changed = content_sha256(folder, cache_dir=cache)
    assert changed == content_sha256(folder)
    assert changed not in (first, "f" * 64)


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"sha256": 3}', '{"sha256": "short"}'])
def test_a_broken_cache_is_no_obstacle(tmp_path: Path, broken: str) -> None:
    folder, cache = write_model(tmp_path / "m", sorted(FILES)), tmp_path / "cache"
    content_sha256(folder, cache_dir=cache)
    (kept,) = (cache / ".hashes").glob("*.json")
    kept.write_text(broken)
    assert content_sha256(folder, cache_dir=cache) == content_sha256(folder)


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", sorted(FILES))
    (tmp_path / "file").touch()
    assert content_sha256(folder, cache_dir=tmp_path / "file") == content_sha256(folder)


def test_a_copy_is_the_same_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", sorted(FILES))
    assert content_sha256(Path(shutil.copytree(folder, tmp_path / "copy"))) == content_sha256(folder)
