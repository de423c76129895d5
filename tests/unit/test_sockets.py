"""The guard that keeps unit tests off the network is itself in force."""

from __future__ import annotations

import asyncio
import socket

import pytest


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_a_unit_test_opens_no_socket() -> None:
    with pytest.raises(RuntimeError, match=r"tried to use socket\.socket"):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with pytest.raises(RuntimeError, match="getaddrinfo"):
        socket.getaddrinfo("localhost", 80)


async def test_an_event_loop_still_works() -> None:
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 5) == 7
