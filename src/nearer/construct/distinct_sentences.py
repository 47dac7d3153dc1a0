"""A corpus as builders look at it: each sentence once, with the row of its vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError
from nearer.teachers.vector_store import VectorStore
from nearer.text.reading import Reading


@dataclass(frozen=True)
class DistinctSentences:
    """Sentences in the order in which the corpus has them first; `repeated` more of them were equal to one before.

    rows: of each, in the vectors of the store that they were learnt with.
    """

    sentences: list[str]
    rows: NDArray[np.int64]
    repeated: int

    @classmethod
    def learn(cls, reading: Reading[str], store: VectorStore, *, progress: bool = False) -> Self:
        """Vectors that are not known yet are computed."""
        rows = store.rows(reading, progress=progress)
        _, first = np.unique(rows, return_index=True)  # equal sentences share a row, different ones never do
        is_first = np.zeros(len(rows), dtype=bool)
        is_first[first] = True
        sentences, read = [], 0
        for sentence in reading:
            if read < len(rows) and is_first[read]:
                sentences.append(sentence)
            read += 1
        if read != len(rows):
            raise InputError(f"{reading.source}: changed while it was read; run it again.")
        return cls(sentences, rows[is_first], len(rows) - len(sentences))

    def __len__(self) -> int:
        return len(self.sentences)
