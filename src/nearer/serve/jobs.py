"""Jobs of the queue: a request's texts, how far they are, and how their answers get back to who awaits them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nearer.serve.served import Encoded

logger = logging.getLogger("nearer.serve")
Finish = Callable[[Encoded], Any]


@dataclass(eq=False)
class Job:
    """A request's texts, how far they are, and where its answer is awaited. finish: makes the answer of its vectors."""

    texts: Sequence[str]
    finish: Finish
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    arrived: float
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


class Piece(NamedTuple):
    """What of a job is in a batch."""

    job: Job
    texts: Sequence[str]


class Outcome(NamedTuple):
    job: Job
    result: Any
    error: BaseException | None


def finished(job: Job) -> Outcome:
    try:
        return Outcome(job, job.finish(_joined(job.parts)), None)
    except Exception as error:
        return failed(job, error)


def failed(job: Job, error: BaseException) -> Outcome:
    job.failed = True  # what is left of it is not computed any more
    return Outcome(job, None, error)


def _joined(parts: Sequence[Encoded]) -> Encoded:
    if len(parts) == 1:
        return parts[0]
    return Encoded(
        np.concatenate([part.vectors for part in parts]),
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.cut for part in parts]),
    )


def deliver(outcomes: Sequence[Outcome]) -> None:
    """To their event loops, each woken once for all its answers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.loop, []).append(outcome)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set_answers, some)
        except RuntimeError:  # the loop has ended, and with it all who waited
            logger.debug("%d answers come too late", len(some))


def _set_answers(outcomes: Sequence[Outcome]) -> None:
    for job, result, error in outcomes:
        if job.answer.done():
            continue
        if error is None:
            job.answer.set_result(result)
        else:
            job.answer.set_exception(error)
