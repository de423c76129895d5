"""A page is short and asks one service; everything else has a home further down (the guard: tests/ui/test_guard.py)."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "pages").glob("*.py"))
UI = sorted((ROOT / "kitedash" / "ui").rglob("*.py"))
MAX_LINES = 120
MAX_LINES_APP = 80
SERVICES = "kitedash.services"
PAGE_CALLS = {"page", "change_token"}  # what is shown, and the one small query whether it changed
NOT_FOR_PAGES = ("db", "evals", "kitedash.measuring", "kitedash.running", "kitedash.cli")
# The parts of the interface that call a service themselves: for what a person does (a click, a download), and for what
# one open section needs. What a page shows comes from its one service, so a new entry is to be thought over.
SERVICE_CALLS = {
    "kitedash.ui.components.export": {"export.as_csv", "export.as_json", "table"},  # built when it is downloaded
    "kitedash.ui.components.launch_preview": {"database_error.database_sentence", "launch.launch"},
    "kitedash.ui.components.launch_state": {"templates.read_upload", "templates.uploaded_text"},
    "kitedash.ui.components.launch_traffic": {"traces.import_trace"},
    "kitedash.ui.components.run_actions": {
        *("actor.lacks", "cancel.cancel_experiment", "cancel.cancel_run", "retry.retry_run"),
    },
    "kitedash.ui.components.run_detail": {"run_page"},  # whether something was stored meanwhile
    "kitedash.ui.components.run_detail_attainment": {"attainment.attainments"},  # of an open section, cached
    "kitedash.ui.components.run_detail_curves": {"distributions.distributions"},  # of an open section, cached
    "kitedash.ui.components.run_detail_files": {"raw_data"},  # built when it is downloaded
    "kitedash.ui.components.run_detail_parts": {"request_parts.level_parts"},  # of an open section, cached
    "kitedash.ui.components.run_detail_requests": {  # of an open section, cached
        *("request_parts.request_detail", "request_parts.slow_requests"),
    },
    "kitedash.ui.components.watch": {"tradeoff_page"},  # whether something was stored meanwhile
    "kitedash.ui.decision_actions": {"actor.lacks", "decide", "decide_page"},
    "kitedash.ui.guard": {"actor.require"},
    "kitedash.ui.record_actions": {"records", "records_page"},
}


def service_imports(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """What is imported of the services, by its name below kitedash.services, with what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == SERVICES or alias.name.startswith(f"{SERVICES}."):
                    yield alias.name.removeprefix(SERVICES).removeprefix("."), importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module == "kitedash":
            if any(alias.name == "services" for alias in node.names):
                yield "", importlib.import_module(SERVICES)
        elif isinstance(node, ast.ImportFrom) and node.module == SERVICES:
            for alias in node.names:
                yield alias.name, importlib.import_module(f"{SERVICES}.{alias.name}")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{SERVICES}."):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                yield f"{module.__name__.removeprefix(SERVICES + '.')}.{alias.name}", getattr(module, alias.name)


def called(tree: ast.Module) -> set[str]:
    """The services' modules and functions among the imports: views, types and constants call nothing."""
    return {
        name
        for name, found in service_imports(tree)
        if inspect.ismodule(found) or inspect.isroutine(found) or hasattr(found, "__wrapped__")
    }


def violations(source: str) -> list[str]:
    """What is wrong with how a page gets what it shows, one line each."""
    tree, found = ast.parse(source), []
    modules = {name for name, what in service_imports(tree) if inspect.ismodule(what)}
    if len(modules) != 1 or not next(iter(modules)).endswith("_page"):
        found.append(f"it asks {sorted(modules)}, not one service whose name ends in _page")
    for name, what in service_imports(tree):
        if not inspect.ismodule(what) and not inspect.isclass(what):
            found.append(f"{name} is no view")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name.startswith(SERVICES) for alias in node.names):
            found.append(f"line {node.lineno}: import kitedash.services... ; write from kitedash.services import")
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if any(name == layer or name.startswith(f"{layer}.") for layer in NOT_FOR_PAGES):
                found.append(f"{name} is not for pages")
    if len(modules) == 1:
        found += _wrong_calls(tree, modules.pop())
    return found


def _wrong_calls(tree: ast.Module, service: str) -> list[str]:
    used = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == service
    ]
    found = [f"{service}.{name} is neither of {sorted(PAGE_CALLS)}" for name in used if name not in PAGE_CALLS]
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    in_handlers = sum(_page_calls(handler, service) for handler in handlers)
    calls = _page_calls(tree, service) - in_handlers
    if calls != 1 or in_handlers > 1:
        found.append(f"{service}.page is called {calls} times, and {in_handlers} times after an error")
    return found


def _page_calls(tree: ast.AST, service: str) -> int:
    return sum(isinstance(node, ast.Call) and ast.unparse(node.func) == f"{service}.page" for node in ast.walk(tree))


def read(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [ROOT / "app.py", *PAGES], ids=lambda path: path.stem)
def test_pages_are_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= (MAX_LINES_APP if path.name == "app.py" else MAX_LINES)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_one_service_gives_the_page_what_it_shows_in_one_call(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8")) == []


GOOD = "from kitedash.services import run_page\nfrom kitedash.services.run_page import RunDetail\nrun_page.page('a')\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (GOOD + "run_page.page('b')", "run_page.page is called 2 times, and 0 times after an error"),
        (GOOD.replace("page.page(", "page.change_token("), "run_page.page is called 0 times"),
        (GOOD + "try: x()\nexcept E:\n    run_page.page()\n    run_page.page()", "and 2 times after an error"),
        (GOOD + "from kitedash.services import runs", "not one service whose name ends in _page"),
        (GOOD.replace("run_page", "runs").replace("RunDetail", "RunsView"), "not one service whose name ends in _page"),
        (GOOD + "from kitedash.services.runs import runs_view", "runs.runs_view is no view"),
        (GOOD + "def f():\n    from kitedash.services.runs import runs_view", "runs.runs_view is no view"),
        (GOOD + "from kitedash.services.actor import LOCAL", "actor.LOCAL is no view"),
        (GOOD + "import kitedash.services.run_page", "line 4: import kitedash.services"),
        (GOOD + "import kitedash.services.runs as r", "not one service whose name ends in _page"),
        (GOOD + "from kitedash import services", "not one service whose name ends in _page"),
        (GOOD + "run_page.sessions", "run_page.sessions is neither of"),
        (GOOD + "from db import runs", "db is not for pages"),
        (GOOD + "import evals.registry", "evals.registry is not for pages"),
    ],
)
def test_a_planted_violation_is_caught(source: str, says: str) -> None:
    assert any(says in line for line in violations(source))


def test_what_is_allowed_is_not_reported() -> None:
    assert violations(GOOD) == []
    assert violations(GOOD + "try: x()\nexcept E: run_page.page('b')\nrun_page.change_token('a')") == []


def test_only_these_parts_of_the_interface_call_a_service() -> None:
    found = {}
    for path in UI:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if calls := called(read(path)):
            found[".".join(parts)] = calls
    assert found == SERVICE_CALLS


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_value_is_left_lying_about(path: Path) -> None:
    """Streamlit writes the value of a bare expression on the page: None, if it is `draw(a) if b else draw(c)`."""
    bare = [node.value for node in ast.walk(read(path)) if isinstance(node, ast.Expr)]
    left = [node for node in bare if not isinstance(node, ast.Call | ast.Constant)]
    assert [ast.unparse(node) for node in left] == []
