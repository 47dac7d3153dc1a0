"""Batches made ready in a thread while the step before them is computed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
AHEAD = 4


class Prefetcher(Generic[Item]):
    """`make(n)` for n = first, first + 1, … below `end`, in this order, a few of them ahead."""

    def __init__(self, make: Callable[[int], Item], first: int, end: int) -> None:
        self._made: queue.Queue[Item | BaseException] = queue.Queue(maxsize=AHEAD)
        self._over: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(make, first, end), daemon=True, name="prefetch")
        self._thread.start()

    def next(self) -> Item:
        """The next item; past the last one, or again after an error, that error."""
        if self._over is not None:
            raise self._over
        item = self._made.get()
        if isinstance(item, BaseException):
            self._over = item
            raise item
        return item

    def close(self) -> None:
        self._stopped.set()
        while self._thread.is_alive():
            try:
                self._made.get_nowait()  # room for what the thread may be waiting to put
            except queue.Empty:
                self._thread.join(timeout=0.05)

    def _run(self, make: Callable[[int], Item], first: int, end: int) -> None:
        for number in range(first, end):
            if self._stopped.is_set():
                return
            try:
                self._made.put(make(number))
            except BaseException as error:  # told where the batch is asked for
                self._made.put(error)
                return
        self._made.put(IndexError(f"there are no more than {end} items"))
