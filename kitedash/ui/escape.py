"""Text from outside (candidate names, errors, engine output) is data: this module makes it safe inside Markdown."""

from __future__ import annotations

import re

from kitedash.domain.live_text import WORD_JOINER, inert

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_REPLACED_AFTER_PARSING = (
    re.compile(r"(:)(?=[\w+/-])"),  # :emoji:, :material/icon:
    re.compile(r"(?<!\S)([<>~-])(?=[>=-]+(?!\S))"),  # arrows and signs that stand alone: ->, <=, --
)


def markdown(text: str) -> str:
    """`text` on one line, drawn by Streamlit's Markdown exactly as it is written.

    A backslash before every ASCII punctuation sign switches CommonMark off. Streamlit replaces emoji and icon codes
    (`:name:`), arrows and bare addresses after parsing, where backslashes are gone: an invisible word joiner breaks
    those up, as in live_text.py.
    """
    line = inert(" ".join(printable(text).split()))
    for pattern in _REPLACED_AFTER_PARSING:
        line = pattern.sub(rf"\1{WORD_JOINER}", line)
    return _PUNCTUATION.sub(r"\\\1", line)


def printable(text: str) -> str:
    """`text` without control and text-direction characters (line breaks and tabs stay): for st.code and tables."""
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text)  # terminal colours of engine logs
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", "", text)
