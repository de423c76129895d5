"""What the tests of the launch page share: opening it, typing, and what it says in red."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest

from db import experiments
from db.engine import sessions
from kitedash.domain.form_fields import ExperimentForm
from kitedash.services.templates import FOLDER
from kitedash.settings import settings
from kitedash.ui.components.launch_state import LaunchState
from tests.ui.conftest import opened

QUICKSTART = (FOLDER / "quickstart.yaml").read_text(encoding="utf-8")
SINGLE = (FOLDER / "single-candidate.yaml").read_text(encoding="utf-8")
START, GO, VIEW = "_launch_start", "_launch_go", "_launch_view"


def fresh() -> AppTest:
    return opened("launch", {})


def quickstart() -> AppTest:
    return begun(fresh(), "template:quickstart")


def begun(at: AppTest, option: str) -> AppTest:
    at.selectbox(key=START).select(option).run()
    assert not at.exception
    return at


def typed(at: AppTest, path: str, text: str) -> AppTest:
    at.text_input(key=f"_launch_{path}").set_value(text).run()
    assert not at.exception
    return at


def typed_in_row(at: AppTest, row: int, column: str, text: str) -> AppTest:
    cell(at, row, column).set_value(text).run()
    assert not at.exception
    return at


def cell(at: AppTest, row: int, column: str) -> Any:
    label = f"candidates[{row}]: {column}"
    return next(one for one in (*at.text_input, *at.selectbox) if one.label == label)


def row_button(at: AppTest, row: int, icon: str) -> Any:
    return at.button(key=f"_launch_{state(at).row_ids[row]}_{icon}")


def state(at: AppTest) -> LaunchState:
    found: LaunchState = at.session_state["_launch"]
    return found


def form(at: AppTest) -> ExperimentForm:
    found = state(at).form
    assert found is not None
    return found


def red(at: AppTest) -> list[str]:
    """What is said in red, without the signs: the strip's sentences first, then those at the fields."""
    head = ":small[:red[:material/error: "
    return [one.value.removeprefix(head).removesuffix("]]") for one in at.markdown if one.value.startswith(head)]


def stored() -> list[str]:
    with sessions(settings().url)() as session:
        return [experiment.id for experiment in experiments.list_recent(session)]


def to_yaml_of(at: AppTest) -> str:
    at.get_by_key(VIEW).set_value("YAML").run()
    assert not at.exception
    return str(at.code[-1].value)


def form_again(at: AppTest) -> AppTest:
    at.get_by_key(VIEW).set_value("Form").run()
    assert not at.exception
    return at
