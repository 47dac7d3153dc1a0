"""Everything about one model's vectors on some tasks, each sentence encoded once."""

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
from nearer.analysis.distributions import Distributions, rating_distributions
from nearer.analysis.encoded_task import EncodedTask, encode_tasks
from nearer.analysis.geometry import Geometry, measure_geometry, positives
from nearer.analysis.neighbours import NEIGHBOURS, Gain, gain_by_neighbours, shared_neighbours
from nearer.analysis.rank_space import RankSpace, compare_spaces
from nearer.analysis.rating_groups import GroupScores, in_percent, scores_by_rating
from nearer.analysis.ratings import positive_threshold
from nearer.analysis.words import word_counts
from nearer.errors import InputError
from nearer.evaluation.correlation import spearman, why_undefined
from nearer.evaluation.pair_task import PairTask
from nearer.evaluation.task import Scorer
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
        from nearer.analysis.table import analysis_table

        return analysis_table(self)


def analyse(
    model: Scorer,
    tasks: PairTask | Sequence[PairTask],
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
    tasks = [tasks] if isinstance(tasks, PairTask) else list(tasks)
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


def _check(tasks: Sequence[PairTask], threshold: float | None, corpus: list[str] | None, neighbours: int) -> None:
    if not tasks:
        raise InputError("analysis: no tasks given, at least one is needed.")
    for task in tasks:
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
    return {
        "similarity": getattr(model, "scoring", "cosine"),
        "pooling": settings.pooling,
        "max_length": settings.max_length,
        "text_normalisation": settings.text_normalisation,
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
