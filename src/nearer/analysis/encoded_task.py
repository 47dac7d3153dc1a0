"""A task as one model sees it: the vectors of its sentences, and the similarity of each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError
from nearer.evaluation.task import Scorer, Task
from nearer.text.records import Pair


@dataclass(frozen=True, eq=False)
class EncodedTask:
    """vectors: (sentences, dimension), each distinct sentence once; first, second: their rows for each pair.

    similarities: the model's own of each pair, which is the cosine unless the model says otherwise.
    """

    task: Task
    sentences: list[str]
    vectors: NDArray[np.float32]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    gold: NDArray[np.float64]
    similarities: NDArray[np.float64]

    @property
    def pairs(self) -> Sequence[Pair]:
        return self.task.pairs


def encode_tasks(
    model: Scorer, tasks: Sequence[Task], *, batch_size: int | None = None, progress: bool = False
) -> list[EncodedTask]:
    """Each distinct sentence of all tasks together is encoded once."""
    all_sentences = _distinct([pair for task in tasks for pair in task.pairs])
    vectors = model.encode(all_sentences, batch_size=batch_size, progress=progress)
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise InputError(
            f"{model.name}: {len(broken):,} of {len(vectors):,} sentences get vectors that are not finite numbers "
            f"(the first: {all_sentences[broken[0]][:40]!r}); load another checkpoint."
        )
    row_of = {sentence: row for row, sentence in enumerate(all_sentences)}
    return [_encoded(model, task, vectors, row_of) for task in tasks]


def _encoded(model: Scorer, task: Task, vectors: NDArray[np.float32], row_of: dict[str, int]) -> EncodedTask:
    pairs = task.pairs
    sentences = _distinct(pairs)
    own = {sentence: row for row, sentence in enumerate(sentences)}
    rows = vectors[[row_of[sentence] for sentence in sentences]]
    first = np.array([own[pair.first] for pair in pairs], dtype=np.int64)
    second = np.array([own[pair.second] for pair in pairs], dtype=np.int64)
    return EncodedTask(
        task=task,
        sentences=sentences,
        vectors=rows,
        first=first,
        second=second,
        gold=np.array([pair.score for pair in pairs], dtype=np.float64),
        similarities=model.pair_scores(rows[first], rows[second]),
    )


def _distinct(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(sentence for pair in pairs for sentence in pair[:2]))
