"""Several judges' scores of the same candidates made into one: z-scores within each query's candidates, weighted.

Cosines, BM25 and a cross-encoder's scores have other scales, and these differ from query to query. What counts is how
far a candidate stands above the others of its query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.errors import SettingError

Scores = NDArray[np.float64]
Numbers = NDArray[np.int64]
VECTORS, LEXICAL, RERANKER = "vectors", "lexical", "reranker"
NONE = -1  # fills lists of candidates
SMALLEST_DEVIATION = 1e-6


def standardise(scores: NDArray[Any], valid: NDArray[np.bool_]) -> Scores:
    """z-scores within each row: how many standard deviations above the mean of the row's candidates.

    Candidates that all have one score have 0, and so has what is not valid.

    Shapes:
        scores, valid: (queries, candidates). Returns the same.
    """
    found = np.where(valid, scores, 0).astype(np.float64)
    counts = np.maximum(valid.sum(axis=1, keepdims=True), 1)
    centred = np.where(valid, found - found.sum(axis=1, keepdims=True) / counts, 0)
    deviations = np.sqrt((centred**2).sum(axis=1, keepdims=True) / counts)
    standard: Scores = centred / np.maximum(deviations, SMALLEST_DEVIATION)
    return standard


def fuse(
    scores: Mapping[str, NDArray[Any]], weights: Mapping[str, float], valid: NDArray[np.bool_] | None = None
) -> Scores:
    """The weighted sum of the judges' z-scores; minus infinity for what is not valid.

    Args:
        scores: By judge (`vectors`, `lexical`, `reranker`, or any other name).
        weights: By judge; a judge that is not named or has 0 does not count.
        valid: Which candidates there are; None: all.

    Shapes:
        scores, valid: (queries, candidates). Returns the same.

    Examples:
        >>> import numpy as np
        >>> from nearer.search.fusion import fuse
        >>> scores = {"vectors": np.array([[0.9, 0.8, 0.1]]), "lexical": np.array([[0.0, 7.0, 0.0]])}
        >>> fuse(scores, {"vectors": 1, "lexical": 0.5}).argmax()
        np.int64(1)
    """
    counted = {judge: weight for judge, weight in weights.items() if weight}
    for judge, weight in counted.items():
        if judge not in scores:
            raise SettingError(f"weights: {judge!r} has the weight {weight:g}, and there are no scores of it.")
    if not counted:
        raise SettingError("weights: all are 0; at least one judge must count.")
    shape = np.shape(next(iter(scores.values())))
    there = np.ones(shape, dtype=bool) if valid is None else valid
    fused = np.zeros(shape, dtype=np.float64)
    for judge, weight in counted.items():
        fused += weight * standardise(scores[judge], there)
    return np.where(there, fused, -np.inf)


def unite_candidates(*lists: NDArray[Any]) -> Numbers:
    """Of each query the candidates of all lists, each once, those of the first list first; −1 fills.

    Shapes:
        lists: (queries, any number). Returns (queries, the most that a query has).
    """
    rows = [
        np.array(list(dict.fromkeys(number for row in of_query for number in row.tolist() if number >= 0)), np.int64)
        for of_query in zip(*lists, strict=True)
    ]
    return fill_rows(rows)


def fill_rows(rows: list[Numbers]) -> Numbers:
    """Rows of unequal length as one array, −1 behind the shorter ones."""
    filled = np.full((len(rows), max(map(len, rows), default=0)), NONE, dtype=np.int64)
    for row, numbers in zip(filled, rows, strict=True):
        row[: len(numbers)] = numbers
    return filled


def order_candidates(candidates: NDArray[Any], fused: NDArray[Any], top: int | None = None) -> tuple[Numbers, Scores]:
    """Candidates by falling score with their scores; equal ones by their numbers. Those filled by −1 come last.

    Shapes:
        candidates, fused: (queries, candidates). Returns two of (queries, `top` or candidates).
    """
    order = order_of(candidates, fused)[:, :top]
    return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(fused, order, axis=1)


def order_of(candidates: NDArray[Any], fused: NDArray[Any]) -> Numbers:
    """The indices (queries, candidates) by which `order_candidates` orders."""
    order: Numbers = np.lexsort((candidates, -fused), axis=1)
    return order
