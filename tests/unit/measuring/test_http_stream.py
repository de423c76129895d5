from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.measuring.http_stream import BrokenAnswer, Connection, Exchange, Target

EVENTS = b'data: {"choices":[]}\n\n', b"data: [DONE]\n\n", b"0\r\n\r\n"  # the last looks like the end and is none
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS)
    + b"0\r\nX-Trailer: 1\r\n\r\n"
)
WITH_LENGTH = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 7\r\n\r\n{no: 1}"


class Pool:
    """In the place of `Connections`: notes what becomes of the one connection."""

    def __init__(self) -> None:
        self.given_back = self.forgotten = 0

    def give_back(self, connection: Connection) -> None:
        self.given_back += 1

    def forget(self, connection: Connection) -> None:
        self.forgotten += 1


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


class Line:
    """A connection without a network, with one exchange under way."""

    def __init__(self) -> None:
        self.pool, self.transport = Pool(), Transport()
        self.connection = Connection(self.pool)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.ends = 0
        self.exchange = self.ask()

    def ask(self) -> Exchange:
        exchange = Exchange(self._count)
        self.connection.send(b"POST", exchange)
        return exchange

    def _count(self, exchange: Exchange) -> None:
        self.ends += 1

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.exchange.pieces)


@given(st.lists(st.integers(0, len(CHUNKED)), max_size=12))
def test_an_answer_does_not_depend_on_where_the_network_cuts(cuts: list[int]) -> None:
    line = Line()
    for begin, end in itertools.pairwise([0, *sorted(cuts), len(CHUNKED)]):
        assert line.exchange.ended is None
        line.connection.data_received(CHUNKED[begin:end])
    assert (line.body, line.exchange.status, line.exchange.problem) == (b"".join(EVENTS), 200, None)
    assert (line.ends, line.pool.given_back, line.transport.aborted) == (1, 1, False)
    moments = [moment for moment, _ in line.exchange.pieces]
    assert moments == sorted(moments)
    assert line.exchange.first_byte == moments[0]


def test_a_connection_serves_one_answer_after_the_other() -> None:
    line = Line()
    line.connection.data_received(WITH_LENGTH)
    assert (line.exchange.status, line.body) == (400, b"{no: 1}")
    line.exchange = line.ask()
    line.connection.data_received(CHUNKED)
    assert (line.exchange.status, line.body) == (200, b"".join(EVENTS))
    assert (line.ends, line.pool.given_back) == (2, 2)


def test_what_the_server_closes_is_not_used_again() -> None:
    line = Line()
    line.connection.data_received(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
    assert (line.body, line.exchange.problem, line.ends) == (b"hi", None, 1)
    assert (line.pool.given_back, line.transport.aborted) == (0, True)


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    line = Line()
    line.connection.data_received(b"HTTP/1.1 200 OK\r\n\r\ndata: [DONE]\n\n")
    assert line.exchange.ended is None
    line.connection.connection_lost(None)
    assert (line.body, line.exchange.problem, line.ends) == (b"data: [DONE]\n\n", None, 1)


@pytest.mark.parametrize("length", [0, 20, len(CHUNKED) // 2, len(CHUNKED) - 2])
def test_a_connection_that_ends_too_early_is_a_fault(length: int) -> None:
    line = Line()
    line.connection.data_received(CHUNKED[:length])
    line.connection.connection_lost(None)
    assert isinstance(line.exchange.problem, BrokenAnswer)
    assert line.ends == 1


def test_a_reset_is_named_as_it_came() -> None:
    line = Line()
    problem = ConnectionResetError("reset")
    line.connection.connection_lost(problem)
    assert line.exchange.problem is problem


def test_what_is_no_http_is_a_fault_and_drops_the_connection() -> None:
    line = Line()
    line.connection.data_received(b"SSH-2.0-OpenSSH\r\n")
    assert isinstance(line.exchange.problem, BrokenAnswer)
    assert line.transport.aborted
    assert line.pool.forgotten >= 1


def test_an_interim_answer_is_not_the_answer() -> None:
    line = Line()
    line.connection.data_received(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    assert line.exchange.ended is None
    line.connection.data_received(CHUNKED)
    assert (line.exchange.status, line.body, line.ends) == (200, b"".join(EVENTS), 1)


def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    line = Line()
    line.connection.data_received(CHUNKED)
    line.connection.data_received(b"HTTP/1.1 200 OK\r\n")
    assert line.transport.aborted


def test_a_request_is_whole_before_it_is_due() -> None:
    target = Target.of("http://127.0.0.1:8000/base/")
    assert (target.host, target.port, target.tls) == ("127.0.0.1", 8000, False)
    assert target.encode("/v1/x", {"A": "b"}, b"{}") == (
        b"POST /base/v1/x HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_https_goes_to_its_own_port() -> None:
    target = Target.of("https://models.example")
    assert (target.host, target.port, target.tls, target.path) == ("models.example", 443, True, "")


@pytest.mark.parametrize("url", ["ftp://a", "127.0.0.1:80", "http://"])
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an http or https URL"):
        Target.of(url)
