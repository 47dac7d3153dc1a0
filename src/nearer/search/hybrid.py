"""Candidates from vectors and from words, a second look at the best of them by a cross-encoder, and one order of all.

The steps stand apart, since a service takes each in its own queue: `find_candidates`, `best_candidates`, `add_judge`,
`rank_candidates`. `rank_texts` does the same with sentences that a user gives instead of an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.comparing import Ranked, listed
from nearer.errors import SettingError
from nearer.search.fusion import (
    LEXICAL,
    NONE,
    RERANKER,
    VECTORS,
    Numbers,
    Scores,
    fill_rows,
    fuse,
    order_of,
    unite_candidates,
)
from nearer.search.lexical import LexicalIndex
from nearer.search.setup import SearchSetup

if TYPE_CHECKING:
    from nearer.encoder.comparing import Comparing
    from nearer.search.snapshot import Hit, Snapshot
    from nearer.teachers import CrossEncoder

QUERIES_AT_ONCE = 256


class ScoresPairs(Protocol):
    """A `CrossEncoder`, or what scores pairs as one does."""

    def score(self, queries: Sequence[str], passages: Sequence[str], pairs: NDArray[Any]) -> NDArray[np.float32]: ...


class Candidates(NamedTuple):
    """rows: of each query, −1 filling. scores: the same by judge, `vectors` are cosines.

    Shapes:
        rows, each of scores: (queries, candidates).
    """

    rows: Numbers
    scores: Mapping[str, Scores]

    @property
    def valid(self) -> NDArray[np.bool_]:
        valid: NDArray[np.bool_] = self.rows != NONE
        return valid


class SearchOptions(TypedDict, total=False):
    """Of `SearchIndex.search`."""

    exact: bool
    rerank: int
    inference_weight: float | None
    all_passages: bool
    lexical_weight: float | None
    reranker: str | Path | CrossEncoder | bool | None
    rerank_weight: float | None
    candidates: int | None


def search_hybrid(
    snapshot: Snapshot,
    queries: Iterable[str],
    encode: Callable[[list[str]], NDArray[np.float32]],
    setup: SearchSetup,
    k: int,
    judge: ScoresPairs | None,
    exact: bool = False,
    all_passages: bool = False,
) -> list[list[Hit]]:
    """Hits of each query as a set-up has it. encode: queries to unit vectors. judge: the reranker, loaded."""
    texts = listed(queries, "queries")
    vectors = encode(texts)
    found: list[list[Hit]] = []
    for start in range(0, len(texts), QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        candidates = find_candidates(
            snapshot, texts[part], vectors[part], setup, k, exact=exact, all_passages=all_passages
        )
        if setup.reranker is not None and judge is not None:
            candidates = best_candidates(candidates, setup.weights, max(k, setup.reranker.candidates))
            candidates = score_candidates(judge, texts[part], candidates, snapshot.stored.texts)
        found += find_hits(snapshot, candidates, setup.weights, k, all_passages=all_passages)
    return found


def find_candidates(
    snapshot: Snapshot,
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    setup: SearchSetup,
    k: int,
    *,
    exact: bool = False,
    all_passages: bool = False,
) -> Candidates:
    """The nearest rows by vectors and, if BM25 counts, the best by words, each scored by both.

    texts, vectors: of the same queries.
    """
    count = max(k, setup.candidates)
    nearest = snapshot.nearest(vectors, count, exact, all_passages=all_passages)
    rows = fill_rows([found for found, _ in nearest])
    if setup.lexical_weight:
        rows = unite_candidates(rows, snapshot.best_by_words(texts, count, all_passages=all_passages))
    scores = {VECTORS: snapshot.cosines(vectors, rows)}
    if setup.lexical_weight:
        scores[LEXICAL] = snapshot.score_words(texts, rows)
    return Candidates(rows, scores)


def best_candidates(candidates: Candidates, weights: Mapping[str, float], count: int) -> Candidates:
    """The best so many by the judges that have scored all: what a slower judge has a look at."""
    order = _order(candidates, weights)[:, :count]
    scores = {judge: np.take_along_axis(given, order, axis=1) for judge, given in candidates.scores.items()}
    return Candidates(np.take_along_axis(candidates.rows, order, axis=1), scores)


def add_judge(candidates: Candidates, judge: str, scores: NDArray[Any]) -> Candidates:
    """scores: of all that is valid, row by row (n,)."""
    filled = np.zeros(candidates.rows.shape, dtype=np.float64)
    filled[candidates.valid] = scores
    return Candidates(candidates.rows, {**candidates.scores, judge: filled})


def rank_candidates(candidates: Candidates, weights: Mapping[str, float]) -> list[tuple[Numbers, Scores, Scores]]:
    """Of each query its rows by falling score, their scores, and their cosines."""
    fused = fuse(candidates.scores, _known(candidates, weights), candidates.valid)
    order = order_of(candidates.rows, fused)
    rows = np.take_along_axis(candidates.rows, order, axis=1)
    scores, cosines = (np.take_along_axis(one, order, axis=1) for one in (fused, candidates.scores[VECTORS]))
    counts = candidates.valid.sum(axis=1)
    return [(rows[n, :count], scores[n, :count], cosines[n, :count]) for n, count in enumerate(counts.tolist())]


def find_hits(
    snapshot: Snapshot, candidates: Candidates, weights: Mapping[str, float], k: int, *, all_passages: bool = False
) -> list[list[Hit]]:
    """The best k of each query; of each document the best passage, or with `all_passages` any number of them."""
    grouped = not all_passages and snapshot.manifest.passages is not None
    found = []
    for rows, scores, cosines in rank_candidates(candidates, weights):
        kept = snapshot.kept(rows, grouped)[:k]
        found.append(snapshot.hits(rows[kept], scores[kept], cosines[kept]))
    return found


def score_candidates(
    judge: ScoresPairs, queries: Sequence[str], candidates: Candidates, texts: Sequence[str]
) -> Candidates:
    """With a cross-encoder's scores. texts: all of the index; equal ones are scored once."""
    where = np.argwhere(candidates.valid)
    rows = candidates.rows[candidates.valid]
    found = {row: texts[row] for row in np.unique(rows).tolist()}
    numbers = {text: number for number, text in enumerate(dict.fromkeys(found.values()))}
    passages = np.array([numbers[found[row]] for row in rows.tolist()], dtype=np.int64)
    pairs, inverse = np.unique(np.stack([where[:, 0], passages], axis=1), axis=0, return_inverse=True)
    scores = judge.score(queries, list(numbers), pairs)
    return add_judge(candidates, RERANKER, scores[inverse.reshape(-1)])


