"""`kitedash export`: a run's raw data as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kitedash.domain.errors import InvalidInput


def export(
    run: Annotated[str, typer.Argument(help="The run's id, or the beginning of it.")],
    out: Annotated[Path, typer.Option(help="The file to write; one that is there is replaced.")],
    what: Annotated[str, typer.Option(help="requests, timeline, levels or answers.")] = "requests",
    file_format: Annotated[
        str, typer.Option("--format", help="parquet or csv; by default what the file's name ends with.")
    ] = "",
) -> None:
    """Write a run's raw data to a file: every request, the server by the second, every load level or every answer."""
    from kitedash.services.raw_data import FORMATS, WHATS, write
    from kitedash.services.runs import find_run

    kind = file_format or out.suffix.removeprefix(".").lower()
    wanted = next((known for known in WHATS if known == what), None)
    written_as = next((known for known in FORMATS if known == kind), None)
    if wanted is None:
        raise InvalidInput("--what", f"{what!r} is not allowed; use {', '.join(WHATS)}")
    if written_as is None:
        raise InvalidInput("--format", f"{kind!r} is not allowed; use {' or '.join(FORMATS)}")
    run_id = find_run(run)
    unfinished = out.with_name(f".{out.name}.part")  # so that no half-written file ever stands under the name
    try:
        with unfinished.open("wb") as file:
            rows = write(run_id, wanted, written_as, file)
        unfinished.replace(out)
    except OSError as error:
        raise InvalidInput("--out", f"{out} can't be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    typer.echo(f"{out}: {rows:,} {'row' if rows == 1 else 'rows'} of {wanted}")
