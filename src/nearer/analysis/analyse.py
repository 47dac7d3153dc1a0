"""Everything about one model's vectors on some tasks, each sentence encoded once; as JSON and for a terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.bias import RANDOM_PAIRS, FrequencyBias, PairBias, frequency_bias, length_bias, overlap_bias
from nearer.analysis.encoded_task import EncodedTask, encode_tasks
from nearer.analysis.geometry import Geometry, measure_geometry, positives
from nearer.analysis.rank_space import (
    NEIGHBOURS,
    Gain,
    RankSpace,
    compare_spaces,
    gain_by_neighbours,
    shared_neighbours,
)
from nearer.analysis.ratings import (
    Distributions,
    GroupScores,
    in_percent,
    positive_threshold,
    rating_distributions,
    scores_by_rating,
)
from nearer.analysis.words import word_counts
from nearer.errors import InputError
from nearer.evaluation.measures import spearman, why_undefined
from nearer.evaluation.task import Scorer, Task
from nearer.storage.whole import write_whole
from nearer.versions import library_versions

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, eq=False)
class TaskAnalysis:
    """One task. score: Spearman's in percent; None where something is undefined, with the reason in `remarks`.

    rank_space, rank_scores, gain: only with a corpus. encoded: what all of it was computed from.
    """

    task: str
    split: str
    score: float | None
    geometry: Geometry
    distributions: Distributions
    length: PairBias
    overlap: PairBias
    frequency: FrequencyBias
    rank_space: RankSpace | None
    rank_scores: tuple[GroupScores, ...]
    gain: Gain | None
    remarks: tuple[str, ...]
    encoded: EncodedTask

    @property
    def shown(self) -> str:
        """`STS-B dev`, and `STS-B` for the test set."""
        return self.task if self.split in ("file", "test") else f"{self.task} {self.split}"

    def to_dict(self) -> dict[str, Any]:
        ranks = self.rank_space
        return {
            "task": self.task,
            "split": self.split,
            "pairs": len(self.encoded.pairs),
            "score": self.score,
            "geometry": asdict(self.geometry),
            "distributions": asdict(self.distributions),
            "length_bias": asdict(self.length),
            "overlap_bias": asdict(self.overlap),
            "frequency_bias": asdict(self.frequency),
            "rank_space": None
            if ranks is None
            else {
                "base": asdict(ranks.base),
                "ranks": asdict(ranks.ranks),
                "agreement": ranks.agreement,
                "corpus": ranks.corpus,
                "approximate": ranks.approximate,
            },
            "rank_scores": [asdict(group) for group in self.rank_scores],
            "gain": None if self.gain is None else asdict(self.gain),
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, eq=False)
class Analysis:
    """One model on all tasks, with what is needed to repeat it."""

    model: str
    protocol: dict[str, Any]
    tasks: tuple[TaskAnalysis, ...]
    libraries: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Fit for JSON: what is undefined is None, never NaN."""
        return {
            "model": self.model,
            "protocol": self.protocol,
            "tasks": [task.to_dict() for task in self.tasks],
            "libraries": self.libraries,
        }

    def table(self) -> Group:
        """The figures for a terminal."""
        return analysis_table(self)


