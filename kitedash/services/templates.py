"""Experiments to begin from: the files of the folder experiments/, and a file that somebody uploads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kitedash.domain import plain_yaml
from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import ExperimentSpec
from kitedash.domain.experiment_file import parse_experiment
from kitedash.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "experiments"


@dataclass(frozen=True)
class Template:
    """`name` is the file's, without its ending. `spec` is None where the file is refused, and `refusal` says why."""

    name: str
    title: str
    description: str
    spec: ExperimentSpec | None
    refusal: str = ""


def templates(folder: Path = FOLDER) -> tuple[Template, ...]:
    """The folder's experiment files by name, refused ones too; a price book is none. A file is read when it changes."""
    found = []
    for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
        stat = path.stat()
        template = _read(path, stat.st_mtime_ns, stat.st_size)
        if template is not None:
            found.append(template)
    return tuple(found)


def uploaded_text(name: str, content: bytes) -> str:
    """The text of an uploaded file. Raises InvalidInput where it is too large or is not text."""
    source = _one_line(name)
    if len(content) > 4 * plain_yaml.MAX_CHARACTERS:  # a character takes at most four bytes
        raise InvalidInput(
            "", f"{source}: the file has {len(content):,} bytes; at most {plain_yaml.MAX_CHARACTERS:,} characters"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("", f"{source}: the file is not UTF-8 text") from None


def read_upload(name: str, content: bytes) -> ExperimentSpec:
    """The experiment in an uploaded file. Raises InvalidInput with one sentence, whatever it holds."""
    return parse_experiment(uploaded_text(name, content), source=_one_line(name))


@lru_cache(maxsize=256)
def _read(path: Path, _mtime_ns: int, _size: int) -> Template | None:
    try:
        text = uploaded_text(path.name, path.read_bytes())
        spec = parse_experiment(text, source=path.name)
    except OSError as error:
        return Template(path.stem, path.stem, "", None, f"{path.name}: the file can't be read ({error.strerror})")
    except InvalidInput as error:
        return None if _is_price_book(path) else Template(path.stem, path.stem, "", None, str(error))
    return Template(path.stem, spec.name, " ".join(spec.description.split()), spec)


def _is_price_book(path: Path) -> bool:
    try:
        data = plain_yaml.load(path.read_text(encoding="utf-8"))
    except (InvalidInput, OSError, UnicodeDecodeError):
        return False
    return isinstance(data, dict) and "prices" in data


def _one_line(name: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= 80 else line[:77] + "..."
