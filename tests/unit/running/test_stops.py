from __future__ import annotations

from pathlib import Path

from kitedash.running import stops


def test_ordered_ends_are_counted_per_run_and_forgotten_with_it(tmp_path: Path) -> None:
    assert stops.count(tmp_path, "a") == 0
    stops.note(tmp_path, "a")
    stops.note(tmp_path, "a")
    stops.note(tmp_path, "b")
    assert (stops.count(tmp_path, "a"), stops.count(tmp_path, "b")) == (2, 1)
    stops.forget(tmp_path, "a")
    stops.forget(tmp_path, "a")
    assert stops.count(tmp_path, "a") == 0
