"""Which passages of each list a step takes (some of the best, some from below), and in whose lists they stand."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.text.scored_lists import Lists


class Drawing(Protocol):
    """What the method's settings say of it."""

    passages_per_query: int
    top: int
    negative_band: list[float]

    @property
    def best_drawn(self) -> int: ...

    @property
    def contrasts(self) -> bool: ...


def draw_ranks(counts: NDArray[np.int64], settings: Drawing, random: np.random.Generator) -> NDArray[np.int64]:
    """Ranks (lists, drawn), from 0 and rising, of the passages that a step uses of lists of so many each."""
    others = settings.passages_per_query - settings.best_drawn
    top = np.minimum(settings.top, counts - others)  # a short list has fewer that count as the best
    best = _draw_between(np.zeros_like(top), top, settings.best_drawn, random)
    if settings.contrasts:  # the list's best has to be found, so it has to be there
        best[(best != 0).all(axis=1), 0] = 0
    lower, upper = settings.negative_band
    start = np.maximum(top, np.rint((1 - upper) * (counts - 1)).astype(np.int64))
    end = np.rint((1 - lower) * (counts - 1)).astype(np.int64) + 1
    too_few = end - start < others  # in the band
    rest = _draw_between(np.where(too_few, top, start), np.where(too_few, counts, end), others, random)
    return np.sort(np.concatenate([best, rest], axis=1), axis=1)


def _draw_between(
    start: NDArray[np.int64], end: NDArray[np.int64], count: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """(lists, count): for each list different whole numbers from `start` to below `end`."""
    spans = end - start
    keys = random.random((len(spans), int(spans.max())))
    keys[np.arange(keys.shape[1]) >= spans[:, None]] = 2  # beyond the list's own: never among the smallest
    drawn: NDArray[np.int64] = start[:, None] + np.argsort(keys, axis=1)[:, :count]
    return drawn


def find_listed(lists: Lists, records: NDArray[np.int64], passages: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(records, passages): whether a passage stands in a record's list, drawn or not."""
    found = np.zeros((len(records), len(passages)), dtype=bool)
    for row, record in enumerate(records):
        own = lists.passages[lists.starts[record] : lists.starts[record + 1]]
        found[row] = np.isin(passages, own)
    return found
