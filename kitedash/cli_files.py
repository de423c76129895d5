"""Files that a command is given or asked for: what can't be read or written is one sentence."""

from __future__ import annotations

from pathlib import Path

from kitedash.domain.errors import InvalidInput


def read_bytes(path: Path, most: int = -1) -> bytes:
    """The file, or as many bytes of it. Raises InvalidInput."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise InvalidInput(str(path), f"the file can't be read ({error.strerror})") from None


def read_text(path: Path) -> str:
    """UTF-8. Raises InvalidInput."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(str(path), "the file is not UTF-8 text") from None


def write_bytes(path: Path, content: bytes) -> None:
    """Raises InvalidInput."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidInput(str(path), f"the file can't be written ({error.strerror})") from None
