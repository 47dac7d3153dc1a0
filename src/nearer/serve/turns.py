"""Whose turn it is: clients one after the other, each with its oldest item, however many items one of them has."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A line of items for each client. Who was served goes behind the other clients."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __iter__(self) -> Iterator[T]:
        """All items, in no order that matters."""
        return (item for line in self._lines.values() for item in line)

    def push(self, client: str, item: T) -> None:
        self._lines.setdefault(client, deque()).append(item)

    def pop(self) -> tuple[str, T]:
        client, line = next(iter(self._lines.items()))
        item = line.popleft()
        self.served(client)
        return client, item

    def next_item(self) -> T:
        """The oldest of the client whose turn it is."""
        return next(iter(self._lines.values()))[0]

    def lines(self) -> list[tuple[str, deque[T]]]:
        """Of all clients, in the order of their turns. Who takes from a line says so with `served`."""
        return list(self._lines.items())

    def served(self, client: str) -> None:
        if self._lines[client]:
            self._lines.move_to_end(client)
        else:
            del self._lines[client]


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
