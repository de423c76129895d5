"""Every page begins with the guard, and the guard lets nobody past whose role is too low."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from kitedash.services.actor import Actor
from kitedash.ui import guard
from tests.ui import builders
from tests.ui.conftest import ROOT, Show, texts

pytestmark = pytest.mark.ui
PAGES = sorted((ROOT / "pages").glob("*.py"))
UI_FILES = [ROOT / "app.py", *PAGES, *sorted((ROOT / "kitedash" / "ui").rglob("*.py"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_guard_comes_before_anything_is_read_or_drawn(path: Path) -> None:
    body = ast.parse(path.read_text()).body
    quiet = (ast.Import, ast.ImportFrom)
    acting = [
        node
        for node in body
        if not isinstance(node, quiet)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple))
    ]
    assert ast.unparse(acting[0]).removeprefix("actor = ").startswith("guard.enter(")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_run_without_the_navigation_shows_nothing(path: Path) -> None:
    at = AppTest.from_file(str(path), default_timeout=20).run()
    assert [error.value for error in at.error] == ["This page opens only through the dashboard's navigation."]
    assert not at.dataframe
    assert not at.selectbox


def test_a_role_below_the_pages_sees_only_the_refusal(tradeoff: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "current_user", lambda: Actor("eve", "viewer"))
    monkeypatch.setattr(guard, "require", lambda actor, role, action: _refuse(actor, "admin", action))
    at = tradeoff(builders.many())
    assert "takes admin" in texts(at).replace("\\", "")
    assert not at.dataframe


@pytest.mark.parametrize("path", UI_FILES, ids=lambda path: path.name)
def test_no_html_and_no_threads(path: Path) -> None:
    text = path.read_text()
    assert "unsafe_allow" not in text
    assert not re.search(r"\bst\.html\b|components\.v\d|\bthreading\b|allow_html", text)


def _refuse(actor: Actor, role: str, action: str) -> None:
    from kitedash.services.actor import require

    require(actor, role, action)  # type: ignore[arg-type]
