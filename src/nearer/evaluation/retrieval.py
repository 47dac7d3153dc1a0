"""Retrieval: how high does each query's right candidate stand among all candidates?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.comparing import unit_rows
from nearer.errors import InputError, ModelError

# Similarities held at a time: 64 MB in float32, whatever the number of queries and candidates.
SIMILARITIES_AT_ONCE = 16_000_000


class TextEncoder(Protocol):
    """What retrieval asks of a model: a vector for each text."""

    def encode(self, sentences: Sequence[str], *, batch_size: int, progress: bool) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class RetrievalScore:
    """mrr: the mean of 1/rank; recall_at_k: the share of queries whose right candidate has rank k or better."""

    mrr: float
    recall_at_1: float
    recall_at_10: float
    queries: int
    candidates: int


def retrieve(
    encoder: TextEncoder,
    queries: Sequence[str],
    candidates: Sequence[str],
    right: Sequence[int],
    *,
    batch_size: int = 64,
    progress: bool = False,
) -> RetrievalScore:
    """Rank all candidates by cosine for each query; `right[i]` is the place of query i's right candidate.

    Each unique text is encoded once. Of equally similar candidates none comes first: see `right_ranks`.
    """
    _check(queries, candidates, right)
    places: dict[str, int] = {}
    rows = np.array([places.setdefault(text, len(places)) for text in (*queries, *candidates)])
    vectors = np.asarray(encoder.encode(list(places), batch_size=batch_size, progress=progress), dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise ModelError(
            "retrieval: some vectors are not finite numbers; the model is damaged or its training diverged."
        )
    vectors = unit_rows(vectors)
    ranks = right_ranks(vectors[rows[: len(queries)]], vectors, rows[len(queries) :], right)
    return RetrievalScore(
        mrr=float((1 / ranks).mean()),
        recall_at_1=float((ranks <= 1).mean()),
        recall_at_10=float((ranks <= 10).mean()),
        queries=len(queries),
        candidates=len(candidates),
    )


def right_ranks(
    queries: NDArray[np.float32],
    texts: NDArray[np.float32],
    candidates: NDArray[np.int64],
    right: Sequence[int],
    *,
    at_once: int = SIMILARITIES_AT_ONCE,
) -> NDArray[np.float64]:
    """Ranks of the right candidates (queries,): 1 + the number strictly more similar + half of the other equals.

    queries: unit vectors (queries, dimension); texts: unit vectors (texts, dimension); candidates: for each
    candidate its row of `texts`. One text has one similarity, however often it is a candidate: equal texts tie
    exactly, which two columns of a matrix product would not promise.
    """
    chosen = np.asarray(right, dtype=np.int64)
    ranks = np.empty(len(queries), dtype=np.float64)
    used, column = np.unique(candidates, return_inverse=True)
    pool = texts[used].T  # (dimension, unique candidates)
    step = max(1, at_once // len(candidates))
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        similarities = (queries[block] @ pool)[:, column]  # (block, candidates)
        own = np.take_along_axis(similarities, chosen[block, None], axis=1)  # (block, 1)
        better = (similarities > own).sum(axis=1)
        others_equal = (similarities == own).sum(axis=1) - 1
        ranks[block] = 1 + better + others_equal / 2
    return ranks


def _check(queries: Sequence[str], candidates: Sequence[str], right: Sequence[int]) -> None:
    for texts, what in ((queries, "queries"), (candidates, "candidates")):
        if isinstance(texts, str):
            raise InputError(f"{what}: one string is given, a list of strings is needed.")
        if not len(texts):
            raise InputError(f"{what}: there are none; retrieval needs at least one.")
    if len(right) != len(queries):
        raise InputError(f"right: {len(right):,} places for {len(queries):,} queries; each query needs one.")
    for query, place in enumerate(right):
        if not 0 <= place < len(candidates):
            raise InputError(
                f"right: query {query} has place {place}, which is not one of the {len(candidates):,} candidates "
                f"(0 to {len(candidates) - 1})."
            )
