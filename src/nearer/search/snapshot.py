"""One state of an index' files: what is nearest in it to a query, as hits, and the part of a hit that is shown."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError
from nearer.search.fusion import NONE
from nearer.search.lexical import LexicalIndex
from nearer.search.manifest import Manifest, read_manifest
from nearer.search.nearest_neighbours import MARGIN, Rows, Structure, Vectors, find_nearest_rows, score_rows
from nearer.search.removal import open_removed
from nearer.search.row_store import StoredRows
from nearer.search.words_part import open_words

# Of what is shown of a hit
CHARACTERS = 200
SENTENCES = re.compile(r"(?<=[.!?…。！？])\s+")
WORDS = re.compile(r"\w+")
SHORT = 3  # words of up to so many letters are in every text


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence, or a passage of a document, that was found.

    Attributes:
        text: The sentence or passage.
        score: What hits are ordered by: the cosine, unless they were reranked.
        cosine: That of its vector with the query's.
        row: Its row in the search index, from 0.
        line: The line of `source` that it comes from, from 1.
        source: The file or data set that it comes from.
        id: That of its document; None if it has none.
        document: The number of its document in the search index, from 0.
        passage: Which of the document's passages it is, from 1.
        passages: How many passages its document has.

    Examples:
        >>> import nearer
        >>> texts = ["A man is eating.", "It rains."]
        >>> index = nearer.SearchIndex.build("wiki-mini", texts, "texts.index", pooling="mean")
        >>> [hit] = index.search("Rain is falling.", k=1)
        >>> hit.text, hit.row, hit.line
        ('It rains.', 1, 2)
    """

    text: str
    score: float
    cosine: float
    row: int
    line: int
    source: str
    id: str | None = None
    document: int = 0
    passage: int = 1
    passages: int = 1


