"""What stands before every endpoint: the key, the host, the number of requests, the size and time of a body."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Collection, MutableMapping
from typing import TYPE_CHECKING, Any

from nearer.serve.limits import Refusal, overloaded

if TYPE_CHECKING:
    from nearer.serve.app import Service

Message = MutableMapping[str, Any]
OPEN_PATHS = frozenset({"/health"})
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Guard:
    """An ASGI application around another: refuses before anything is read, reads a body within its bounds, counts.

    paths: the service's own, counted by name. open_paths: those that ask for no key.
    hosts: names by which the service may be called; None takes any. A service on loopback takes loopback's names
    alone, since a page in a browser can make its own name point there.
    """

    def __init__(
        self,
        app: Any,
        *,
        service: Service,
        paths: Collection[str],
        open_paths: Collection[str] = OPEN_PATHS,
        api_key: str | None = None,
        hosts: Collection[str] | None = None,
    ) -> None:
        self._app = app
        self._service = service
        self._limits = service.limits
        self._metrics = service.metrics
        self._paths = frozenset(paths)
        self._open_paths = frozenset(open_paths)
        self._key = None if api_key is None else _digest(api_key.encode())
        self._hosts = hosts
        self._held_bytes = 0

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._service.open_requests += 1
        body = _Body(receive)
        try:
            self._admit(scope)
            await self._read(scope, body)
            await self._app(scope, body.again, counted)
        except Refusal as refusal:
            await answer(refusal, scope["path"], counted)
        finally:
            self._service.open_requests -= 1
            self._held_bytes -= body.size
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.request(path, status, time.perf_counter() - started)

    def _admit(self, scope: Message) -> None:
        headers = dict(scope["headers"])
        if self._hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in self._hosts:
                raise Refusal(
                    421, "Host: this service is called by the name of its own machine alone.", code="wrong_host"
                )
        if self._key is not None and scope["path"] not in self._open_paths:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if not (scheme.lower() == b"bearer" and hmac.compare_digest(_digest(given.strip()), self._key)):
                raise Refusal(
                    401, "Authorization: a header 'Bearer KEY' with this service's key is needed.", code="key"
                )
        if self._service.open_requests > self._limits.concurrent and scope["path"] not in OPEN_PATHS:
            self._metrics.count("nearer_refused_requests_total")
            raise overloaded(f"{self._limits.concurrent:,} requests are being answered; try again in a moment.")
        if scope["method"] == "POST":
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if scope["path"] in self._paths and kind != b"application/json":
                raise Refusal(415, "Content-Type: a body of application/json is needed.", code="content_type")
            if (length := headers.get(b"content-length", b"")).isdigit() and int(length[:20]) > self._limits.body:
                raise self._too_large()

    async def _read(self, scope: Message, body: _Body) -> None:
        """The whole body, before the application sees any of it."""
        if scope["method"] in ("GET", "HEAD"):
            return
        try:
            async with asyncio.timeout(self._limits.timeout):
                while not body.whole:
                    added = await body.receive_more()
                    self._held_bytes += added
                    if body.size > self._limits.body:
                        raise self._too_large()
                    if self._held_bytes > self._limits.held:
                        self._metrics.count("nearer_refused_requests_total")
                        raise overloaded("Too many large requests are being answered; try again in a moment.")
        except TimeoutError:
            raise Refusal(
                408, f"The body did not come within {self._limits.timeout:g} seconds.", code="timeout"
            ) from None

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body has more than {self._limits.body:,} bytes.", code="body_too_large")


class _Body:
    """A request's body, received once and given to the application again, in one piece."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._bytes = bytearray()
        self._given = False
        self._gone = False
        self.whole = False

    @property
    def size(self) -> int:
        return len(self._bytes)

    async def receive_more(self) -> int:
        message: Message = await self._receive()
        self._gone = message["type"] == "http.disconnect"
        self.whole = self._gone or not message.get("more_body", False)
        added = message.get("body", b"")
        self._bytes += added
        return len(added)

    async def again(self) -> Message:
        """What was received, then what comes after it: that the client went away."""
        if self._gone:
            return {"type": "http.disconnect"}
        if self.whole and not self._given:
            self._given = True
            return {"type": "http.request", "body": bytes(self._bytes), "more_body": False}
        message: Message = await self._receive()
        return message


async def answer(refusal: Refusal, path: str, send: Any) -> None:
    body = json.dumps(refusal.body(path)).encode("ascii")
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refusal.headers}
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _digest(key: bytes) -> bytes:
    """Of equal length whatever was sent, so that the comparison's time says nothing."""
    return hashlib.sha256(key).digest()
