"""The open-loop load client: sends each request when it is due, whatever became of the others.

`python -m kitedash.measuring.load_client PLAN OUT` with the key in KITEDASH_ENGINE_KEY. PLAN is JSON: base_url, model,
traffic (the file), request_timeout_s, processes (null: as many as the traffic needs). OUT becomes one JSON object:
moments in s from the block's start on one monotonic clock, one record a request in the file's order, the CPU use of
each sending process. Its own processes, so that no work of the worker delays it.

While it measures, it only notes which bytes came when; what they say is read afterwards.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import resource
import sys
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import uvloop

from kitedash.measuring.alarm import Alarm
from kitedash.measuring.event_stream import Answer, EventStream
from kitedash.measuring.http_stream import Connection, Connections, Exchange, Target
from kitedash.measuring.traffic import Request, Traffic, read

KEY_VARIABLE = "KITEDASH_ENGINE_KEY"
ENDPOINTS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
START_DELAY_S = 0.5  # by then all processes are there, and the connections open
SPARE_WINDOW_S = 0.25  # what may come due within it finds open connections
LEAST_SPARE = 4
PIECES_AT_ONCE = 8  # read between two looks at the network, some 50 us
MOST_UNREAD_BYTES = 64 * 2**20
CHUNKS_PER_S_AND_PROCESS = 4_000  # a sixth of a core, lateness P99 0.2 ms (bench/load/fidelity.py)


@dataclass(slots=True)
class Flight:
    """One request from its due moment to its end. Moments are `time.perf_counter()` s."""

    request: Request
    due: float
    exchange: Exchange
    sent: float | None = None
    connection: Connection | None = None
    connecting: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    timed_out: bool = False
    error: str = ""
    answer: Answer = field(default_factory=Answer)
    stream: EventStream = field(default_factory=EventStream)

    def read(self, pieces: Sequence[tuple[float, bytes]]) -> None:
        """Takes in what came; after something unreadable no more is read."""
        if self.error:
            return
        try:
            for moment, piece in pieces:
                for data in self.stream.feed(piece):
                    self.answer.take(data, moment)
        except (ValueError, AttributeError, TypeError) as problem:
            self.error = f"unreadable stream: {problem}"[:300]


class Client:
    """What one process sends. `encoded` has the bytes of the whole file's requests, by index."""

    def __init__(
        self, plan: Mapping[str, Any], requests: Sequence[Request], encoded: Sequence[bytes], process: int = 0
    ) -> None:
        self._timeout_s: float = plan["request_timeout_s"]
        self._target = Target.of(plan["base_url"])
        self._encoded, self._process = encoded, process
        self._flights: list[Flight] = []
        self._later_turns: dict[int | None, deque[Request]] = {}
        self._first: list[Request] = []
        for request in sorted(requests, key=lambda request: request.turn):
            if request.session in self._later_turns:
                self._later_turns[request.session].append(request)
                continue
            self._first.append(request)
            if request.session is not None:
                self._later_turns[request.session] = deque()
        self._left = len(requests)
        self._unread: deque[Flight] = deque()
        self._unread_bytes = 0
        self._reading: asyncio.Task[None] | None = None

    async def run(self, start: float) -> dict[str, Any]:
        """Sends everything; returns the records in the order of the due moments, and what CPU that took."""
        self._loop = asyncio.get_running_loop()
        self._start = start
        self._done: asyncio.Future[None] = self._loop.create_future()
        # A collection in the middle of a block would be lateness; a block's garbage fits into memory.
        gc.collect()
        gc.freeze()
        gc.disable()
        cpu_before, wall_before = _cpu_s(), time.perf_counter()
        self._connections = Connections(self._target, spare_connections(self._first))
        alarm = self._alarm = Alarm(self._loop)
        try:
            await self._connections.fill()
            for request in self._first:
                assert request.due_s is not None, "only a later turn's due moment is open"
                self._schedule(request, start + request.due_s)
            if self._left:
                await self._done
            cpu_s, wall_s = _cpu_s() - cpu_before, time.perf_counter() - wall_before
            if self._reading is not None:
                await self._reading
        finally:
            gc.enable()
            alarm.stop()
            self._connections.close()
        records = [self._record(flight) for flight in self._flights]
        return {"records": records, "cpu_s": cpu_s, "wall_s": wall_s, "start_monotonic_s": start}

    def _schedule(self, request: Request, due: float) -> None:
        self._alarm.at(due, partial(self._send, request, due))

    def _send(self, request: Request, due: float) -> None:
        flight = Flight(request, due, Exchange(lambda _: self._over(flight)))
        self._flights.append(flight)
        connection = self._connections.take()
        flight.sent = time.perf_counter()
        # The cap counts from the due moment, so a late client gives its server no more time than an early one.
        flight.timer = self._loop.call_later(max(0.0, due + self._timeout_s - flight.sent), self._give_up, flight)
        if connection is None:
            flight.connecting = self._loop.create_task(self._connect(flight))
        else:
            flight.connection = connection
            connection.send(self._encoded[request.index], flight.exchange)

    async def _connect(self, flight: Flight) -> None:
        try:
            connection = await self._connections.open()
        except (OSError, TimeoutError) as problem:
            flight.sent = None
            flight.exchange.end(problem)
            return
        if flight.exchange.ended is not None:  # given up meanwhile
            connection.close()
            return
        flight.connection = connection
        connection.send(self._encoded[flight.request.index], flight.exchange)

    def _give_up(self, flight: Flight) -> None:
        flight.timed_out = True
        flight.exchange.end()
        if flight.connection is not None:
            flight.connection.close()

    def _over(self, flight: Flight) -> None:
        """The next turn of the session comes after any end, a failure too: its prompt does not hang on the answer."""
        if flight.timer is not None:
            flight.timer.cancel()
        ended = flight.exchange.ended
        assert ended is not None
        if flight.request.session is not None and (turns := self._later_turns[flight.request.session]):
            turn = turns.popleft()
            due = ended + turn.think_time_s if turn.due_s is None else max(ended, self._start + turn.due_s)
            self._schedule(turn, due)
        self._unread.append(flight)
        self._unread_bytes += sum(len(piece) for _, piece in flight.exchange.pieces)
        if self._unread_bytes > MOST_UNREAD_BYTES and self._reading is None:
            self._reading = self._loop.create_task(self._read_some())
        self._left -= 1
        if not self._left:
            self._done.set_result(None)

    async def _read_some(self) -> None:
        """Reads the oldest answers, a little at a time, where a long block's bytes would fill the memory."""
        while self._unread and self._unread_bytes > MOST_UNREAD_BYTES // 2:
            flight = self._unread.popleft()
            if flight.exchange.status == 200:
                pieces = flight.exchange.pieces
                for begin in range(0, len(pieces), PIECES_AT_ONCE):
                    flight.read(pieces[begin : begin + PIECES_AT_ONCE])
                    await asyncio.sleep(0)
                self._unread_bytes -= sum(len(piece) for _, piece in pieces)
                pieces.clear()
        self._reading = None

    def _record(self, flight: Flight) -> dict[str, Any]:
        request, exchange, answer = flight.request, flight.exchange, flight.answer
        if exchange.status == 200:
            flight.read(exchange.pieces)
            exchange.pieces.clear()
        return {
            "index": request.index,
            "due_s": flight.due - self._start,
            "sent_s": self._since(flight.sent),
            "first_byte_s": self._since(exchange.first_byte),
            "first_token_s": self._since(answer.first_token),
            "last_token_s": self._since(answer.last_token),
            "ended_s": self._since(exchange.ended),
            "tokens_in": answer.tokens_in,
            "tokens_cached": answer.tokens_cached,
            "tokens_out": answer.tokens_out,
            "chunks": answer.chunks,
            "queue_time_ms": answer.metrics.get("queue_time_ms"),
            "engine_ttft_ms": answer.metrics.get("time_to_first_token_ms"),
            "generation_time_ms": answer.metrics.get("generation_time_ms"),
            "finish_reason": answer.finish_reason,
            "http_status": exchange.status,
            "timed_out": flight.timed_out,
            "error": _error_of(flight),
            "process": self._process,
            "chunk_ms": [(moment - (answer.first_token or 0.0)) * 1e3 for moment in answer.chunk_moments],
        }

    def _since(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self._start


def _error_of(flight: Flight) -> str:
    """Why the request failed, or "". The output length is fixed, so less is a failure."""
    exchange, answer, request = flight.exchange, flight.answer, flight.request
    if flight.timed_out:
        return "timed out"
    if (problem := exchange.problem) is not None:
        not_sent = "not sent, " if flight.sent is None else ""
        return f"{not_sent}{type(problem).__name__}: {problem}"[:300]
    if exchange.status != 200:
        return _message(b"".join(piece for _, piece in exchange.pieces))
    if flight.error or answer.error:
        return flight.error or answer.error
    if not answer.done:
        return "the stream broke off"
    if answer.tokens_out is None:
        return "no usage was reported"
    if answer.first_token is None or answer.tokens_out == 0:
        return "no token came"
    if answer.tokens_out != request.tokens_out:
        return f"{answer.tokens_out} of {request.tokens_out} tokens came"
    return ""


def _message(content: bytes) -> str:
    try:
        error = json.loads(content)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        text = content.decode(errors="replace")
    return text[:300] or "no message"


def spare_connections(requests: Sequence[Request]) -> int:
    """How many idle connections are kept: what comes due within a short while, at the busiest moment, and a few."""
    due = sorted(request.due_s for request in requests if request.due_s is not None)
    most, begin = 0, 0
    for end, moment in enumerate(due):
        while due[begin] < moment - SPARE_WINDOW_S:
            begin += 1
        most = max(most, end - begin + 1)
    return most + LEAST_SPARE


def processes_for(traffic: Traffic, asked: int | None) -> int:
    """How many processes send: as asked, else one for each so many stream chunks a second, as many as there are CPUs
    at most. Never more than there are requests."""
    chunks = sum(request.tokens_out + 2 for request in traffic.requests)  # the role-only chunk, and that with the usage
    needed = -(-chunks // max(1, round(CHUNKS_PER_S_AND_PROCESS * traffic.duration_s)))
    return max(1, min(asked or min(needed, os.cpu_count() or 1), len(traffic.requests)))


def split(requests: Sequence[Request], processes: int) -> list[list[Request]]:
    """A share for each process, in turn by due moment; a session stays whole, in the order of its turns."""
    units: dict[tuple[bool, int], list[Request]] = defaultdict(list)
    for request in requests:
        alone = request.session is None
        units[alone, request.index if request.session is None else request.session].append(request)
    shares: list[list[Request]] = [[] for _ in range(processes)]
    for number, unit in enumerate(units.values()):
        shares[number % processes].extend(unit)
    return shares


def _encode(plan: Mapping[str, Any], traffic: Traffic) -> list[bytes]:
    """Every request's complete bytes, before the block starts."""
    target = Target.of(plan["base_url"])
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    headers["Authorization"] = f"Bearer {os.environ.get(KEY_VARIABLE, '')}"
    return [
        target.encode(ENDPOINTS[request.kind], headers, _body(plan["model"], traffic, request))
        for request in traffic.requests
    ]


def _body(model: str, traffic: Traffic, request: Request) -> bytes:
    """The output length is fixed, so every candidate decodes the same amount."""
    body: dict[str, Any] = {
        "model": model,
        "temperature": 0,
        "ignore_eos": True,
        "min_tokens": request.tokens_out,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.kind == "chat":
        body |= {"messages": traffic.messages(request), "max_completion_tokens": request.tokens_out}
    else:
        body |= {"prompt": traffic.prompt(request), "max_tokens": request.tokens_out}
    return json.dumps(body).encode()


async def measure(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The whole traffic from this process, on the event loop that runs."""
    traffic = await asyncio.to_thread(read, Path(plan["traffic"]))
    result = await Client(plan, traffic.requests, _encode(plan, traffic)).run(time.perf_counter() + START_DELAY_S)
    return _merged([result], traffic)


def measure_in_processes(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The traffic from as many processes as the plan says, all by one start on the clock that they share.

    They are forked once everything is read and encoded, so that it is in memory once and all are ready at once.
    """
    traffic = read(Path(plan["traffic"]))
    encoded = _encode(plan, traffic)
    shares = split(traffic.requests, processes_for(traffic, plan.get("processes")))
    start = time.perf_counter() + START_DELAY_S
    if len(shares) == 1:
        return _merged([uvloop.run(Client(plan, shares[0], encoded).run(start))], traffic)
    context = multiprocessing.get_context("fork")
    children = []
    for process, share in enumerate(shares):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(theirs, Client(plan, share, encoded, process), start), daemon=True)
        child.start()
        theirs.close()  # so that a child's death is the end of its pipe
        children.append((child, ours))
    results = [ours.recv() for _, ours in children]
    for child, _ in children:
        child.join()
    return _merged(results, traffic)


def _child(pipe: Pipe, client: Client, start: float) -> None:
    pipe.send(uvloop.run(client.run(start)))


def _merged(results: Sequence[Mapping[str, Any]], traffic: Traffic) -> dict[str, Any]:
    """Records in the file's order; CPU seconds of all, and the share of a core of the busiest process."""
    records = [record for result in results for record in result["records"]]
    return {
        "records": sorted(records, key=lambda record: record["index"]),
        "processes": len(results),
        "cpu_s": sum(result["cpu_s"] for result in results),
        "wall_s": max(result["wall_s"] for result in results),
        "cpu_share": max(result["cpu_s"] / result["wall_s"] for result in results),
        "start_monotonic_s": results[0]["start_monotonic_s"],
        "traffic_sha256": traffic.sha256,
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _allow_connections() -> None:
    """As many open files as this user may have: each request under way has a connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(argv: Sequence[str]) -> int:
    plan = json.loads(Path(argv[0]).read_text())
    _allow_connections()
    result = measure_in_processes(plan)
    out = Path(argv[1])
    partial_out = out.with_suffix(".part")
    partial_out.write_text(json.dumps(result))
    partial_out.replace(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
