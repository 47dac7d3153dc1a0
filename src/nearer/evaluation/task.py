"""What every task is, whatever it measures: the sentences it asks for, and its figures from their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.parts import EncoderSettings

Vectors = NDArray[np.float32]


class Scorer(Protocol):
    """What evaluation asks of a model: vectors of sentences, and similarities of them."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> EncoderSettings: ...

    def encode(self, sentences: Sequence[str], *, batch_size: int | None, progress: bool) -> Vectors: ...

    def pair_scores(self, first: Vectors, second: Vectors) -> NDArray[np.float64]:
        """Each row of `first` with the same row of `second`."""

    def score_matrix(self, first: Vectors, second: Vectors) -> NDArray[np.float32]:
        """All pairs (first, second)."""


class SentenceVectors:
    """The vectors of the sentences of all tasks of an evaluation, each sentence encoded once."""

    def __init__(self, places: Mapping[str, int], vectors: Vectors) -> None:
        self.places = places
        self.vectors = vectors

    def of(self, sentences: Iterable[str]) -> Vectors:
        """Their vectors in their order (sentences, dimension)."""
        return self.vectors[[self.places[sentence] for sentence in sentences]]


# as tables write it: similarity (STS) and search (retrieval) are different things, and are never averaged
KIND_NAMES = {"sts": "STS"}


@dataclass(frozen=True)
class TaskScore:
    """One task's figures in percent; None where one is undefined, with the reason in `remark`.

    `measure` names the figure that stands for the task. `protocol` says how this task was scored beyond what holds
    for the whole evaluation; `details` holds what lies behind the figures (subsets, folds, chosen strengths).
    """

    task: str
    kind: str  # "sts", "ranking", "reranking", "retrieval", "transfer": tasks of one kind are averaged
    split: str
    layout: str
    count: int
    unit: str  # what is counted: "pairs", "queries", "sentences"
    measure: str
    figures: dict[str, float | None]
    data_hash: str
    protocol: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    dropped: int = 0
    remark: str = ""

    @property
    def score(self) -> float | None:
        return self.figures[self.measure]


class Task(Protocol):
    """A task, read and checked: nothing is wrong with its data any more."""

    @property
    def name(self) -> str:
        """As shown: STS-B, MR, WikiQA."""

    @property
    def split(self) -> str: ...

    def sentences(self) -> Iterable[str]:
        """All texts that it needs the vectors of; repetitions do no harm."""

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore: ...

    def data_hash(self) -> str:
        """A digest of texts and gold: equal hashes, equal data."""
