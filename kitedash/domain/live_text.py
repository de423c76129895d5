"""What readers of Markdown make live after parsing, where backslashes are gone: bare addresses and @names.

An invisible word joiner breaks those up, and only those, so that other text can be copied and searched.
"""

from __future__ import annotations

import re
from typing import Final

WORD_JOINER: Final = "\u2060"
_LIVE: Final = (
    re.compile(r"(:)(?=//)"),  # http:// and every other scheme
    re.compile(r"(\bwww)(?=\.)", re.IGNORECASE),
    re.compile(r"(@)(?=\w)"),  # a name, or a mail address
)


def inert(text: str) -> str:
    """`text` as it looks, with no address and no name in it that becomes a link."""
    for pattern in _LIVE:
        text = pattern.sub(rf"\1{WORD_JOINER}", text)
    return text
