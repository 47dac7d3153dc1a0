"""The figures of tasks: correlations with gold scores (SimCSE, Appendix B), and how good an order of candidates is.

The measures of an order are of one query. They take the candidates' gains in it, g_1 … g_n, best rank first;
`by_score` makes that order. A gain above 0 marks a relevant candidate. In the equations r_k is 1 where g_k > 0, else 0,
and R is the number of all relevant candidates: those in the list, unless `relevant` says that there are more outside
it. A list that is cut is given cut: `reciprocal_rank(gains[:10])`. Without a relevant candidate none of them is
defined, which is an error here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError

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
    return None if why_undefined(predicted, gold) else pearson(_ranks(predicted), _ranks(gold))


def _ranks(values: Values) -> Values:
    """From 1 on, ties sharing their average; importing SciPy's takes longer than a correlation ever does."""
    _, indices, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Values = (np.cumsum(counts) - (counts - 1) / 2)[indices]
    return ranks


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


Ties = Literal["first", "last"]
NOT_FINITE = "undefined: some similarities are not finite numbers"


def by_score(gains: Values, scores: NDArray[Any], ties: Ties = "first") -> Values:
    """The gains by falling score.

    Of equal scores the candidate given first comes first (a stable sort, as in MTEB v1), or with ties="last" the one
    given last: trec_eval's rule, falling ids, where ids rise with the index, as in MTEB v2.
    """
    if ties == "first":
        return gains[np.argsort(-scores, kind="stable")]
    return gains[::-1][np.argsort(-scores[::-1], kind="stable")]


def average_precision(gains: Values, *, relevant: int | None = None) -> float:
    """AP = 1/R Σ_k r_k P_k with P_k = 1/k Σ_{j≤k} r_j (trec_eval's map)."""
    hits = _hits(gains)
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precisions[hits].sum()) / _relevant(hits, relevant)


def tied_average_precision(gains: Values, scores: NDArray[Any]) -> float:
    """AP = Σ_t (R_t − R_{t−1}) P_t over the distinct scores t, falling: recall and precision of all at or above t.

    Candidates of equal scores are one step, whatever their order: scikit-learn's average_precision_score.
    """
    order = np.argsort(-scores, kind="stable")
    hits, sorted_scores = _hits(gains[order]), scores[order]
    ends = np.append(np.flatnonzero(np.diff(sorted_scores)), len(hits) - 1)  # the last rank of each distinct score
    found = np.cumsum(hits)[ends]
    return float((np.diff(found, prepend=0) * found / (ends + 1)).sum()) / _relevant(hits, None)


def reciprocal_rank(gains: Values, *, relevant: int | None = None) -> float:
    """RR = 1 / the rank of the first relevant candidate; 0 where it is outside the list."""
    hits = _hits(gains)
    _relevant(hits, relevant)
    return 1 / (int(np.argmax(hits)) + 1) if hits.any() else 0.0


def recall_at_k(gains: Values, k: int, *, relevant: int | None = None) -> float:
    """Recall = 1/R Σ_{j≤k} r_j."""
    hits = _hits(gains)
    return float(hits[:k].sum()) / _relevant(hits, relevant)


def ndcg(gains: Values, *, ideal: Values | None = None, cut: int | None = None, exponential: bool = False) -> float:
    """NDCG = DCG / the DCG of the best order, DCG = Σ_k g_k / log2(k + 1), up to rank `cut`.

    Gains are linear, as in trec_eval, scikit-learn and MTEB; exponential takes 2^g − 1 instead. ideal: the gains of
    all relevant candidates where the list does not hold them all.
    """
    every = gains if ideal is None else ideal
    if min(gains.min(initial=0), every.min(initial=0)) < 0:
        raise InputError("ndcg: some gains are below 0; it needs gains of 0 and more.")
    _relevant(_hits(every), None)
    best = np.sort(every)[::-1]
    if exponential:
        gains, best = np.exp2(gains) - 1, np.exp2(best) - 1
    return _discounted(gains[:cut]) / _discounted(best[:cut])


def kendall(predicted: Values, gold: Values) -> float | None:
    """Kendall's τ-b; None where it is undefined: fewer than 2 values, or one side all equal.

    τ_b = (C − D) / √((C + D + T)(C + D + U)): C pairs are in the same order on both sides, D in opposite ones, T are
    tied in the gold only, U in the predicted only. Time and memory are quadratic: for short lists.
    """
    upper = np.triu_indices(len(gold), k=1)
    first = np.sign(predicted[:, None] - predicted[None, :])[upper]
    second = np.sign(gold[:, None] - gold[None, :])[upper]
    untied = float(np.count_nonzero(first)) * float(np.count_nonzero(second))
    return float(first @ second) / float(np.sqrt(untied)) if untied else None


def mean_percent(values: Values) -> float | None:
    """The mean over the queries, in percent; None if it is undefined (not a number) for one of them."""
    return None if np.isnan(values).any() else 100 * float(values.mean())


def _hits(gains: Values) -> NDArray[np.bool_]:
    return np.asarray(gains) > 0


def _relevant(hits: NDArray[np.bool_], relevant: int | None) -> int:
    count = int(hits.sum()) if relevant is None else relevant
    if count < 1:
        raise InputError("no candidate is relevant (gain above 0): measures of a ranking are undefined.")
    return count


def _discounted(gains: Values) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())
