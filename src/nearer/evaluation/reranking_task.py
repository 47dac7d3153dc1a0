"""Reranking: each query's candidates ordered by similarity, the relevant ones should come first.

MTEB has two readings of it, which differ in ties and in long lists only:

| | `mteb-v1` (mteb 1.x, the papers' figures) | `mteb-v2` (mteb 2.x, reranking as retrieval) |
| --- | --- | --- |
| map | scikit-learn's: equal scores are one step | trec_eval's: equal scores in falling order of the ids |
| what that does to ties | independent of the order | negatives before positives: their ids are the greater ones |
| mrr@10 | equal scores in the order given, positives first (there by an unstable sort) | as map |
| long lists | whole | the best 1 000 (`map_at_1000`) |

Both leave out queries without a positive or without a negative; queries without text are left out here as well. An
empty candidate is ranked by the vector of the empty text, as in both, and counted. A query made of several texts
(MindSmall: the titles a user has read) gives a candidate its greatest similarity to any of them; in MTEB v2 that is the
figure `max_over_subqueries_map_at_1000`. A candidate that is listed twice counts twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError
from nearer.evaluation.measures import (
    NOT_FINITE,
    Values,
    average_precision,
    by_score,
    mean_percent,
    ndcg,
    reciprocal_rank,
    tied_average_precision,
)
from nearer.evaluation.task import Scorer, SentenceVectors, Task, TaskScore

READINGS = ("mteb-v1", "mteb-v2")
TIES = {
    "mteb-v1": "map: one step; others: in the order given, positives first",
    "mteb-v2": "in falling order of the ids, negatives first",
}
V2_DEPTH = 1000
FIGURES = ("map", "mrr@10", "ndcg@10")


class RerankingQuery(NamedTuple):
    """A query, of one text or several, with its candidates."""

    texts: tuple[str, ...]
    positives: tuple[str, ...]
    negatives: tuple[str, ...]


@dataclass(frozen=True)
class RerankingTask(Task):
    """Queries with their candidates; `source` says where they come from, for the protocol."""

    kind: ClassVar[str] = "reranking"

    name: str
    split: str
    layout: str
    queries: Sequence[RerankingQuery]
    reading: str = "mteb-v1"
    source: str = ""

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            raise SettingError(f"reading: {self.reading!r} is not one of {', '.join(READINGS)}.")
        if not self.usable:
            raise InputError(
                f"{self.name}: none of its {len(self.queries):,} queries has both a positive and a negative candidate "
                "besides its text; there is nothing to rank."
            )

    @cached_property
    def usable(self) -> list[RerankingQuery]:
        """The queries that count: with text, at least one positive and one negative."""
        return [query for query in self.queries if _counts(query)]

    def sentences(self) -> Iterator[str]:
        return (text for query in self.usable for texts in query for text in texts)

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore:
        values = self.per_query(model, vectors)
        undefined = [NOT_FINITE] if np.isnan(values["map"]).any() else []
        return self.make_score(
            count=len(self.usable),
            unit="queries",
            measure="map",
            figures={name: mean_percent(each) for name, each in values.items()},
            protocol={
                "reading": self.reading,
                "ties": TIES[self.reading],
                **({"subqueries": "max"} if any(len(query.texts) > 1 for query in self.usable) else {}),
                **({"source": self.source} if self.source else {}),
            },
            details={
                "candidates": sum(len(query.positives) + len(query.negatives) for query in self.usable),
                **({"empty_candidates": self._empty} if self._empty else {}),
            },
            dropped=len(self.queries) - len(self.usable),
            remark="; ".join([*undefined, *self._left_out()]),
        )

    def apply_options(self, options: Mapping[str, str]) -> RerankingTask:
        return replace(self, reading=options["reading"]) if "reading" in options else self

    def per_query(self, model: Scorer, vectors: SentenceVectors) -> dict[str, Values]:
        """Each figure of each query that counts, as fractions; not a number where its similarities are none."""
        rows = [self._figures(query, _scores(model, query, vectors)) for query in self.usable]
        return dict(zip(FIGURES, np.array(rows).T, strict=True))

    def _figures(self, query: RerankingQuery, scores: NDArray[np.float32]) -> tuple[float, ...]:
        if not np.isfinite(scores).all():
            return (np.nan,) * len(FIGURES)
        gains = np.repeat([1.0, 0.0], [len(query.positives), len(query.negatives)])
        relevant = len(query.positives)
        if self.reading == "mteb-v1":
            ranked = by_score(gains, scores, "first")
            precision = tied_average_precision(gains, scores)
        else:
            ranked = by_score(gains, scores, "last")
            precision = average_precision(ranked[:V2_DEPTH], relevant=relevant)
        return precision, reciprocal_rank(ranked[:10], relevant=relevant), ndcg(ranked, cut=10)

    def _left_out(self) -> Iterator[str]:
        left = [query for query in self.queries if not _counts(query)]
        for count, what in (
            (sum(not query.positives for query in left), "no positive candidate"),
            (sum(bool(query.positives) and not query.negatives for query in left), "no negative candidate"),
            (sum(bool(query.positives and query.negatives) for query in left), "empty"),
        ):
            if count:
                yield f"{count:,} of {len(self.queries):,} queries left out: {what}"
        if self._empty:
            yield f"empty candidates: {self._empty:,} (ranked by the vector of the empty text, as MTEB does)"

    @cached_property
    def _empty(self) -> int:
        return sum(not text.strip() for query in self.usable for text in (*query.positives, *query.negatives))

    def data_hash(self) -> str:
        """A digest of the queries that count, with their candidates in order."""
        digest = hashlib.sha256()
        for query in self.usable:
            digest.update(json.dumps(query).encode())
        return digest.hexdigest()[:16]


def _counts(query: RerankingQuery) -> bool:
    return bool(query.texts and query.positives and query.negatives)


def _scores(model: Scorer, query: RerankingQuery, vectors: SentenceVectors) -> NDArray[np.float32]:
    """Similarities of the candidates, positives first (candidates,): the greatest over the query's texts."""
    candidates = (*query.positives, *query.negatives)
    # one column for each unique text: equal columns of a matrix product can differ in the last bit
    columns = {text: column for column, text in enumerate(dict.fromkeys(candidates))}
    matrix = model.score_matrix(vectors.of(query.texts), vectors.of(columns))  # (query's texts, unique candidates)
    best: NDArray[np.float32] = matrix.max(axis=0)[[columns[text] for text in candidates]]
    return best
