"""Connections of a running service, by hand: what is refused before there is a request, and what others notice."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from nearer.serve.app import create_app
from nearer.serve.limits import Limits
from nearer.serve.server import new_server, open_port
from patience import HANG

KEY = b"authorization: Bearer secret\r\n"
ASKED = b'{"input": "rain", "model": "tiny"}'


def request(path: bytes, body: bytes = b"", *, more: bytes = b"", method: bytes = b"POST", length: int = -1) -> bytes:
    declared = len(body) if length < 0 else length
    head = b"%b %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n%b" % (method, path, more)
    return head + (b"content-length: %d\r\n" % declared if declared else b"") + b"\r\n" + body


class Client:
    """One connection. The whole of 127/8 is this machine, so a client can have an address of its own."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), HANG, source_address=(address, 0))
        self._read = b""

    def send(self, data: bytes) -> Client:
        self.socket.sendall(data)
        return self

    def answer(self) -> tuple[int, dict[str, Any]]:
        """Status, and the body: all of the service's are JSON."""
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        while len(self._read) < length:
            self._more()
        body, self._read = self._read[:length], self._read[length:]
        return int(head[9:12]), json.loads(body) if body else {}

    def ended(self) -> bool:
        """Whether the service closes it; waits until it does."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _more(self) -> None:
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("closed without an answer")
        self._read += more


@contextmanager
def running(model: Any, limits: Limits, **options: Any) -> Iterator[tuple[int, Any]]:
    """The port of a service in a thread, and the service."""
    bound = open_port("127.0.0.1", 0)
    app = create_app(model, limits=limits, **options)
    started = threading.Event()
    server = new_server(app, bound, tell=lambda message: started.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert started.wait(HANG)
        yield bound.getsockname()[1], app.state.service
    finally:
        server.should_exit = True
        thread.join(HANG)
        assert not thread.is_alive()


def pause() -> None:
    threading.Event().wait(0.01)


def until(true: Callable[[], bool]) -> None:
    for _ in range(100 * HANG):
        if true():
            return
        pause()
    pytest.fail("it never came true")


def cut_off(act: Callable[[], object], times: int) -> bool:
    """Whether the service ends the connection while something is done again and again."""
    for _ in range(times):
        try:
            act()
        except ConnectionError:
            return True
        pause()
    return False


@pytest.fixture(autouse=True, scope="module")
def no_time_to_lose() -> Iterator[None]:
    """The service waits a moment for clients that do not close; these never do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearer.serve.protocol.LINGER", 0.1)
        yield


@pytest.fixture
def clients() -> Iterator[Callable[..., Client]]:
    with ExitStack() as opened:

        def connect(port: int, address: str = "127.0.0.1") -> Client:
            client = Client(port, address)
            opened.callback(client.socket.close)
            return client

        yield connect


def code(client: Client) -> tuple[int, str]:
    status, body = client.answer()
    return status, body["error"]["code"]


LIMITS = Limits(head=4096, headers=20, body=100_000, held=2_400_000, receive=300.0)


