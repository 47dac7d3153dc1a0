"""Scores of texts: how a document fits a query, how near texts are to each other.

A cross-encoder reads its pairs in the queue of the model, as texts of the request. Other scores are computed step by
step: those of a RankEncoder take long, and other requests have their turn in between.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from fastapi import Request

from nearer.search.fusion import LEXICAL, RERANKER, VECTORS, fuse
from nearer.search.lexical import LexicalIndex
from nearer.serve.background import Steps
from nearer.serve.limits import check_texts
from nearer.serve.model import Encoded, Relevance, ServedModel, Vectors
from nearer.serve.service import HostedModel, Service

# Rows scored in one step, where a score is more than a product
ROWS_A_STEP = 32
# Numbers written in one step
NUMBERS_AT_ONCE = 4096


async def ask_relevance(
    service: Service, request: Request, hosted: HostedModel, query: str, documents: list[str], param: str
) -> tuple[Vectors, Encoded]:
    """Each document's score for a query. encoded: what was read for it, one text or pair a row."""
    check_texts([query], "query", service.limits)
    check_texts(documents, param, service.limits)
    # equal documents share one score: equal rows of a matrix product can differ in the last bit
    rows = {document: row for row, document in enumerate(dict.fromkeys(documents))}
    relevance = hosted.model.relevance
    if relevance is None:
        work = _ask_vectors(service, request, hosted, query, list(rows))
    else:
        work = _ask_judges(service, request, hosted, query, list(rows), relevance)
    unique, encoded = await service.wait(request, work)
    return unique[[rows[document] for document in documents]], encoded


def order_by_score(scores: Vectors, top: int | None = None) -> list[int]:
    """Indices by falling score; equal scores keep their order."""
    order: list[int] = np.argsort(-scores, kind="stable")[:top].tolist()
    return order


async def _ask_vectors(
    service: Service, request: Request, hosted: HostedModel, query: str, documents: list[str]
) -> tuple[Vectors, Encoded]:
    encoded = await service.submit_texts(request, hosted, [query, *documents])
    steps = step_relevance(hosted.model, encoded.vectors[:1], encoded.vectors[1:])
    return await service.submit_steps(request, steps), encoded


async def _ask_judges(
    service: Service, request: Request, hosted: HostedModel, query: str, documents: list[str], relevance: Relevance
) -> tuple[Vectors, Encoded]:
    """By what counts. A cross-encoder's scores are as they are where nothing else does."""
    scores: dict[str, Vectors] = {}
    read: list[Encoded] = []
    weights = relevance.weights
    if weights.get(VECTORS):
        scores[VECTORS], encoded = await _ask_vectors(service, request, hosted, query, documents)
        read.append(encoded)
    if weights.get(LEXICAL):
        scores[LEXICAL] = await service.submit_steps(request, step_words(query, documents))
    if relevance.judge is not None:
        encoded = await service.submit_pairs(request, hosted, relevance.judge, query, documents)
        scores[RERANKER] = encoded.vectors[:, 0]
        read.append(encoded)
    counts = Encoded(
        np.empty((0, 1), dtype=np.float32),
        np.concatenate([one.tokens for one in read]),
        np.concatenate([one.cut for one in read]),
    )
    if list(scores) == [RERANKER]:
        return scores[RERANKER], counts
    fused: Vectors = fuse({judge: given[None] for judge, given in scores.items()}, weights)[0].astype(np.float32)
    return fused, counts


def step_words(query: str, documents: Sequence[str]) -> Steps[Vectors]:
    """BM25 (documents), which knows no other texts than these."""
    lexical = LexicalIndex.build(documents)
    yield
    scores: Vectors = lexical.scores([query], np.arange(len(documents))[None])[0]
    return scores


def step_relevance(model: ServedModel, query: Vectors, documents: Vectors) -> Steps[Vectors]:
    """Scores (documents) of one query (1, dimension)."""
    parts = []
    for rows in _parts(model, len(documents)):
        parts.append(model.score_matrix(query, documents[rows])[0])
        yield
    return np.concatenate(parts)


def step_pair_scores(model: ServedModel, first: Vectors, second: Vectors) -> Steps[list[float]]:
    """Of each row with the same row of the other."""
    scores: list[float] = []
    for rows in _parts(model, len(first)):
        scores += model.pair_scores(first[rows], second[rows]).tolist()
        yield
    return scores


def step_matrix_rows(model: ServedModel, first: Vectors, second: Vectors) -> Steps[list[str]]:
    """The rows of the matrix (first, second), each as JSON."""
    scores = np.empty((len(first), len(second)), dtype=np.float32)
    # of the longer side as many as the shorter has, which is scored anew in each step: at most twice the work
    at_once = max(ROWS_A_STEP, min(len(first), len(second)))
    for rows in _parts(model, max(len(first), len(second)), at_once):
        if len(first) >= len(second):
            scores[rows] = model.score_matrix(first[rows], second)
        else:
            scores[:, rows] = model.score_matrix(first, second[rows])
        yield
    written: list[str] = []
    at_once = max(1, NUMBERS_AT_ONCE // len(second))
    for start in range(0, len(first), at_once):
        written += (json.dumps(row, allow_nan=False) for row in scores[start : start + at_once].tolist())
        yield
    return written


def _parts(model: ServedModel, count: int, at_once: int = ROWS_A_STEP) -> list[slice]:
    if model.model.scoring == "cosine":
        return [slice(0, count)]
    return [slice(start, start + at_once) for start in range(0, count, at_once)]
