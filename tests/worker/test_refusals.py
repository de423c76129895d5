"""What can't be served says so in one sentence, and the rest goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kitedash.running.worker import REFUSED
from kitedash.settings import PROJECT_ROOT
from tests.worker.conftest import START_TIMEOUT_S, Home

pytestmark = pytest.mark.worker


def test_a_second_worker_for_a_slot_says_so_and_exits(home: Home) -> None:
    first = home.start_worker()
    home.wait_until(lambda: "serves queue cpu" in (home.data_dir / "worker.out").read_text(), "worker up")
    second = home.start_worker()
    assert second.wait(START_TIMEOUT_S) == REFUSED
    said = (home.data_dir / "worker.out").read_text().strip().splitlines()[-1]
    assert said.startswith(f"another worker (process {first.pid}) already serves slot ")
    assert first.poll() is None


def test_of_several_slots_those_that_cannot_be_served_are_named(tmp_path: Path) -> None:
    script = "import sys; from kitedash.running import slots, supervise; "
    script += "sys.exit(supervise.supervise(slots.parse_slots(['98', '99'])))"  # no machine has so many GPUs
    environment = {**os.environ, "KITEDASH_DATA_DIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == REFUSED
    for number in (98, 99):
        assert f":{number}: slots: '{number}' is no device of this machine" in ended.stderr


def test_a_candidate_that_cannot_start_fails_with_the_engines_reason_and_the_next_goes_on(home: Home) -> None:
    bad = home.queue_run({"engine_args": {"max-num-seqs": 7}})
    unknown = home.queue_run({"model": "nowhere"})
    good = home.queue_run({"engine_args": {"max-num-seqs": 8}})
    home.start_worker({"refuse_if": {"max-num-seqs": 7}, "refuse_to_start": "7 sequences are too many for me"})
    assert home.wait_for_status(good, "finished", "failed") == "finished"
    run = home.run(bad)
    assert (run.status, run.error) == ("failed", "the engine failed: 7 sequences are too many for me")
    assert "Traceback" in home.log(bad)
    assert home.stages(bad)["load"].note == run.error
    assert home.run(unknown).status == "failed"
    assert home.run(unknown).error.startswith("model: 'nowhere' stands for no model")
    assert home.stages(unknown)["prepare"].status == "failed"
