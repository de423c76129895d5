"""The dashboard's own server, which on SIGUSR1 writes down its threads and where each of them is.

    python -m tests.e2e.watched_dashboard FILE ...

What follows FILE is passed to `streamlit run app.py`. Nothing else is changed.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any


def main() -> None:
    file, *arguments = sys.argv[1:]

    def write(_signal: int, _frame: Any) -> None:
        frames = sys._current_frames()
        found = [
            {"name": thread.name, "files": _files(frames.get(thread.ident or 0))}
            for thread in threading.enumerate()
            if thread is not threading.main_thread()
        ]
        half = Path(f"{file}.part")
        half.write_text(json.dumps(found))
        half.rename(file)

    signal.signal(signal.SIGUSR1, write)
    sys.path.insert(0, str(Path.cwd()))
    from streamlit.web import cli

    sys.argv = ["streamlit", "run", "app.py", *arguments]
    cli.main()


def _files(frame: FrameType | None) -> list[str]:
    """The files of the functions that a thread is in, the innermost first."""
    found = []
    while frame is not None:
        found.append(frame.f_code.co_filename)
        frame = frame.f_back
    return found


if __name__ == "__main__":
    main()
