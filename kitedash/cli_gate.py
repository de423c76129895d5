"""`kitedash gate`: may this be shipped? For pipelines. What the command needs is imported in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kitedash.cli_answers import print_json, sentence_of

IMPOSSIBLE = 3  # 2, what the other commands refuse with, says "uncertain" here


def gate(
    experiment: Annotated[str, typer.Argument(help="Its id, or the beginning of it.")],
    targets: Annotated[
        Path | None, typer.Option(help="YAML with targets and guardrails. Default: those of the experiment.")
    ] = None,
    candidate: Annotated[
        list[str] | None, typer.Option(help="Judge this one; more may be named. Default: one at least has to meet.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file as well.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a script.")] = False,
) -> None:
    """Hold stored results against targets: exit status 0 meets, 1 misses, 2 uncertain, 3 refused or impossible."""
    try:
        status = _gate(experiment, targets, candidate or [], junit, as_json)
    except Exception as error:
        if not (sentence := sentence_of(error)):
            raise
    else:
        raise typer.Exit(status)
    typer.echo(f"kitedash: {sentence}", err=True)
    raise typer.Exit(IMPOSSIBLE)


def _gate(experiment: str, targets: Path | None, candidates: list[str], junit: Path | None, as_json: bool) -> int:
    from kitedash.cli_files import read_text, write_bytes
    from kitedash.domain.gate import EXIT_STATUS
    from kitedash.services import gate as service
    from kitedash.services.runs import find_experiment

    limits = service.parse_targets(read_text(targets), source=str(targets)) if targets is not None else None
    view = service.gate(find_experiment(experiment), limits=limits, candidates=candidates)
    if junit is not None:
        write_bytes(junit, service.junit(view))
    if as_json:
        print_json(view)
    else:
        typer.echo(service.render(view), nl=False)
    return EXIT_STATUS[view.status]
