"""Who asks, and how much of what is bounded one client may hold, so that there is always some left for the others.

A client may hold as much as is free: it gets `amount` more if

    own + amount <= total - held by all.

Alone it gets half of the total. With n greedy clients each gets total / (n + 1), and as much stays free for the next.
(The dynamic thresholds of Choudhury and Hahne, 1998, for switches with a shared buffer, with a factor of 1.)
"""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter
from collections.abc import Callable

from nearer.serve.limits import Refusal, overloaded


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
