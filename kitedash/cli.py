"""The command line: `kitedash COMMAND`. The same services as the dashboard's; what is wrong is one sentence.

Exit status: 0 done, 1 no run finished (quickstart) or a record was changed (records verify), 2 refused or impossible,
with the sentence on standard error. `kitedash gate` has its own: 0 meets, 1 misses, 2 uncertain, 3 refused.
What a command needs is imported in it, so that `kitedash runs` answers at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kitedash import __version__, cli_export, cli_gate, cli_records, cli_traces
from kitedash.cli_answers import print_json, sentence_of
from kitedash.domain.errors import InvalidInput

if TYPE_CHECKING:
    from kitedash.services.launch import DeviceKind

REFUSED = 2


class OneSentence(TyperGroup):
    """Errors that are meant for people are printed as their one sentence, with exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not (sentence := sentence_of(error)):
                raise
        typer.echo(f"kitedash: {sentence}", err=True)
        raise typer.Exit(REFUSED)


app = typer.Typer(
    cls=OneSentence,
    help="KiteDash: measure vLLM serving configurations under your own traffic and decide between them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(cli_records.app, name="records")
app.add_typer(cli_traces.app, name="traces")
app.command()(cli_export.export)
app.command()(cli_gate.gate)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kitedash {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def launch(
    file: Annotated[Path, typer.Argument(help="An experiment file, such as experiments/quickstart.yaml.")],
    once: Annotated[bool, typer.Option(help="Where the same was launched before, name that one instead.")] = False,
    device: Annotated[
        str, typer.Option(help="cpu or gpu; by default gpu where this machine or a live worker has one.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Check an experiment, store it and queue its runs."""
    from kitedash.cli_quickstart import read_experiment
    from kitedash.services.actor import LOCAL
    from kitedash.services.launch import launch as launch_experiment
    from kitedash.services.runs import runs_view

    kinds: dict[str, DeviceKind | None] = {"": None, "cpu": "cpu", "gpu": "gpu"}
    if device not in kinds:
        raise InvalidInput("--device", f"{device!r} is not allowed; use cpu or gpu")
    spec = read_experiment(file)

    def say() -> None:
        typer.echo("Asking vLLM's own parser about the candidates (10 s or more).", err=True)

    view = runs_view(launch_experiment(spec, LOCAL, once=once, device_kind=kinds[device], ask_vllm=say))
    if as_json:
        print_json(view)
        return
    from kitedash.cli_text import runs_table

    typer.echo(f"Experiment {view.experiment_id} ({spec.name}), {len(view.runs)} runs:\n{runs_table(view.runs)}")
    for warning in view.warnings:
        typer.echo(f"Warning: {warning}", err=True)


@app.command()
def worker(
    slots: Annotated[
        list[str] | None,
        typer.Option(
            "--slots", help="Devices of each slot: cpu, or GPU numbers such as 0 1 2,3. Default: one slot a GPU."
        ),
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(metavar="[SLOT]...", help="Further slots.")] = None,
) -> None:
    """Measure what is queued, one run a slot at a time, until Ctrl-C."""
    from kitedash.running.slots import parse_slots
    from kitedash.running.supervise import supervise

    raise typer.Exit(supervise(parse_slots([*(slots or ()), *(more or ())])))


@app.command()
def dashboard(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default: KITEDASH_DASHBOARD_PORT.")] = None,
) -> None:
    """Serve the dashboard until Ctrl-C."""
    from kitedash.cli_children import address_of, require_free_port, streamlit_argv
    from kitedash.settings import PROJECT_ROOT, settings

    host, chosen = settings().dashboard_host, port or settings().dashboard_port
    require_free_port(host, chosen)
    typer.echo(f"The dashboard will be at {address_of(host, chosen)}.")
    sys.stdout.flush()
    os.chdir(PROJECT_ROOT)  # Streamlit reads .streamlit/config.toml of the folder it is in
    argv = streamlit_argv(host, chosen)
    os.execv(argv[0], argv)  # noqa: S606 - no shell; signals then reach the server itself


@app.command()
def runs(
    experiment: Annotated[str, typer.Option(help="Its id, or the beginning of it. Default: the newest.")] = "",
    as_json: Json = False,
) -> None:
    """List the experiments, and the runs of one of them."""
    from kitedash.services.runs import find_experiment, runs_view

    view = runs_view(find_experiment(experiment) if experiment else None)
    if as_json:
        print_json(view)
        return
    from kitedash.cli_text import runs_text

    typer.echo(runs_text(view))


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The run's id, or the beginning of it.")],
    log: Annotated[int, typer.Option(min=0, max=200, help="How many lines of its log to print.")] = 20,
    as_json: Json = False,
) -> None:
    """Show a run: stages, what the engine said of itself, and the end of its log."""
    from kitedash.services.runs import find_run, run_view

    view = run_view(find_run(run))
    if as_json:
        print_json(view)
        return
    from kitedash.cli_text import run_text

    typer.echo(run_text(view, log))


@app.command()
def cancel(
    run: Annotated[str, typer.Argument(help="A run's id, or the beginning of it.")] = "",
    experiment: Annotated[str, typer.Option(help="Cancel all runs of this experiment instead.")] = "",
    as_json: Json = False,
) -> None:
    """Cancel a run, waiting or running, or all runs of an experiment."""
    from kitedash.services.actor import LOCAL
    from kitedash.services.cancel import cancel_experiment, cancel_run
    from kitedash.services.runs import find_experiment, find_run

    if bool(run) == bool(experiment):
        raise InvalidInput("cancel", "name either a run or an experiment (--experiment)")
    outcome = cancel_run(find_run(run), LOCAL) if run else cancel_experiment(find_experiment(experiment), LOCAL)
    if as_json:
        print_json(outcome)
        return
    said = [
        (outcome.ended, "cancelled"),
        (outcome.stopping, "running: told to stop"),
        (outcome.already_over, "already over, unchanged"),
    ]
    for run_ids, what in said:
        for run_id in run_ids:
            typer.echo(f"{run_id} {what}")


@app.command()
def retry(
    run: Annotated[str, typer.Argument(help="The id of a run that came to nothing, or the beginning of it.")],
    as_json: Json = False,
) -> None:
    """Queue a run again that failed, was cancelled or has rates without a valid result; it replaces the old one."""
    from kitedash.services.actor import LOCAL
    from kitedash.services.retry import retry_run
    from kitedash.services.runs import find_run, run_view

    view = run_view(retry_run(find_run(run), LOCAL))
    if as_json:
        print_json(view)
        return
    typer.echo(f"{view.id} queued: {view.candidate_name}, in the place of {view.retry_of}")


@app.command()
def quickstart(as_json: Json = False) -> None:
    """Run the example experiment on this machine and print its table; a repeat prints it again.

    Starts a worker of its own where none is live. Exit status 0 where every run is over and at least one finished,
    1 where none did, 130 after Ctrl-C (the next start goes on from there). Progress goes to standard error.
    """
    from kitedash.cli_quickstart import quickstart as run_quickstart

    raise typer.Exit(run_quickstart(as_json=as_json))


@app.command()
def demo(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default: KITEDASH_DASHBOARD_PORT.")] = None,
) -> None:
    """Start the dashboard and a worker, and launch the example experiment once; until Ctrl-C."""
    from kitedash.cli_demo import demo as run_demo

    raise typer.Exit(run_demo(port))


def main() -> None:
    app(prog_name="kitedash")


if __name__ == "__main__":
    main()
