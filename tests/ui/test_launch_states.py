"""The launch page where little goes well: nothing can run, the launch is refused, a file is hostile. And its times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from db import results, runs, workers
from db.engine import sessions
from kitedash.domain.errors import Refused
from kitedash.domain.experiment_file import parse_experiment
from kitedash.domain.results import BlockResult, LevelStatus
from kitedash.services.actor import LOCAL
from kitedash.services.launch import launch
from kitedash.services.runs import runs_view
from kitedash.settings import settings
from kitedash.ui.components import launch_preview
from kitedash.ui.escape import markdown
from tests.ui.builders import facts
from tests.ui.conftest import texts
from tests.ui.launching import (
    GO,
    QUICKSTART,
    SINGLE,
    begun,
    cell,
    form,
    fresh,
    quickstart,
    red,
    stored,
    to_yaml_of,
    typed,
    typed_in_row,
)

pytestmark = [pytest.mark.ui, pytest.mark.usefixtures("no_rows")]
DEVICE = "AMD EPYC 7B13"
LEAVE_OUT = "_launch_leave_out"


# ---- nothing can run


def test_where_no_candidate_can_run_the_button_is_off_and_none_can_be_left_out() -> None:
    at = quickstart()
    at.selectbox(key="_launch_engine_args_add").select("tensor-parallel-size").run()
    typed(at, "engine_args.tensor-parallel-size", "2")
    for name in ("bf16", "float32", "int8", "bf16 no prefix cache", "bf16 batch limit 2", "fp8"):
        asks = f"**{markdown(name)}** {markdown(f'{name} asks for 2 devices; on the processor there is only 1.')}"
        assert asks in red(at)
    assert at.button(key=GO).disabled
    assert at.button(key=GO).help == markdown("None of the candidates can run on these devices.")
    assert LEAVE_OUT not in [box.key for box in at.checkbox]
    assert "No candidate can run on these devices\\." in texts(at)
    typed(at, "engine_args.tensor-parallel-size", "")
    assert red(at) == []
    assert not at.button(key=GO).disabled


# ---- the launch is refused at the click


def test_a_launch_that_is_refused_at_the_click_stores_nothing_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentence = "The last worker of queue *cpu* has just ended."

    def refuses(*_: object, **__: object) -> str:
        raise Refused(sentence)

    at = typed_in_row(typed(quickstart(), "name", "mine"), 1, "further arguments", "seed=7")
    with monkeypatch.context() as patch:
        patch.setattr(launch_preview, "launch", refuses)
        at.button(key=GO).click().run()
    assert not at.exception
    assert [error.value for error in at.error] == [markdown(sentence)]
    assert stored() == []
    assert not at.button(key=GO).disabled
    assert at.text_input(key="_launch_name").value == "mine"
    assert cell(at, 1, "further arguments").value == "seed=7"
    at.run()
    assert len(at.error) == 0  # it is said once, and not launched again by itself
    assert stored() == []
    at.button(key=GO).click().run()
    assert len(stored()) == 1


# ---- how long it takes


def beat() -> None:
    with sessions(settings().url).begin() as session:
        alive = datetime.now(UTC) + timedelta(hours=1)  # however long the test takes
        workers.beat(session, "h:cpu", host="h", pid=1, queue="cpu", device_name=DEVICE, now=alive)


def queued() -> str:
    """The id of the one run of an experiment that is launched now: 12 blocks of 12 s, no suites."""
    return runs_view(launch(parse_experiment(SINGLE), LOCAL)).runs[0].id


def finished() -> None:
    """A run of that kind: 6 s to prepare it, the engine up after 31.2 s, then 12 blocks of 12 s, 3 s around each."""
    run_id, now = queued(), datetime.now(UTC)
    with sessions(settings().url).begin() as session:
        runs.begin(session, run_id, "h:cpu", now)
        runs.set_facts(session, run_id, replace(facts(), device_name=DEVICE))
        for position, (name, seconds, units) in enumerate((("prepare", 6.0, 1), ("load", 211.2, 12))):
            runs.stage_begin(session, run_id, name, position, units, now)
            runs.stage_finish(session, run_id, name, now + timedelta(seconds=seconds))
        for number in range(12):
            block = BlockResult(1.0, number, 1, LevelStatus.OK, "", (), 10, 0, 12.0, "0" * 64, b"")
            results.store_block(session, run_id, block, now)
        runs.finish(session, run_id, now)


def test_with_earlier_runs_the_strip_says_how_long_it_takes_and_that_a_worker_is_ready() -> None:
    """One run was seen: from half to double, the load from half of the blocks to all of them.

    6 + 31.2 + 12 x (12 + 3) = 217.2 s, so 3.6 min. At least 3 + 15.6 + 6 x (12 + 1.5) = 99.6 s, so 1.7 min. At most
    12 + 62.4 + 12 x (12 + 6) s, and two overloaded blocks that wait 60 s each instead of two of 12 s: 386.4 s, 6.4 min.
    """
    finished()
    beat()
    said = texts(begun(fresh(), "template:single-candidate"))
    assert f"**1 candidate · 1 run · about 4 min (1 to 7 min)** on {markdown(DEVICE)}, one at a time" in said
    assert "A live worker takes it at once. From earlier runs on such a device" in said
    assert "in the queue" not in said
    assert "One run takes about 4 min (1 to 7 min). Queue cpu, served by a live worker." in said


def test_what_waits_before_it_is_said_with_the_time_until_it_begins() -> None:
    """As above, twice: 434.4 s are 7.2 min, 199.2 s 3.3 min, and 772.8 s 12.9 min."""
    finished()
    beat()
    queued()
    queued()
    said = texts(begun(fresh(), "template:single-candidate"))
    assert "2 runs in the queue before it: about 7 min (3 to 13 min) until its first run begins. From earlier" in said
    assert "**1 candidate · 1 run · about 4 min (1 to 7 min)**" in said  # from its first run on
    assert "A live worker" not in said


# ---- hostile files

ALIASES = "\n".join(["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)])
HOSTILE_FILES = {
    "alias bomb": (ALIASES, "an alias (*name) is not accepted"),
    "nesting": ("[" * 5_000, "nesting is deeper than 20 levels"),
    "too long": (f"{QUICKSTART}# {'x' * 256_000}", "characters; at most 256,000"),
    "unknown key": (f"{QUICKSTART}\nratez: 1\n", "ratez: is not known"),
}


def uploaded(content: str) -> AppTest:
    at = quickstart()
    at.file_uploader[0].upload("mine.yaml", content.encode()).run()
    return at


def put_into_form(content: str) -> AppTest:
    at = quickstart()
    to_yaml_of(at)
    next(button for button in at.button if button.label == "Edit").click().run()
    at.text_area(key="_launch_yaml_text").set_value(content).run()
    next(button for button in at.button if button.label == "Put into form").click().run()
    return at


@pytest.mark.parametrize("taken", [uploaded, put_into_form])
@pytest.mark.parametrize(("content", "says"), HOSTILE_FILES.values(), ids=HOSTILE_FILES)
def test_a_hostile_file_is_refused_in_one_sentence_and_the_form_stays(
    content: str, says: str, taken: Callable[[str], AppTest]
) -> None:
    at = taken(content)
    assert not at.exception
    (said,) = red(at)
    assert markdown(says) in said
    assert "\n" not in said
    assert [error.value for error in at.error] == []
    assert at.text_area(key="_launch_yaml_text").value == content  # to be mended
    assert len(form(at).candidates) == 6
    assert at.button(key=GO).disabled