def analyse(
    model: Scorer,
    tasks: Task | Sequence[Task],
    *,
    corpus: Sequence[str] | None = None,
    threshold: float | None = None,
    random_pairs: int = RANDOM_PAIRS,
    neighbours: int = NEIGHBOURS,
    approximate: bool = False,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> Analysis:
    """Geometry, distributions and biases of a model; with a corpus its rank-vector space and shared neighbours too.

    corpus: sentences to rank and to count word frequencies in, which are otherwise counted in the tasks' own text.
    threshold: pairs scored above it are positives; if none is, that is an error. None for four fifths of each task's
    scale (4 of 5), and a task without such pairs has no alignment. approximate: rank vectors from the covariance.
    """
    tasks = [tasks] if isinstance(tasks, Task) else list(tasks)
    distinct = None if corpus is None else list(dict.fromkeys(corpus))
    _check(tasks, threshold, distinct, neighbours)  # what can be known before anything is encoded
    encoded = encode_tasks(model, tasks, batch_size=batch_size, progress=progress)
    beside = None
    if corpus is not None and distinct is not None:
        vectors = model.encode(distinct, batch_size=batch_size, progress=progress)
        beside = _Corpus(vectors, word_counts(corpus), neighbours, approximate)
    analysed = tuple(_analysed(task, threshold, beside, random_pairs, seed) for task in encoded)
    protocol = {**_protocol(model), "threshold": threshold, "random_pairs": random_pairs, "seed": seed}
    return Analysis(model.name, protocol, analysed, library_versions())


@dataclass(frozen=True, eq=False)
class _Corpus:
    """vectors: of its distinct sentences; counts: of the words of all."""

    vectors: NDArray[np.float32]
    counts: Counter[str]
    neighbours: int
    approximate: bool


def _check(tasks: Sequence[Task], threshold: float | None, corpus: list[str] | None, neighbours: int) -> None:
    if not tasks:
        raise InputError("analysis: no tasks given, at least one is needed.")
    for task in tasks:
        if not task.pairs:
            raise InputError(
                f"{task.name}: has no scored pairs, which an analysis needs; name a task such as stsb-dev."
            )
        gold = np.array([pair.score for pair in task.pairs], dtype=np.float64)
        if gold.min() == gold.max():
            raise InputError(f"{task.name}: all gold scores are {gold[0]:g}, there is no order; name another task.")
        if threshold is not None:
            positives(gold, threshold)
    if corpus is not None and len(corpus) < max(2, neighbours):
        least = max(2, neighbours)
        raise InputError(
            f"corpus: {len(corpus):,} different sentences, {least:,} are needed; give more text or ask for fewer "
            "neighbours."
        )


def _analysed(
    task: EncodedTask, threshold: float | None, corpus: _Corpus | None, random_pairs: int, seed: int
) -> TaskAnalysis:
    above = positive_threshold(task.gold) if threshold is None else threshold
    shape = measure_geometry(task.vectors, task.first, task.second, task.gold, threshold=above)
    ranks, scores, gain = (None, (), None) if corpus is None else _beside_corpus(task, corpus, above)
    return TaskAnalysis(
        task=task.task.name,
        split=task.task.split,
        score=in_percent(spearman(task.similarities, task.gold)),
        geometry=shape,
        distributions=rating_distributions(task.similarities, task.gold),
        length=length_bias(task, pairs=random_pairs, seed=seed),
        overlap=overlap_bias(task, pairs=random_pairs, seed=seed),
        frequency=frequency_bias(task.sentences, task.vectors, None if corpus is None else corpus.counts),
        rank_space=ranks,
        rank_scores=scores,
        gain=gain,
        remarks=tuple(_remarks(task, shape)),
        encoded=task,
    )


def _beside_corpus(
    task: EncodedTask, corpus: _Corpus, threshold: float
) -> tuple[RankSpace, tuple[GroupScores, ...], Gain | None]:
    rows = (task.vectors, task.first, task.second)
    ranks = compare_spaces(*rows, task.gold, corpus.vectors, threshold=threshold, approximate=corpus.approximate)
    shared = shared_neighbours(*rows, corpus.vectors, neighbours=corpus.neighbours)
    groups = scores_by_rating({"vectors": ranks.cosines, "rank vectors": ranks.correlations}, task.gold)
    if ranks.cosines.min() == ranks.cosines.max():
        return ranks, groups, None
    gain = gain_by_neighbours(
        ranks.cosines, ranks.correlations, task.gold, shared, neighbours=corpus.neighbours, corpus=ranks.corpus
    )
    return ranks, groups, gain


def _remarks(task: EncodedTask, shape: Geometry) -> list[str]:
    remarks = []
    if reason := why_undefined(task.similarities, task.gold):
        remarks.append(f"score undefined: {reason}")
    if shape.alignment is None:
        remarks.append(f"alignment undefined: no pair is scored above {shape.threshold:g}")
    without_direction = int((~task.vectors.any(axis=1)).sum())
    if without_direction:
        remarks.append(f"{without_direction:,} of {len(task.vectors):,} vectors are zero: orthogonal to all")
    return remarks


def _protocol(model: Scorer) -> dict[str, Any]:
    settings = model.settings
    template = getattr(settings, "template", None)  # static words have none
    return {
        "similarity": getattr(model, "scoring", "cosine"),
        "pooling": settings.pooling,
        "max_length": settings.max_length,
        "text_normalisation": settings.text_normalisation,
        **({} if template is None else {"template": template.text}),
        "precision": getattr(model, "precision", "float32"),
    }


def write_analyses(analyses: Sequence[Analysis], path: str | Path, **more: Any) -> None:
    """All models in one JSON file, and what else is given."""
    text = json.dumps(
        {"models": [analysis.to_dict() for analysis in analyses], **more}, indent=2, ensure_ascii=False, allow_nan=False
    )
    try:
        write_whole(Path(path), text + "\n", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from None


COLUMNS = ("task", "score", "align", "uniform", "cosine", "rank", "length", "words", "freq.")


def analysis_table(analysis: Analysis) -> Group:
    """A row a task; the caption says what the columns are."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if number else "left")
    for task in analysis.tasks:
        shape = task.geometry
        table.add_row(
            Text(task.shown),
            *map(_shown, (task.score, shape.alignment, shape.uniformity, shape.anisotropy)),
            f"{shape.effective_rank:.0f}",
            *map(_shown, (task.length.partial, task.overlap.partial, task.frequency.with_cosine)),
        )
    lines = [Text(f"{task.shown}: {remark}") for task in analysis.tasks for remark in task.remarks]
    lines += [Text(f"{task.shown}: {_ranks(task)}") for task in analysis.tasks if task.rank_space is not None]
    return Group(Text(analysis.model, style="italic"), table, *lines, Text(_caption(analysis), style="dim"))


def _caption(analysis: Analysis) -> str:
    facts = [f"{name} {value}" for name, value in analysis.protocol.items() if value is not None]
    return (
        "score: Spearman × 100; align, uniform: lower is better; cosine: mean over all pairs; rank: effective rank; "
        "length, words: Spearman of similarity with length difference and shared words, gold held fixed; freq.: of "
        f"mean cosine with word frequency\n{', '.join(facts)}"
    )


def _ranks(task: TaskAnalysis) -> str:
    found = task.rank_space
    assert found is not None
    base, ranks = found.base, found.ranks
    return (
        f"vectors → rank vectors over {found.corpus:,} sentences: score {_shown(base.score)} → {_shown(ranks.score)}, "
        f"alignment {_shown(base.alignment)} → {_shown(ranks.alignment)}, "
        f"uniformity {_shown(base.uniformity)} → {_shown(ranks.uniformity)}"
    )


def _shown(figure: float | None) -> str:
    return "–" if figure is None else f"{round(figure, 2) + 0.0:.2f}"  # no minus before 0.00
