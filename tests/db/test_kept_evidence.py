"""What pages keep of an experiment: nothing is read again until something of it is stored, and then only that run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from db import results, runs, stages
from kitedash.domain.errors import NotFound
from kitedash.services import run_time, runs_page, tradeoff_page
from kitedash.services.evidence import experiment_evidence
from kitedash.services.kept_evidence import kept_evidence, kept_view
from kitedash.services.limits import AskedLimits
from kitedash.services.runs import recent_experiments
from kitedash.services.tradeoff import tradeoff_view
from kitedash.services.views import TradeoffView
from kitedash.settings import settings
from tests.db.rows import NOON, stored_runs
from tests.db.test_results import a_level, a_suite, an_answer

pytestmark = pytest.mark.database
Store = sessionmaker[Session]
PRICES = "prices:\n  - {{device: cpu, kind: cpu, usd_per_hour: {usd}, source: a list, date: 2026-11-30}}\n"


@pytest.fixture
def book(url: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The price book; stored are two runs that go on, each with a level and a suite."""
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES.format(usd=2), encoding="utf-8")
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    monkeypatch.setenv("KITEDASH_PRICE_BOOK", str(path))
    settings.cache_clear()
    stored_runs(store, "a", "b")
    with store.begin() as session:
        for run_id in ("a", "b"):
            runs.begin(session, run_id, f"h:{run_id}", NOON)
            stages.stage_begin(session, run_id, "quality:s", 2, 60, NOON)
            results.store_level(session, run_id, a_level(1.0))
            results.store_suite(session, run_id, a_suite(an_answer("a"), an_answer("b", passed=False)))
    yield path
    settings.cache_clear()


@contextmanager
def statements(store: Store) -> Iterator[list[tuple[str, str]]]:
    """What is asked of the database meanwhile: statement and parameters."""
    asked: list[tuple[str, str]] = []
    with store() as session:
        engine = session.get_bind().engine
    listener = lambda *args: asked.append((args[2], str(args[3])))  # noqa: E731
    sa.event.listen(engine, "before_cursor_execute", listener)
    try:
        yield asked
    finally:
        sa.event.remove(engine, "before_cursor_execute", listener)


@pytest.mark.usefixtures("book")
def test_nothing_is_read_again_while_nothing_was_stored(store: Store) -> None:
    first = kept_evidence("e1")
    with store.begin() as session:
        stages.stage_advance(session, "a", "quality:s", 3, 60, "item 4 of 60")
    with statements(store) as asked:
        assert kept_evidence("e1") is first
    assert len(asked) == 2  # the experiment's row, and the sum of the revisions
    assert kept_view(first) is kept_view(first)


@pytest.mark.usefixtures("book")
def test_only_the_run_that_stored_something_is_read_again(store: Store) -> None:
    first = kept_evidence("e1")
    with store.begin() as session:
        results.store_level(session, "b", a_level(2.0))
    with statements(store) as asked:
        second = kept_evidence("e1")
    of_results = [parameters for text, parameters in asked if "FROM answers" in text or "FROM load_levels" in text]
    assert len(of_results) == 2
    assert all("'b'" in parameters and "'a'" not in parameters for parameters in of_results)
    assert second.candidates[0].levels is first.candidates[0].levels
    assert [level.rate_per_s for level in second.candidates[1].levels] == [1.0, 2.0]
    assert second.revision == experiment_evidence("e1").revision != first.revision


@pytest.mark.usefixtures("book")
def test_it_says_the_same_as_what_is_read_at_once(store: Store) -> None:
    def both() -> tuple[TradeoffView, TradeoffView]:
        return kept_view(kept_evidence("e1")), tradeoff_view("e1")

    kept, read = both()
    assert kept == read
    with store.begin() as session:
        results.store_suite(session, "b", a_suite(an_answer("a", passed=False), an_answer("b", passed=False)))
        runs.finish(session, "b", NOON)
    again, read = both()
    assert again == read != kept
    assert again.candidates[1].suites == read.candidates[1].suites


def test_other_limits_and_other_prices_give_another_view(book: Path, store: Store) -> None:
    evidence = kept_evidence("e1")
    asked = AskedLimits(ttft_p90_ms=1.0)
    as_written, moved = kept_view(evidence), kept_view(evidence, targets=asked.targets(evidence.spec))
    assert moved.targets.ttft_p90_ms == 1
    assert kept_view(evidence) is as_written
    book.write_text("nothing", encoding="utf-8")
    assert kept_view(evidence) is not as_written
    book.write_text(PRICES.format(usd=2), encoding="utf-8")
    assert kept_view(evidence) is as_written


@pytest.mark.usefixtures("book")
def test_an_experiment_that_is_not_stored_is_not_found() -> None:
    with pytest.raises(NotFound):
        kept_evidence("e2")


@pytest.mark.usefixtures("book")
def test_the_list_of_experiments_takes_two_queries_and_no_result(store: Store) -> None:
    stored_runs(store, "x", experiment_id="e2", now=NOON + timedelta(hours=1))
    with statements(store) as asked:
        found = recent_experiments()
    assert len(asked) == 2
    assert not any("spec" in text or "load_levels" in text or "stages" in text for text, _ in asked)
    assert found.chosen == "e2"
    assert [(item.id, item.runs, item.active) for item in found.items] == [("e2", 1, 1), ("e1", 2, 2)]
    assert recent_experiments("e1").chosen == "e1"
    with pytest.raises(NotFound):
        recent_experiments("e3")


@pytest.mark.usefixtures("book")
def test_the_tradeoff_page_drawn_again_reads_no_results_and_no_stages(store: Store) -> None:
    first = tradeoff_page.page("e1")
    with statements(store) as asked:
        again = tradeoff_page.page("e1", candidate="b")
    assert again.view is first.view
    read = " ".join(text for text, _ in asked)
    assert not any(table in read for table in ("answers", "load_levels", "load_blocks", "stages", "workers"))


@pytest.mark.usefixtures("book")
def test_the_runs_page_asks_once_what_earlier_runs_took(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    recent = run_time.history.recent
    monkeypatch.setattr(run_time.history, "recent", lambda session: asked.append(1) or recent(session))
    assert runs_page.page("e1", "b").chosen is not None
    assert len(asked) == 1
