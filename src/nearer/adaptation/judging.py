"""Judges and what they say: encoders, BM25 and a cross-encoder over one collection of passages, kept on disk once.

The collection has the passages, and behind them what passages say in tests without their queries. A test or a training
query is shown a part of it by a mask, so that every text is encoded once for all tests, and BM25 counts words once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.adaptation.kept import Arrays, Kept, Vectors
from nearer.adaptation.made_tests import AnyTest, JudgedTest, MadeTest
from nearer.adaptation.models import encode_texts
from nearer.adaptation.tournament import Candidates
from nearer.adaptation.workforce import InProcess, Workforce
from nearer.encoder import Encoder
from nearer.encoder.batching import Tokenised
from nearer.search.fusion import LEXICAL, NONE, RERANKER, unite_candidates
from nearer.search.lexical import LexicalIndex
from nearer.teachers import CrossEncoder
from nearer.terminal import progress_bar

Mask = NDArray[np.bool_]

QUERIES_AT_ONCE, TEXTS_AT_ONCE = 64, 2**17  # that are compared: their products are 32 MiB
HELD = 2**31  # bytes of vectors that stay on a GPU: to copy them for each few queries takes longer than to compare
KEPT_AT_ONCE = 512  # queries
SHOWN_FROM = 10**8  # products of vectors: fewer take no time worth a bar
MANY_TEXTS = 20_000  # from which on it takes seconds to count their words
HIDDEN = -2.0  # below every cosine
BEYOND = 4  # times as many are asked of BM25, since some of the best are not shown


class Collection:
    """The texts that are searched: passages first, then what some of them say in tests.

    workforce: who encodes all texts and scores pairs; None: this process. Queries are always encoded here.
    """

    def __init__(
        self,
        passages: Sequence[str],
        tests: Sequence[MadeTest],
        kept: Kept,
        *,
        progress: bool,
        workforce: Workforce | None = None,
    ) -> None:
        self.passages = len(passages)
        self.texts = [*passages, *(rest for test in tests for rest in test.rests)]
        self.tests = {test.name: test for test in tests}
        self.kept = kept
        self.progress = progress
        self.workforce = workforce or InProcess()
        self.vectors: dict[str, Vectors] = {}
        self.encoders: dict[str, Encoder] = {}
        self._held: dict[str, torch.Tensor] = {}
        self.cross: CrossEncoder | None = None
        self.lexical = LexicalIndex.build(self.texts, progress=progress and len(self.texts) > MANY_TEXTS)
        self._starts: dict[str, int] = {}
        self._tokens: Tokenised | None = None  # of all texts, for the cross-encoder
        self._read = _ScoresRead()  # by the cross-encoder
        start = len(passages)
        for test in tests:
            self._starts[test.name] = start
            start += len(test)

    def add_encoder(self, name: str, encoder: Encoder, key: str) -> None:
        """key: what its vectors are kept under."""

        def make(start: int) -> Generator[NDArray[np.floating]]:
            return self.workforce.encode(encoder, self.texts, start=start, progress=self.progress)

        self.remove_encoder(name)
        self.encoders[name] = encoder
        self.vectors[name] = self.kept.vectors(f"vectors-{key}", len(self.texts), encoder.dimension, make)

    def remove_encoder(self, name: str) -> None:
        """Its vectors stay on the disk."""
        for known in (self.encoders, self.vectors, self._held):
            known.pop(name, None)

    def show(self, passages: Mask | bool = True) -> Mask:
        """A mask that shows these passages (True: all), and nothing of what they say in tests."""
        shown = np.zeros(len(self.texts), dtype=bool)
        shown[: self.passages] = passages
        return shown

    def shown_in(self, test: AnyTest) -> tuple[Mask, NDArray[np.int64]]:
        """Which texts this test shows, and the number of each query's answer."""
        if isinstance(test, JudgedTest):
            return test.shown, test.answers
        start = self._starts[test.name]
        shown = self.show()
        shown[test.passages] = False
        shown[start : start + len(test)] = True
        return shown, np.arange(start, start + len(test))

    def candidates(
        self,
        name: str,
        queries: Sequence[str],
        shown: Mask,
        *,
        best: int,
        by: Sequence[str],
        left_out: NDArray[np.int64] | None = None,
        reranked: bool = True,
    ) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float32]]]:
        """The best of the encoders `by` and of BM25, each query's once, and what every judge says of them.

        left_out: of each query a text that it does not get (−1: none). What is done is kept under `name`, some hundred
        queries at a time, so an interruption costs no more than that.
        """

        def make(asked: Sequence[str], out: NDArray[np.int64] | None) -> Arrays:
            vectors = {encoder: encode_texts(self.encoders[encoder], asked) for encoder in by}
            found = [self.nearest(vectors[encoder], encoder, shown, out, best=best) for encoder in by]
            numbers = unite_candidates(*found, self._by_words(asked, shown, out, best))
            scores = {encoder: self._dots(vectors[encoder], encoder, numbers) for encoder in by}
            scores[LEXICAL] = self.lexical.scores(asked, numbers)
            if self.cross is not None and reranked:
                scores[RERANKER] = self._reranked(asked, numbers)
            return {"numbers": numbers, **scores}

        parts = []
        for start in range(0, len(queries), KEPT_AT_ONCE):
            rows = slice(start, start + KEPT_AT_ONCE)
            out = None if left_out is None else left_out[rows]
            parts.append(self.kept.get(f"{name}-{start}", partial(make, queries[rows], out)))
        numbers = _joined([part["numbers"] for part in parts], NONE).astype(np.int64)
        judges = [judge for judge in parts[0] if judge != "numbers"]
        scores = {judge: _joined([part[judge] for part in parts], 0).astype(np.float32) for judge in judges}
        if RERANKER in scores:  # it is slow: what it read once it does not read again
            for query, of_query, said in zip(queries, numbers, scores[RERANKER], strict=True):
                self._read.add(query, of_query[of_query >= 0], said[of_query >= 0])
        return numbers, scores

    def measure(self, test: AnyTest, *, best: int, by: Sequence[str], key: str) -> Candidates:
        """A test's candidates with everybody's scores. key: of the encoders and of what they may find."""
        shown, answers = self.shown_in(test)
        numbers, scores = self.candidates(f"{test.kept_as}-{key}", test.queries, shown, best=best, by=by)
        return Candidates(numbers, answers, scores)

    def nearest(
        self,
        queries: NDArray[np.float32],
        encoder: str,
        shown: Mask,
        left_out: NDArray[np.int64] | None = None,
        *,
        best: int,
    ) -> NDArray[np.int64]:
        """Numbers of the texts nearest to each query, the nearest first; in parts of the texts, as vectors are large.

        Shapes:
            queries: (n, dimension); left_out: (n,), see `candidates`. Returns (n, best).
        """
        device, vectors = self.encoders[encoder].device, self.vectors[encoder]
        asked = torch.from_numpy(queries).to(device)
        count = min(best, int(shown.sum()) - (left_out is not None))
        scores, numbers = [], []
        slow = len(queries) * len(self.texts) > SHOWN_FROM
        with progress_bar("searching", len(vectors), "texts", shown=self.progress and slow) as advance:
            for begin in range(0, len(vectors), TEXTS_AT_ONCE):
                part = slice(begin, begin + TEXTS_AT_ONCE)
                texts = self._vectors_on(device, encoder, part).float()
                hidden = torch.from_numpy(~shown[part]).to(device)
                found = []
                for start in range(0, len(queries), QUERIES_AT_ONCE):
                    rows = slice(start, start + QUERIES_AT_ONCE)
                    products = (asked[rows] @ texts.T).masked_fill(hidden, HIDDEN)
                    if left_out is not None:
                        _hide(products, left_out[rows] - begin)
                    found.append(products.topk(min(count, len(texts))))
                scores.append(torch.cat([some.values for some in found]).cpu().numpy())
                numbers.append(torch.cat([some.indices for some in found]).cpu().numpy() + begin)
                advance(len(texts))
        nearest = np.argsort(-np.concatenate(scores, axis=1), axis=1, kind="stable")[:, :count]
        return np.take_along_axis(np.concatenate(numbers, axis=1), nearest, axis=1).astype(np.int64)

    def nearness(
        self, name: str, queries: Sequence[str], encoder: str, shown: Mask, left_out: NDArray[np.int64], *, best: int
    ) -> NDArray[np.float32]:
        """Of each query, the mean cosine of the `best` texts nearest to it. It is kept under `name`."""

        def make() -> Arrays:
            vectors = encode_texts(self.encoders[encoder], queries)
            numbers = self.nearest(vectors, encoder, shown, left_out, best=best)
            return {"nearness": self._dots(vectors, encoder, numbers).mean(axis=1)}

        return self.kept.get(name, make)["nearness"].astype(np.float32)

    def _vectors_on(self, device: torch.device, encoder: str, part: slice) -> torch.Tensor:
        vectors = self.vectors[encoder]
        if device.type == "cpu" or vectors.nbytes > HELD:
            return torch.from_numpy(vectors[part].copy()).to(device)
        if encoder not in self._held:
            self._held[encoder] = torch.from_numpy(vectors.copy()).to(device)
        return self._held[encoder][part]

    def _by_words(
        self, queries: Sequence[str], shown: Mask, left_out: NDArray[np.int64] | None, best: int
    ) -> NDArray[np.int64]:
        found = np.full((len(queries), best), NONE, dtype=np.int64)
        numbers, _ = self.lexical.top(queries, min(BEYOND * best, len(self.texts)))
        for row, of_query in enumerate(numbers):
            there = of_query[of_query >= 0]
            there = there[shown[there]]
            if left_out is not None:
                there = there[there != left_out[row]]
            found[row, : len(there[:best])] = there[:best]
        return found

    def _dots(self, queries: NDArray[np.float32], encoder: str, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        found = np.zeros(numbers.shape, dtype=np.float32)
        for row, of_query in enumerate(numbers):
            there = of_query >= 0
            found[row, there] = self.vectors[encoder][of_query[there]] @ queries[row]
        return found

    def _reranked(self, queries: Sequence[str], numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        assert self.cross is not None
        found, new = np.zeros(numbers.shape, dtype=np.float32), numbers >= 0
        for row, query in enumerate(queries):
            known, scores = self._read.find(query, numbers[row])
            found[row, known] = scores
            new[row, known] = False
        if new.any():
            if self._tokens is None:
                self._tokens = self.cross.tokenise(self.texts)
            rows, columns = np.nonzero(new)
            pairs = np.stack([rows, numbers[rows, columns]], axis=1)
            found[new] = self.workforce.score(self.cross, queries, self._tokens, pairs, progress=self.progress)
        return found


_NOTHING = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)


class _ScoresRead:
    """Of each query the numbers of texts, sorted, and their scores: a dictionary of pairs would take 20 times that."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[NDArray[np.int64], NDArray[np.float32]]] = {}

    def add(self, query: str, numbers: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        if query in self._of:
            there = self._of[query]
            numbers, scores = np.concatenate([there[0], numbers]), np.concatenate([there[1], scores])
        unique, first = np.unique(numbers, return_index=True)
        self._of[query] = unique, scores[first]

    def find(self, query: str, numbers: NDArray[np.int64]) -> tuple[Mask, NDArray[np.float32]]:
        """Which of these numbers are known, and the scores of those."""
        there, scores = self._of.get(query, _NOTHING)
        if not len(there):
            return np.zeros(len(numbers), dtype=bool), scores
        at = np.minimum(np.searchsorted(there, numbers), len(there) - 1)
        known = there[at] == numbers
        return known, scores[at[known]]


def _joined(parts: Sequence[NDArray[np.generic]], filling: int) -> NDArray[np.generic]:
    """Rows of parts that are not equally wide."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=filling) for part in parts]
    )


def _hide(scores: torch.Tensor, left_out: NDArray[np.int64]) -> None:
    """left_out: for each row a column; what lies outside is none."""
    rows = np.flatnonzero((left_out >= 0) & (left_out < scores.shape[1]))
    scores[torch.from_numpy(rows).to(scores.device), torch.from_numpy(left_out[rows]).to(scores.device)] = HIDDEN
