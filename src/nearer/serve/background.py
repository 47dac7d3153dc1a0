"""Work beside the model: steps of requests (searching, scoring) in a few threads, clients in turn; and what is computed
once, when it is first asked for, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nearer.serve.fairness import FairQueue
from nearer.serve.jobs import Outcome, WorkThreads, deliver
from nearer.serve.limits import ending

T = TypeVar("T")
CheckEnding = Callable[[], None]
Steps = Generator[None, None, T]
THREADS = 2


@dataclass(eq=False)
class _Work:
    steps: Steps[Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Workers(WorkThreads):
    """`submit` from any event loop. Between two steps of a request others have their turn; steps that nobody waits for
    are not taken."""

    def __init__(self, name: str, threads: int = THREADS) -> None:
        super().__init__(name, threads)
        self._queue: FairQueue[_Work] = FairQueue()

    def submit(self, client: str, steps: Steps[T]) -> asyncio.Future[T]:
        """What the steps return in the end. Cancel it when nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        work = _Work(steps, loop, loop.create_future())
        with self._changed:
            self._check_open()
            self._begin_thread()
            self._queue.push(client, work)
            self._changed.notify()
        return work.answer

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    if self._closing:
                        return
                    self._changed.wait()
                client, work = self._queue.pop()
            if work.answer.done():
                work.steps.close()
                continue
            try:
                next(work.steps)
            except StopIteration as end:
                deliver([Outcome(work, end.value, None)])
            except Exception as error:
                deliver([Outcome(work, None, error)])
            else:
                with self._changed:
                    self._queue.push(client, work)
                    self._changed.notify()


class ComputedOnce(Generic[T]):
    """`ask` returns a future. A client that stops waiting does not stop the work. Work that failed is tried again when
    somebody asks again.

    work: gets a function to call now and then, which ends it by raising when the service ends.
    """

    def __init__(self, work: Callable[[CheckEnding], T], name: str) -> None:
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
            found.set_result(self._work(self._check_ending))
        except BaseException as error:
            found.set_exception(error)

    def _check_ending(self) -> None:
        if self._ending.is_set():
            raise ending()