class TestHeads:
    @pytest.fixture(scope="class")
    def live(self, served) -> Iterator[tuple[int, Any]]:
        with running(served, LIMITS, api_keys="secret") as live:
            yield live

    @pytest.mark.parametrize(
        "head",
        [
            b"GET /health HTTP/1.1\r\nhost: a\r\nx: " + b"x" * 5000 + b"\r\n\r\n",
            b"GET /health HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 30 + b"\r\n",
            b"GET /health?" + b"x" * 5000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        ],
        ids=["one large header", "many headers", "a long address"],
    )
    def test_too_large(self, live, clients, head: bytes) -> None:
        client = clients(live[0]).send(head)
        assert code(client) == (431, "head_too_large")
        assert client.ended()

    def test_one_that_never_ends_is_refused_when_it_is_too_large(self, live, clients) -> None:
        client = clients(live[0]).send(b"GET /health HTTP/1.1\r\nx: ")
        assert cut_off(lambda: client.send(b"x" * 1000), 1000)

    def test_trailers_are_headers(self, live, clients) -> None:
        start = request(b"/v1/embeddings", more=KEY + b"transfer-encoding: chunked\r\n")
        client = clients(live[0]).send(start + b"%x\r\n%b\r\n0\r\n" % (len(ASKED), ASKED) + b"x: y\r\n" * 5000)
        assert client.ended()

    def test_what_is_no_http_is_told_in_json(self, live, clients) -> None:
        client = clients(live[0]).send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        assert code(client) == (400, "invalid_http")
        assert client.ended()

    def test_one_within_the_bounds_in_many_pieces(self, live, clients) -> None:
        """Of which each is counted once."""
        client = clients(live[0])
        for line in (b"GET /health HTTP/1.1\r\n", b"host: a\r\n", b"x: " + b"x" * 1500, b"x" * 1500 + b"\r\n", b"\r\n"):
            client.send(line)
            pause()
        assert client.answer()[0] == 200

    def test_one_after_another(self, live, clients) -> None:
        """On one connection, also when two come at once."""
        client = clients(live[0])
        asked = request(b"/v1/embeddings", ASKED, more=KEY)
        for _ in range(3):
            client.send(asked)
            assert client.answer()[0] == 200
        client.send(asked * 3)
        assert [client.answer()[0] for _ in range(3)] == [200] * 3

    def test_many_that_wait_on_one_connection(self, live, clients) -> None:
        client = clients(live[0]).send(request(b"/v1/embeddings", ASKED, more=KEY) * 500)
        assert cut_off(client.answer, 500)


class TestTime:
    @pytest.mark.parametrize("start", [b"", b"GET /heal", b"\r\n\r\n"], ids=["nothing", "half a line", "empty lines"])
    def test_a_head_that_does_not_come(self, served, clients, start: bytes) -> None:
        with running(served, Limits(receive=0.2)) as (port, service):
            client = clients(port).send(start)
            assert code(client) == (408, "timeout")
            assert client.ended()
            until(lambda: service.connections.held == 0)

    def test_a_head_that_drips(self, served, clients) -> None:
        with running(served, Limits(receive=0.3)) as (port, _):
            client = clients(port).send(b"GET /health HTTP/1.1\r\n")
            assert cut_off(lambda: client.send(b"x: y\r\n"), 100 * HANG)

    def test_empty_lines_between_requests(self, served, clients) -> None:
        """They are no request, and keep no connection open."""
        with running(served, Limits(receive=0.3)) as (port, _):
            client = clients(port).send(request(b"/health", method=b"GET"))
            assert client.answer()[0] == 200
            assert cut_off(lambda: client.send(b"\r\n"), 100 * HANG)

    def test_a_body_that_does_not_come(self, served, clients) -> None:
        with running(served, Limits(receive=0.2)) as (port, service):
            client = clients(port).send(request(b"/v1/embeddings", b'{"input": ', length=1000))
            assert code(client) == (408, "timeout")
            assert client.ended()
            until(lambda: (service.request_slots.held, service.memory.held) == (0, 0))

    def test_an_answer_that_nobody_takes(self, served, clients) -> None:
        with running(served, replace(Limits(), **{"timeout": 0.5})) as (port, service):
            client = clients(port)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            asked = {"first": ["rain"] * 300, "second": ["man"] * 300}  # equal texts are encoded once: soon answered
            for _ in range(8):  # the machine's own buffers take some of them
                client.send(request(b"/similarity", json.dumps(asked).encode()))
            until(lambda: service.metrics.registry.get_sample_value("nearer_untaken_answers_total") == 1)
            until(lambda: (service.request_slots.held, service.memory.held, service.connections.held) == (0, 0, 0))


