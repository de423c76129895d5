"""A port that is really busy, seen before a long installation. Not a unit test: those open no sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from setup.checks import SetupError, check_port


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_busy_port_is_one_sentence_with_a_way_out(busy_port: int) -> None:
    with pytest.raises(SetupError, match=f"Port {busy_port} of 127.0.0.1 is in use") as raised:
        check_port("127.0.0.1", busy_port)
    assert "KITEDASH_DASHBOARD_PORT=" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_free_port_is_left_free(busy_port: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    check_port("127.0.0.1", port)
    check_port("127.0.0.1", port)


def test_an_address_that_is_not_this_machine_s() -> None:
    with pytest.raises(SetupError, match=r"can't listen on port 8501 of 192\.0\.2\.1"):
        check_port("192.0.2.1", 8501)
