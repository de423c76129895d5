"""Finds the model of a candidate, and has what is not there yet made by processes of their own, under the guard."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from kitedash.domain.errors import KiteDashError
from kitedash.domain.experiment import Candidate
from kitedash.measuring.model_store import DEFAULT_MODEL, ResolvedModel, resolve_model
from kitedash.measuring.process import Spawn, clean_environment
from kitedash.measuring.quantize import checkpoint_dir, ensure_checkpoint
from kitedash.measuring.server_log import failure_reason, read_from, size_of
from kitedash.settings import Settings


async def resolved_model(
    candidate: Candidate, settings: Settings, spawn: Spawn, log_path: Path, say: Callable[[str], None]
) -> ResolvedModel:
    """The folder to serve and its content hash. Quick where everything is there; safe to repeat.

    Raises InvalidInput, Refused or KiteDashError with the reason.
    """
    models_dir, checkpoints_dir = settings.models_dir, settings.checkpoints_dir
    if candidate.model == DEFAULT_MODEL and not (models_dir / DEFAULT_MODEL).exists():
        say(f"unpacking {DEFAULT_MODEL}")
        await _make(["kitedash.measuring.model_store", str(models_dir)], "unpacking the model", spawn, log_path)
    say(f"finding {candidate.model}")
    model = await asyncio.to_thread(
        resolve_model, candidate.model, models_dir=models_dir, model_roots=settings.model_roots
    )
    if candidate.quantization == "none":
        return model
    scheme = candidate.quantization
    folder = checkpoint_dir(model, scheme, checkpoints_dir)
    if not folder.exists():
        say(f"making the {scheme} checkpoint")
        arguments = ["kitedash.measuring.quantize", str(model.path), scheme, str(folder)]
        await _make(arguments, f"making the {scheme} checkpoint", spawn, log_path)
    return await asyncio.to_thread(ensure_checkpoint, model, scheme, checkpoints_dir)


async def _make(arguments: list[str], what: str, spawn: Spawn, log_path: Path) -> None:
    offset = size_of(log_path)
    process = await spawn([sys.executable, "-m", *arguments], env=clean_environment(), log_path=log_path)
    try:
        returncode = await process.wait()
    finally:
        await process.stop()
    if returncode == 0:
        return
    text = read_from(log_path, offset)
    if reason := failure_reason(text, returncode):
        raise KiteDashError(f"{what} failed: {reason}")
    said = [line for line in text.splitlines() if line.strip()]
    raise KiteDashError(said[-1] if said else f"{what} ended with status {returncode}")
