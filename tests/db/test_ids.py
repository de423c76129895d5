"""Ids come from addresses, where anything may stand: what can be no id is refused like any that is not stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy.orm import Session, sessionmaker

from db import decisions, experiments, results, runs
from kitedash.domain.errors import NotFound
from kitedash.services import decide_page, run_page, runs_page, tradeoff_page
from kitedash.settings import settings
from tests.db.rows import stored_runs

pytestmark = pytest.mark.database
NO_IDS = ("a\0b", "a\x1bb", "a\nb", "\ud800")


@pytest.mark.parametrize("no_id", NO_IDS)
@pytest.mark.parametrize("get", [experiments.get, experiments.find, runs.get, runs.find, decisions.get_draft])
def test_the_repositories_find_nothing(
    store: sessionmaker[Session], get: Callable[[Session, str], object], no_id: str
) -> None:
    stored_runs(store, "a")
    with store() as session, pytest.raises(NotFound):
        get(session, no_id)


def test_there_is_no_such_answer(store: sessionmaker[Session]) -> None:
    stored_runs(store, "a")
    with store() as session:
        assert results.answer(session, "a", "a_suite", "a\0b") is None


@pytest.mark.parametrize("no_id", NO_IDS)
@pytest.mark.parametrize(
    "page",
    [
        lambda no_id: tradeoff_page.page(no_id),
        lambda no_id: runs_page.page(no_id, None),
        lambda no_id: run_page.page(no_id),
        lambda no_id: run_page.page(None, no_id),
        lambda no_id: decide_page.page(no_id, None, None),
        lambda no_id: decide_page.page(None, None, no_id),
    ],
)
def test_the_pages_say_that_nothing_is_stored_under_it(
    url: str,
    store: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
    page: Callable[[str], object],
    no_id: str,
) -> None:
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    settings.cache_clear()
    stored_runs(store, "a")
    with pytest.raises(NotFound):
        page(no_id)
    settings.cache_clear()


@pytest.mark.parametrize("no_id", NO_IDS)
def test_a_run_or_candidate_that_can_be_none_counts_as_none_named(
    url: str, store: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch, no_id: str
) -> None:
    monkeypatch.setenv("KITEDASH_DATABASE_URL", url)
    settings.cache_clear()
    stored_runs(store, "a")
    found = runs_page.page("e1", no_id)
    assert found.chosen is not None
    assert found.chosen.id == "a"
    assert tradeoff_page.page("e1", candidate=no_id, against=no_id).unknown == (no_id,)
    settings.cache_clear()
