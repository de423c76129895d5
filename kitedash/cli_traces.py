"""`kitedash traces`: recorded traffic from a terminal. What a command needs is imported in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kitedash.cli_answers import print_json
from kitedash.cli_files import read_bytes, write_bytes
from kitedash.domain.errors import InvalidInput

if TYPE_CHECKING:
    from kitedash.domain.trace import Unit

app = typer.Typer(
    help="Recorded traces that workloads replay: import, list, export them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV or JSON Lines: arrival, input tokens, output tokens.")],
    name: Annotated[str, typer.Option(help="What workloads call it by.")],
    unit: Annotated[str, typer.Option(help="Of arrivals that are numbers: s or ms.")] = "s",
    sort: Annotated[bool, typer.Option("--sort", help="Sort requests that are not in the order of arrival.")] = False,
    as_json: Json = False,
) -> None:
    """Check a recorded trace and store it under a name, for workload.trace."""
    from kitedash.domain.trace import MOST_BYTES
    from kitedash.services.actor import LOCAL
    from kitedash.services.traces import import_trace, note_on

    units: dict[str, Unit] = {"s": "s", "ms": "ms"}
    if unit not in units:
        raise InvalidInput("--unit", f"{unit!r} is not allowed; use s or ms")
    if file.is_file() and file.stat().st_size > MOST_BYTES:
        raise InvalidInput(str(file), f"has {file.stat().st_size:,} bytes; at most {MOST_BYTES:,}")
    content = read_bytes(file)
    head = import_trace(LOCAL, name, content, source=file.name, unit=units[unit], sort=sort)
    if as_json:
        print_json(head)
    else:
        typer.echo(
            f"Trace {head.name}: {head.n_requests:,} requests in {head.span_s:,.1f} s, {head.rate_per_s:.4g} requests/s"
        )
        if note := note_on(head.name):
            typer.echo(note)


@app.command("list")
def list_traces(as_json: Json = False) -> None:
    """List the imported traces by name."""
    from kitedash.cli_text import local_time, table
    from kitedash.services.traces import traces

    found = traces()
    if as_json:
        print_json(found)
    elif not found:
        typer.echo("No trace has been imported: kitedash traces import FILE --name NAME.")
    else:
        headings = ("TRACE", "REQUESTS", "SECONDS", "REQUESTS/S", "LONGEST, TOKENS", "IMPORTED", "BY")
        rows = [
            (
                one.name,
                f"{one.n_requests:,}",
                f"{one.span_s:,.1f}",
                f"{one.rate_per_s:.4g}",
                f"{one.longest_request_tokens:,}",
                local_time(one.imported_at),
                one.imported_by,
            )
            for one in found
        ]
        typer.echo(table(headings, rows))


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="The trace's name.")],
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
) -> None:
    """Export a trace as CSV, as KiteDash keeps it; the same name takes it again."""
    from kitedash.services.traces import export_trace

    content = export_trace(name)
    if out is None:
        typer.echo(content, nl=False)
        return
    write_bytes(out, content)
