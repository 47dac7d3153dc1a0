"""What stands before every endpoint: the key, the host, a client's share, the size and time of a body.

Nothing is read, and no slot is taken, for a client without a key where one is asked for.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import hmac
import json
import time
from collections.abc import Collection, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nearer.serve.fairness import HOLDING, Holding, address_of
from nearer.serve.limits import BODY_COST, CLIENT_GONE, KIB, Refusal, ending, overloaded

if TYPE_CHECKING:
    from nearer.serve.service import Outcome, Service

Message = MutableMapping[str, Any]
OPEN_PATHS = frozenset({"/health"})
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
# Bodies larger than this are read as JSON one after the other
LARGE_BODY = 64 * KIB
# Bytes of an answer that are handed to the connection at once; the next follow when it has room
SENT_AT_ONCE = 64 * KIB


@dataclass(frozen=True)
class Paths:
    """The service's own: all of them, counted by name; those that take a body; those that can be got, with HEAD as
    with GET; those that ask for no key."""

    all: frozenset[str]
    with_body: frozenset[str]
    got: frozenset[str]
    open: frozenset[str] = OPEN_PATHS

    @classmethod
    def of(cls, routes: Iterable[Any], page: Iterable[str]) -> Paths:
        methods: dict[str, set[str]] = {}
        for route in routes:
            if path := getattr(route, "path", None):
                methods.setdefault(path, set()).update(getattr(route, "methods", None) or ())
        return cls(
            frozenset(methods),
            frozenset(path for path, known in methods.items() if "POST" in known),
            frozenset(path for path, known in methods.items() if "GET" in known),
            OPEN_PATHS | frozenset(page),
        )


class Guard:
    """An ASGI application around another: refuses before anything is read, reads a body within its bounds, counts.

    api_keys: whoever sends one of them may ask. Several tell clients apart; otherwise a client is an address.
    hosts: names by which the service may be called; None takes any. A service on loopback takes loopback's names
    alone, since a page in a browser can make its own name point there.
    """

    def __init__(
        self,
        app: Any,
        *,
        service: Service,
        paths: Paths,
        api_keys: str | Sequence[str] = (),
        hosts: Collection[str] | None = None,
    ) -> None:
        self._app = app
        self._service = service
        self._limits = service.limits
        self._metrics = service.metrics
        self._paths = paths
        keys = [api_keys] if isinstance(api_keys, str) else api_keys
        self._keys = [_digest(key.encode()) for key in keys]
        self._hosts = hosts

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        service, path = self._service, scope["path"]
        headers = dict(scope["headers"])
        body = _Body(receive, headers)
        answer = _Answer(send, body, head=scope["method"] == "HEAD")
        holding, has_slot = Holding("", service.memory), False
        service.open_requests += 1
        try:
            client = self._admitted(scope, headers)
            holding = Holding(client, service.memory, self._count_refused)
            if path not in self._paths.open:
                self._take_slot(client)
                has_slot = True
            if scope["method"] == "POST" and path in self._paths.with_body:
                await self._read(headers, body, holding)
            elif body.declared and scope["method"] in ("GET", "HEAD"):
                raise Refusal(400, f"{scope['method']} {path[:100]}: takes no body.", code="body_not_taken")
            inner = {**scope, HOLDING: holding}
            if scope["method"] == "HEAD" and path in self._paths.got:
                inner["method"] = "GET"
            await self._app(inner, lambda: self._given(body, client), answer.send)
        except Refusal as refusal:
            await answer.refuse(refusal, path)
        except asyncio.CancelledError:
            if not service.ending:
                raise
            await answer.refuse(ending(), path)
        except Exception:
            answer.fail()
            raise
        finally:
            service.open_requests -= 1
            if has_slot:
                service.request_slots.give_back(holding.client)
            holding.close()
            if service.ending and answer.status != CLIENT_GONE:
                service.at_the_end[answer.outcome] += 1
            self._metrics.count_request(
                path if path in self._paths.all else "other", answer.status, time.perf_counter() - started
            )

    def _admitted(self, scope: Message, headers: dict[bytes, bytes]) -> str:
        """The client; refuses who may not ask, or asks for what cannot be read."""
        if self._hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in self._hosts:
                raise Refusal(
                    421, "Host: this service is called by the name of its own machine alone.", code="wrong_host"
                )
        client = address_of((scope.get("client") or [None])[0])
        if self._keys and scope["path"] not in self._paths.open:
            number = self._key_number(headers)
            if number is None:
                raise Refusal(
                    401, "Authorization: a header 'Bearer KEY' with this service's key is needed.", code="key"
                )
            if len(self._keys) > 1:
                client = f"key {number}"
        if scope["method"] == "POST" and scope["path"] in self._paths.with_body:
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refusal(415, "Content-Type: a body of application/json is needed.", code="content_type")
            if _length(headers) > self._limits.body:
                raise self._too_large()
        return client

    def _key_number(self, headers: dict[bytes, bytes]) -> int | None:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        digest = _digest(given.strip())
        # all are compared, so that the time says nothing
        found = [number for number, key in enumerate(self._keys) if hmac.compare_digest(digest, key)]
        return found[0] if found and scheme.lower() == b"bearer" else None

    def _take_slot(self, client: str) -> None:
        slots = self._service.request_slots
        if not slots.take(client):
            self._count_refused()
            own = slots.held_by(client)
            raise overloaded(
                f"{own:,} requests of yours and {slots.held:,} in all are being answered; try again in a moment."
            )

    async def _read(self, headers: dict[bytes, bytes], body: _Body, holding: Holding) -> None:
        """The whole body, before the application sees any of it."""
        holding.check(BODY_COST * _length(headers))
        try:
            async with asyncio.timeout(self._limits.receive):
                while not body.whole:
                    added = await body.receive_more()
                    if body.size > self._limits.body:
                        raise self._too_large()
                    holding.take(BODY_COST * added)
        except TimeoutError:
            raise Refusal(
                408, f"The body did not come within {self._limits.receive:g} seconds.", code="timeout"
            ) from None

    async def _given(self, body: _Body, client: str) -> Message:
        """What the application receives. It reads a body as JSON as soon as it has it."""
        if body.size <= LARGE_BODY:
            return await body.again()
        async with self._service.long_steps.turn(client):
            _put_off_collection()
            return await body.again()

    def _count_refused(self) -> None:
        self._metrics.count("nearer_refused_requests_total")

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The body has more than {self._limits.body:,} bytes.", code="body_too_large")


class _Body:
    """A request's body, received once and given to the application again, in one piece."""

    def __init__(self, receive: Any, headers: dict[bytes, bytes]) -> None:
        self._receive = receive
        self._bytes = bytearray()
        self._given = False
        self._gone = False
        self.declared = b"transfer-encoding" in headers or _length(headers) > 0
        self.whole = False

    @property
    def size(self) -> int:
        """Of what was received and not yet given on."""
        return len(self._bytes)

    @property
    def unread(self) -> bool:
        """Whether some of it may still come, which nobody wants."""
        return self.declared and not self.whole

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
        if not self._given:  # what was not read is no part of it
            self._given = True
            body, self._bytes = bytes(self._bytes), bytearray()
            return {"type": "http.request", "body": body, "more_body": False}
        message: Message = await self._receive()
        return message


