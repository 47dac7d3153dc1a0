"""Work beside the model, such as searching and scoring: a few threads, a step at a time, clients in turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from nearer.serve.jobs import Outcome, deliver
from nearer.serve.limits import ending
from nearer.serve.turns import FairQueue

T = TypeVar("T")
Steps = Generator[None, None, T]
THREADS = 2


@dataclass(eq=False)
class _Work:
    steps: Steps[Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Workers:
    """`submit` from any event loop. Between two steps of a request others have their turn; steps that nobody waits for
    are not taken."""

    def __init__(self, name: str, threads: int = THREADS) -> None:
        self._name = name
        self._count = threads
        self._threads: list[threading.Thread] = []
        self._queue: FairQueue[_Work] = FairQueue()
        self._changed = threading.Condition()
        self._closing = False

    def submit(self, client: str, steps: Steps[T]) -> asyncio.Future[T]:
        """What the steps return in the end. Cancel it when nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        work = _Work(steps, loop, loop.create_future())
        with self._changed:
            if self._closing:
                raise ending()
            if len(self._threads) < self._count:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._queue.push(client, work)
            self._changed.notify()
        return work.answer

    def open(self) -> None:
        """Take work again after `close`; a new one does."""
        with self._changed:
            self._closing = False

    def close(self) -> None:
        """No new work; returns when all that is wanted is done."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()

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