def rank_texts(
    encoder: Comparing,
    query: str,
    candidates: Iterable[str],
    setup: SearchSetup,
    *,
    reranker: ScoresPairs | None = None,
    top: int | None = None,
) -> list[Ranked]:
    """Sentences by falling score as a set-up has it; equal ones keep their order.

    BM25 knows no other texts than these. reranker: that of the set-up, loaded.
    """
    if setup.reranker is not None and reranker is None:
        raise SettingError("reranker: the set-up has one; give it loaded (CrossEncoder.load).")
    if top is not None and top < 1:
        raise SettingError(f"top: {top} is below 1.")
    given = listed(candidates, "candidates")
    if setup.is_plain and setup.query_prompt is None and setup.passage_prompt is None:
        return encoder.rank(query, given, top=top)
    unique = list(dict.fromkeys(given))
    if not unique:
        return []
    rows = np.arange(len(unique))[None]
    scores: dict[str, Any] = {VECTORS: _similarities(encoder, query, unique, setup)}
    if setup.lexical_weight:
        scores[LEXICAL] = LexicalIndex.build(unique).scores([query], rows)
    found = Candidates(rows, scores)
    if reranker is not None:
        found = score_candidates(reranker, [query], found, unique)
    weights = setup.weights if reranker is not None else {**setup.weights, RERANKER: 0}
    fused = found.scores[VECTORS][0] if setup.is_plain else fuse(found.scores, weights)[0]
    number_of = {text: number for number, text in enumerate(unique)}
    all_scores = fused[[number_of[text] for text in given]]
    order = np.argsort(-all_scores, kind="stable")[:top]
    return [Ranked(int(number), float(all_scores[number]), given[number]) for number in order]


def _similarities(encoder: Comparing, query: str, texts: list[str], setup: SearchSetup) -> NDArray[Any]:
    """(1, texts)"""
    if setup.query_prompt is None and setup.passage_prompt is None:
        return np.atleast_2d(encoder.similarity([query], texts))
    model: Any = encoder
    if not hasattr(model, "settings"):
        raise SettingError("query_prompt, passage_prompt: are of an encoder; this model has no prompts.")
    asked = model.encode([query], prompt_name=setup.query_prompt)
    found: NDArray[Any] = model.score_matrix(asked, model.encode(texts, prompt_name=setup.passage_prompt))
    return found


def _known(candidates: Candidates, weights: Mapping[str, float]) -> dict[str, float]:
    """Without judges that come later."""
    return {judge: weight for judge, weight in weights.items() if judge in candidates.scores}


def _order(candidates: Candidates, weights: Mapping[str, float]) -> Numbers:
    fused = fuse(candidates.scores, _known(candidates, weights), candidates.valid)
    return order_of(candidates.rows, fused)
