"""The evidence of an experiment and its view, kept as long as nothing of it was stored.

Pages read through here: a click or another target must not read every answer again. Whoever freezes or verifies numbers
reads with `services.evidence` what is stored at that moment.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy.orm import Session

from db import experiments, runs
from db.engine import sessions
from db.models import Run
from kitedash.domain.experiment import Guardrails, Targets
from kitedash.services.bounded_cache import BoundedCache
from kitedash.services.evidence import ExperimentEvidence, RunResults, combined, run_results
from kitedash.services.pricing import Prices
from kitedash.services.tradeoff import assemble
from kitedash.services.views import TradeoffView
from kitedash.settings import settings

MOST_ROWS: Final = 100_000  # levels, answers and blocks, about 0.5 KB each
MOST_VIEWS: Final = 8  # of one state of an experiment, one for each set of limits
_RUNS: BoundedCache[RunResults] = BoundedCache(MOST_ROWS)
_EXPERIMENTS: BoundedCache[ExperimentEvidence] = BoundedCache(MOST_ROWS)
_VIEWS: WeakKeyDictionary[ExperimentEvidence, BoundedCache[TradeoffView]] = WeakKeyDictionary()


def kept_evidence(experiment_id: str) -> ExperimentEvidence:
    """As `experiment_evidence` gives it. Reads one row while nothing was stored, else only the runs that changed.

    Raises NotFound.
    """
    with sessions(settings().url)() as session:
        experiment = experiments.get(session, experiment_id)
        key = (session.get_bind(), experiment_id)
        found = _EXPERIMENTS.get((*key, runs.revision_of_experiment(session, experiment_id)))
        if found is not None:
            return found
        stored = runs.of_experiment(session, experiment_id)
        by_run = _results(session, runs.newest(stored))
        evidence = combined(experiment, stored, by_run)
        rows = sum(results.rows for results in by_run.values())
        return _EXPERIMENTS.put((*key, evidence.revision), evidence, rows)


def kept_results(session: Session, run: Run) -> RunResults:
    """What one run stored, also one that does not count any more."""
    return _results(session, [run])[run.id]


def kept_view(
    evidence: ExperimentEvidence, *, targets: Targets | None = None, guardrails: Guardrails | None = None
) -> TradeoffView:
    """As `assemble` gives it, with the prices of now."""
    prices = Prices()
    views = _VIEWS.setdefault(evidence, BoundedCache(MOST_VIEWS))
    key: Hashable = (prices, targets, guardrails)
    found = views.get(key)
    if found is not None:
        return found
    return views.put(key, assemble(evidence, prices, targets=targets, guardrails=guardrails))


def _results(session: Session, of_runs: list[Run]) -> dict[str, RunResults]:
    engine = session.get_bind()
    keys = {run.id: (engine, run.id, run.revision) for run in of_runs}
    found = {run_id: kept for run_id, key in keys.items() if (kept := _RUNS.get(key)) is not None}
    read = run_results(session, [run_id for run_id in keys if run_id not in found])
    for run_id, results in read.items():
        _RUNS.put(keys[run_id], results, results.rows)
    return found | read