class TestWithoutAKey:
    """Nothing is read and no place is taken."""

    @pytest.fixture(scope="class")
    def live(self, served) -> Iterator[tuple[int, Any]]:
        limits = Limits(body=100_000, held=1_200_000, concurrent=4, receive=300.0, connections=400)
        with running(served, limits, api_keys="secret") as live:
            yield live

    @pytest.mark.parametrize(
        ("path", "method", "wanted"),
        [
            (b"/v1/embeddings", b"POST", (401, "key")),
            (b"/health", b"POST", (405, "http_405")),
            (b"/health", b"GET", (400, "body_not_taken")),
            (b"/", b"POST", (405, "http_405")),
            (b"/", b"GET", (400, "body_not_taken")),
            (b"/nowhere", b"POST", (401, "key")),
        ],
    )
    def test_bodies_that_never_end(self, live, clients, path: bytes, method: bytes, wanted: tuple[int, str]) -> None:
        port, service = live
        hostile = [
            clients(port).send(request(path, b" " * 1000, method=method, length=99_000)) for _ in range(40)
        ]  # ten times as many as there are places
        assert [code(client) for client in hostile] == [wanted] * 40
        assert (service.request_slots.held, service.memory.held) == (0, 0)
        honest = clients(port).send(request(b"/v1/embeddings", ASKED, more=KEY))
        assert honest.answer()[0] == 200
        assert all(client.ended() for client in hostile)

    def test_a_large_body_is_sent_in_vain_and_told(self, live, clients) -> None:
        """A client that sends all before it reads gets to read why."""
        client = clients(live[0]).send(request(b"/v1/embeddings", b" " * 90_000))
        assert code(client) == (401, "key")

    def test_a_path_that_takes_no_body(self, live, clients) -> None:
        for body in (b"", b"0\r\n\r\n"):
            more = b"transfer-encoding: chunked\r\n" if body else b""
            client = clients(live[0]).send(request(b"/health", method=b"GET", more=more) + body)
            assert client.answer()[0] == (400 if body else 200)


class TestShares:
    def test_connections_of_one_address(self, served, clients) -> None:
        with running(served, Limits(connections=8, receive=300.0)) as (port, service):
            hostile = [clients(port, "127.0.0.2") for _ in range(4)]
            until(lambda: service.connections.held == 4)
            refused = clients(port, "127.0.0.2")
            status, body = refused.answer()
            assert (status, body["error"]["message"]) == (
                503,
                "4 connections of yours and 4 in all are open; try again in a moment.",
            )
            honest = clients(port, "127.0.0.3").send(request(b"/health", method=b"GET"))
            assert honest.answer()[0] == 200
            for client in hostile:
                client.socket.close()
            until(lambda: service.connections.held_by("127.0.0.2") == 0)
            assert clients(port, "127.0.0.2").send(request(b"/health", method=b"GET")).answer()[0] == 200

    def test_places_and_memory_of_one_address(self, served, clients) -> None:
        limits = Limits(concurrent=8, body=10_000, held=480_000, receive=300.0)
        with running(served, limits) as (port, service):
            dripping = [
                clients(port, "127.0.0.2").send(request(b"/v1/embeddings", b" " * 9000, length=9999)) for _ in range(4)
            ]
            until(lambda: service.request_slots.held == 4)
            until(lambda: service.memory.held == 4 * 6 * 9000)
            assert code(clients(port, "127.0.0.2").send(request(b"/v1/embeddings", ASKED))) == (503, "overloaded")
            honest = clients(port, "127.0.0.3").send(request(b"/v1/embeddings", ASKED))
            assert honest.answer()[0] == 200
            for client in dripping:
                client.socket.close()
            until(lambda: (service.request_slots.held, service.memory.held) == (0, 0))

    def test_with_several_keys_a_client_is_a_key(self, watched, clients) -> None:
        limits = Limits(concurrent=4, batch_wait=0.0)
        with running(watched, limits, api_keys=["first", "second"]) as (port, service):
            watched.gate.clear()
            asked = [
                clients(port).send(request(b"/v1/embeddings", ASKED, more=b"authorization: Bearer first\r\n"))
                for _ in range(3)
            ]
            until(lambda: service.request_slots.held == 2)
            other = clients(port).send(request(b"/v1/embeddings", ASKED, more=b"authorization: Bearer second\r\n"))
            until(lambda: service.request_slots.held == 3)
            watched.gate.set()
            assert sorted(client.answer()[0] for client in asked) == [200, 200, 503]
            assert other.answer()[0] == 200
            wrong = clients(port).send(request(b"/v1/embeddings", ASKED, more=b"authorization: Bearer third\r\n"))
            assert code(wrong) == (401, "key")
