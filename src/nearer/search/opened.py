"""An index' files as they are at one moment, and what is nearest in them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError
from nearer.search.exact import MARGIN, Rows, Vectors, best, nearest_rows
from nearer.search.manifest import Manifest, read_manifest
from nearer.search.rows import open_lines, open_vectors
from nearer.search.structure import Structure
from nearer.search.texts import TextStore


@dataclass(frozen=True, slots=True)
class Hit:
    """A sentence that was found. score: by what hits are ordered: the cosine, unless they were reranked.

    line: of `source`, the file it comes from; row: its place in the index.
    """

    text: str
    score: float
    cosine: float
    row: int
    line: int
    source: str


class Opened:
    """One state of an index' files. It never changes, and any number of threads may look at it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self.texts = TextStore(folder, manifest.count, manifest.text_bytes)
        self.vectors = open_vectors(folder, manifest.count, manifest.dimension)
        self._lines = open_lines(folder, manifest.count)
        self.structure: Structure | None = None
        if (made := manifest.structure) is not None:
            self.structure = Structure.open(
                folder / made.file,
                manifest.kind,
                size=made.size,
                count=manifest.count,
                dimension=manifest.dimension,
                groups=made.groups,
                change=False,
            )
        self._first_rows = [source.first_row for source in manifest.sources]

    def nearest(self, queries: Vectors, k: int, exact: bool) -> list[tuple[Rows, NDArray[np.float64]]]:
        """Rows and cosines of the k nearest to each query, or of all rows if there are fewer."""
        k = min(k, len(self.texts))
        asked = min(k + MARGIN, len(self.texts))
        if self.structure is None or self.manifest.structure is None or exact:
            proposed = nearest_rows(self.vectors, queries, asked)
        else:
            proposed = self.structure.propose(queries, asked, self.manifest.structure.effort)
            # where the lists that were looked at have fewer than k: all are looked at
            short = (proposed >= 0).sum(axis=1) < k
            if short.any():
                proposed[short] = nearest_rows(self.vectors, queries[short], asked)
        return [best(self.vectors, query, rows[rows >= 0], k) for query, rows in zip(queries, proposed, strict=True)]

    def hit(self, row: int, score: float, cosine: float) -> Hit:
        return Hit(self.texts[row], score, cosine, row, *self.origin(row))

    def origin(self, row: int) -> tuple[int, str]:
        """The line that a sentence comes from, and its file or data set."""
        source = self.manifest.sources[bisect_right(self._first_rows, row) - 1].source
        return int(self._lines[row]), source


def open_files(folder: Path) -> Opened:
    manifest = read_manifest(folder)
    while True:
        try:
            return Opened(folder, manifest)
        except InputError:
            newer = read_manifest(folder)
            if newer == manifest:
                raise
            manifest = newer  # an addition was finished just now, and took away what the older one spoke of
