"""What the runs page shows: the runs of an experiment, and one of them with the end of its log."""

from __future__ import annotations

from dataclasses import dataclass

from kitedash.services.runs import run_view, runs_view
from kitedash.services.views import RunsView, RunView

_INTEREST = {"running": 0, "failed": 1}  # what one most likely came to look at


@dataclass(frozen=True)
class RunsPage:
    """`chosen` is None while the experiment has no runs."""

    view: RunsView
    chosen: RunView | None


def page(experiment_id: str | None, run_id: str | None) -> RunsPage:
    """The newest experiment if none is named; of its runs the one named, else one that is running, else a failed one.

    Raises NotFound for an unknown experiment. A run of another experiment counts as none named.
    """
    view = runs_view(experiment_id)
    if not view.runs:
        return RunsPage(view, None)
    named = [run for run in view.runs if run.id == run_id]
    chosen = named[0] if named else min(view.runs, key=lambda run: _INTEREST.get(run.status, 2))
    return RunsPage(view, run_view(chosen.id))
