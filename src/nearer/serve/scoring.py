"""Scores of vectors, step by step: those of a RankEncoder take long, and other requests have their turn in between."""

from __future__ import annotations

import json

import numpy as np

from nearer.serve.served import ServedModel, Vectors
from nearer.serve.work import Steps

# Rows scored in one step, where a score is more than a product
ROWS_AT_ONCE = 32
# Numbers written in one step
NUMBERS_AT_ONCE = 4096


def relevance(model: ServedModel, query: Vectors, documents: Vectors) -> Steps[Vectors]:
    """Scores (documents) of one query (1, dimension)."""
    parts = []
    for rows in _parts(model, len(documents)):
        parts.append(model.score_matrix(query, documents[rows])[0])
        yield
    return np.concatenate(parts)


def pair_scores(model: ServedModel, first: Vectors, second: Vectors) -> Steps[list[float]]:
    """Of each row with the same row of the other."""
    scores: list[float] = []
    for rows in _parts(model, len(first)):
        scores += model.pair_scores(first[rows], second[rows]).tolist()
        yield
    return scores


def matrix_rows(model: ServedModel, first: Vectors, second: Vectors) -> Steps[list[str]]:
    """The rows of the matrix (first, second), each as JSON."""
    scores = np.empty((len(first), len(second)), dtype=np.float32)
    # of the longer side as many as the shorter has, which is scored anew in each step: at most twice the work
    at_once = max(ROWS_AT_ONCE, min(len(first), len(second)))
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


def _parts(model: ServedModel, count: int, at_once: int = ROWS_AT_ONCE) -> list[slice]:
    if model.model.scoring == "cosine":
        return [slice(0, count)]
    return [slice(start, start + at_once) for start in range(0, count, at_once)]
