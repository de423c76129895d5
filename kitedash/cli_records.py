"""`kitedash records`: accepted decisions from a terminal. What a command needs is imported in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kitedash.cli_answers import print_json
from kitedash.cli_files import read_bytes, write_bytes
from kitedash.domain.errors import InvalidInput

FOUND = 1  # the exit status of a verification that found something

app = typer.Typer(
    help="Decision records: list, show, export and verify them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The record's number.", min=1)]


@app.command("list")
def list_records(as_json: Json = False) -> None:
    """List the records, the newest first."""
    from kitedash.cli_text import local_time, table
    from kitedash.services.records import records

    found = records()
    if as_json:
        print_json(found)
    elif not found:
        typer.echo("No decision has been recorded: the dashboard's Decide page writes and accepts them.")
    else:
        headings = ("RECORD", "TITLE", "CHOSEN", "EXPERIMENT", "ACCEPTED", "BY", "STATUS")
        rows = [
            (
                str(one.number),
                one.title,
                one.candidate_name,
                one.experiment_name,
                local_time(one.accepted_at) if one.accepted_at is not None else "unknown",
                one.accepted_by,
                one.status,
            )
            for one in found
        ]
        typer.echo(table(headings, rows))


@app.command()
def show(number: Number, as_json: Json = False) -> None:
    """Show a record as Markdown; with --json its document and hash."""
    from kitedash.services.records import record

    found = record(number)
    if as_json:
        print_json(found)
    else:
        typer.echo(found.markdown, nl=False)


@app.command()
def export(
    number: Number,
    form: Annotated[str, typer.Option("--format", help="json (what the hash is of) or markdown (MADR 4.0).")] = "json",
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
) -> None:
    """Export a record, byte for byte as `verify` expects it."""
    from kitedash.services.records import export_json, export_markdown

    if form not in ("json", "markdown"):
        raise InvalidInput("--format", f"{form!r} is not allowed; use json or markdown")
    data = export_json(number) if form == "json" else export_markdown(number).encode()
    if out is None:
        typer.echo(data, nl=False)
        return
    write_bytes(out, data)


@app.command()
def verify(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="Exports, JSON or Markdown.")] = None,
    no_evidence: Annotated[
        bool, typer.Option("--no-evidence", help="Leave out the evidence, which reads every stored request and answer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Verify the stored records, or exported files; exit status 1 where something is not as it was accepted."""
    from kitedash.domain.record_check import MAX_BYTES
    from kitedash.services.records import verify_export, verify_stored

    if files:  # one byte more than an export may have shows that a file is none
        findings = tuple(verify_export(str(file), read_bytes(file, MAX_BYTES + 1)) for file in files)
    else:
        findings = verify_stored(evidence=not no_evidence)
    if as_json:
        print_json(findings)
    elif not findings:
        typer.echo("No decision has been recorded, so there is nothing to verify.")
    else:
        from kitedash.cli_text import one_line

        for finding in findings:
            sign = "ok     " if finding.ok else "CHANGED"
            typer.echo(f"{sign}  {one_line(f'{finding.what}: {finding.sentence}', 2_000)}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(FOUND)
