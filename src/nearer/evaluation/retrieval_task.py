"""Retrieval over a corpus: each query's judged documents should stand at the top of all documents.

Figures are trec_eval's: ndcg@10 (linear gains, against the best order of all judged documents), mrr@10, map@100, and
recall at 1, 10 and 100. A document that nobody judged is not relevant. Of equally similar documents the one that comes
first in the corpus is first. An empty document is never found, whatever vector a model has for the empty text; it and a
document that is not in the corpus at all count as not found where they are judged.

`retrieve` is the plain form for texts in memory: one right candidate for each query.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.comparing import unit_rows
from nearer.errors import InputError, ModelError
from nearer.evaluation.measures import (
    NOT_FINITE,
    Values,
    average_precision,
    mean_percent,
    ndcg,
    recall_at_k,
    reciprocal_rank,
)
from nearer.evaluation.task import Scorer, SentenceVectors, Task, TaskScore, Vectors

FIGURES = ("ndcg@10", "mrr@10", "map@100", "recall@1", "recall@10", "recall@100")
DEPTH = 100
QUERIES_AT_ONCE = 4096
# Similarities held at a time: 64 MB in float32, whatever the number of queries and candidates.
SIMILARITIES_AT_ONCE = 16_000_000
# What is said of each kind of oddity in the data. These leave queries out:
LEFT_OUT = {
    "empty_queries": "empty",
    "queries_without_relevant_documents": "no relevant document (trec_eval and mteb count them as 0)",
}
# and these do not:
COUNTED = {
    "empty_documents": "never found",
    "judgements_of_empty_documents": "count as not found",
    "judgements_of_missing_documents": "count as not found",
    "judgements_of_missing_queries": "not used",
    "repeated_documents": "of an id the last one counts",
    "repeated_queries": "of an id the last one counts",
    "repeated_judgements": "of a query and a document the last one counts",
}


@dataclass(frozen=True)
class RetrievalTask(Task):
    """A corpus, queries, and for each query the rows of its judged documents in the corpus with their gains.

    A row behind the corpus' end is that of a document that is missing there. Every query has text and a gain above
    0; `unjudged` more queries had no judgement and are not here. `oddities` counts what else was found by reading
    (the kinds of `LEFT_OUT` and `COUNTED`); empty and missing documents are counted here.
    """

    kind: ClassVar[str] = "retrieval"

    name: str
    split: str
    layout: str
    corpus: Sequence[str]
    queries: Sequence[str]
    judgements: Sequence[Mapping[int, float]]
    unjudged: int = 0
    oddities: Mapping[str, int] = field(default_factory=dict)

    def sentences(self) -> Iterator[str]:
        return chain(self.queries, self._unique)

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore:
        values = self.per_query(model, vectors)
        undefined = [NOT_FINITE] if np.isnan(values["ndcg@10"]).any() else []
        return self.make_score(
            count=len(self.queries),
            unit="queries",
            measure="ndcg@10",
            figures={name: mean_percent(each) for name, each in values.items()},
            protocol={"gains": "linear", "ties": "in the corpus' order"},
            details={"documents": len(self.corpus), "judgements": sum(map(len, self.judgements)), **self.counts},
            dropped=self.unjudged + self._left_out,
            remark="; ".join([*undefined, *self.remarks()]),
        )

    @cached_property
    def counts(self) -> dict[str, int]:
        """How often each kind of oddity is there; kinds that are not are left out."""
        judged = [row for judgements in self.judgements for row in judgements]
        counts = {
            **self.oddities,
            "empty_documents": sum(_is_empty(text) for text in self.corpus),
            "judgements_of_empty_documents": sum(
                row < len(self.corpus) and _is_empty(self.corpus[row]) for row in judged
            ),
            "judgements_of_missing_documents": sum(row >= len(self.corpus) for row in judged),
        }
        return {kind: counts[kind] for kind in (*LEFT_OUT, *COUNTED) if counts.get(kind)}

    def remarks(self) -> Iterator[str]:
        """What of the data does not count, or not as one would think."""
        total = len(self.queries) + self.unjudged + self._left_out
        if self.unjudged:
            yield f"{self.unjudged:,} of {total:,} queries left out: no judgement"
        for kind, count in self.counts.items():
            if kind in LEFT_OUT:
                yield f"{count:,} of {total:,} queries left out: {LEFT_OUT[kind]}"
            else:
                yield f"{kind.replace('_', ' ')}: {count:,} ({COUNTED[kind]})"

    @property
    def _left_out(self) -> int:
        return sum(self.counts.get(kind, 0) for kind in LEFT_OUT)

    def per_query(self, model: Scorer, vectors: SentenceVectors) -> dict[str, Values]:
        """Each figure of each query, as fractions; not a number where its similarities are none."""
        rows = []
        texts = list(self._unique)
        for start in range(0, len(self.queries), QUERIES_AT_ONCE):
            block = slice(start, start + QUERIES_AT_ONCE)
            found = nearest(model, vectors.of(self.queries[block]), texts, vectors)
            for judged, best in zip(self.judgements[block], found, strict=True):
                rows.append(_figures(judged, self._documents(best)))
        return dict(zip(FIGURES, np.array(rows).T, strict=True))

    @cached_property
    def _unique(self) -> dict[str, list[int]]:
        """Each unique text of the corpus with its rows there: equal texts must tie, so each is compared once.

        Empty ones are not among them, so that none is ever found.
        """
        unique: dict[str, list[int]] = {}
        for row, text in enumerate(self.corpus):
            if not _is_empty(text):
                unique.setdefault(text, []).append(row)
        return unique

    @cached_property
    def _rows_of_unique(self) -> list[list[int]]:
        return list(self._unique.values())

    def _documents(self, best: Nearest | None) -> list[int] | None:
        """The rows of the nearest documents, nearest first, from the nearest unique texts."""
        if best is None:
            return None
        falling = [
            (-score, row)
            for text, score in zip(best[0].tolist(), best[1].tolist(), strict=True)
            for row in self._rows_of_unique[text]
        ]
        return [row for _, row in sorted(falling)[:DEPTH]]

    def data_hash(self) -> str:
        """A digest of corpus, queries and judgements, also of missing documents, in their order."""
        digest = hashlib.sha256()
        corpus = (None if _is_empty(text) else text for text in self.corpus)
        judged = (sorted(judgements.items()) for judgements in self.judgements)
        for item in chain(corpus, ("",), self.queries, judged):
            digest.update(json.dumps(item).encode())
        return digest.hexdigest()[:16]


def _is_empty(text: str) -> bool:
    return not text.strip()


Nearest = tuple[NDArray[np.int64], NDArray[np.float32]]


def nearest(
    model: Scorer,
    queries: Vectors,
    texts: Sequence[str],
    vectors: SentenceVectors,
    *,
    depth: int = DEPTH,
    at_once: int = SIMILARITIES_AT_ONCE,
) -> list[Nearest | None]:
    """For each query the indices and scores of its `depth` nearest texts, falling; equal ones in the texts' order.

    At most `at_once` similarities are held. None stands where some similarity is not a finite number.
    """
    best: list[Nearest | None] = [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    step = max(1, at_once // max(1, len(queries)))
    for start in range(0, len(texts), step):
        block = model.score_matrix(queries, vectors.of(texts[start : start + step]))  # (queries, texts of the block)
        for row, scores in enumerate(block):
            best[row] = _merged(best[row], scores, start, depth)
    return best


def _merged(best: Nearest | None, scores: NDArray[np.float32], start: int, depth: int) -> Nearest | None:
    """The nearest so far and those of the block of texts that begins at `start`, the `depth` best of both."""
    if best is None or not np.isfinite(scores).all():
        return None
    chosen = np.arange(len(scores))
    if len(scores) > depth:  # all as good as the one at the depth: which of the equal ones stay is the sort's to say
        chosen = np.flatnonzero(scores >= np.partition(scores, -depth)[-depth])
    indices, values = np.append(best[0], chosen + start), np.append(best[1], scores[chosen])
    order = np.argsort(-values, kind="stable")[:depth]
    return indices[order], values[order]


def _figures(judged: Mapping[int, float], found: list[int] | None) -> tuple[float, ...]:
    if found is None:
        return (np.nan,) * len(FIGURES)
    gains = np.array([judged.get(row, 0.0) for row in found])
    every = np.array(list(judged.values()))
    relevant = int((every > 0).sum())
    return (
        ndcg(gains, ideal=every, cut=10),
        reciprocal_rank(gains[:10], relevant=relevant),
        average_precision(gains, relevant=relevant),
        *(recall_at_k(gains, k, relevant=relevant) for k in (1, 10, 100)),
    )


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
    """Rank all candidates by cosine for each query; `right[i]` is the index of query i's right candidate.

    Each unique text is encoded once. Of equally similar candidates none comes first: see `right_ranks`.
    """
    _check(queries, candidates, right)
    unique: dict[str, int] = {}
    rows = np.array([unique.setdefault(text, len(unique)) for text in (*queries, *candidates)])
    vectors = np.asarray(encoder.encode(list(unique), batch_size=batch_size, progress=progress), dtype=np.float32)
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
        raise InputError(f"right: {len(right):,} indices for {len(queries):,} queries; each query needs one.")
    for query, index in enumerate(right):
        if not 0 <= index < len(candidates):
            raise InputError(
                f"right: query {query} has index {index}, which is not one of the {len(candidates):,} candidates "
                f"(0 to {len(candidates) - 1})."
            )
