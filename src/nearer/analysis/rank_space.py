"""The space of rank vectors beside that of the vectors themselves (RankEncoder, Section 5.5 and Table 2).

Gain against shared neighbours (Figure 6) shows where rank vectors help, and what the pairs share there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.analysis.geometry import Vectors, alignment, uniformity, uniformity_of, unit
from nearer.analysis.ratings import Values, group_indices, in_percent
from nearer.errors import InputError, SettingError
from nearer.evaluation.measures import spearman
from nearer.teachers.rank_vectors import CorpusCovariance, CorpusRanks, RankSimilarity

RANKED_AT_ONCE = 512  # sentences whose rank vectors (corpus size) are held together


@dataclass(frozen=True)
class Space:
    """score: Spearman's correlation with the gold in percent. None: undefined, or no pair above the threshold."""

    score: float | None
    alignment: float | None
    uniformity: float


@dataclass(frozen=True, eq=False)
class RankSpace:
    """cosines, correlations: the similarity of each pair in either space; agreement: Spearman's between the two."""

    base: Space
    ranks: Space
    agreement: float | None
    corpus: int
    approximate: bool
    cosines: Values
    correlations: Values


def compare_spaces(
    vectors: Vectors,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    gold: Values,
    corpus: Vectors,
    *,
    threshold: float,
    approximate: bool = False,
) -> RankSpace:
    """vectors: of distinct sentences; first, second: rows of each pair; corpus: the vectors that are ranked.

    approximate: correlations from the corpus' covariance, which takes no sorting.
    """
    points = unit(vectors, least=2).float()
    known = unit(corpus, "corpus", least=2).float()
    chosen = np.flatnonzero(gold > threshold)
    ranks: RankSimilarity = CorpusCovariance(known) if approximate else CorpusRanks(known)
    cosines = _numbers((points[first].double() * points[second].double()).sum(dim=-1))
    correlations = _numbers(ranks.pairs(points[first], points[second]))
    spread = uniformity_of(
        lambda rows, columns: ranks.similarities(points[rows], points[columns]), len(points), block=RANKED_AT_ONCE
    )
    return RankSpace(
        base=Space(
            score=in_percent(spearman(cosines, gold)),
            alignment=alignment(points[first[chosen]], points[second[chosen]]) if len(chosen) else None,
            uniformity=uniformity(points),
        ),
        # rank vectors are of length 1, and their dot product is the correlation
        ranks=Space(
            score=in_percent(spearman(correlations, gold)),
            alignment=float((2 - 2 * correlations[chosen]).clip(min=0).mean()) if len(chosen) else None,
            uniformity=spread,
        ),
        agreement=spearman(correlations, cosines),
        corpus=len(known),
        approximate=approximate,
        cosines=cosines,
        correlations=correlations,
    )


def _numbers(values: Tensor) -> Values:
    numbers: Values = values.to(torch.float64).cpu().numpy()
    return numbers


NEIGHBOURS = 100
ENTRIES_AT_ONCE = 2**24


@dataclass(frozen=True)
class GainGroup:
    """The pairs whose base similarity lies from `low` to `high`: scores in percent, None where undefined.

    gain: other − base. shared: the mean number of neighbours that the two sentences have in common.
    """

    low: float
    high: float
    count: int
    base: float | None
    other: float | None
    gain: float | None
    shared: float


@dataclass(frozen=True)
class Gain:
    """agreement: Spearman's correlation of gain and shared neighbours over the groups; the paper expects it high."""

    groups: tuple[GainGroup, ...]
    agreement: float | None
    neighbours: int
    corpus: int


def gain_by_neighbours(
    base: Values,
    other: Values,
    gold: Values,
    shared: NDArray[np.int64],
    *,
    neighbours: int = NEIGHBOURS,
    corpus: int,
    edges: Sequence[float] | None = None,
    groups: int = 5,
) -> Gain:
    """base, other: two similarities of the same pairs; shared: from `shared_neighbours`.

    edges: bounds of the groups of base similarity; None for groups of equal size, since few pairs make no score.
    """
    lengths = {len(base), len(other), len(gold), len(shared)}
    if len(lengths) != 1:
        raise InputError(
            f"pairs: {', '.join(map(str, sorted(lengths)))} of them in the lists; as many in each are needed."
        )
    if edges is None:
        edges = tuple(np.unique(np.quantile(base, np.linspace(0, 1, groups + 1))).tolist())
        if len(edges) < 2:
            raise InputError("similarities: all are equal; they make no groups.")
    found = tuple(
        _group(base[chosen], other[chosen], gold[chosen], shared[chosen], low, high)
        for chosen, low, high in zip(group_indices(base, edges), edges, edges[1:], strict=False)
        if len(chosen)
    )
    known = [(group.gain, group.shared) for group in found if group.gain is not None]
    agreement = spearman(*np.array(known, dtype=np.float64).T) if known else None
    return Gain(found, agreement, neighbours, corpus)


def _group(base: Values, other: Values, gold: Values, shared: NDArray[np.int64], low: float, high: float) -> GainGroup:
    before, after = in_percent(spearman(base, gold)), in_percent(spearman(other, gold))
    return GainGroup(
        low=low,
        high=high,
        count=len(gold),
        base=before,
        other=after,
        gain=None if before is None or after is None else after - before,
        shared=float(shared.mean()),
    )


def shared_neighbours(
    vectors: Vectors,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    corpus: Vectors,
    *,
    neighbours: int = NEIGHBOURS,
) -> NDArray[np.int64]:
    """For each pair, how many of the corpus are among the nearest of both sentences, by cosine."""
    points, known = unit(vectors), unit(corpus, "corpus").float()
    if not 1 <= neighbours <= len(known):
        raise SettingError(f"neighbours: {neighbours} is not between 1 and the corpus' {len(known):,} sentences.")
    size = max(1, ENTRIES_AT_ONCE // len(known))
    blocks = [points[start : start + size].float() @ known.T for start in range(0, len(points), size)]
    nearest = torch.cat([block.topk(neighbours, dim=-1, sorted=False).indices for block in blocks]).cpu().numpy()
    both = np.sort(np.concatenate([nearest[first], nearest[second]], axis=1), axis=1)  # (pairs, 2 · neighbours)
    found: NDArray[np.int64] = (both[:, 1:] == both[:, :-1]).sum(axis=1)  # no sentence is its neighbour twice
    return found
