"""Rank vectors (RankEncoder, Eq. 2 and 3): a sentence as the order in which it sees a corpus.

Two sentences are alike if they rank the corpus alike: the dot product of their normalised rank vectors is Spearman's
correlation of their similarity lists.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

from nearer.errors import InputError


def rank_vectors(vectors: Tensor, corpus: Tensor) -> Tensor:
    """Rank vectors (sentences, corpus size) of `vectors` (sentences, dimension), float32, centred and of length 1.

    Ranks are of the cosines to all rows of `corpus` (corpus size, dimension); equal cosines share their mean rank. A
    sentence that sees all of the corpus alike has no order, and its rank vector is zero.
    """
    if len(corpus) < 2:
        raise InputError(f"corpus: a ranking needs at least 2 sentences, {len(corpus)} given.")
    lists = normalize(vectors.float(), dim=-1) @ normalize(corpus.float(), dim=-1).T  # (sentences, corpus size)
    centred = average_ranks(lists) - (len(corpus) - 1) / 2
    return normalize(centred, dim=-1)


def rank_similarities(first: Tensor, second: Tensor, corpus: Tensor) -> Tensor:
    """Spearman's correlations (first, second) of the similarity lists, exactly."""
    return rank_vectors(first, corpus) @ rank_vectors(second, corpus).T


def average_ranks(lists: Tensor) -> Tensor:
    """Ranks from 0 of each row's values, rising; equal values share the mean of their ranks."""
    ordered, order = lists.sort(dim=-1)
    size = lists.shape[-1]
    places = torch.arange(size, device=lists.device, dtype=torch.float32)
    differs = ordered[:, 1:] != ordered[:, :-1]
    edge = differs.new_ones(len(lists), 1)
    # where each run of equal values begins and ends
    begins = torch.where(torch.cat([edge, differs], dim=1), places, -1.0).cummax(dim=-1).values
    ends = torch.where(torch.cat([differs, edge], dim=1), places, float(size)).flip(-1).cummin(dim=-1).values.flip(-1)
    return torch.empty_like(begins).scatter_(-1, order, (begins + ends) / 2)


class CorpusCovariance:
    """The approximation: correlations from the corpus' covariance (dimension, dimension), whatever its size.

    A similarity list is V·e, so Pearson's correlation of two lists is a quadratic form in the covariance of V. For
    lists that are nearly normal Spearman's follows from it: ρ = 6/π · asin(r/2).
    """

    def __init__(self, corpus: Tensor) -> None:
        if len(corpus) < 2:
            raise InputError(f"corpus: a ranking needs at least 2 sentences, {len(corpus)} given.")
        self.covariance = torch.cov(normalize(corpus.float(), dim=-1).T, correction=0)

    def similarities(self, first: Tensor, second: Tensor) -> Tensor:
        """Approximate Spearman's correlations (first, second)."""
        one, two = normalize(first.float(), dim=-1), normalize(second.float(), dim=-1)
        left = one @ self.covariance
        spread = (left * one).sum(dim=-1).clamp(min=0).sqrt()[:, None]
        other = ((two @ self.covariance) * two).sum(dim=-1).clamp(min=0).sqrt()[None, :]
        pearson = (left @ two.T / (spread * other).clamp(min=1e-20)).clamp(-1, 1)
        return 6 / math.pi * torch.asin(pearson / 2)
