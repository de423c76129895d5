"""A run that failed is retried from the outside: the worker does it as any other, and only the new one counts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from kitedash.services.actor import LOCAL
from kitedash.services.evidence import experiment_evidence
from kitedash.services.retry import retry_run
from kitedash.services.runs import run_view, runs_view
from kitedash.settings import settings
from tests.worker.conftest import Home

pytestmark = pytest.mark.worker


@pytest.fixture
def services(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The services of this process, on the home's database."""
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(home.data_dir))
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.mark.usefixtures("services")
def test_a_failed_run_is_retried_and_finishes(home: Home) -> None:
    failed = home.queue_run()
    worker = home.start_worker({"refuse_to_start": "no memory today"})
    home.wait_for_status(failed, "failed")
    worker.terminate()
    worker.wait()
    assert "no memory today" in home.run(failed).error

    retried = retry_run(failed, LOCAL)
    shutil.copytree(home.traffic, home.data_dir / "work" / retried / "load" / home.traffic.name)
    home.start_worker()
    assert home.wait_for_status(retried, "finished", "failed") == "finished"
    experiment_id = home.run(retried).experiment_id
    (candidate,) = experiment_evidence(experiment_id).candidates
    assert (candidate.run_ids, candidate.status, len(candidate.levels)) == ((retried,), "finished", 3)
    assert run_view(failed).retried_by == retried
    assert [run.status for run in runs_view(experiment_id).runs] == ["failed", "finished"]
    assert "no memory today" in home.run(failed).error  # the old one stays as it was
