"""What one client may hold of what is bounded, and whose turn it is, so that no client keeps the others from theirs.

A client may hold as much as is free: it gets `amount` more if

    own + amount <= total - held by all.

Alone it gets half of the total. With n greedy clients each gets total / (n + 1), and as much stays free for the next.
(The dynamic thresholds of Choudhury and Hahne, 1998, for switches with a shared buffer, with a factor of 1.)
The turn is the client's who got least of late, with its oldest item, however many items one of them has.
"""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from nearer.serve.limits import Refusal, overloaded

if TYPE_CHECKING:
    from fastapi import Request


T = TypeVar("T")
CLOCKS_KEPT = 64  # of clients that wait for nothing
# Where a request's holding is kept in its scope
HOLDING = "nearer.holding"


class Share:
    """A total that clients hold parts of. Any thread may take and give back."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._all = 0

    @property
    def held(self) -> int:
        """By all clients."""
        return self._all

    def held_by(self, client: str) -> int:
        return self._held.get(client, 0)

    def fits(self, client: str, amount: int) -> bool:
        return self._held.get(client, 0) + amount <= self.total - self._all

    def take(self, client: str, amount: int = 1) -> bool:
        """False, and nothing taken, where it would be more than the client's share."""
        with self._lock:
            if not self.fits(client, amount):
                return False
            self._held[client] += amount
            self._all += amount
            return True

    def give_back(self, client: str, amount: int = 1) -> None:
        with self._lock:
            self._held[client] -= amount
            self._all -= amount
            if not self._held[client]:
                del self._held[client]


class Holding:
    """The memory that one request holds, until `close`. Any thread may add to it."""

    def __init__(self, client: str, share: Share, refused: Callable[[], None] = lambda: None) -> None:
        """refused: called when there is no more."""
        self.client = client
        self._share = share
        self._refused = refused
        self._lock = threading.Lock()
        self._bytes = 0
        self._closed = False

    def check(self, amount: int) -> None:
        """Refuses what could not be had now."""
        if not self._share.fits(self.client, amount):
            raise self._too_much()

    def take(self, amount: int) -> None:
        with self._lock:
            if self._closed or not self._share.take(self.client, amount):
                raise self._too_much()
            self._bytes += amount

    def close(self) -> None:
        """Gives all back; who is still at work for the request gets no more."""
        with self._lock:
            self._closed = True
            self._share.give_back(self.client, self._bytes)
            self._bytes = 0

    def _too_much(self) -> Refusal:
        self._refused()
        return overloaded("Requests that are being answered hold too much memory; try again in a moment.")


def holding_of(request: Request) -> Holding:
    """What a request holds of its client's share."""
    holding: Holding = request.scope[HOLDING]
    return holding


def address_of(host: str | None) -> str:
    """What tells machines apart: an address; of IPv6 the first 64 bits, since the others are a machine's to choose."""
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return host or ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


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
