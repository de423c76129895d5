"""Asks a suite of a ready engine: the same questions, order, concurrency and settings for every candidate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evals import registry
from kitedash.domain.errors import Refused
from kitedash.domain.results import SuiteResult
from kitedash.measuring import lm_eval_suite, repository_suite
from kitedash.measuring.endpoint import Endpoint
from kitedash.measuring.process import Spawn


async def ask_suite(
    endpoint: Endpoint, name: str, *, spawn: Spawn, work_dir: Path, progress: Callable[[int, int], None]
) -> SuiteResult:
    """All answers of one candidate to one suite, scored. `progress` is told items done and items in all.

    Raises InvalidInput for an unknown suite, Refused where this candidate or installation can't be asked it, and
    EngineFailed where the engine stopped answering. What fails for a single chat item is stored with that item.
    """
    spec = registry.suite(name)
    if endpoint.max_model_len < spec.context_tokens:
        raise Refused(
            f"max-model-len is {endpoint.max_model_len}; the suite {name} needs {spec.context_tokens} tokens."
        )
    progress(0, spec.n_items)
    if spec.runner == "chat":
        answers = await repository_suite.ask(endpoint, registry.repository_items(name), progress=progress)
    else:
        answers = await lm_eval_suite.ask(endpoint, spawn=spawn, work_dir=work_dir, progress=progress)
    return SuiteResult(spec.name, spec.role, spec.version, answers, spec.chance)
