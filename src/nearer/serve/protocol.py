"""A connection within bounds, before there is a request: how many there are, how large and how slow a head may be.

uvicorn's protocol over httptools bounds none of these. This one derives from it: it counts what the parser finds,
keeps a clock for heads and one for answers that nobody takes, and closes so that a client gets to read why.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nearer.serve.fairness import Share, address_of
from nearer.serve.limits import CONNECTIONS_TOLD, Limits, Refusal, overloaded
from nearer.serve.metrics import Metrics

# Seconds in which a client must take the last of its answer and close; until then what it still sends is thrown away
LINGER = 2.0
# Requests on one connection that may wait for the answer to the one before
PIPELINED = 8


class Bounds:
    """What all connections of a service share."""

    def __init__(self, limits: Limits, connections: Share, metrics: Metrics) -> None:
        self.limits = limits
        self.connections = connections
        self.metrics = metrics
        self.told = 0


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, bounds: Bounds, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._bounds = bounds
        self._limits = bounds.limits
        self._address = ""
        self._within = False
        self._refusal: Refusal | None = None
        self._in_head = False
        self._whole = True  # all of the last request that was begun has come
        self._parsed_bytes = 0  # of its head
        self._unparsed_bytes = 0  # of a head that has not ended
        self._header_count = 0
        self._thrown_away = 0
        self._closing = False
        self._head_clock: asyncio.TimerHandle | None = None
        self._answer_clock: asyncio.TimerHandle | None = None
        self._end_clock: asyncio.TimerHandle | None = None

    # connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_GentlyClosed(transport, self))  # type: ignore[arg-type]
        self._address = address_of(self.client[0] if self.client else None)
        self._within = self._bounds.connections.take(self._address)
        if self._within:
            self._start_head_clock()
            return
        self._bounds.metrics.count("nearer_refused_connections_total")
        self._bounds.told += 1
        if self._bounds.told > CONNECTIONS_TOLD:
            transport.abort()
            return
        own, total = self._bounds.connections.held_by(self._address), self._bounds.connections.held
        self._whole = False
        self._refuse(overloaded(f"{own:,} connections of yours and {total:,} in all are open; try again in a moment."))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._within:
            self._bounds.connections.give_back(self._address)
        else:
            self._bounds.told -= 1
        for clock in (self._head_clock, self._answer_clock, self._end_clock):
            if clock is not None:
                clock.cancel()
        self._closing = True
        super().connection_lost(exc)

    def close_gently(self, transport: asyncio.Transport) -> None:
        """Closes when the client has read its answer: closing at once, while it still sends, would take it away."""
        if self._closing:
            return
        self._closing = True
        self._stop_head_clock()
        if self._whole:
            self._end_clock = self.loop.call_later(self._limits.timeout, transport.abort)
            transport.close()
            return
        self._end_clock = self.loop.call_later(LINGER, transport.abort)
        try:
            transport.write_eof()
            transport.resume_reading()
        except (OSError, RuntimeError, NotImplementedError):
            transport.close()

    @property
    def closing(self) -> bool:
        return self._closing

    # heads

    def data_received(self, data: bytes) -> None:
        if self._closing:
            self._thrown_away += len(data)
            if self._thrown_away > self._limits.body:
                self.transport.abort()
            return
        in_head = self._in_head
        if self._whole and self._head_clock is None:
            self._start_head_clock()
        super().data_received(data)
        if in_head and self._in_head:
            self._unparsed_bytes += len(data)
            self._check_head()
        if self._refusal is not None and not self.closing:
            self._refuse(self._refusal)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._whole = True, False
        self._parsed_bytes = self._unparsed_bytes = self._header_count = 0
        if self._head_clock is None:
            self._start_head_clock()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._parsed_bytes += len(url)
        self._check_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of trailers behind a body too."""
        super().on_header(name, value)
        self._header_count += 1
        self._parsed_bytes += len(name) + len(value)
        self._check_head()

    def on_headers_complete(self) -> None:
        if self._refusal is not None:
            return
        self._in_head = False
        self._stop_head_clock()
        if len(self.pipeline) >= PIPELINED:
            self._refusal = Refusal(400, f"more than {PIPELINED} requests wait on one connection.", code="pipelined")
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._refusal is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._whole = True
        if self._refusal is None:
            super().on_message_complete()

    def _check_head(self) -> None:
        limits, size = self._limits, max(self._parsed_bytes, self._unparsed_bytes)
        if self._refusal is None and (size > limits.head or self._header_count > limits.headers):
            what = f"{limits.head:,} bytes" if size > limits.head else f"{limits.headers:,} headers"
            self._refusal = Refusal(431, f"The request's head has more than {what}.", code="head_too_large")

    def _start_head_clock(self) -> None:
        self._head_clock = self.loop.call_later(self._limits.receive, self._too_slow)

    def _stop_head_clock(self) -> None:
        if self._head_clock is not None:
            self._head_clock.cancel()
            self._head_clock = None

    def _too_slow(self) -> None:
        if self._answering:
            self._start_head_clock()  # the next request's head, of which nothing is asked yet
            return
        message = f"The request's head did not come within {self._limits.receive:g} seconds."
        self._refuse(Refusal(408, message, code="timeout"))

    # answers

    def on_response_complete(self) -> None:
        """A request whose body was not read can be followed by no other."""
        unread = not self._whole and not self._in_head and not self.pipeline
        super().on_response_complete()
        if not self.flow.write_paused:
            self._stop_answer_clock()
        if unread and not self._closing:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._answer_clock is None:
            self._answer_clock = self.loop.call_later(self._limits.timeout, self._not_taken)

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._answering:
            self._stop_answer_clock()

    def send_400_response(self, msg: str) -> None:
        """Said by uvicorn where the parser finds no HTTP."""
        self._refuse(self._refusal or Refusal(400, msg, code="invalid_http"))

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_answer_clock(self) -> None:
        if self._answer_clock is not None:
            self._answer_clock.cancel()
            self._answer_clock = None

    def _not_taken(self) -> None:
        self._bounds.metrics.count("nearer_untaken_answers_total")
        self.transport.abort()

    def _refuse(self, refusal: Refusal) -> None:
        """For what never becomes a request. An answer that is being sent is cut off instead."""
        self._bounds.metrics.count_request("none", refusal.status, 0.0)
        if self._answering or self.transport.is_closing():
            self.transport.abort()
            return
        body = json.dumps(refusal.body("")).encode("ascii")
        phrase = HTTPStatus(refusal.status).phrase
        head = [f"HTTP/1.1 {refusal.status} {phrase}", "content-type: application/json", "connection: close"]
        head += [f"{name.lower()}: {value}" for name, value in refusal.headers.items()]
        head += [f"content-length: {len(body)}", "", ""]
        self.transport.write("\r\n".join(head).encode("latin-1") + body)
        self.transport.close()


class _GentlyClosed:
    """A transport as uvicorn sees it, whose end is the protocol's matter."""

    def __init__(self, transport: asyncio.Transport, protocol: BoundedProtocol) -> None:
        self._transport = transport
        self._protocol = protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        self._protocol.close_gently(self._transport)

    def is_closing(self) -> bool:
        return self._protocol.closing or self._transport.is_closing()
