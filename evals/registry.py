"""The suites by name. A suite's version is the hash of all that decides a score; only equal versions compare."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

from evals import admission, hellaswag_100, scorers
from evals.format import Item, read_items
from kitedash.domain.errors import InvalidInput, Refused

KITEDASH_REPO: Final = "kitedash_repo"
ITEMS_DIR: Final = Path(__file__).resolve().parent / "items"


@dataclass(frozen=True)
class SuiteSpec:
    """A suite. `chance` is the share of passes by blind guessing; `context_tokens` is what every candidate's
    max-model-len must hold; `runner` is how it is asked: the chat endpoint, or log-likelihoods by lm-eval."""

    name: str
    role: Literal["repository", "public"]
    title: str
    version: str
    chance: float
    n_items: int
    context_tokens: int
    runner: Literal["chat", "lm_eval"]


def names() -> tuple[str, ...]:
    """Every suite, the repository suites first."""
    return (KITEDASH_REPO, hellaswag_100.NAME)


@lru_cache(maxsize=16)
def suite(name: str) -> SuiteSpec:
    """Raises InvalidInput for a name that is none, Refused where the data of the suite is not installed."""
    if name == KITEDASH_REPO:
        items = repository_items(name)
        return SuiteSpec(
            name=name,
            role="repository",
            title="Questions about KiteDash's own code",
            version=_hash((ITEMS_DIR / f"{name}.jsonl").read_bytes(), _source(scorers.__file__)),
            chance=admission.chance(items),
            n_items=len(items),
            context_tokens=admission.context_tokens(items),
            runner="chat",
        )
    if name == hellaswag_100.NAME:
        task = hellaswag_100.TASK_FILE.read_bytes()
        return SuiteSpec(
            name=name,
            role="public",
            title="HellaSwag, 100 items of the validation split",
            version=_hash(hellaswag_100.to_jsonl().encode(), task, _lm_eval_version().encode()),
            chance=1 / hellaswag_100.ENDINGS,
            n_items=len(hellaswag_100.rows()),
            context_tokens=hellaswag_100.CONTEXT_TOKENS,
            runner="lm_eval",
        )
    raise InvalidInput("suites", f"{name!r} is no suite; there are {', '.join(names())}.")


@lru_cache(maxsize=16)
def repository_items(name: str) -> tuple[Item, ...]:
    return read_items(ITEMS_DIR / f"{name}.jsonl")


def _lm_eval_version() -> str:
    try:
        return version("lm_eval")
    except PackageNotFoundError as error:
        raise Refused(f"{hellaswag_100.NAME} needs the package lm-eval[api]; install the requirements.") from error


def _source(path: str | None) -> bytes:
    assert path is not None
    return Path(path).read_bytes()


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()
