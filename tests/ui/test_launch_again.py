"""The launch form after an error, after beginning from something else, and what it says of when its runs begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from streamlit.testing.v1 import AppTest

from db import workers
from db.engine import sessions
from kitedash.services import launch_page
from kitedash.services.launch_preview import Minutes, preview
from kitedash.settings import settings
from kitedash.ui.components import launch_preview
from kitedash.ui.escape import markdown
from tests.ui.conftest import texts
from tests.ui.launching import GO, begun, form, quickstart, state, stored, typed

pytestmark = [pytest.mark.ui, pytest.mark.usefixtures("no_rows")]
LOCKED = sa.exc.OperationalError("INSERT", {}, Exception("database is locked"))


def pressed_with(at: AppTest, monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[str]:
    """Presses Launch where launching raises `error`, and runs the page twice more. Returns what is said of it."""
    found: list[object] = []

    def failing(*_: object, **__: object) -> None:
        found.append(None)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(launch_preview, "launch", failing)
        at.button(key=GO).click().run()
        said = [one.value for one in (*at.error, *at.exception)]
        at.run()
        at.run()
    assert len(found) == 1  # only a click launches
    assert not at.exception
    assert state(at).pressed is False
    return said


def test_a_database_that_is_locked_is_one_sentence_and_the_next_click_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    at = typed(quickstart(), "name", "mine")
    said = pressed_with(at, monkeypatch, LOCKED)
    assert said == [markdown("The database can't be used: database is locked.")]
    assert at.text_input(key="_launch_name").value == "mine"
    assert stored() == []
    at.button(key=GO).click().run()
    assert len(stored()) == 1


def test_an_error_that_nobody_expected_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at = quickstart()
    assert len(pressed_with(at, monkeypatch, RuntimeError("out of luck"))) == 1
    assert not at.button(key=GO).disabled


def back(at: AppTest) -> AppTest:
    next(button for button in at.button if button.label == "Previous form").click().run()
    return at


def test_a_typed_form_is_still_there_after_beginning_from_two_other_things() -> None:
    at = typed(quickstart(), "name", "mine")
    begun(at, "template:single-candidate")
    begun(at, "nothing:")
    begun(at, "template:kite-qwen3-30b-a3b")
    back(at)
    assert at.text_input(key="_launch_name").value == "mine"
    assert len(form(at).candidates) == 6


def test_a_form_in_which_something_was_typed_takes_the_place_of_the_one_before() -> None:
    at = typed(quickstart(), "name", "mine")
    typed(begun(at, "template:single-candidate"), "name", "second")
    begun(at, "nothing:")
    assert back(at).text_input(key="_launch_name").value == "second"


def test_a_template_that_was_only_looked_at_is_no_form_to_go_back_to() -> None:
    at = begun(quickstart(), "template:single-candidate")
    assert "Previous form" not in [button.label for button in at.button]


@pytest.mark.parametrize(
    ("wait", "waiting", "says"),
    [
        (Minutes(0, 0, 0), 0, "A live worker takes it at once. "),
        (Minutes(4, 9, 17), 0, "Every slot is busy: about 9 min (4 to 17 min) until its first run begins. "),
        (Minutes(4, 9, 17), 2, "2 runs in the queue before it: about 9 min (4 to 17 min) until its first run begins. "),
        (None, 0, "Every slot is busy; for how long is not known. "),
        (None, 1, "1 run in the queue before it; for how long is not known. "),
    ],
)
def test_it_is_taken_at_once_only_by_a_slot_that_is_free(
    wait: Minutes | None, waiting: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions(settings().url).begin() as session:
        workers.beat(session, "h:cpu", host="h", pid=1, queue="cpu", device_name="a processor")

    def with_wait(*arguments: Any) -> Any:
        found = preview(*arguments)
        assert found.wait == Minutes(0, 0, 0)
        return replace(found, wait=wait, waiting_runs=waiting)

    monkeypatch.setattr(launch_page, "preview", with_wait)
    said = texts(quickstart())
    assert says in said
    assert ("takes it at once" in said) is ("takes it at once" in says)
