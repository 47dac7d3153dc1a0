"""Correlations with gold scores, and their aggregation over subsets (SimCSE, Appendix B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
AGGREGATIONS = ("all", "mean", "wmean")


def pearson(predicted: Values, gold: Values) -> float | None:
    """Pearson's correlation; None where it is undefined because one side is constant."""
    first, second = predicted - predicted.mean(), gold - gold.mean()
    scale = np.sqrt((first @ first) * (second @ second))
    if scale == 0 or np.ptp(predicted) == 0 or np.ptp(gold) == 0:
        return None
    return float(np.clip(first @ second / scale, -1, 1))


def spearman(predicted: Values, gold: Values) -> float | None:
    """Spearman's correlation: Pearson's of the ranks, ties sharing their average rank."""
    from scipy.stats import rankdata

    return pearson(rankdata(predicted), rankdata(gold))


def aggregate(
    measure: Callable[[Values, Values], float | None], subsets: Sequence[tuple[Values, Values]]
) -> dict[str, float | None]:
    """One figure for several subsets.

    all: one correlation over the joined subsets, which is what the papers report; mean: the plain average of the
    subsets' correlations; wmean: their average weighted by the number of pairs.
    """
    predicted, gold = (np.concatenate(side) for side in zip(*subsets, strict=True))
    each = [measure(*subset) for subset in subsets]
    defined = [value for value in each if value is not None]
    if len(defined) < len(each):
        return {"all": measure(predicted, gold), "mean": None, "wmean": None}
    weights = [len(gold) for _, gold in subsets]
    return {
        "all": measure(predicted, gold),
        "mean": float(np.mean(defined)),
        "wmean": float(np.average(defined, weights=weights)),
    }
