"""A seeded sample of an index' sentences: what the map shows and the geometry measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nearer.search import SearchIndex

MOST = 2000
SEED = 0


@dataclass(frozen=True)
class IndexSample:
    """Distinct sentences in the order of the index; vectors: of length 1 (sentences, dimension).

    rows: where they stand in the index; lines, sources: where they come from, of files the name alone. of: sentences
    of the whole index.
    """

    rows: NDArray[np.int64]
    texts: list[str]
    lines: list[int]
    sources: list[str]
    vectors: NDArray[np.float32]
    of: int

    def __len__(self) -> int:
        return len(self.texts)


def sample_index(index: SearchIndex, most: int = MOST, seed: int = SEED) -> IndexSample:
    """Equal sentences are taken once: they would be one point, and no model tells them apart."""
    rows = index.rows
    count = len(rows)
    if count > most:
        rows = rows[np.sort(np.random.default_rng(seed).choice(count, most, replace=False))]
    first: dict[str, int] = {}
    for row in rows.tolist():
        first.setdefault(index.texts[row], row)
    kept = np.array(list(first.values()), dtype=np.int64)
    origins = [index.origin(row) for row in first.values()]
    return IndexSample(
        rows=kept,
        texts=list(first),
        lines=[line for line, _ in origins],
        sources=[PurePath(source).name for _, source in origins],
        vectors=np.ascontiguousarray(index.vectors_of(kept)),
        of=count,
    )
