"""A kind of task outside the package: of three sentences, is the first nearer to the second than to the third?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from nearer.evaluation.measures import Values
from nearer.evaluation.task import Form, Scorer, SentenceVectors, Task, TaskKind, TaskScore
from nearer.text import Triplet, read_triplets

FORM = "toy:"


@dataclass(frozen=True)
class ToyTask(Task):
    kind: ClassVar[str] = "toy"

    name: str
    split: str
    layout: str
    triplets: Sequence[Triplet]

    def sentences(self) -> Iterator[str]:
        return (sentence for triplet in self.triplets for sentence in triplet)

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore:
        accuracy = 100 * float(self.per_query(model, vectors)["accuracy"].mean())
        return self.make_score(
            count=len(self.triplets), unit="triplets", measure="accuracy", figures={"accuracy": accuracy}
        )

    def per_query(self, model: Scorer, vectors: SentenceVectors) -> dict[str, Values]:
        first, second, third = (vectors.of(side) for side in zip(*self.triplets, strict=True))
        near, far = model.pair_scores(first, second), model.pair_scores(first, third)
        return {"accuracy": (near > far).astype(np.float64)}

    def data_hash(self) -> str:
        return hashlib.sha256(json.dumps(self.triplets).encode()).hexdigest()[:16]


def load_toy(name: str, data: str | Path | None, strict: bool) -> ToyTask:
    path = Path(name.removeprefix(FORM))
    return ToyTask(path.stem, "test", "file", list(read_triplets(path)))


TOY_KIND = TaskKind("toy", load_toy, forms=(Form(FORM, "FILE"),), title="Toy")
