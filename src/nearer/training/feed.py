"""From the token store to the batches that a method gets, made ready in a thread while a step is computed.

Batch n is always the same, whoever asks for it and when.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearer.distributed import rank, shares, world_size
from nearer.methods.contract import Batch, Ids
from nearer.text.batches import BatchPlan, Topics
from nearer.text.token_store import TokenStore
from nearer.training.settings import TrainingSettings

# Kinds of random draws, so that none shares its numbers with another
DROPOUT, AUGMENTATION, COMMON = 1, 2, 3


class Feed:
    """Batches by number."""

    def __init__(
        self, store: TokenStore, settings: TrainingSettings, *, views: int = 2, topics: Topics | None = None
    ) -> None:
        """views: how often a record of one sentence passes the encoder; topics: see `BatchPlan`."""
        self.store = store
        self.views = views
        self.seed = settings.seed
        self.plan = BatchPlan(
            self._lengths().max(axis=1),
            settings.batch_size,
            settings.seed,
            keep_partial=settings.keep_partial,
            group_by_length=settings.group_by_length,
            # a single record has no negatives, unless it is a list; and each process needs a record
            fewest=max(1 if settings.data in ("lists", "scored") else 2, world_size()),
            topics=topics,
        )

    def batch(self, number: int) -> Batch:
        records = self.plan.batch(number)
        counts = self.counts(number)
        start = sum(counts[: rank()])
        own = records[start : start + counts[rank()]]
        fields = [[self._tokens(record, field) for record in own] for field in range(self.store.fields)]
        own_draws = np.random.default_rng(self._draw(AUGMENTATION, number))
        common_draws = np.random.default_rng([self.seed, COMMON, number])
        return Batch(fields, records, own_draws, common_draws, start, self._lengths()[records, 0])

    def counts(self, number: int) -> list[int]:
        """How many of the batch's rows each process has."""
        return shares(len(self.plan.batch(number)))

    def noise_seed(self, number: int, part: int) -> int:
        """Dropout follows from seed, process, batch and pass alone, so that a resumed run draws the same masks."""
        drawn = np.random.SeedSequence([*self._draw(DROPOUT, number), part]).generate_state(1, np.uint64)
        return int(drawn[0] >> 1)

    def token_spread(self) -> int:
        """How far apart the largest and the smallest batch are, in tokens that pass the encoder."""
        tokens = self._lengths().sum(axis=1) * (self.views if self.store.fields == 1 else 1)
        totals = self.plan.totals(tokens)
        return int(totals.max() - totals.min())

    def _lengths(self) -> np.ndarray:
        return self.store.lengths.reshape(len(self.store), self.store.fields)

    def _draw(self, kind: int, number: int) -> list[int]:
        return [self.seed, kind, rank(), number]

    def _tokens(self, record: int, field: int) -> Ids:
        return self.store[int(record) * self.store.fields + field].astype(np.int64)


def total_steps(feed: Feed, settings: TrainingSettings) -> int:
    """Optimiser steps of the whole run."""
    steps = math.ceil(feed.plan.steps_per_epoch * settings.epochs / settings.accumulation)
    return steps if settings.max_steps is None else min(settings.max_steps, steps)


def seen_records(store: TokenStore, settings: TrainingSettings) -> NDArray[np.bool_] | None:
    """Which records the run's steps will see, if they are drawn at random; None: all."""
    feed = Feed(store, settings)
    return feed.plan.seen(total_steps(feed, settings) * settings.accumulation)


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
