"""HTTP/1.1 for the load client: a request's bytes out, and each piece of the answer with the moment it came.

The moment is taken when the event loop hands over what the socket held, before anything is parsed or queued: a reader
behind a queue sees bytes when it is its turn. Framing (chunks, lengths, trailers) is left to `httptools`, which is
llhttp. Knows nothing of what the answers mean. Moments are `time.perf_counter()` s.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httptools

KEEP_ALIVE_S = 2.0  # below vLLM's 5 s: a request on a connection that the server just closed would fail for nothing
CONNECT_TIMEOUT_S = 10.0
_SWEEP_S = 0.5


class BrokenAnswer(Exception):
    """The connection ended, or what came is no HTTP, before the answer was whole."""


@dataclass(slots=True)
class Exchange:
    """One answer as it came in. `pieces` are (moment, bytes of the body); whoever has read them may clear them."""

    on_end: Callable[[Exchange], None]
    status: int = 0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    first_byte: float | None = None  # of the body
    ended: float | None = None
    problem: Exception | None = None

    def end(self, problem: Exception | None = None) -> None:
        if self.ended is None:
            self.ended, self.problem = time.perf_counter(), problem
            self.on_end(self)


@dataclass(frozen=True)
class Target:
    """Where requests go. `encode` gives a request's complete bytes, so that nothing is left to do when it is due."""

    host: str
    port: int
    tls: bool
    authority: str
    path: str

    @classmethod
    def of(cls, base_url: str) -> Target:
        """Raises ValueError where the URL is none of http or https."""
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or url.hostname is None:
            raise ValueError(f"not an http or https URL: {base_url}")
        tls = url.scheme == "https"
        authority = url.netloc.rpartition("@")[2]
        return cls(url.hostname, url.port or (443 if tls else 80), tls, authority, url.path.rstrip("/"))

    def encode(self, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"POST {self.path}{path} HTTP/1.1", f"Host: {self.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + body


class Connection(asyncio.Protocol):
    """One connection, one exchange at a time. Ended by the server or by a fault it is dropped, never mended."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._moment = 0.0
        self._until_closed = True  # the answer has no length: it ends with the connection
        self.idle_since = 0.0

    def send(self, request: bytes, exchange: Exchange) -> None:
        assert self._transport is not None
        assert self._exchange is None, "one exchange at a time"
        self._exchange, self._until_closed = exchange, True
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)

    def close(self) -> None:
        """At once: what is still to come is not waited for."""
        self._connections.forget(self)
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    # -- asyncio calls these --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]  # uvloop's do not derive from asyncio's

    def data_received(self, data: bytes) -> None:
        self._moment = time.perf_counter()
        if self._exchange is None:  # nothing was asked: bytes behind an answer's end
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self._break(BrokenAnswer(f"no HTTP: {problem}"))

    def connection_lost(self, problem: Exception | None) -> None:
        self._transport = None
        whole = problem is None and self._until_closed and self._exchange is not None and self._exchange.status != 0
        reason = problem or BrokenAnswer("the connection was closed before the answer was whole")
        self._break(None if whole else reason)

    def _break(self, problem: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        self.close()
        if exchange is not None:
            exchange.end(problem)

    # -- httptools calls these ------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._until_closed = False

    def on_headers_complete(self) -> None:
        if self._exchange is not None:
            self._exchange.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if (exchange := self._exchange) is not None:
            if exchange.first_byte is None:
                exchange.first_byte = self._moment
            exchange.pieces.append((self._moment, body))

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or exchange.status < 200:  # 1xx: the answer proper is still to come
            return
        self._exchange = None
        if self._parser.should_keep_alive():
            self._connections.give_back(self)
        else:
            self.close()
        exchange.end()


class Connections:
    """Connections to one server. So many are open and idle at any time that a due request finds one: setting one up
    is no part of what is measured. The one used last is used first, so what a burst opened goes away by itself."""

    def __init__(self, target: Target, spare: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._target, self._spare = target, spare
        self._tls = ssl.create_default_context() if target.tls else None
        self._idle: list[Connection] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    async def fill(self) -> None:
        """Opens the spare connections; a server that refuses is left for the requests to find out."""
        self._top_up()
        await asyncio.gather(*self._opening)

    def take(self) -> Connection | None:
        """An open connection, at once; None where there is none, then `open` one."""
        connection = None
        while self._idle and connection is None:
            last = self._idle.pop()
            connection = last if last.is_open else None
        self._loop.call_soon(self._top_up)
        return connection

    async def open(self) -> Connection:
        """Raises OSError (ssl.SSLError among them) or TimeoutError where no connection can be made."""
        target = self._target
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await self._loop.create_connection(
                lambda: Connection(self), target.host, target.port, ssl=self._tls
            )
        return connection

    def give_back(self, connection: Connection) -> None:
        if connection.is_open:
            connection.idle_since = time.perf_counter()
            self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        self._sweeper.cancel()
        self._spare = 0
        for task in self._opening:
            task.cancel()
        for connection in tuple(self._idle):
            connection.close()

    def _top_up(self) -> None:
        for _ in range(self._spare - len(self._idle) - len(self._opening)):
            task = self._loop.create_task(self._open_spare())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open_spare(self) -> None:
        try:
            self.give_back(await self.open())
        except (OSError, TimeoutError):
            return

    def _sweep(self) -> None:
        oldest = time.perf_counter() - KEEP_ALIVE_S
        for connection in [one for one in self._idle if one.idle_since < oldest]:
            connection.close()
        self._top_up()
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)
