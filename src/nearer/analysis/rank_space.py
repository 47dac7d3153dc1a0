"""The space of rank vectors beside that of the vectors themselves (RankEncoder, Section 5.5 and Table 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nearer.analysis.geometry import alignment, uniformity, uniformity_of
from nearer.analysis.rating_groups import in_percent
from nearer.analysis.ratings import Values
from nearer.analysis.vectors import Vectors, unit
from nearer.evaluation.correlation import spearman
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
