from __future__ import annotations

import re

import pytest

from kitedash.ui.escape import markdown, printable

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def unescaped(text: str) -> str:
    """What CommonMark makes of backslash escapes; the word joiner is invisible."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text).replace("\u2060", "")


@pytest.mark.parametrize("sign", PUNCTUATION)
def test_every_ascii_sign_stands_behind_a_backslash(sign: str) -> None:
    assert markdown(f"a {sign} b") == f"a \\{sign} b"


@pytest.mark.parametrize(
    "text", ["float32", "a *b* [c](d) `e`", ":material/home:", "x -> y <= z", "www.example.com", PUNCTUATION]
)
def test_the_text_itself_is_kept(text: str) -> None:
    assert unescaped(markdown(text)) == text


@pytest.mark.parametrize(
    "code", [":tada:", ":material/home:", ":red[x]", "https://evil.example", "www.evil.example", "a@b.example"]
)
def test_what_streamlit_replaces_after_parsing_is_broken_up(code: str) -> None:
    shown = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown(code))
    assert code not in shown
    assert not re.search(r":(material|[\w+-]+):|:\w+\[|https?://|www\.|\w@\w", shown)


def test_line_breaks_do_not_start_a_block() -> None:
    assert markdown("one\n# two\n\n- three") == "one \\# two \\- three"


def test_control_and_direction_characters_go_but_lines_stay() -> None:
    assert printable("\x1b[31mred\x1b[0m\nnext\ttab\x00\x07\u202e!") == "red\nnext\ttab!"
