"""What every command answers alike: JSON for a script, and errors that are meant for people as one sentence."""

from __future__ import annotations

from typing import Any

import typer

from kitedash.domain.errors import KiteDashError


def print_json(view: Any) -> None:
    from kitedash.services.export import as_json

    typer.echo(as_json(view))


def sentence_of(error: Exception) -> str:
    """What a person is told of an error; "" where it is a fault of KiteDash's own."""
    if isinstance(error, KiteDashError):
        return str(error)
    from kitedash.services.database_error import database_sentence

    return database_sentence(error)
