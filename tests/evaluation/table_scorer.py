"""A scorer without a model: the vectors of all texts are given, a similarity is their dot product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nearer.encoder import EncoderSettings
from nearer.evaluation.task import SentenceVectors, Task


class TableScorer:
    name = "table"
    settings = EncoderSettings(pooling="mean", max_length=16)

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self.table = table
        self.shapes: list[tuple[int, int]] = []  # of the matrices that were asked for

    def encode(self, sentences: Sequence[str], *, batch_size: int | None, progress: bool) -> NDArray[np.float32]:
        return np.array([self.table[sentence] for sentence in sentences], dtype=np.float32)

    def pair_scores(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
        return (first * second).sum(-1).astype(np.float64)

    def score_matrix(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
        self.shapes.append((len(first), len(second)))
        # summed one by one, so that equal scores are equal to the last bit
        return np.array([[np.float32((one * two).sum()) for two in second] for one in first], dtype=np.float32)

    def vectors(self, task: Task) -> SentenceVectors:
        unique = list(dict.fromkeys(task.sentences()))
        vectors = self.encode(unique, batch_size=None, progress=False)
        return SentenceVectors({sentence: place for place, sentence in enumerate(unique)}, vectors)
