"""Tuning an index: which kind a number of sentences asks for, and which effort reaches the wanted recall."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.errors import SettingError
from nearer.search.manifest import AskedKind, Kind
from nearer.search.nearest_neighbours import (
    LINKS,
    MARGIN,
    TRAINED_PER_LIST,
    Rows,
    Structure,
    Vectors,
    find_nearest_rows,
    score_rows,
)

KINDS: tuple[AskedKind, ...] = ("auto", "exact", "ivf", "hnsw")
# Numbers (sentences × dimension) that a query may be multiplied with before a structure is worth its building: 128 MiB,
# some 10 ms on one core. That is 131 000 sentences of 256 numbers, or 43 000 of 768.
EXACT_UP_TO = 2**25
# A graph answers faster and finds more than lists, but takes longer to build the larger it is, and is read here and
# there, where lists are read in one go: up to 524 000 sentences of 256 numbers, or 174 000 of 768.
HNSW_UP_TO = 2**27
NEIGHBOURS = 10
# Sentences by which the effort is chosen, and others on which its recall is measured
CHOOSING, MEASURING = 400, 200
# An efSearch beyond this costs as much as looking at everything, and finds what the graph's links allow
MOST_OF_HNSW = 4096

# FAISS' seeds are C's int, and ours are one less (0 is "any" there)
LARGEST_SEED = 2**31 - 2


class Wanted(NamedTuple):
    """What kind of index; recall: of the ten nearest, for approximate kinds."""

    kind: AskedKind = "auto"
    recall: float = 0.95
    seed: int = 0

    def check(self) -> None:
        choose_kind(self.kind, 1, 1)
        if not 0 < self.recall <= 1:
            raise SettingError(f"recall: {self.recall} is not above 0 and at most 1.")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise SettingError(f"seed: {self.seed} is below 0 or above {LARGEST_SEED}, the last that FAISS takes.")


class Measured(NamedTuple):
    """The recall@10 on `sample` sentences with this effort."""

    effort: int
    recall: float
    sample: int


def choose_kind(asked: AskedKind, count: int, dimension: int, before: Kind | None = None) -> Kind:
    """`auto`: exact, HNSW, IVF, by size. before: the kind so far, to which a growing index keeps while it will do."""
    if asked not in KINDS:
        raise SettingError(f"kind: {asked!r} is not one of {', '.join(KINDS)}.")
    if asked != "auto":
        return asked
    numbers = count * dimension
    if numbers <= EXACT_UP_TO and before in (None, "exact"):
        return "exact"
    return "hnsw" if numbers <= HNSW_UP_TO and before != "ivf" else "ivf"


def choose_groups(kind: Kind, count: int) -> int:
    """An IVF's lists: a power of two near 4·√count, with enough sentences for each; an HNSW's links."""
    if kind == "hnsw":
        return LINKS
    wanted = min(4 * math.sqrt(count), count / TRAINED_PER_LIST)
    return 1 << max(0, round(math.log2(max(1.0, wanted))))


def trained_on_too_few(count: int, trained_rows: int) -> bool:
    """Whether lists that were made for `trained_rows` sentences should be made anew for `count`."""
    return count > 2 * trained_rows


def choose_effort(structure: Structure, vectors: Vectors, groups: int, wanted: float, seed: int) -> Measured:
    """The least effort by which sentences of the index find their neighbours, and what it gives on other sentences.

    A sentence finds itself anyway: it does not count among its neighbours. Enough is what reaches the wanted recall by
    two standard errors, since another sample is never quite as good as the one that was chosen by.
    """
    neighbours = min(NEIGHBOURS, len(vectors) - 1)
    if not neighbours:
        return Measured(1, 1.0, 0)
    drawn = np.random.default_rng(seed).permutation(len(vectors))[: CHOOSING + MEASURING]
    size = max(1, len(drawn) * MEASURING // (CHOOSING + MEASURING))
    measuring, choosing = drawn[:size], drawn[size:]
    recalls = _recalls_of(structure, vectors, choosing, neighbours)

    def enough(effort: int) -> bool:
        found = recalls(effort)
        return float(found.mean() - 2 * found.std() / math.sqrt(len(found))) >= wanted

    if structure.kind == "ivf":
        effort = _least(enough, 1, groups)
    else:  # efSearch is never less than the rows that are asked for
        least = min(neighbours + 1 + MARGIN, len(vectors))
        effort = _least(enough, least, max(least, min(MOST_OF_HNSW, len(vectors))))
    return Measured(effort, float(_recalls_of(structure, vectors, measuring, neighbours)(effort).mean()), size)


def _least(enough: Callable[[int], bool], least: int, most: int) -> int:
    """About the least effort that is enough (within an eighth), from `least` on; `most` if none is."""
    low, high = least - 1, least
    while high < most and not enough(high):
        low, high = high, min(2 * high, most)
    while high - low > max(1, low // 8):
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def _recalls_of(structure: Structure, vectors: Vectors, rows: Rows, k: int) -> Callable[[int], NDArray[np.float64]]:
    """For each row the share of its k nearest others that is found, as a function of the effort.

    By scores, not by rows: of several equally near ones any will do.
    """
    queries = vectors[rows]
    most = min(k + 1 + MARGIN, len(vectors))

    def scores(query: Vectors, row: np.int64, found: Rows) -> NDArray[np.float64]:
        return score_rows(vectors.__getitem__, query, found[(found >= 0) & (found != row)], k)[1]

    truth = [scores(*asked) for asked in zip(queries, rows, find_nearest_rows(vectors, queries, most), strict=True)]

    def recalls(effort: int) -> NDArray[np.float64]:
        proposed = structure.propose(queries, most, effort)
        found = [scores(*asked) for asked in zip(queries, rows, proposed, strict=True)]
        hits = [int((one >= true[-1]).sum()) for one, true in zip(found, truth, strict=True)]
        return np.array(hits) / k

    return recalls
