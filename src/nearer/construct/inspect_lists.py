"""Are ranking lists in descending order? Each sentence's similarity to the first of its list, and what follows from it
for all lists: the paper's Table 5 and Figure 1 with any encoder as the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.comparing import Vectors, unit_rows
from nearer.errors import InputError
from nearer.evaluation.ranking_measures import kendall

FIGURE_SIZE = 16  # sentences of a list that Figure 1 compares
DIGITS = 6  # cosines that differ by less are equal: those of equal sentences may differ in their last bits

Cosines = NDArray[np.float64]


class Judge(Protocol):
    """What is needed of an encoder."""

    def encode(self, sentences: list[str], *, progress: bool = ...) -> Vectors: ...


@dataclass(frozen=True)
class JudgedList:
    """cosines: of each sentence to the first, beginning with the second."""

    sentences: tuple[str, ...]
    cosines: tuple[float, ...]

    @property
    def out_of_order(self) -> tuple[bool, ...]:
        """Which stand higher than a sentence before them: the others are in descending order."""
        lowest = np.minimum.accumulate((2.0, *self.cosines))[:-1]  # of those before
        return tuple(bool(own > low) for own, low in zip(self.cosines, lowest, strict=True))

    @property
    def descending(self) -> bool:
        """Each one lower than the one before; a list of two sentences has nothing to compare."""
        return all(later < earlier for earlier, later in zip(self.cosines, self.cosines[1:], strict=False))

    @property
    def order(self) -> float | None:
        """Kendall's tau of similarity with nearness in the list: 1 in descending order, −1 in ascending."""
        if len(self.cosines) < 2:
            return None
        return kendall(np.array(self.cosines), -np.arange(len(self.cosines), dtype=np.float64))


@dataclass(frozen=True)
class Inspection:
    """Measures over all lists. Neighbouring pairs are those of x(i), x(i+1) from x(1) on, by similarity to x(0)."""

    name: str
    lists: tuple[JudgedList, ...]
    descending_pairs: float | None
    descending_lists: float
    order: float | None
    undefined: int
    by_position: tuple[float, ...]
    counts: tuple[int, ...]
    matrix: NDArray[np.float64]

    @property
    def sentences(self) -> int:
        return sum(len(judged.sentences) for judged in self.lists)


def inspect_lists(
    name: str, lists: Sequence[Sequence[str]], judge: Judge, *, size: int = FIGURE_SIZE, progress: bool = False
) -> Inspection:
    """Judge lists by an encoder's cosines. size: sentences of each list in the average matrix."""
    if not lists:
        raise InputError(f"{name}: has no lists.")
    unique = {sentence: row for row, sentence in enumerate(dict.fromkeys(s for some in lists for s in some))}
    vectors = unit_rows(judge.encode(list(unique), progress=progress).astype(np.float64))
    places = [np.array([unique[sentence] for sentence in sentences]) for sentences in lists]
    judged = tuple(
        JudgedList(tuple(sentences), tuple(np.round(vectors[rows[1:]] @ vectors[rows[0]], DIGITS).tolist()))
        for sentences, rows in zip(lists, places, strict=True)
    )
    pairs = [later < earlier for one in judged for earlier, later in zip(one.cosines, one.cosines[1:], strict=False)]
    orders = [one.order for one in judged]
    defined = [order for order in orders if order is not None]
    sums, counts = _by_position(judged)
    return Inspection(
        name=name,
        lists=judged,
        descending_pairs=float(np.mean(pairs)) if pairs else None,
        descending_lists=float(np.mean([one.descending for one in judged])),
        order=float(np.mean(defined)) if defined else None,
        undefined=len(orders) - len(defined),
        by_position=tuple((sums / counts).tolist()),
        counts=tuple(counts.tolist()),
        matrix=_average_matrix(vectors, places, size),
    )


def _by_position(judged: Sequence[JudgedList]) -> tuple[Cosines, NDArray[np.int64]]:
    longest = max(len(one.cosines) for one in judged)
    sums, counts = np.zeros(longest), np.zeros(longest, dtype=np.int64)
    for one in judged:
        sums[: len(one.cosines)] += one.cosines
        counts[: len(one.cosines)] += 1
    return sums, counts


def _average_matrix(vectors: Cosines, places: Sequence[NDArray[np.int64]], size: int) -> Cosines:
    """Mean cosine of the i-th and j-th sentences (size, size), over the lists that have both."""
    size = min(size, max(len(rows) for rows in places))
    sums, counts = np.zeros((size, size)), np.zeros((size, size))
    for rows in places:
        own = vectors[rows[:size]]
        sums[: len(own), : len(own)] += own @ own.T
        counts[: len(own), : len(own)] += 1
    matrix: Cosines = sums / counts
    return matrix
