"""Dynamic batching: requests queue their texts, one thread owns the model and takes what is there at once.

The client that got least of late has its turn (`FairQueue`). A request is short if it is a quarter of a batch at most,
which is also what one client gets of a batch. Short requests are encoded together; a long one in pieces of a sixteenth,
each by itself. While long ones wait they get an eighth of the model's work, whoever else asks. So a client that asks
for little waits for one piece, however much others ask for.
Texts of requests that nobody waits for any more are skipped.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nearer.serve.fairness import FairQueue, Share
from nearer.serve.jobs import (
    EncodesTexts,
    Finish,
    Job,
    Outcome,
    Piece,
    WorkThreads,
    deliver,
    fail_job,
    finish_job,
    new_job,
)
from nearer.serve.limits import Limits, Refusal, overloaded
from nearer.serve.metrics import Metrics
from nearer.serve.model import Encoded

# Parts of a batch: of which a client gets one, and of which a long request gets one
PARTS, PIECES = 4, 16
# Of the model's work long requests get one part in so many while they wait
LONG_SHARE = 8
# Requests of one client that are looked at for a batch behind those that cannot be in it
LOOKED_AT = 32


@dataclass
class _Batch:
    """Of short requests, or a piece of a long one. texts, tokens: how many more it has room for."""

    long: bool
    texts: int
    tokens: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return self.texts <= 0 or self.tokens <= 0 or (self.long and len(self.pieces) > 0)

    def takes(self, job: Job, count: int) -> bool:
        """Whether the job's next texts can be in it: all of a short one."""
        return job.long is self.long and count > 0 and (self.long or count == job.left or not self.pieces)

    def encodes(self, job: Job) -> bool:
        """Whether the job's texts are encoded in the way of the others."""
        return not self.pieces or job.model is self.pieces[0].job.model

    def add(self, piece: Piece, cost: int) -> None:
        self.pieces.append(piece)
        self.texts -= len(piece.texts)
        self.tokens -= cost


class Batcher(WorkThreads):
    """`submit` from any event loop, await what it returns. Closing answers all that is queued."""

    def __init__(self, model: EncodesTexts, limits: Limits, metrics: Metrics) -> None:
        super().__init__("nearer-model", threads=1)
        self._model = model
        self._limits = limits
        self._metrics = metrics
        self._queue: FairQueue[Job] = FairQueue()
        self._waiting = Share(limits.waiting)
        self._batch_tokens = limits.batch_tokens or model.batch_tokens
        self._owed = 0.0  # to long requests that wait: their share of the tokens of short ones, less what they got

    @property
    def waiting(self) -> int:
        """Texts that are queued now."""
        return self._waiting.held

    def submit(
        self, texts: Sequence[str], finish: Finish, *, client: str = "", model: EncodesTexts | None = None
    ) -> asyncio.Future[Any]:
        """The answer to come: what `finish` makes of the texts' vectors, in the thread that owns the model.

        client: who asks; clients take turns. model: encodes these texts in another way, by the same weights.
        Refuses at once when too many texts wait already. Cancel the future when nobody waits for it any more.
        """
        job = new_job(model or self._model, texts, finish, time.monotonic())
        job.long = int(job.costs.sum()) > max(1, self._batch_tokens // PARTS)
        with self._changed:
            self._check_open()
            if not self._waiting.take(client, len(texts)):
                self._metrics.count("nearer_refused_requests_total")
                own = self._waiting.held_by(client)
                raise overloaded(
                    f"{own:,} texts of yours and {self.waiting:,} in all are waiting already; try again in a moment."
                )
            self._begin_thread()
            self._queue.push(client, job)
            self._changed.notify()
        return job.answer

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
            # counted from an arrival: who came while the model was busy has waited long enough
            until = self._queue.next_item().arrived + self._limits.batch_wait
            while not self._closing and not self._full():
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return self._take()

    def _full(self) -> bool:
        return self.waiting >= self._limits.batch_texts

    def _take(self) -> list[Piece]:
        """At least one text, unless nobody wants any."""
        piece = max(1, self._batch_tokens // PIECES)
        lines = self._queue.lines()
        any_long = self._turn_of(True, lines) < math.inf
        long_first = self._owed >= piece or self._turn_of(True, lines) < self._turn_of(False, lines)
        for long in (long_first, not long_first):
            batch = _Batch(long, self._limits.batch_texts, piece if long else self._batch_tokens)
            for client, line in lines:
                if batch.full:
                    break
                if client in self._queue:
                    self._queue.charge(client, self._take_from(client, line, batch))
            if batch.pieces:
                cost = (piece if long else self._batch_tokens) - batch.tokens
                owed = self._owed - cost if long else self._owed + cost / (LONG_SHARE - 1)
                self._owed = max(0, min(owed, self._batch_tokens)) if any_long else 0
                return batch.pieces
        return []

    def _turn_of(self, long: bool, lines: Sequence[tuple[str, deque[Job]]]) -> float:
        """The clock of the first client that waits for a request of this kind; infinite where nobody does."""
        waits = (client for client, line in lines if any(job.long is long and job.wanted for job in line))
        return next((self._queue.clock(client) for client in waits), math.inf)

    def _take_from(self, client: str, line: deque[Job], batch: _Batch) -> int:
        """Of a client's jobs what can be in a batch; its tokens. A job that goes on comes after the client's others."""
        share = left = max(1, self._batch_tokens // PARTS)
        passed, begun = list[Job](), list[Job]()
        while line and left > 0 and not batch.full and len(passed) < LOOKED_AT:
            job = line.popleft()
            if not job.wanted:
                self._waiting.give_back(client, job.left)
                if not job.failed:
                    self._metrics.count("nearer_abandoned_requests_total")
                continue
            count, cost = job.fitting(batch.texts, min(left, batch.tokens))
            if not count and not batch.pieces:  # one text that is longer than the batch
                count, cost = 1, int(job.costs[job.taken])
            if not batch.takes(job, count):
                passed.append(job)
                continue
            if not batch.encodes(job):
                passed.append(job)
                break  # the client keeps its turn for a batch in this way
            batch.add(job.take(count), cost)
            self._waiting.give_back(client, count)
            left -= cost
            if job.left:
                begun.append(job)
        line.extendleft(reversed(passed))
        line.extend(begun)
        return share - left

    def _outcomes(self, batch: Sequence[Piece]) -> list[Outcome]:
        try:
            encoded = self._encode(batch[0].job.model, [text for piece in batch for text in piece.texts])
        except Exception as error:
            if len(batch) > 1:  # one request's misfortune is not the others'
                return [outcome for piece in batch for outcome in self._outcomes([piece])]
            return [fail_job(batch[0].job, error)]
        done, start = [], 0
        for job, texts in batch:
            rows = slice(start, start + len(texts))
            start += len(texts)
            # copied: a view would keep the whole batch in memory until this request is done
            job.parts.append(Encoded(encoded.vectors[rows].copy(), encoded.tokens[rows], encoded.cut[rows]))
            job.tokens += int(encoded.tokens[rows].sum())
            if job.tokens > self._limits.tokens:
                message = f"more than {self._limits.tokens:,} tokens in one request. Send several requests."
                done.append(fail_job(job, Refusal(422, message, code="too_many_tokens")))
            elif not job.left and job.wanted:
                done.append(finish_job(job))
        return done

    def _encode(self, model: EncodesTexts, texts: Sequence[str]) -> Encoded:
        started = time.perf_counter()
        encoded = model.encode(texts)
        self._metrics.count_batch(
            len(texts), int(encoded.tokens.sum()), int(encoded.cut.sum()), time.perf_counter() - started
        )
        return encoded
