"""Something that is worked out in a thread of its own when it is first asked for, and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from nearer.serve.limits import ending

T = TypeVar("T")
GoOn = Callable[[], None]


class Once(Generic[T]):
    """`ask` gives what is to come; who stops waiting for it stops nothing. What failed is tried anew when asked again.

    work: gets a function to call now and then, which ends it by raising when the service ends.
    """

    def __init__(self, work: Callable[[GoOn], T], name: str) -> None:
        self._work = work
        self._name = name
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._found: Future[T] | None = None
        self._thread: threading.Thread | None = None

    def ask(self) -> Future[T]:
        with self._lock:
            if self._found is None or (self._found.done() and self._found.exception() is not None):
                self._found = Future()
                self._found.set_running_or_notify_cancel()  # from now on nobody who leaves can cancel it
                self._thread = threading.Thread(target=self._run, args=(self._found,), name=self._name, daemon=True)
                self._thread.start()
            return self._found

    def open(self) -> None:
        """Work again after `close`; a new one does."""
        self._ending.clear()

    def close(self) -> None:
        """What is at work ends soon; returns when it has."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, found: Future[T]) -> None:
        try:
            found.set_result(self._work(self._go_on))
        except BaseException as error:
            found.set_exception(error)

    def _go_on(self) -> None:
        if self._ending.is_set():
            raise ending()
