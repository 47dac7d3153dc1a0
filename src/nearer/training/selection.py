"""Keeping the best step: dev tasks evaluated during the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearer.encoder import Encoder
from nearer.encoder.encoder import unit_rows
from nearer.errors import SettingError
from nearer.evaluation import PairTask, evaluate, load_tasks
from nearer.evaluation.sts_sets import SEVEN


@dataclass(frozen=True)
class DevScore:
    """The mean score over the dev tasks in percent, and how evenly their sentences fill the sphere."""

    score: float
    tasks: dict[str, float]
    uniformity: float


class Selection:
    """Dev tasks, read once."""

    def __init__(self, names: list[str], data: str | Path | None) -> None:
        held_out = [name for name in names if name in (*SEVEN, "sts")]
        if held_out:
            raise SettingError(f"select_on: {held_out[0]!r} is a test set; select on a dev set such as stsb-dev.")
        self.tasks: list[PairTask] = load_tasks(names, data)
        self.sentences = list(dict.fromkeys(s for task in self.tasks for pair in task.pairs for s in pair[:2]))

    def score(self, encoder: Encoder) -> DevScore:
        remembering = _Remembering(encoder)
        results = evaluate(remembering, self.tasks, progress=False)
        undefined = [score.task for score in results.scores if results.main(score) is None]
        if undefined:  # all vectors alike: worse than any order
            return DevScore(-100.0, {}, 0.0)
        tasks = {f"{score.task} {score.split}": results.main(score) or 0.0 for score in results.scores}
        return DevScore(results.average or 0.0, tasks, uniformity(remembering.vectors))


class _Remembering:
    """An encoder that keeps the last vectors it gave, so that they need not be computed twice."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.settings = encoder.name, encoder.settings
        self.encoder = encoder
        self.vectors: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)
        self.pair_scores = encoder.pair_scores

    def encode(self, sentences: Sequence[str], *, batch_size: int | None, progress: bool) -> NDArray[np.float32]:
        self.vectors = self.encoder.encode(sentences, batch_size=batch_size, progress=progress)
        return self.vectors


def uniformity(vectors: NDArray[np.float32], most: int = 2000) -> float:
    """log E exp(−2 ‖x − y‖²) over pairs of distinct sentences (SimCSE, Eq. 3); 0 when all are alike."""
    unit = unit_rows(vectors[:most].astype(np.float64))
    squared = np.clip(2 - 2 * unit @ unit.T, 0, None)
    pairs = squared[np.triu_indices(len(unit), k=1)]
    return float(np.log(np.exp(-2 * pairs).mean())) if len(pairs) else 0.0
