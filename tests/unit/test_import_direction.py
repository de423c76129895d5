"""Imports run downward only, through the layers listed below, read from every module's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From the top down. A module may import its own layer and those below it.
LAYERS = (
    "pages",
    "kitedash.ui",
    "kitedash.cli",
    "kitedash.services",
    "kitedash.running",
    "kitedash.measuring",
    "evals",
    "db",
    "kitedash.domain",
)
SETTINGS = "kitedash.settings"
READS_SETTINGS = ("kitedash.ui", "kitedash.cli", "kitedash.services", "kitedash.running", "kitedash.measuring")
READS_SETTINGS_MODULES = ("db.migrations.env", "setup.database")  # both are started by hand, from outside
KNOWS_NO_DATABASE = ("kitedash.measuring", "evals")
MAY_IMPORT_STREAMLIT = ("pages", "kitedash.ui")
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "misc", "manager", "common"}


def modules() -> Iterator[tuple[str, Path]]:
    """Name and file of every module of the project, tests and benchmarks left out."""
    yield "app", ROOT / "app.py"
    for top in ("kitedash", "pages", "evals", "db", "setup"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def layer_of(module: str) -> str | None:
    """The layer a module belongs to. None for what is in no layer: the package itself, settings, set-up."""
    if module == "app":
        return "pages"
    if module == "kitedash.__main__" or module.startswith("kitedash.cli"):
        return "kitedash.cli"
    return next((layer for layer in LAYERS if module == layer or module.startswith(f"{layer}.")), None)


def imports(module: str, tree: ast.Module, *, is_package: bool) -> Iterator[tuple[str, int]]:
    """Dotted names that a module imports, also inside functions, with their lines. Relative ones are made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            yield base, node.lineno
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What is wrong with a module's imports, one line each."""
    found = []
    own = layer_of(module)
    for name, line in imports(module, ast.parse(source), is_package=is_package):
        other, where = layer_of(name), f"{module}:{line} imports {name}"
        if own and other and LAYERS.index(other) < LAYERS.index(own):
            found.append(f"{where}, which lies above it")
        if own in KNOWS_NO_DATABASE and other == "db":
            found.append(f"{where}, but what measures knows no database")
        if name == SETTINGS and own not in READS_SETTINGS and module not in READS_SETTINGS_MODULES:
            found.append(f"{where}, but {own or module} takes what it needs as arguments")
        if module == SETTINGS and name.split(".")[0] in ("kitedash", "db", "evals", "app", "pages"):
            found.append(f"{where}, but settings import nothing of the project")
        if module.startswith("setup.") and module != "setup.database" and (other or name == "kitedash"):
            found.append(f"{where}, but set-up runs before the project's packages are there")
        if name.split(".")[0] == "streamlit" and own not in MAY_IMPORT_STREAMLIT:
            found.append(f"{where}, but only app.py, pages and kitedash.ui may")
        if name.split(".")[0] in ("tests", "bench") or (own and name.split(".")[0] == "setup"):
            found.append(f"{where}, which is no part of the product")
    return sorted(set(found))


def test_imports_run_downward_only() -> None:
    found = []
    for module, path in modules():
        found += violations(module, path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py")
    assert found == []


def test_every_layer_is_there() -> None:
    seen = {layer_of(module) for module, _ in modules()}
    assert seen >= set(LAYERS)


def test_names_say_what_lives_there() -> None:
    vague = [module for module, _ in modules() if SAYS_NOTHING & set(module.rsplit(".", 1)[-1].split("_"))]
    assert vague == []


@pytest.mark.parametrize(
    ("module", "source", "says"),
    [
        ("kitedash.domain.cost", "from db.models import Run", "lies above it"),
        ("kitedash.domain.cost", "def f():\n    import kitedash.services.launch", "lies above it"),
        ("kitedash.domain.cost", "from ..services import launch", "lies above it"),
        ("kitedash.services.launch", "from kitedash import cli", "lies above it"),
        ("kitedash.running.worker", "import pages.runs", "lies above it"),
        ("db.runs", "from evals import registry", "lies above it"),
        ("kitedash.measuring.server", "from db import runs", "knows no database"),
        ("evals.registry", "import db", "knows no database"),
        ("kitedash.services.launch", "import streamlit as st", "only app.py"),
        ("kitedash.cli", "if True:\n    from streamlit.web import cli", "only app.py"),
        ("kitedash.domain.cost", "from kitedash.settings import settings", "as arguments"),
        ("db.runs", "from kitedash.settings import settings", "as arguments"),
        ("kitedash.settings", "from kitedash.domain import errors", "nothing of the project"),
        ("kitedash.running.worker", "from tests.scripted_engine import script", "no part of the product"),
        ("setup.steps", "import kitedash", "before the project's packages"),
    ],
)
def test_a_planted_violation_is_caught(module: str, source: str, says: str) -> None:
    assert any(says in line for line in violations(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("app", "import streamlit\nfrom kitedash.ui import guard"),
        ("kitedash.services.launch", "from db import runs\nfrom kitedash.domain.cost import x"),
        ("kitedash.domain.cost", "from .errors import InvalidInput"),
        ("kitedash.measuring.server", "from kitedash.settings import Settings\nimport evals.registry"),
        ("kitedash.ui.charts", "import altair, streamlit"),
    ],
)
def test_what_is_allowed_is_not_reported(module: str, source: str) -> None:
    assert violations(module, source) == []
