"""What the runs page shows: the runs of an experiment, and one of them with the end of its log."""

from __future__ import annotations

from dataclasses import dataclass

from kitedash.services.change_token import change_token as change_token
from kitedash.services.runs import newest_experiment, runs_view, with_log
from kitedash.services.views import ExperimentItem, RunsView, RunView

_INTEREST = {"running": 0, "failed": 1}  # what one most likely came to look at


@dataclass(frozen=True)
class RunsPage:
    """`chosen` is None while the experiment has no runs. `active_elsewhere` is the newest experiment, another one than
    is shown, that has runs which are not over."""

    view: RunsView
    chosen: RunView | None
    active_elsewhere: ExperimentItem | None = None
    token: str = ""  # see `change_token`; taken before the rest was read


def page(experiment_id: str | None, run_id: str | None) -> RunsPage:
    """The newest experiment if none is named; of its runs the one named, else one that is running, else a failed one.

    Raises NotFound for an unknown experiment. A run of another experiment counts as none named.
    """
    shown = experiment_id or newest_experiment()
    token = change_token(shown)
    view = runs_view(shown)
    elsewhere = next((item for item in view.experiments if item.active and item.id != view.experiment_id), None)
    if not view.runs:
        return RunsPage(view, None, elsewhere, token)
    named = [run for run in view.runs if run.id == run_id]
    chosen = named[0] if named else min(view.current_runs, key=lambda run: _INTEREST.get(run.status, 2))
    return RunsPage(view, with_log(chosen), elsewhere, token)
