"""Whose turn it is: the client's who got least of late, with its oldest item, however many items one of them has."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
CLOCKS_KEPT = 64


class FairQueue(Generic[T]):
    """A line of items for each client, with start-time fair queueing (Goyal, Vin and Cheng, 1996).

    Each client has a clock that goes on by what its items cost. The client whose clock is behind has its turn. Who was
    away begins at the clock of the last turn: being away saves nothing up, and who asks for little is soon served.
    """

    def __init__(self) -> None:
        self._lines: dict[str, deque[T]] = {}
        self._clocks: dict[str, float] = {}  # of clients that wait, and of those that got more than others
        self._now = 0.0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __contains__(self, client: str) -> bool:
        """Whether the client waits for anything."""
        return client in self._lines

    def __iter__(self) -> Iterator[T]:
        """All items, in no order that matters."""
        return (item for line in self._lines.values() for item in line)

    def push(self, client: str, item: T) -> None:
        if client not in self._lines:
            self._lines[client] = deque()
            self._clocks[client] = max(self._now, self._clocks.get(client, 0.0))
        self._lines[client].append(item)

    def pop(self) -> tuple[str, T]:
        client = self._first()
        item = self._lines[client].popleft()
        self.charge(client)
        return client, item

    def next_item(self) -> T:
        """The oldest of the client whose turn it is."""
        return self._lines[self._first()][0]

    def lines(self) -> list[tuple[str, deque[T]]]:
        """Of all clients, in the order of their turns. Whoever takes from a line says so with `charge`."""
        return sorted(self._lines.items(), key=lambda line: self._clocks[line[0]])

    def clock(self, client: str) -> float:
        return self._clocks[client]

    def charge(self, client: str, cost: float = 1.0) -> None:
        """The client had its turn, and what was taken cost so much."""
        if cost:
            self._now = max(self._now, self._clocks[client])
            self._clocks[client] += cost
        if not self._lines[client]:
            del self._lines[client]
        if len(self._clocks) > 2 * len(self._lines) + CLOCKS_KEPT:
            self._clocks = {
                name: clock for name, clock in self._clocks.items() if name in self._lines or clock > self._now
            }

    def _first(self) -> str:
        return min(self._lines, key=self._clocks.__getitem__)


class Turns:
    """Long steps on the event loop, one in each of its rounds, so that whatever else is ready runs in between."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._taken = False

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # whoever waited in another one has ended with it
            self._loop, self._waiting, self._taken = loop, FairQueue(), False
        if self._taken:
            mine: asyncio.Future[None] = loop.create_future()
            self._waiting.push(client, mine)
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._next()
                raise
        self._taken = True
        try:
            yield
        finally:
            loop.call_soon(self._next)

    def _next(self) -> None:
        while self._waiting:
            _, waiting = self._waiting.pop()
            if not waiting.done():
                waiting.set_result(None)
                return
        self._taken = False