class Snapshot:
    """One state of an index' files. It never changes, and any number of threads may look at it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self.stored = StoredRows(folder, manifest.extent, manifest.dimension, manifest.way_back, format=manifest.format)
        self._documents, self._ids = self.stored.documents, self.stored.ids  # of format 1, each row is one
        self._removed = open_removed(folder, manifest)
        self.structure = Structure.open(folder, manifest, change=False)
        self._lexical = open_words(folder, manifest)
        self._first_rows = [source.first_row for source in manifest.sources]

    @cached_property
    def rows(self) -> Rows:
        """Those that were not removed or replaced."""
        return np.setdiff1d(np.arange(self.manifest.count), self._removed, assume_unique=True)

    @cached_property
    def document_count(self) -> int:
        """Documents that were not removed or replaced."""
        if self._documents is None or self.manifest.passages is None:
            return len(self.rows)
        return len(np.unique(self._documents[self.rows]))

    def nearest(
        self, queries: Vectors, k: int, exact: bool, *, all_passages: bool = False
    ) -> list[tuple[Rows, NDArray[np.float64]]]:
        """Rows and cosines of the k nearest to each query, or of all if there are fewer; of each document the nearest
        row, or with `all_passages` any number of them."""
        grouped = not all_passages and self.manifest.passages is not None
        k = min(k, self.document_count if grouped else len(self.rows))
        asked = k + (len(self._removed) if len(self._removed) < MARGIN else 0)
        found: list[tuple[Rows, NDArray[np.float64]] | None] = [None] * len(queries)
        left = np.arange(len(queries))
        # removed rows and a document's other passages are among what is found: ask for more until k are left
        while len(left):
            everything = asked >= self.manifest.count
            for number, (rows, cosines) in zip(left.tolist(), self._proposed(queries[left], asked, exact), strict=True):
                kept = self.kept(rows, grouped)[:k]
                if len(kept) >= k or everything:
                    found[number] = rows[kept], cosines[kept]
            left = np.array([number for number in left.tolist() if found[number] is None], dtype=np.int64)
            asked *= 4
        return [one for one in found if one is not None]

    def best_by_words(self, texts: Sequence[str], k: int, *, all_passages: bool = False) -> Rows:
        """The k best rows of each query by BM25 (queries, k), −1 filling; of each document one, as in `nearest`."""
        lexical = self._need_words()
        grouped = not all_passages and self.manifest.passages is not None
        found = np.full((len(texts), k), NONE, dtype=np.int64)
        left, asked = np.arange(len(texts)), k
        while len(left):
            numbers, _ = lexical.top([texts[number] for number in left.tolist()], min(asked, max(1, len(self.rows))))
            again = []
            for number, row in zip(left.tolist(), numbers, strict=True):
                there = self.rows[row[row >= 0]]
                kept = there[self.kept(there, grouped)][:k]
                found[number, : len(kept)] = kept
                if len(kept) < k and len(there) == len(row) < len(self.rows):
                    again.append(number)
            left, asked = np.array(again, dtype=np.int64), asked * 4
        return found

    def score_words(self, texts: Sequence[str], rows: Rows) -> NDArray[np.float64]:
        """BM25 of these rows (queries, candidates), −1 filling."""
        numbers = np.where(rows >= 0, np.searchsorted(self.rows, rows), NONE)
        return self._need_words().scores(texts, numbers).astype(np.float64)

    def cosines(self, queries: Vectors, rows: Rows) -> NDArray[np.float64]:
        """Of each query with its rows (queries, candidates); 0 for −1."""
        found = np.zeros(rows.shape, dtype=np.float64)
        for number, query in enumerate(queries.astype(np.float64)):
            there = rows[number] >= 0
            vectors = self.stored.vectors_of(rows[number, there]).astype(np.float64)
            found[number, there] = (vectors * query).sum(axis=-1)
        return found

    def _need_words(self) -> LexicalIndex:
        if self._lexical is None:
            raise InputError(
                "lexical_weight: the index has no BM25 beside its vectors; build it anew with a lexical weight above 0."
            )
        return self._lexical

    def kept(self, rows: Rows, grouped: bool) -> Rows:
        """Indices into `rows` of those that are there and, if grouped, the first of their document."""
        kept = np.arange(len(rows))
        if len(self._removed):
            kept = kept[~np.isin(rows, self._removed)]
        if grouped and self._documents is not None:
            _, firsts = np.unique(self._documents[rows[kept]], return_index=True)
            kept = kept[np.sort(firsts)]
        return kept

    def _proposed(self, queries: Vectors, k: int, exact: bool) -> list[tuple[Rows, NDArray[np.float64]]]:
        """Rows and cosines of the k nearest rows to each query, or of all rows if there are fewer."""
        k = min(k, self.manifest.count)
        asked = min(k + MARGIN, self.manifest.count)
        if self.structure is None or self.manifest.structure is None or exact:
            proposed = find_nearest_rows(self.stored.vectors, queries, asked)
        else:
            proposed = self.structure.propose(queries, asked, self.manifest.structure.effort)
            # where the lists that were looked at have fewer than k: all are looked at
            short = (proposed >= 0).sum(axis=1) < k
            if short.any():
                proposed[short] = find_nearest_rows(self.stored.vectors, queries[short], asked)
        look_up = self.stored.vectors_of
        return [score_rows(look_up, query, rows[rows >= 0], k) for query, rows in zip(queries, proposed, strict=True)]

    def hits(self, rows: Rows, scores: NDArray[np.float64], cosines: NDArray[np.float64]) -> list[Hit]:
        """Those rows, each with the score and the cosine at its index."""
        triples = zip(rows.tolist(), scores.tolist(), cosines.tolist(), strict=False)
        return [self.hit(*triple) for triple in triples]

    def hit(self, row: int, score: float, cosine: float) -> Hit:
        line, source = self.origin(row)
        if self._documents is None or self._ids is None:
            return Hit(self.stored.texts[row], score, cosine, row, line, source, document=row)
        id, document = self._ids[row] or None, int(self._documents[row])
        first = int(np.searchsorted(self._documents, document))
        end = int(np.searchsorted(self._documents, document, "right"))
        text = self.stored.texts[row]
        return Hit(text, score, cosine, row, line, source, id, document, row - first + 1, end - first)

    def origin(self, row: int) -> tuple[int, str]:
        """The line that a sentence comes from, and its file or data set."""
        source = self.manifest.sources[bisect_right(self._first_rows, row) - 1].source
        return int(self.stored.lines[row]), source


def open_snapshot(folder: Path) -> Snapshot:
    manifest = read_manifest(folder)
    while True:
        snapshot: Snapshot | InputError
        try:
            snapshot = Snapshot(folder, manifest)
        except InputError as error:
            snapshot = error
        newer = read_manifest(folder)
        if newer == manifest:
            break
        # an addition was finished just now, and took away what the older one spoke of; or all was built anew
        manifest = newer
    if isinstance(snapshot, InputError):
        raise snapshot
    return snapshot


def cut_snippet(text: str, query: str, characters: int = CHARACTERS) -> str:
    """The sentences that share the most words with the query, and what follows them, in about so many characters.

    Without a shared word it is the text's beginning. What is left out is shown by `…`.
    """
    text = " ".join(text.split())
    if len(text) <= characters:
        return text
    wanted = _words(query)
    start, most, position = 0, (0, 0), 0
    for sentence in SENTENCES.split(text):
        begin = text.index(sentence, position)
        position = begin + len(sentence)
        shared = len(wanted & _words(sentence)), len(wanted & _words(text[begin : begin + characters]))
        if shared > most:
            start, most = begin, shared
    start = min(start, max(0, len(text) - characters))
    start = start if start == 0 or text[start - 1] == " " else text.rfind(" ", 0, start) + 1
    end = start + characters
    if end < len(text):
        end = max(text.rfind(" ", start, end + 1), start) if " " in text[start : end + 1] else end
    return ("… " if start else "") + text[start:end].strip() + (" …" if end < len(text) else "")


def _words(text: str) -> set[str]:
    """In lower case, by their first letters: `wings` is a `wing`."""
    return {word[:6] for word in WORDS.findall(text.lower()) if len(word) > SHORT}
