"""Rank vectors (RankEncoder, Eq. 2 and 3): a sentence as the order in which it sees a corpus.

Two sentences are alike if they rank the corpus alike: the dot product of their normalised rank vectors is Spearman's
correlation of their similarity lists. The corpus is a sample of a text's sentences, the same for the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from nearer.encoder.packed_attention import have_kernels
from nearer.errors import InputError

# Entries of all lists that are ranked at a time: bounds the memory. And rows: fewer than 128 long ones are sorted one
# by one on a GPU, which takes two thirds of the time of sorting more of them together.
ENTRIES_AT_ONCE = 2**24
ROWS_AT_ONCE = 64


class RankSimilarity(Protocol):
    """How alike sentences rank a corpus, from their vectors."""

    def similarities(self, first: Tensor, second: Tensor) -> Tensor:
        """All pairs (first, second)."""

    def pairs(self, first: Tensor, second: Tensor) -> Tensor:
        """Each row of `first` with the same row of `second`."""


class CorpusRanks:
    """Exactly: by ranking the whole corpus for each sentence."""

    def __init__(self, corpus: Tensor) -> None:
        """corpus: vectors (corpus size, dimension)."""
        self.corpus = _unit(_checked(corpus))

    def rank_vectors(self, vectors: Tensor) -> Tensor:
        """Rank vectors (sentences, corpus size) of `vectors` (sentences, dimension), float32, centred, of length 1.

        Ranks are of the cosines to all sentences of the corpus; equal cosines share their mean rank. A sentence that
        sees all of the corpus alike has no order, and its rank vector is zero.
        """
        found = torch.empty(len(vectors), len(self.corpus), device=vectors.device)
        for rows in self._chunks(len(vectors)):
            lists = _unit(vectors[rows]) @ self.corpus.T
            found[rows] = normalize(average_ranks(lists) - (len(self.corpus) - 1) / 2, dim=-1)
        return found

    def similarities(self, first: Tensor, second: Tensor) -> Tensor:
        ranks = self.rank_vectors(first)
        if second is first:
            return ranks @ ranks.T
        found = torch.empty(len(first), len(second), device=first.device)
        for rows in self._chunks(len(second)):  # candidates may be many: their rank vectors are not held together
            found[:, rows] = ranks @ self.rank_vectors(second[rows]).T
        return found

    def pairs(self, first: Tensor, second: Tensor) -> Tensor:
        found = torch.empty(len(first), device=first.device)
        for rows in self._chunks(len(first)):
            found[rows] = (self.rank_vectors(first[rows]) * self.rank_vectors(second[rows])).sum(dim=-1)
        return found

    def _chunks(self, rows: int) -> Iterator[slice]:
        size = max(1, min(ROWS_AT_ONCE, ENTRIES_AT_ONCE // len(self.corpus)))
        return (slice(start, start + size) for start in range(0, rows, size))


class CorpusCovariance:
    """Approximately: from the corpus' covariance (dimension, dimension), whatever its size.

    A similarity list is V·e, so Pearson's correlation of two lists is a quadratic form in the covariance of V. For
    lists that are nearly normal Spearman's follows from it: ρ = 6/π · asin(r/2).
    """

    def __init__(self, corpus: Tensor) -> None:
        self.covariance = torch.cov(_unit(_checked(corpus)).T, correction=0)

    def similarities(self, first: Tensor, second: Tensor) -> Tensor:
        one = _unit(first)
        left = one @ self.covariance
        spread = _spread(left, one)
        if second is first:
            return _spearman_of_normal(left @ one.T, spread[:, None] * spread[None, :])
        two = _unit(second)
        return _spearman_of_normal(left @ two.T, spread[:, None] * _spread(two @ self.covariance, two)[None, :])

    def pairs(self, first: Tensor, second: Tensor) -> Tensor:
        one, two = _unit(first), _unit(second)
        left = one @ self.covariance
        spreads = _spread(left, one) * _spread(two @ self.covariance, two)
        return _spearman_of_normal((left * two).sum(dim=-1), spreads)


def average_ranks(lists: Tensor) -> Tensor:
    """Ranks from 0 of each row's values, rising; equal values share the mean of their ranks."""
    ordered, order = lists.sort(dim=-1)
    if lists.is_cuda and have_kernels():
        from nearer.teachers.rank_kernel import mean_ranks

        return mean_ranks(ordered, order)
    size = lists.shape[-1]
    ranks = torch.arange(size, device=lists.device, dtype=torch.float32)
    differs = ordered[:, 1:] != ordered[:, :-1]
    edge = differs.new_ones(len(lists), 1)
    # where each run of equal values begins and ends
    begins = torch.where(torch.cat([edge, differs], dim=1), ranks, -1.0).cummax(dim=-1).values
    ends = torch.where(torch.cat([differs, edge], dim=1), ranks, float(size)).flip(-1).cummin(dim=-1).values.flip(-1)
    return torch.empty_like(begins).scatter_(-1, order, (begins + ends) / 2)


def _spread(products: Tensor, unit: Tensor) -> Tensor:
    """The standard deviation of each sentence's list, from its vector and that times the covariance."""
    return (products * unit).sum(dim=-1).clamp(min=0).sqrt()


def _spearman_of_normal(covariances: Tensor, spreads: Tensor) -> Tensor:
    pearson = (covariances / spreads.clamp(min=1e-20)).clamp(-1, 1)
    return 6 / math.pi * torch.asin(pearson / 2)


def _unit(vectors: Tensor) -> Tensor:
    return normalize(vectors.float(), dim=-1)


def _checked(corpus: Tensor) -> Tensor:
    if len(corpus) < 2:
        raise InputError(f"corpus: a ranking needs at least 2 sentences, {len(corpus)} given.")
    return corpus


def sample_indices(indices: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """`size` of these, in rising order; all of them if there are no more."""
    indices = np.sort(indices)
    if len(indices) <= size:
        return indices
    return np.sort(np.random.default_rng(seed).choice(indices, size, replace=False))


def sample_sentences(sentences: Iterable[str], size: int, seed: int) -> list[str]:
    """Of a text that is read once: those with the `size` smallest of numbers drawn for each."""
    random = np.random.default_rng(seed)
    seen: set[int] = set()
    kept: list[tuple[float, int, str]] = []
    for index, sentence in enumerate(sentences):
        key = hash(sentence)
        if key in seen:
            continue
        seen.add(key)
        kept.append((random.random(), index, sentence))
        if len(kept) >= 2 * size:
            kept = sorted(kept)[:size]
    return [sentence for _, _, sentence in sorted(sorted(kept)[:size], key=lambda item: item[1])]
