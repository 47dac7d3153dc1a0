"""Which records stand in which batch: drawn from the seed alone, so that any step can be taken up again. And `chunks`:
many things, some at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError

Item = TypeVar("Item")
Indices = NDArray[np.int64]


class BatchPlan:
    """The batches of all epochs, by number.

    lengths: tokens of each record. keep_partial: whether the last, smaller batch of an epoch is used.
    group_by_length: records are sorted by length within windows of so many batches (0: not at all); it saves
    padding, but makes in-batch negatives alike in length. fewest: a partial batch of less is left out; of 2 records
    each has the other as its negative.
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
    ) -> None:
        if batch_size < fewest:
            raise SettingError(
                f"batch_size: {batch_size} is too small; {fewest} at least, so that each record has a negative and "
                "each process a record."
            )
        if group_by_length < 0:
            raise SettingError(f"group_by_length: {group_by_length} is below 0.")
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.group_by_length = group_by_length
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

    def totals(self, values: Indices) -> Indices:
        """The sum of the records' `values` in each whole batch of the first epoch, or in the only, smaller one."""
        order = self._draw(0)
        whole = len(order) // self.batch_size
        used = values[order[: whole * self.batch_size]] if whole else values
        totals: Indices = used.reshape(max(1, whole), -1).sum(axis=1)
        return totals

    def _draw(self, epoch: int) -> Indices:
        random = np.random.default_rng([self.seed, epoch])
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
