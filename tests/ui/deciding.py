"""What the tests of the decide and the records page share: typing, clicking, decisions made through the services."""

from __future__ import annotations

import sqlite3
from typing import Any

from streamlit.testing.v1 import AppTest

from db import results
from db.engine import dispose_engines, sessions
from kitedash.domain.results import LevelStatus
from kitedash.services import decide, runs
from kitedash.services.actor import LOCAL, Actor
from kitedash.services.decide import DraftView
from kitedash.services.records import RecordView
from kitedash.services.tradeoff import tradeoff_view
from kitedash.settings import settings
from kitedash.ui.escape import markdown
from tests.db.rows import going_on
from tests.ui import builders

OTHER = Actor("Mia", "engineer")
VIEWER = Actor("Vera", "viewer")
HOSTILE = "<script>alert(1)</script> :red[x] **b** [a](http://x.example) $x$ `c` | d \u202e"
# On the front of the seeded experiment `many` with their deployed cost: peak 11.57/s, 0.116 USD an hour, 200,000
# requests a day. float32 and int8 hold 4/s (3 replicas), those with 2 sequences 2/s (6 replicas).
REST = ("float32", "int8", "float32 max-num-seqs=2")
CHOSEN = "int8 max-num-seqs=2"
TTFT, COST = "P90 TTFT [95 %]", "Deployed cost [95 %]"


def field(at: AppTest, label: str) -> Any:
    return next(box for box in (*at.text_input, *at.text_area) if box.label == label)


def write(at: AppTest, **typed: str) -> None:
    labels = {
        "title": "Title",
        "why": "Why this candidate",
        "consequences": "Consequences",
        "deciders": "Who decides",
        "consulted": "Consulted",
        "look_again": "When to look again",
    }
    for name, text in typed.items():
        field(at, labels[name]).set_value(text)
    at.run()


def write_all(at: AppTest, names: tuple[str, ...] = REST, **other: str) -> None:
    typed = {
        "title": "Ship int8 with two sequences",
        "why": "It is the fastest one.",
        "consequences": "Six replicas are needed.",
        "deciders": "Ada, Grace",
        "look_again": "when traffic doubles",
        **other,
    }
    for name in names:
        field(at, f"Why not {markdown(name)}?").set_value(f"slower than wanted: {name}")
    write(at, **typed)


def click(at: AppTest, label: str) -> None:
    next(button for button in at.button if button.label == label).click().run()
    assert not at.exception


def labels(at: AppTest) -> list[str]:
    return [button.label for button in at.button]


def the_draft() -> DraftView:
    (found,) = decide.drafts()
    return found


def by_somebody_else(draft: DraftView, **content: Any) -> DraftView:
    return decide.save_draft(
        OTHER,
        experiment_id=draft.experiment_id,
        candidate_name=draft.candidate_name,
        content=draft.content.model_dump() | content,
        targets=draft.targets,
        draft_id=draft.id,
        revision=draft.revision,
    )


def decided(experiment_id: str, candidate: str = CHOSEN, *, supersedes: int | None = None, **said: Any) -> RecordView:
    """A record, made through the services as the decide page does."""
    view = tradeoff_view(experiment_id)
    content = {
        "title": f"Ship {candidate}",
        "why": "It is the fastest one.\nAnd that is what we need.",
        "consequences": "More replicas.",
        "deciders": ("Ada", "Grace"),
        "consulted": ("Linus",),
        "look_again": "when traffic doubles",
        "rejected": {name: f"not {name}" for name in decide.reasons_needed(view, candidate)},
    }
    draft = decide.save_draft(
        LOCAL,
        experiment_id=experiment_id,
        candidate_name=candidate,
        content=content | said,
        targets=view.targets,
        supersedes=supersedes,
    )
    read = decide.as_it_would_read(draft)
    return decide.accept(LOCAL, draft.id, revision=draft.revision, read_sha256=read.sha256)


def store_a_result(experiment_id: str) -> None:
    """As a worker does: the revision of the results grows."""
    run = next(run for run in runs.runs_view(experiment_id).runs if run.candidate_name == "bfloat16")
    with sessions(settings().url).begin() as session, going_on(session, run.id):
        level = builders.level(8.0, 9_000, status=LevelStatus.OVERLOADED)
        results.store_level(session, run.id, level.summary)


def change_stored(number: int, old: str, new: str) -> None:
    """What somebody with the database file could do: the triggers are dropped first."""
    dispose_engines()
    with sqlite3.connect(settings().data_dir / "kitedash.db") as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        changed = connection.execute(
            "UPDATE decision_records SET document = replace(document, ?, ?) WHERE number = ?", (old, new, number)
        )
        assert changed.rowcount == 1
    connection.close()
