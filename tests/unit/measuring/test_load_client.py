from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from kitedash.measuring.alarm import Alarm
from kitedash.measuring.load_client import LEAST_SPARE, Exchange, Flight, processes_for, spare_connections, split
from kitedash.measuring.traffic import Request, Traffic


def request(index: int, due_s: float, tokens_out: int = 16, session: int | None = None, turn: int = 0) -> Request:
    return Request(index, due_s, "shared", "?", 10, tokens_out, session=session, turn=turn)


def traffic(count: int, tokens_out: int, duration_s: float) -> Traffic:
    requests = tuple(request(index, index / count * duration_s, tokens_out) for index in range(count))
    return Traffic(
        rate_per_s=count / duration_s,
        block=0,
        seed=1,
        duration_s=duration_s,
        prefixes={"shared": ""},
        requests=requests,
        sha256="",
    )


def test_a_session_stays_in_one_process_in_the_order_of_its_turns() -> None:
    turns = [(0, None, 0), (1, 7, 0), (2, None, 0), (3, 8, 0), (4, 7, 1), (5, 8, 1), (6, 7, 2), (7, None, 0)]
    requests = [request(index, index, session=session, turn=turn) for index, session, turn in turns]
    shares = split(requests, 2)
    assert [[one.index for one in share] for share in shares] == [[0, 2, 7], [1, 4, 6, 3, 5]]
    assert split(requests, 1) == [[requests[index] for index in (0, 1, 4, 6, 2, 3, 5, 7)]]


def test_a_session_and_a_request_of_the_same_number_are_two() -> None:
    shares = split([request(0, 0, session=1), request(1, 1)], 2)
    assert [[one.index for one in share] for share in shares] == [[0], [1]]


@pytest.mark.parametrize(("count", "tokens_out", "expected"), [(10, 16, 1), (2_200, 16, 1), (2_300, 16, 2)])
def test_more_processes_where_more_chunks_are_expected(
    monkeypatch: pytest.MonkeyPatch, count: int, tokens_out: int, expected: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert processes_for(traffic(count, tokens_out, 10.0), None) == expected  # 18 chunks each, 4,000 a second


def test_the_number_of_processes_has_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert processes_for(traffic(9_000, 16, 10.0), None) == 2, "not more than CPUs, unless asked"
    assert processes_for(traffic(9_000, 16, 10.0), 3) == 3
    assert processes_for(traffic(2, 16, 10.0), 8) == 2, "not more than requests"
    assert processes_for(traffic(0, 16, 10.0), None) == 1


def test_spare_connections_follow_the_busiest_quarter_second() -> None:
    calm = [request(index, float(index)) for index in range(10)]
    burst = [request(10 + index, 5.5 + 0.01 * index) for index in range(20)]
    assert spare_connections(calm) == 1 + LEAST_SPARE
    assert spare_connections(calm + burst) == 20 + LEAST_SPARE
    assert spare_connections([]) == LEAST_SPARE


def test_nothing_is_read_after_something_unreadable() -> None:
    flight = Flight(request(0, 0.0), 0.0, Exchange(lambda _: None))
    flight.read([(1.0, b"data: {oops\n\n"), (2.0, b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')])
    flight.read([(3.0, b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')])
    assert flight.error.startswith("unreadable stream")
    assert flight.answer.first_token is None


async def test_an_alarm_rings_in_order_and_never_early() -> None:
    alarm = Alarm(asyncio.get_running_loop())
    rang: list[tuple[float, float]] = []
    start = time.perf_counter()
    for delay in (0.05, 0.02, 0.0, 0.035):
        alarm.at(start + delay, partial(lambda due: rang.append((due, time.perf_counter())), start + delay))
    await asyncio.sleep(0.03)
    alarm.at(start - 1.0, lambda: rang.append((start - 1.0, time.perf_counter())))  # past is now
    await asyncio.sleep(0.1)
    alarm.stop()
    assert [round(due - start, 3) for due, _ in rang] in (
        [0.0, 0.02, -1.0, 0.035, 0.05],
        [0.0, 0.02, 0.035, -1.0, 0.05],
    )
    assert all(moment >= due for due, moment in rang)


async def test_a_stopped_alarm_rings_no_more() -> None:
    alarm = Alarm(asyncio.get_running_loop())
    rang: list[int] = []
    alarm.at(time.perf_counter() + 0.02, lambda: rang.append(1))
    alarm.stop()
    await asyncio.sleep(0.05)
    assert rang == []
