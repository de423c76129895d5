"""The end of a run's log, as plain text."""

from __future__ import annotations

import os
import re
from pathlib import Path

MAX_BYTES = 256 * 1024
# CSI and OSC sequences, other escapes, and control characters except tab and newline.
CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def tail(data_dir: Path, log_path: str, lines: int = 200) -> str:
    """The last lines of `data_dir/log_path` without terminal codes; "" where there is no such file yet.

    A path that leads out of the data folder (also by a link) counts as no file: it comes from a stored row. Of a
    line that a progress bar overwrote, the last state is shown.
    """
    if not log_path:
        return ""
    root = data_dir.resolve()
    path = (root / log_path).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_BYTES))
            text = file.read(MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
    if size > MAX_BYTES:
        text = text.partition("\n")[2]  # the first line is cut
    text = text.replace("\r\n", "\n")
    shown = [CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]) for line in text.rstrip("\n").split("\n")]
    return "\n".join(shown[-lines:])