class _Answer:
    """What is sent: counted, without a body for HEAD, and large bodies piece by piece, as the client takes them."""

    def __init__(self, send: Any, body: _Body, *, head: bool) -> None:
        self._send = send
        self._body = body
        self._head = head
        self._done = False
        self.status = 0

    @property
    def outcome(self) -> Outcome:
        """Of a request that was running when the service was told to end."""
        if not self._done:
            return "cut off"
        return "refused" if self.status == 503 else "answered"

    def fail(self) -> None:
        """By a defect: it is answered outside of the guard, unless it was half answered."""
        if not self.status:
            self.status, self._done = 500, True

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self._body.unread:  # the rest of the request is not read, so no other can follow it
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        elif message["type"] == "http.response.body":
            content, more = b"" if self._head else message.get("body", b""), message.get("more_body", False)
            last = max(0, len(content) - 1) // SENT_AT_ONCE * SENT_AT_ONCE
            for start in range(0, last, SENT_AT_ONCE):
                piece = content[start : start + SENT_AT_ONCE]
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            message = {"type": "http.response.body", "body": content[last:], "more_body": more}
            self._done = not more
        await self._send(message)

    async def refuse(self, refusal: Refusal, path: str) -> None:
        """Nothing, where an answer has begun: it is cut off."""
        if self.status:
            return
        body = json.dumps(refusal.body(path)).encode("ascii")
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refusal.headers}
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})


def _put_off_collection() -> None:
    """Until the next round of the loop: among the values of a large body, all of them wanted, the search for garbage
    takes ten times as long as the reading (600 000 empty lists: 780 ms and 67)."""
    if gc.isenabled():
        gc.disable()
        asyncio.get_running_loop().call_soon(gc.enable)


def _length(headers: dict[bytes, bytes]) -> int:
    """That the head says; 0 where it says none."""
    length = headers.get(b"content-length", b"")
    return int(length[:20]) if length.isdigit() else 0


def _digest(key: bytes) -> bytes:
    """Of equal length whatever was sent, so that the comparison's time says nothing."""
    return hashlib.sha256(key).digest()
