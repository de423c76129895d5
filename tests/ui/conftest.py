"""Page tests run app.py through Streamlit's AppTest; what the services would return is built in builders.py."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from db.engine import dispose_engines
from kitedash.domain.errors import NotFound
from kitedash.services import launch_check, runs_page, tradeoff_page
from kitedash.services.limits import AskedLimits
from kitedash.services.presets import presets
from kitedash.services.views import RunsView, TradeoffView
from kitedash.settings import settings
from tests.ui import builders
from tests.ui.seed import Seeded, seed

ROOT = Path(__file__).resolve().parents[2]
Show = Callable[..., AppTest]


def opened(page: str, query: dict[str, str]) -> AppTest:
    """`pages/<page>.py` as a viewer gets it: through app.py, with `query` in the address."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=20)
    for key, value in query.items():
        at.query_params[key] = value
    at.run()  # the address without a path leads to the trade-off and keeps its query
    if page != "tradeoff":
        at.switch_page(f"pages/{page}.py")
        for key, value in query.items():
            at.query_params[key] = value
        at.run()
    assert not at.exception
    return at


@pytest.fixture
def tradeoff(monkeypatch: pytest.MonkeyPatch) -> Show:
    """show(view, **query): the trade-off page on `view`; the limits asked for are in `show.asked`."""
    asked: list[AskedLimits] = []

    def show(view: TradeoffView | None, **query: str) -> AppTest:
        def page(
            experiment_id: str | None,
            *,
            limits: AskedLimits,
            candidate: str | None,
            preset: str | None,
            against: str | None,
        ) -> tradeoff_page.TradeoffPage:
            if experiment_id not in (None, builders.EXPERIMENT):
                raise NotFound("not stored")
            if view is None:
                return tradeoff_page.TradeoffPage((), None)
            asked.append(limits)
            drawn = replace(view, targets=limits.targets(view.spec), guardrails=limits.guardrails(view.spec))
            name = candidate or view.recommendation.candidate
            chosen = next((one for one in view.candidates if one.name == name), None)
            return tradeoff_page.TradeoffPage(
                builders.experiments(view.runs_active),
                drawn,
                presets=presets(drawn),
                picked=None if chosen is None else tradeoff_page.Picked(chosen, None, None, candidate is None),
                number_formats={one.name: one.name.split(",")[0] for one in view.candidates},
            )

        monkeypatch.setattr(tradeoff_page, "change_token", lambda experiment_id: "")
        monkeypatch.setattr(tradeoff_page, "page", page)
        return opened("tradeoff", query)

    show.asked = asked  # type: ignore[attr-defined]
    return show


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Show:
    """show(view, **query): the runs page on `view`."""

    def show(view: RunsView, **query: str) -> AppTest:
        def page(experiment_id: str | None, run_id: str | None) -> runs_page.RunsPage:
            if experiment_id not in (None, builders.EXPERIMENT):
                raise NotFound("not stored")
            named = [run for run in view.runs if run.id == run_id] or list(view.runs)
            return runs_page.RunsPage(view, named[0] if named else None)

        monkeypatch.setattr(tradeoff_page, "page", lambda *_, **__: tradeoff_page.TradeoffPage((), None))
        monkeypatch.setattr(tradeoff_page, "change_token", lambda experiment_id: "")
        monkeypatch.setattr(runs_page, "page", page)
        monkeypatch.setattr(runs_page, "change_token", lambda _: "")
        return opened("runs", query)

    return show


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    """The settings point at a real database with an experiment in each state."""
    data_dir = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KITEDASH_DATA_DIR", str(data_dir))
        settings.cache_clear()
        yield seed(data_dir)
        dispose_engines()
    settings.cache_clear()


@pytest.fixture(scope="session")
def seeded_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seeded]:
    """A folder with the seeded database, to be copied."""
    folder = tmp_path_factory.mktemp("seeded")
    ids = seed(folder)
    dispose_engines()
    return folder, ids


@pytest.fixture
def own_database(
    seeded_folder: tuple[Path, Seeded], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Seeded]:
    """A seeded database of the test's own, which it may write to."""
    folder, ids = seeded_folder
    shutil.copytree(folder, tmp_path / "data")
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path / "data"))
    settings.cache_clear()
    yield ids
    dispose_engines()
    settings.cache_clear()


@pytest.fixture
def no_rows(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a database without rows, on a machine without GPUs."""
    shutil.copy(empty_database, tmp_path / "kitedash.db")
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(launch_check, "gpu_count", lambda: 0)
    settings.cache_clear()
    yield tmp_path
    settings.cache_clear()
    dispose_engines()


def texts(at: AppTest) -> str:
    """Everything that the page says in words, for `in` checks."""
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error, at.success, at.text, at.code)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def candidate_table(at: AppTest) -> pd.DataFrame:
    """The trade-off page's table of candidates."""
    (table,) = [found.value for found in at.dataframe if "Targets" in found.value]
    return table
