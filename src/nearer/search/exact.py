"""The nearest of all vectors, by looking at all of them; and exact scores for what was found in other ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearer.extras import require

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]
# Candidates beyond those that are wanted. Structures hold vectors in float16, and matrix products differ in their last
# bits, so that near the end of a list equal and nearly equal ones can stand in any order until they are scored exactly.
MARGIN = 16


def faiss() -> Any:
    return require("faiss", "search", "searching an index")


def nearest_rows(vectors: Vectors, queries: Vectors, k: int) -> Rows:
    """For each of the unit queries its k nearest rows (queries, k) by inner product; k is at most len(vectors)."""
    library = faiss()
    _, rows = library.knn(np.ascontiguousarray(queries), vectors, k, metric=library.METRIC_INNER_PRODUCT)
    found: Rows = rows
    return found


def best(vectors_of: Callable[[Rows], Vectors], query: Vectors, rows: Rows, k: int) -> tuple[Rows, NDArray[np.float64]]:
    """The k best of these rows with their inner products with the query, falling; equal ones in order of rows.

    In float64, each row by itself: equal vectors get equal scores, which a matrix product does not promise.
    """
    rows = np.unique(rows)
    scores = (vectors_of(rows).astype(np.float64) * query.astype(np.float64)).sum(axis=-1)
    order = np.argsort(-scores, kind="stable")[:k]
    return rows[order], scores[order]
