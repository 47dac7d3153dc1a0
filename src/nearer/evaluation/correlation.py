"""Correlations with gold scores, and their aggregation over subsets (SimCSE, Appendix B)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
AGGREGATIONS = ("all", "mean", "wmean")


def why_undefined(predicted: Values, gold: Values) -> str:
    """Why a correlation of these has no value; empty where it has one."""
    if len(gold) < 2:
        return f"a correlation needs at least 2 pairs, {len(gold)} found"
    for values, what in ((gold, "gold scores"), (predicted, "similarities")):
        if not np.isfinite(values).all():
            return f"some {what} are not finite numbers"
        if values.min() == values.max():
            return f"all {what} are equal"
    return ""


def pearson(predicted: Values, gold: Values) -> float | None:
    """Pearson's correlation; None where it is undefined."""
    if why_undefined(predicted, gold):
        return None
    first, second = _centred(predicted), _centred(gold)
    return float(np.clip(first @ second / np.sqrt((first @ first) * (second @ second)), -1, 1))


def spearman(predicted: Values, gold: Values) -> float | None:
    """Spearman's correlation: Pearson's of the ranks, ties sharing their average rank."""
    from scipy.stats import rankdata

    return None if why_undefined(predicted, gold) else pearson(rankdata(predicted), rankdata(gold))


def _centred(values: Values) -> Values:
    """The values less their mean, on a scale where squares neither overflow nor vanish."""
    scaled: Values = values / np.abs(values).max()
    centred: Values = scaled - scaled.mean()
    centred /= np.abs(centred).max()
    return centred


def aggregate(
    measure: Callable[[Values, Values], float | None], subsets: Sequence[tuple[Values, Values]]
) -> dict[str, float | None]:
    """One figure for several subsets.

    all: one correlation over the joined subsets, which is what the papers report; mean: the plain average of the
    subsets' correlations; wmean: their average weighted by the number of pairs.
    """
    predicted, gold = joined(subsets)
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


def joined(subsets: Sequence[tuple[Values, Values]]) -> tuple[Values, Values]:
    """The subsets one after the other: predicted and gold."""
    return np.concatenate([predicted for predicted, _ in subsets]), np.concatenate([gold for _, gold in subsets])
