"""Page tests run app.py through Streamlit's AppTest; what the services would return is built in builders.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from kitedash.domain.errors import NotFound
from kitedash.domain.experiment import Targets
from kitedash.services import runs_page, tradeoff_page
from kitedash.services.views import RunsView, TradeoffView
from tests.ui import builders

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
    """show(view, **query): the trade-off page on `view`; the targets asked for are in `show.asked`."""
    asked: list[Targets] = []

    def show(view: TradeoffView | None, **query: str) -> AppTest:
        def page(experiment_id: str | None, **changes: float | None) -> tradeoff_page.TradeoffPage:
            if experiment_id not in (None, builders.EXPERIMENT):
                raise NotFound("not stored")
            if view is None:
                return tradeoff_page.TradeoffPage((), None)
            targets = view.spec.targets.model_copy(update={k: v for k, v in changes.items() if v is not None})
            asked.append(targets)
            return tradeoff_page.TradeoffPage(builders.experiments(view.runs_active), replace(view, targets=targets))

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
        monkeypatch.setattr(runs_page, "page", page)
        return opened("runs", query)

    return show


def texts(at: AppTest) -> str:
    """Everything that the page says in words, for `in` checks."""
    kinds = (at.markdown, at.caption, at.info, at.warning, at.error, at.success, at.text, at.code)
    return "\n".join(str(element.value) for kind in kinds for element in kind)
