"""What the service's threads share: how they begin and end, a request's texts and how far they are, and how answers get
from a thread to who awaits them."""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.serve.limits import ending
from nearer.serve.model import Encoded

logger = logging.getLogger("nearer.serve")
Finish = Callable[[Encoded], Any]


class WorkThreads(ABC):
    """Threads that take work from a queue. They begin with the first work, and end by `close`.

    `_changed` guards the queue and is notified when there is work in it; `_run` ends when the queue is empty and
    `_closing` is set.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name, self._most = name, threads
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._closing = False

    def open(self) -> None:
        """Take work again after `close`; a new one does."""
        with self._changed:
            self._closing = False

    def close(self) -> None:
        """No new work; returns when all that was queued is answered."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()

    def _check_open(self) -> None:
        if self._closing:
            raise ending()

    def _begin_thread(self) -> None:
        """One more, if there may be; `_changed` is held."""
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()

    @abstractmethod
    def _run(self) -> None:
        """A thread's whole life."""


class EncodesTexts(Protocol):
    def encode(self, texts: Sequence[str]) -> Encoded: ...

    def cost(self, text: str) -> int: ...

    @property
    def batch_tokens(self) -> int: ...


class Awaited(Protocol):
    """What somebody in an event loop waits for."""

    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


@dataclass(eq=False)
class Job:
    """A request's texts, how far they are, and where its answer is awaited. finish: makes the answer of its vectors.

    Texts are taken the longest first, so that those of a piece are of like length: little padding, whatever its size.
    """

    model: EncodesTexts
    texts: Sequence[str]
    finish: Finish
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    arrived: float
    order: NDArray[np.int64]
    costs: NDArray[np.int64]
    long: bool = False
    taken: int = 0
    parts: list[Encoded] = field(default_factory=list)
    tokens: int = 0
    failed: bool = False

    @property
    def wanted(self) -> bool:
        return not self.failed and not self.answer.done()

    @property
    def left(self) -> int:
        return len(self.texts) - self.taken

    def fitting(self, texts: int, tokens: int) -> tuple[int, int]:
        """How many of its next texts, at most so many, have no more than so many tokens; and how many they have."""
        sums = np.cumsum(self.costs[self.taken : self.taken + texts])
        count = int(np.searchsorted(sums, tokens, side="right"))
        return count, int(sums[count - 1]) if count else 0

    def take(self, count: int) -> Piece:
        rows = self.order[self.taken : self.taken + count]
        self.taken += count
        return Piece(self, [self.texts[row] for row in rows.tolist()])


def new_job(model: EncodesTexts, texts: Sequence[str], finish: Finish, arrived: float) -> Job:
    """For who asks from an event loop."""
    loop = asyncio.get_running_loop()
    costs = np.fromiter(map(model.cost, texts), dtype=np.int64, count=len(texts))
    order = np.argsort(-costs, kind="stable")
    return Job(model, texts, finish, loop, loop.create_future(), arrived, order, costs[order])


class Piece(NamedTuple):
    """What of a job is in a batch."""

    job: Job
    texts: Sequence[str]


class Outcome(NamedTuple):
    awaited: Awaited
    result: Any
    error: BaseException | None


def finish_job(job: Job) -> Outcome:
    try:
        return Outcome(job, job.finish(_restore_order(job)), None)
    except Exception as error:
        return fail_job(job, error)


def fail_job(job: Job, error: BaseException) -> Outcome:
    job.failed = True  # what is left of it is not computed any more
    return Outcome(job, None, error)


def _restore_order(job: Job) -> Encoded:
    """Its parts together, as the texts were given."""
    parts, order = job.parts, job.order
    vectors = np.empty((len(order), parts[0].vectors.shape[1]), dtype=np.float32)
    tokens, cut = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.bool_)
    start = 0
    for part in parts:
        rows = order[start : start + len(part.tokens)]
        vectors[rows], tokens[rows], cut[rows] = part.vectors, part.tokens, part.cut
        start += len(rows)
    return Encoded(vectors, tokens, cut)


def deliver(outcomes: Sequence[Outcome]) -> None:
    """To their event loops, each woken once for all its answers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.awaited.loop, []).append(outcome)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set_answers, some)
        except RuntimeError:  # the loop has ended, and with it all who waited
            logger.debug("%d answers come too late", len(some))


def _set_answers(outcomes: Sequence[Outcome]) -> None:
    for awaited, result, error in outcomes:
        if awaited.answer.done():
            continue
        if error is None:
            awaited.answer.set_result(result)
        else:
            awaited.answer.set_exception(error)
