"""What every task is, whatever it measures: the sentences it asks for, and its figures from their vectors.

And what every kind of task is: the names by which its tasks are asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.parts import EncoderSettings
from nearer.errors import SettingError
from nearer.evaluation.measures import Values
from nearer.text.faults import ReadReport
from nearer.text.records import Pair

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

    def __init__(self, rows: Mapping[str, int], vectors: Vectors) -> None:
        self.rows = rows
        self.vectors = vectors

    def of(self, sentences: Iterable[str]) -> Vectors:
        """Their vectors in their order (sentences, dimension)."""
        return self.vectors[[self.rows[sentence] for sentence in sentences]]


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


@dataclass(frozen=True, eq=False)
class ItemScores:
    """A task's items one by one, from which intervals are resampled (items,).

    Without `gold` the score is the mean of `values`, which are percent; not a number where an item has none. With
    `gold` it is Spearman's correlation of both.
    """

    values: Values
    gold: Values | None = None


class Task(ABC):
    """A task, read and checked: nothing is wrong with its data any more.

    A new kind of task is a subclass with `kind`, `name`, `split`, `layout`, `sentences`, `score` and `data_hash`. The
    rest has a default: override what the kind has. Names of the kind stand in a `TaskKind`.
    """

    kind: ClassVar[str]
    """Tasks of one kind are averaged, those of several never: similarity (STS) and search are different things."""
    name: str
    """As shown: STS-B, MR, WikiQA."""
    split: str
    layout: str
    """How the data lies on the disk: senteval, beir, file. Published figures are shown beside the same layout."""
    report: ReadReport | None = None
    """What was dropped when the data was read."""

    @abstractmethod
    def sentences(self) -> Iterable[str]:
        """All texts that it needs the vectors of; repetitions do no harm."""

    @abstractmethod
    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore: ...

    @abstractmethod
    def data_hash(self) -> str:
        """A digest of texts and gold: equal hashes, equal data."""

    def make_score(
        self, *, count: int, unit: str, measure: str, figures: dict[str, float | None], **more: Any
    ) -> TaskScore:
        """For `score`: the `TaskScore` of this task, with its name and data filled in. more: the other fields."""
        return TaskScore(
            task=self.name,
            kind=self.kind,
            split=self.split,
            layout=self.layout,
            count=count,
            unit=unit,
            measure=measure,
            figures=figures,
            data_hash=self.data_hash(),
            **more,
        )

    @property
    def pairs(self) -> Sequence[Pair]:
        """The scored pairs of a task whose score is the correlation with them; none for any other task.

        Such a task can be analysed, and training scores it on the device.
        """
        return ()

    def remarks(self) -> Iterable[str]:
        """What of the data does not count, or not as one would think."""
        return ()

    def apply_options(self, options: Mapping[str, str]) -> Task:
        """The task with those of the options of `evaluate` that it has: aggregation, correlation, reading."""
        return self

    def per_query(self, model: Scorer, vectors: SentenceVectors) -> dict[str, Values]:
        """Each figure of each query, as fractions; no figures where the score is not a mean over queries."""
        return {}

    def item_scores(self, measure: str, model: Scorer, vectors: SentenceVectors) -> ItemScores | None:
        """What `measure` is made of, item by item; None where there is no interval, as of a classifier's accuracy."""
        figures = self.per_query(model, vectors)
        return ItemScores(100 * figures[measure]) if measure in figures else None


@dataclass(frozen=True)
class KnownTask:
    """What is known of a task by its name alone."""

    shown: str = ""  # among the results: "STS-B dev"
    is_test: bool = False  # nothing may be selected by it
    needs_data: bool = False  # only with the folder of the published sets


@dataclass(frozen=True)
class Form:
    """Names that begin with `prefix` and go on with a file or a folder: `rerank:FILE`.

    follows: what messages call it, empty where they leave the form out. check: raises an error of what cannot follow,
    given that and the names of all tasks; None asks only that something follows.
    """

    prefix: str
    follows: str
    check: Callable[[str, Collection[str]], None] | None = None


@dataclass(frozen=True)
class TaskKind:
    """A kind of task as names ask for it; `register_kind` in `tasks` makes one known.

    load: (name, data folder or None, strict) to the task. known: single tasks; names in lower case. groups: names that
    stand for several known tasks. shown: what tables call the kind, if not `kind`. title: the heading of its scores in
    a report.
    """

    kind: str
    load: Callable[[str, str | Path | None, bool], Task]
    known: Mapping[str, KnownTask] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    forms: tuple[Form, ...] = ()
    shown: str = ""
    title: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """As messages list them; names that are written in one of the forms are left to the form."""
        return tuple(name for name in (*self.groups, *self.known) if ":" not in name)


def find_published(name: str, holds: str, data: str | Path | None) -> str | Path:
    """The folder of the published sets; that it is not named is an error. holds: what the task needs of it."""
    if data is None:
        raise SettingError(f"tasks: {name!r} needs the folder of {holds}; name it by data.", argument="data")
    beside_others = Path(data) / "senteval"  # a folder of all data has SentEval's below, beside the reranking sets
    return beside_others if beside_others.is_dir() else data
