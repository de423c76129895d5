"""For all tests: a data folder of their own, no settings of the developer's, no network beyond this machine."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
KINDS = ("unit", "database", "worker", "ui", "load", "browser", "real")  # in the order they run: the quick ones first
KIND_OF_FOLDER = {"unit": "unit", "db": "database", "worker": "worker", "ui": "ui", "e2e": "load"}

# Before anything reads the settings: a developer's own database must not be what the tests write to.
for _name in [name for name in os.environ if name.startswith("KITEDASH_")]:
    del os.environ[_name]
_data_dir = tempfile.mkdtemp(prefix="kitedash-tests-")
os.environ["KITEDASH_DATA_DIR"] = _data_dir

# A deadline fails where the machine is busy. The same examples every time, so that a failure can be repeated.
hypothesis_settings.register_profile("kitedash", deadline=None, derandomize=True, max_examples=60)
hypothesis_settings.load_profile("kitedash")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # so it is in the background of a script, and children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.option.allow_unix_socket = True  # pytest-socket's: event loops wake themselves through such a pair


def pytest_unconfigure() -> None:
    shutil.rmtree(_data_dir, ignore_errors=True)


def kind_of(item: pytest.Item) -> str:
    """Which kind of test it is: by its markers, else by its folder."""
    for kind in ("real", "browser"):
        if item.get_closest_marker(kind):
            return kind
    parts = item.path.relative_to(TESTS).parts if item.path.is_relative_to(TESTS) else ()
    return KIND_OF_FOLDER.get(parts[0], "unit") if parts else "unit"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its kind and with what it may reach, and runs the kinds in order (stable within one)."""
    for item in items:
        item.user_properties.append(("kind", kind_of(item)))
        if (kind := kind_of(item)) == "unit":
            item.add_marker(pytest.mark.disable_socket)
        else:
            item.add_marker(kind)
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"]))
    items.sort(key=lambda item: KINDS.index(kind_of(item)))


_ran: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Where several processes run the tests, it is the one that prints that hears of all of them."""
    if report.when == "call" and not report.skipped:
        _ran[dict(report.user_properties)["kind"]] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    said = ", ".join(f"{_ran[kind]} {kind}" for kind in KINDS if _ran[kind])
    terminalreporter.write_line(f"Tests run by kind: {said or 'none'}")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The data folder of this test session (what `settings().data_dir` is), empty at its start."""
    return Path(_data_dir)


@pytest.fixture
def fresh_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder for one test alone, with the cached settings dropped before and after."""
    from kitedash.settings import settings

    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path / "data"))
    settings.cache_clear()
    yield tmp_path / "data"
    settings.cache_clear()


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file that is up to date and has no rows, to be copied: making one takes twenty times as long."""
    from db.engine import migrate

    file = tmp_path_factory.mktemp("empty") / "kitedash.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="session")
def default_model_dir(data_dir: Path) -> Path:
    """The real default model in this session's data folder. What set-up unpacked is linked, not unpacked again."""
    from kitedash.measuring.model_store import DEFAULT_MODEL, unpack_default_model

    target, unpacked = data_dir / "models" / DEFAULT_MODEL, ROOT / "data" / "models" / DEFAULT_MODEL
    if unpacked.is_dir() and not target.exists():
        try:
            shutil.copytree(unpacked, target, copy_function=os.link)
        except (OSError, shutil.Error):  # another file system
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(unpacked, target)
    return unpack_default_model(data_dir / "models")
