"""A page is short and asks one service; everything else has a home further down (the guard: tests/ui/test_guard.py)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "pages").glob("*.py"))
MAX_LINES = 120
MAX_LINES_APP = 80


@pytest.fixture(params=PAGES, ids=lambda path: path.stem)
def page(request: pytest.FixtureRequest) -> ast.Module:
    return ast.parse(request.param.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [ROOT / "app.py", *PAGES], ids=lambda path: path.stem)
def test_pages_are_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= (MAX_LINES_APP if path.name == "app.py" else MAX_LINES)


def test_one_service_gives_the_page_what_it_shows(page: ast.Module) -> None:
    modules = {
        alias.name
        for node in ast.walk(page)
        if isinstance(node, ast.ImportFrom) and node.module == "kitedash.services"
        for alias in node.names
    }
    assert len(modules) == 1
    assert modules.pop().endswith("_page")
    assert not any(
        (node.module or "").split(".")[0] == "db" for node in ast.walk(page) if isinstance(node, ast.ImportFrom)
    )


def test_no_value_is_left_lying_about(page: ast.Module) -> None:
    """Streamlit writes the value of a bare expression on the page: None, if it is `draw(a) if b else draw(c)`."""
    bare = [node.value for node in ast.walk(page) if isinstance(node, ast.Expr)]
    left = [node for node in bare if not isinstance(node, ast.Call | ast.Constant)]
    assert [ast.unparse(node) for node in left] == []
