"""BM25 over texts by `bm25s`: which texts share rare words with a query. Knows no vectors.

    lexical.json   what it is: how many texts and terms
    terms.txt      the terms, one a line, by their number
    data.npy, indices.npy, indptr.npy
                   for each term the texts that have it, and what it adds to their score

Terms of most texts say nothing of any and are left out: so there is no list of stop words, and no language is assumed.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nearer.errors import DamagedError, InputError, SettingError, first_line
from nearer.extras import require
from nearer.search.fusion import NONE
from nearer.search.words import find_words
from nearer.storage.checksums import check_folder
from nearer.storage.sealed import read_sealed, write_sealed_json
from nearer.storage.whole import whole_folder
from nearer.terminal import progress_bar
from nearer.typed_files import FileFacts

FACTS, TERMS = "lexical.json", "terms.txt"
ARRAYS = {"data": np.float32, "indices": np.int32, "indptr": np.int64}
FORMAT = 1
# Terms of more texts than this are left out. docs/search.md has what it was chosen by.
MOST_TEXTS = 0.5
# of fewer texts, a share says nothing
FEWEST_TEXTS = 100
BACK = "build it anew"

Numbers = NDArray[np.int64]
Scores = NDArray[np.float32]


class LexicalFacts(FileFacts):
    format: int = Field(ge=FORMAT, le=FORMAT)
    texts: int = Field(ge=0)
    terms: int = Field(ge=0)


class _Postings(NamedTuple):
    """Of term t, texts `indices[indptr[t]:indptr[t + 1]]` and what it adds to their scores, in `data`."""

    data: NDArray[np.float32]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]


class LexicalIndex:
    """BM25 (Lucene's form, k1 1.5, b 0.75) over texts that are known by their numbers. Any number of threads may ask.

    Examples:
        >>> from nearer.search.lexical import LexicalIndex
        >>> index = LexicalIndex.build(["A man eats pasta.", "It rains.", "Rain on pasta?"])
        >>> numbers, scores = index.top(["rains"], 2)
        >>> numbers.tolist()
        [[1, -1]]
    """

    def __init__(self, terms: dict[str, int], postings: _Postings, texts: int) -> None:
        self._terms = terms
        self._postings = postings
        self._texts = texts

    @classmethod
    def build(cls, texts: Iterable[str], *, progress: bool = False) -> LexicalIndex:
        library = load_bm25s()
        vocabulary: dict[str, int] = {}
        rows: list[array[int]] = []  # of a list each number takes twice the memory
        counts: Counter[int] = Counter()
        with progress_bar("reading words", None, "texts", shown=progress) as advance:
            for number, text in enumerate(texts):
                if not isinstance(text, str):
                    raise InputError(f"texts: item {number} is {type(text).__name__}, a string is needed.")
                rows.append(array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in find_words(text)]))
                counts.update(set(rows[-1]))
                advance()
        most = MOST_TEXTS * len(rows) if len(rows) >= FEWEST_TEXTS else len(rows)
        kept = [word for word, number in vocabulary.items() if counts[number] <= most]
        terms = {word: number for number, word in enumerate(kept)}
        if not terms:
            empty = _Postings(np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(1, np.int64))
            return cls({}, empty, len(rows))
        renumbered = {vocabulary[word]: number for word, number in terms.items()}
        for at, row in enumerate(rows):
            rows[at] = array("i", [renumbered[number] for number in row if number in renumbered])
        scorer = library.BM25()
        scorer.index((rows, terms), create_empty_token=False, show_progress=False)
        made = {name: np.asarray(scorer.scores[name], dtype=dtype) for name, dtype in ARRAYS.items()}
        return cls(terms, _Postings(**made), len(rows))

    def __len__(self) -> int:
        """How many texts it has."""
        return self._texts

    def top(self, queries: Sequence[str], k: int) -> tuple[Numbers, Scores]:
        """The k best texts of each query, equal ones by their number; −1 with score 0 where no more has a word of it.

        Shapes:
            Returns numbers (queries, k) and scores (queries, k).
        """
        if k < 1:
            raise SettingError(f"k: {k} is below 1.")
        numbers = np.full((len(queries), k), NONE, dtype=np.int64)
        found = np.zeros((len(queries), k), dtype=np.float32)
        for row, query in enumerate(queries):
            scores = self._score_all(query)
            there = np.flatnonzero(scores > 0)
            if len(there) > k:  # only those that can be among the best are sorted
                there = there[scores[there] >= np.partition(scores[there], -k)[-k]]
            best = there[np.argsort(-scores[there], kind="stable")][:k]
            numbers[row, : len(best)], found[row, : len(best)] = best, scores[best]
        return numbers, found

    def scores(self, queries: Sequence[str], candidates: NDArray[Any]) -> Scores:
        """The scores of these texts; 0 where no word is shared, and for −1.

        Shapes:
            candidates: (queries, k). Returns (queries, k).
        """
        given = np.asarray(candidates)
        if given.ndim != 2 or len(given) != len(queries):
            raise InputError(f"candidates: have shape {given.shape}, ({len(queries)}, k) is needed.")
        if given.size and not (given.min() >= NONE and given.max() < self._texts):
            raise InputError(
                f"candidates: are numbers from −1 to {self._texts - 1}, {given.min()} to {given.max()} given."
            )
        found = np.zeros(given.shape, dtype=np.float32)
        for row, query in enumerate(queries):
            there = given[row] >= 0
            if there.any():
                found[row, there] = self._score_all(query)[given[row, there]]
        return found

    @cached_property
    def _scorer(self) -> Any:
        """Made when it is first asked: who only opens an index does not need the package."""
        scorer = load_bm25s().BM25()
        scorer.scores = {**self._postings._asdict(), "num_docs": self._texts}
        scorer.nonoccurrence_array = None
        return scorer

    def _score_all(self, query: str) -> Scores:
        words = [self._terms[word] for word in find_words(query) if word in self._terms]
        if not words:
            return np.zeros(self._texts, dtype=np.float32)
        scores: Scores = self._scorer.get_scores_from_ids(words)
        return scores

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write it as a folder, whole and with checksums."""
        with whole_folder(Path(folder), overwrite=overwrite) as built:
            (built / TERMS).write_text("".join(f"{term}\n" for term in self._terms), encoding="utf-8", newline="\n")
            for name, array in self._postings._asdict().items():
                np.save(built / f"{name}.npy", array, allow_pickle=False)
            facts = LexicalFacts(format=FORMAT, texts=self._texts, terms=len(self._terms))
            write_sealed_json(built / FACTS, facts.model_dump())

    @classmethod
    def load(cls, folder: str | Path, *, back: str = BACK) -> LexicalIndex:
        """Map what `save` wrote, once it is known to be that. back: what to do where there is damage."""
        path = Path(folder)
        if not (path / FACTS).is_file():
            raise InputError(f"{path}: is no lexical index (no {FACTS} in it); {back}.")
        check_folder(path, back)
        facts = read_sealed(path / FACTS, LexicalFacts, mend=back)
        try:
            arrays = {name: np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
            names = (path / TERMS).read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, ValueError) as error:
            raise DamagedError(f"{path}: cannot be read ({first_line(error)}); {back}.") from None
        postings = _Postings(**{name: np.asarray(array) for name, array in arrays.items()})
        if not _fit(postings, names, facts):
            raise DamagedError(f"{path}: its files do not fit each other; {back}.")
        return cls({term: number for number, term in enumerate(names)}, postings, facts.texts)


def _fit(postings: _Postings, names: list[str], facts: LexicalFacts) -> bool:
    data, indices, indptr = postings
    arrays: list[NDArray[Any]] = [data, indices, indptr]
    return (
        all(array.dtype == dtype and array.ndim == 1 for array, dtype in zip(arrays, ARRAYS.values(), strict=True))
        and len(names) == len(set(names)) == facts.terms == len(indptr) - 1
        and len(data) == len(indices) == indptr[-1]
        and indptr[0] == 0
        and bool((np.diff(indptr) >= 0).all())
        and (not len(indices) or (int(indices.min()) >= 0 and int(indices.max()) < facts.texts))
    )


def load_bm25s() -> Any:
    """The package, without jax: bm25s tries it when it is imported, and jax then takes most of a GPU's memory."""
    hidden = "bm25s" not in sys.modules and "jax" not in sys.modules
    if hidden:
        sys.modules["jax"] = None  # type: ignore[assignment]  # so an import of it fails, and bm25s takes numpy
    try:
        return require("bm25s", "search", "searching by words (BM25)")
    finally:
        if hidden:
            sys.modules.pop("jax", None)
