"""Which records stand in which batch: drawn from the seed alone, so that any step can be taken up again. And `chunks`:
many things, some at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError

Item = TypeVar("Item")
Indices = NDArray[np.int64]
TOPIC_DIMENSIONS = 64  # that vectors are projected to: enough to tell topics apart, and an epoch is drawn in no time
REFINEMENTS = 2


class Topics:
    """Groups of `size` records that lie near to each other, drawn anew for each epoch.

    In a batch of one topic every record's negatives are hard (topic-aware sampling; Hofstätter et al., SIGIR 2021). The
    groups are the leaves of a tree that halves the records again and again, each time between two of them that are
    drawn; so all have the same size, and whoever stood in two groups in one epoch may share one in the next.
    """

    def __init__(self, vectors: NDArray[Any], size: int) -> None:
        if size < 2:
            raise SettingError(f"topic_size: {size} is below 2; null draws all records at random.")
        self.size = size
        drawn = np.random.default_rng(0).standard_normal((vectors.shape[1], TOPIC_DIMENSIONS), dtype=np.float32)
        self.vectors = np.asarray(vectors, dtype=np.float32) @ drawn

    def order(self, random: np.random.Generator) -> Indices:
        """All records, each group beside itself and the groups in random order; at the end those that fill none."""
        drawn: Indices = random.permutation(len(self.vectors))
        whole = len(drawn) // self.size * self.size
        groups, open_ones = [], [drawn[:whole]] if whole else []
        while open_ones:
            records = open_ones.pop()
            if len(records) == self.size:
                groups.append(records)
            else:
                open_ones += self._halves(records)
        shuffled = [groups[number] for number in random.permutation(len(groups))]
        return np.concatenate([*shuffled, drawn[whole:]])

    def _halves(self, records: Indices) -> list[Indices]:
        """Between the first two, and then between the halves' middles; each of whole groups."""
        vectors = self.vectors[records]
        first = len(records) // self.size // 2 * self.size
        direction = vectors[0] - vectors[1]
        for turn in range(REFINEMENTS + 1):
            order = np.argpartition(vectors @ direction, first)
            if turn < REFINEMENTS:
                direction = vectors[order[first:]].mean(axis=0) - vectors[order[:first]].mean(axis=0)
        return [records[order[:first]], records[order[first:]]]


class BatchPlan:
    """The batches of all epochs, by number.

    lengths: tokens of each record. keep_partial: whether the last, smaller batch of an epoch is used.
    group_by_length: records are sorted by length within windows of so many batches (0: not at all); it saves
    padding, but makes in-batch negatives alike in length. fewest: a partial batch of less is left out; of 2 records
    each has the other as its negative. topics: whose groups stand together; None: all are drawn at random.
    """

    def __init__(
        self,
        lengths: Indices,
        batch_size: int,
        seed: int,
        *,
        keep_partial: bool = True,
        group_by_length: int = 0,
        fewest: int = 2,
        topics: Topics | None = None,
    ) -> None:
        if batch_size < fewest:
            raise SettingError(
                f"batch_size: {batch_size} is too small; {fewest} at least, so that each record has a negative and "
                "each process a record."
            )
        if group_by_length < 0:
            raise SettingError(f"group_by_length: {group_by_length} is below 0.")
        if group_by_length and topics is not None:
            raise SettingError(
                "group_by_length: must be 0 with topic_size, which decides who stands in a batch together."
            )
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.group_by_length = group_by_length
        self.topics = topics
        whole, rest = divmod(len(lengths), batch_size)
        self.steps_per_epoch = whole + int(keep_partial and rest >= fewest)
        if self.steps_per_epoch == 0:
            raise InputError(
                f"{len(lengths):,} records do not make one batch of {batch_size}; lower batch_size or give more text."
            )
        self._epoch = -1
        self._order: Indices = np.empty(0, dtype=np.int64)

    def batch(self, step: int) -> Indices:
        """The records of batch `step`, counted from 0 over all epochs."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._draw(epoch)
        return self._order[number * self.batch_size : (number + 1) * self.batch_size]

    def seen(self, batches: int) -> NDArray[np.bool_] | None:
        """Which records the first so many batches have; None: all that any batch has."""
        if batches >= self.steps_per_epoch:
            return None
        seen = np.zeros(len(self.lengths), dtype=bool)
        seen[self._draw(0)[: batches * self.batch_size]] = True
        return seen

    def totals(self, values: Indices) -> Indices:
        """The sum of the records' `values` in each whole batch of the first epoch, or in the only, smaller one."""
        order = self._draw(0)
        whole = len(order) // self.batch_size
        used = values[order[: whole * self.batch_size]] if whole else values
        totals: Indices = used.reshape(max(1, whole), -1).sum(axis=1)
        return totals

    def _draw(self, epoch: int) -> Indices:
        random = np.random.default_rng([self.seed, epoch])
        if self.topics is not None:
            return self.topics.order(random)
        order: Indices = random.permutation(len(self.lengths))
        if not self.group_by_length:
            return order
        window = self.group_by_length * self.batch_size
        whole = len(order) // self.batch_size * self.batch_size
        batches: list[Indices] = []
        for start in range(0, whole, window):
            part = order[start : min(start + window, whole)]
            part = part[np.argsort(self.lengths[part], kind="stable")]
            batches += np.split(part, range(self.batch_size, len(part), self.batch_size))
        # the batches in random order: sorted ones would train on short sentences first
        shuffled = [batches[number] for number in random.permutation(len(batches))]
        return np.concatenate([*shuffled, order[whole:]])


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last with what is left."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
