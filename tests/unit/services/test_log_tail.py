"""The end of a log: plain text, from inside the data folder only."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitedash.services.log_tail import MAX_BYTES, tail


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a\nb\n", "a\nb"),
        ("a\r\nb\r\n", "a\nb"),
        ("\x1b[1;31mERROR\x1b[0m no\n", "ERROR no"),
        ("\x1b]0;title\x07x\x1b]8;;http://e.org\x1b\\y\n", "xy"),
        ("10 %\r50 %\r100 %\nready\n", "100 %\nready"),
        ("10 %\r50 %\r", "50 %"),
        ("tab\tstays, bell\x07 and C1 \x9bgo\n", "tab\tstays, bell and C1 go"),
        ("", ""),
    ],
)
def test_terminal_codes_are_taken_out(tmp_path: Path, written: str, shown: str) -> None:
    (tmp_path / "run.log").write_bytes(written.encode())
    assert tail(tmp_path, "run.log") == shown


def test_only_the_last_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("".join(f"line {i}\n" for i in range(300_000)))
    lines = tail(tmp_path, "run.log", lines=200).split("\n")
    assert (lines[0], lines[-1], len(lines)) == ("line 299800", "line 299999", 200)


def test_a_line_that_is_cut_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("x" * (2 * MAX_BYTES) + "\nlast\n")
    assert tail(tmp_path, "run.log") == "last"


def test_bytes_that_are_no_text_are_marked(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(b"ok \xff\xfe\n")
    assert tail(tmp_path, "run.log") == "ok \ufffd\ufffd"


def test_nothing_outside_the_data_folder_is_read(tmp_path: Path) -> None:
    data, secret = tmp_path / "data", tmp_path / "secret"
    data.mkdir()
    secret.write_text("secret")
    (data / "link.log").symlink_to(secret)
    (data / "folder").mkdir()
    for path in ("../secret", str(secret), "link.log", "folder", "no.log", ""):
        assert tail(data, path) == ""
