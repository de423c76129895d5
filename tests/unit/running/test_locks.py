from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kitedash.running.locks import BusyError, FileLock, hold_devices, hold_slot


def test_a_slot_is_held_once(tmp_path: Path) -> None:
    first = hold_slot("host:0+1", tmp_path)
    with pytest.raises(BusyError, match=rf"another worker \(process {os.getpid()}\) already serves slot host:0\+1"):
        hold_slot("host:0+1", tmp_path)
    hold_slot("host:2", tmp_path).release()
    first.release()
    hold_slot("host:0+1", tmp_path).release()


def test_a_device_stays_locked_while_a_process_that_inherited_the_lock_lives(tmp_path: Path) -> None:
    (lock,) = hold_devices(("0",), "host:0", tmp_path, timeout_s=0)
    heir = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[lock.fd])
    try:
        lock.release()
        with pytest.raises(BusyError, match="device 0 is still in use by slot host:0"):
            hold_devices(("0",), "host:0", tmp_path, timeout_s=0.3)
    finally:
        heir.kill()
        heir.wait()
    hold_devices(("0",), "host:0", tmp_path, timeout_s=0)[0].release()


def test_waiting_for_a_lock_ends_when_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    script = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print(flush=True); time.sleep(0.5)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        holder.stdout.readline()
        began = time.monotonic()
        lock = FileLock(path)
        assert not lock.acquire("me")
        assert lock.acquire("me", timeout_s=10)
        assert 0.1 < time.monotonic() - began < 5
        assert lock.holder() == "me"
        holder.wait()
    lock.release()
