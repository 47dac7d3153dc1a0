"""Dynamic batching: requests queue their texts, one thread owns the model and takes what is there at once.

A request with many texts is taken piece by piece and goes to the end of the queue after each, so that small ones
do not wait for all of it. Texts of requests that nobody waits for any more are skipped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from nearer.serve.jobs import Finish, Job, Outcome, Piece, deliver, failed, finished
from nearer.serve.limits import Limits, Refusal, overloaded
from nearer.serve.metrics import Metrics
from nearer.serve.served import Encoded


class EncodesTexts(Protocol):
    def encode(self, texts: Sequence[str]) -> Encoded: ...

    def cost(self, text: str) -> int: ...

    @property
    def batch_tokens(self) -> int: ...


class Batcher:
    """`submit` from any event loop, await what it returns. Closing answers all that is queued."""

    def __init__(self, model: EncodesTexts, limits: Limits, metrics: Metrics) -> None:
        self._model = model
        self._limits = limits
        self._metrics = metrics
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._waiting_texts = 0
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Texts that are queued now."""
        return self._waiting_texts

    def submit(self, texts: Sequence[str], finish: Finish) -> asyncio.Future[Any]:
        """The answer to come: what `finish` makes of the texts' vectors, in the thread that owns the model.

        Refuses at once when too many texts wait already. Cancel the future when nobody waits for it any more.
        """
        loop = asyncio.get_running_loop()
        job = Job(texts, finish, loop, loop.create_future(), time.monotonic())
        with self._changed:
            if self._closing:
                raise overloaded("The service is ending.")
            if self._waiting_texts + len(texts) > self._limits.waiting:
                self._metrics.count("nearer_refused_requests_total")
                raise overloaded(f"{self._waiting_texts:,} texts are waiting already; try again in a moment.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="nearer-model", daemon=True)
                self._thread.start()
            self._queue.append(job)
            self._waiting_texts += len(texts)
            self._changed.notify()
        return job.answer

    def open(self) -> None:
        """Take work again after `close`; a new one is open."""
        with self._changed:
            self._closing = False

    def close(self) -> None:
        """No new work; returns when all that was queued is answered."""
        with self._changed:
            self._closing = True
            self._changed.notify()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                deliver(self._outcomes(batch))

    def _next_batch(self) -> list[Piece] | None:
        """Waits for texts, and a moment for company; None at the end."""
        with self._changed:
            while not self._queue:
                if self._closing:
                    return None
                self._changed.wait()
            # counted from the first arrival: who came while the model was busy has waited long enough
            until = self._queue[0].arrived + self._limits.batch_wait
            while not self._closing and not self._full():
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return self._take()

    def _full(self) -> bool:
        return self._waiting_texts >= self._limits.batch_texts

    def _take(self) -> list[Piece]:
        """Pieces of jobs up to the limits of a pass; at least one text, unless nobody wants any."""
        batch: list[Piece] = []
        room, tokens = self._limits.batch_texts, self._limits.batch_tokens or self._model.batch_tokens
        for _ in range(len(self._queue)):
            job = self._queue.popleft()
            if not job.wanted:
                self._waiting_texts -= job.left
                if not job.failed:
                    self._metrics.count("nearer_abandoned_requests_total")
                continue
            start = job.taken
            while room and job.left:
                cost = self._model.cost(job.texts[job.taken])
                if cost > tokens and (batch or job.taken > start):
                    room = 0
                    break
                job.taken += 1
                room, tokens = room - 1, tokens - cost
            if job.taken > start or not job.texts:
                batch.append(Piece(job, job.texts[start : job.taken]))
                self._waiting_texts -= job.taken - start
            if job.left:
                # one that was begun lets the others go first; one that was not reached keeps its place
                self._queue.append(job) if job.taken > start else self._queue.appendleft(job)
            if not room:
                break
        return batch

    def _outcomes(self, batch: Sequence[Piece]) -> list[Outcome]:
        try:
            encoded = self._encode([text for piece in batch for text in piece.texts])
        except Exception as error:
            if len(batch) > 1:  # one request's misfortune is not the others'
                return [outcome for piece in batch for outcome in self._outcomes([piece])]
            return [failed(batch[0].job, error)]
        done, start = [], 0
        for job, texts in batch:
            rows = slice(start, start + len(texts))
            start += len(texts)
            job.parts.append(Encoded(encoded.vectors[rows], encoded.tokens[rows], encoded.cut[rows]))
            job.tokens += int(encoded.tokens[rows].sum())
            if job.tokens > self._limits.tokens:
                message = f"more than {self._limits.tokens:,} tokens in one request. Send several requests."
                done.append(failed(job, Refusal(422, message, code="too_many_tokens")))
            elif not job.left and job.wanted:
                done.append(finished(job))
        return done

    def _encode(self, texts: Sequence[str]) -> Encoded:
        if not texts:  # a job that only wants to be alone with the model
            return Encoded(np.empty((0, 0), np.float32), np.empty(0, np.int64), np.empty(0, np.bool_))
        started = time.perf_counter()
        encoded = self._model.encode(texts)
        self._metrics.batch(
            len(texts), int(encoded.tokens.sum()), int(encoded.cut.sum()), time.perf_counter() - started
        )
        return encoded
