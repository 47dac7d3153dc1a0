"""Judges and what they say: encoders, BM25 and a cross-encoder over one collection of passages, kept on disk once.

The collection has the passages, and behind them what passages say in tests without their queries. A test or a training
query is shown a part of it by a mask, so that every text is encoded once for all tests, and BM25 counts words once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nearer.adaptation.made_tests import MadeTest
from nearer.adaptation.models import encode_texts
from nearer.adaptation.tournament import Candidates
from nearer.encoder import Encoder
from nearer.encoder.batching import Tokenised
from nearer.search.fusion import LEXICAL, NONE, RERANKER, unite_candidates
from nearer.search.lexical import LexicalIndex
from nearer.storage.checksums import FileSum, differs, file_sum
from nearer.storage.sealed import read_sealed_json, write_sealed_json
from nearer.storage.whole import make_folder, whole_file
from nearer.teachers import CrossEncoder
from nearer.terminal import progress_bar

Arrays = Mapping[str, NDArray[np.generic]]
Mask = NDArray[np.bool_]

QUERIES_AT_ONCE = 64
KEPT_AT_ONCE = 512  # queries
SHOWN_FROM = 10**8  # products of vectors: fewer take no time worth a bar
BEYOND = 4  # times as many are asked of BM25, since some of the best are not shown


class Kept:
    """Arrays that are made once: kept in a folder with their checksums, and made again where they are damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str, make: Callable[[], Arrays]) -> dict[str, NDArray[np.generic]]:
        path, seal = self.folder / f"{name}.npz", self.folder / f"{name}.json"
        if _is_whole(path, seal):
            with np.load(path, allow_pickle=False) as loaded:
                return {key: loaded[key] for key in loaded.files}
        made = dict(make())
        make_folder(self.folder)
        seal.unlink(missing_ok=True)
        with whole_file(path) as partial, open(partial, "wb") as file:
            np.savez(file, **made)  # type: ignore[arg-type]
        sums = file_sum(path)
        write_sealed_json(seal, {"size": sums.size, "sum": sums.sum})
        return made


def _is_whole(path: Path, seal: Path) -> bool:
    try:
        facts = read_sealed_json(seal, "")
        return path.is_file() and not differs(path, FileSum(facts["size"], facts["sum"]))
    except Exception:  # not there, or damaged: made again either way
        return False


class Collection:
    """The texts that are searched: passages first, then what some of them say in tests."""

    def __init__(self, passages: Sequence[str], tests: Sequence[MadeTest], kept: Kept, *, progress: bool) -> None:
        self.passages = len(passages)
        self.texts = [*passages, *(rest for test in tests for rest in test.rests)]
        self.tests = {test.name: test for test in tests}
        self.kept = kept
        self.progress = progress
        self.vectors: dict[str, NDArray[np.float32]] = {}
        self.encoders: dict[str, Encoder] = {}
        self.cross: CrossEncoder | None = None
        self.lexical = LexicalIndex.build(self.texts)
        self._starts: dict[str, int] = {}
        self._tokens: Tokenised | None = None  # of all texts, for the cross-encoder
        self._read: dict[tuple[str, int], float] = {}  # scores of the cross-encoder, by query and text
        start = len(passages)
        for test in tests:
            self._starts[test.name] = start
            start += len(test)

    def add_encoder(self, name: str, encoder: Encoder, key: str) -> None:
        """key: what its vectors are kept under."""

        def make() -> Arrays:
            return {"vectors": encode_texts(encoder, self.texts, progress=self.progress)}

        self.encoders[name] = encoder
        self.vectors[name] = self.kept.get(f"vectors-{key}", make)["vectors"].astype(np.float32)

    def shown_in(self, test: MadeTest) -> tuple[Mask, NDArray[np.int64]]:
        """Which texts this test shows, and the number of each query's answer."""
        start = self._starts[test.name]
        shown = np.zeros(len(self.texts), dtype=bool)
        shown[: self.passages] = True
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
            found = [self._nearest(vectors[encoder], encoder, shown, out, best) for encoder in by]
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
            for row, column in zip(*np.nonzero(numbers >= 0), strict=True):
                self._read[queries[row], int(numbers[row, column])] = float(scores[RERANKER][row, column])
        return numbers, scores

    def measure(self, test: MadeTest, *, best: int, by: Sequence[str], key: str) -> Candidates:
        """A test's candidates with everybody's scores. key: of the encoders and of what they may find."""
        shown, answers = self.shown_in(test)
        name = f"test-{test.name.replace(' ', '-')}-{key}"
        numbers, scores = self.candidates(name, test.queries, shown, best=best, by=by)
        return Candidates(numbers, answers, scores)

    def _nearest(
        self,
        queries: NDArray[np.float32],
        encoder: str,
        shown: Mask,
        left_out: NDArray[np.int64] | None,
        best: int,
    ) -> NDArray[np.int64]:
        device = self.encoders[encoder].device
        texts = torch.from_numpy(self.vectors[encoder]).to(device)
        hidden = torch.from_numpy(~shown).to(device)
        count = min(best, int(shown.sum()) - (left_out is not None))
        found = []
        slow = len(queries) * len(self.texts) > SHOWN_FROM
        with progress_bar("searching", len(queries), "queries", shown=self.progress and slow) as advance:
            for start in range(0, len(queries), QUERIES_AT_ONCE):
                rows = torch.from_numpy(queries[start : start + QUERIES_AT_ONCE]).to(device)
                scores = (rows @ texts.T).masked_fill(hidden, -2.0)
                if left_out is not None:
                    _hide(scores, left_out[start : start + QUERIES_AT_ONCE])
                found.append(scores.topk(count).indices.cpu().numpy())
                advance(len(rows))
        return np.concatenate(found).astype(np.int64)

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
        rows, columns = np.nonzero(numbers >= 0)
        pairs = np.stack([rows, numbers[rows, columns]], axis=1)
        known = [self._read.get((queries[row], int(number))) for row, number in pairs.tolist()]
        new = np.array([score is None for score in known], dtype=bool)
        values = np.array([score or 0.0 for score in known], dtype=np.float32)
        if self._tokens is None:
            self._tokens = self.cross.tokenise(self.texts)
        values[new] = self.cross.score(queries, self._tokens, pairs[new], progress=self.progress)
        found = np.zeros(numbers.shape, dtype=np.float32)
        found[rows, columns] = values
        return found


def _joined(parts: Sequence[NDArray[np.generic]], filling: int) -> NDArray[np.generic]:
    """Rows of parts that are not equally wide."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=filling) for part in parts]
    )


def _hide(scores: torch.Tensor, left_out: NDArray[np.int64]) -> None:
    rows = np.flatnonzero(left_out >= 0)
    scores[torch.from_numpy(rows).to(scores.device), torch.from_numpy(left_out[rows]).to(scores.device)] = -2.0
