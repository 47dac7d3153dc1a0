"""Several models on the same tasks, and whether the differences from the first of them are more than chance.

    compare([first, second], load_tasks(["sts"], data))

Items of a task (pairs, queries) are resampled together for both models, see `bootstrap`. Tasks whose items do not make
the score by themselves, as a classifier trained on folds, are compared without an interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nearer.analysis.bootstrap import Comparison, MeanPair, Method, Paired, SpearmanPair, Values, paired_bootstrap
from nearer.errors import InputError
from nearer.evaluation.evaluate import encode_once, score_tasks
from nearer.evaluation.pair_task import PairTask
from nearer.evaluation.results import Results
from nearer.evaluation.task import Scorer, SentenceVectors, Task, TaskScore


@dataclass(frozen=True)
class Difference:
    """A later model less the first, on one task or on the average of a kind; `remark` says why there is no interval."""

    kind: str
    task: str
    model: str
    against: str
    difference: float | None
    interval: Comparison | None
    remark: str = ""


@dataclass(frozen=True)
class Compared:
    """results: one for each model, in their order; differences: from the first model, task by task, then averages."""

    results: list[Results]
    differences: list[Difference]

    def to_dict(self) -> dict[str, Any]:
        return {
            "results": [results.to_dict() for results in self.results],
            "differences": [asdict(difference) for difference in self.differences],
        }


@dataclass(frozen=True, eq=False)
class _Sample:
    """What of a task can be resampled: similarities with gold scores, or figures of queries; None: neither."""

    figures: Values | None
    gold: Values | None = None


def compare(
    models: Iterable[Scorer],
    tasks: Sequence[Task],
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    method: Method = "percentile",
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool = False,
) -> Compared:
    """Score all models, of which only one is looked at at a time: a generator may load them one by one."""
    results, samples = [], []
    for model in models:
        started = time.perf_counter()
        vectors = encode_once(model, tasks, batch_size=batch_size, progress=progress)
        found = score_tasks(model, tasks, vectors, started)
        results.append(found)
        measures = [score.measure for score in found.scores]
        samples.append([_sample(*each, model, vectors) for each in zip(tasks, measures, strict=True)])
    if len(results) < 2:
        raise InputError(f"compare: {len(results)} model given, at least two are needed.")

    def bootstrap(parts: Sequence[Paired]) -> Comparison:
        return paired_bootstrap(parts, resamples=resamples, confidence=confidence, method=method, seed=seed)

    differences = []
    for later, sample in zip(results[1:], samples[1:], strict=True):
        differences += _differences(later, results[0], sample, samples[0], bootstrap)
    return Compared(results, differences)


def _differences(
    later: Results,
    first: Results,
    later_samples: list[_Sample],
    first_samples: list[_Sample],
    bootstrap: Callable[[Sequence[Paired]], Comparison],
) -> list[Difference]:
    found = []
    parts: dict[str, list[Paired | None]] = {}
    pairs_of = zip(later.scores, first.scores, later_samples, first_samples, strict=True)
    for (one, other, mine, theirs), name in zip(pairs_of, later.by_name(), strict=True):
        part, remark = _paired(one, other, mine, theirs)
        parts.setdefault(one.kind, []).append(part)
        difference = None if one.score is None or other.score is None else one.score - other.score
        interval = None if part is None else bootstrap([part])
        found.append(Difference(one.kind, name, later.model, first.model, difference, interval, remark))
    for kind, members in parts.items():
        if len(members) < 2:
            continue
        mean, base = later.averages[kind], first.averages[kind]
        whole = [part for part in members if part is not None]
        lacking = len(members) - len(whole)
        remark = f"no interval: {lacking} of its {len(members)} tasks have none" if lacking else ""
        interval = None if lacking else bootstrap(whole)
        difference = None if mean is None or base is None else mean - base
        found.append(Difference(kind, "average", later.model, first.model, difference, interval, remark))
    return found


def _sample(task: Task, measure: str, model: Scorer, vectors: SentenceVectors) -> _Sample:
    if isinstance(task, PairTask):
        if (task.correlation, task.aggregation) != ("spearman", "all"):
            return _Sample(None)
        pairs = task.pairs
        first, second = vectors.of(pair.first for pair in pairs), vectors.of(pair.second for pair in pairs)
        gold = np.array([pair.score for pair in pairs], dtype=np.float64)
        return _Sample(model.pair_scores(first, second), gold)
    per_query = getattr(task, "per_query", None)
    if per_query is None:
        return _Sample(None)
    return _Sample(100 * per_query(model, vectors)[measure])


def _paired(one: TaskScore, other: TaskScore, mine: _Sample, theirs: _Sample) -> tuple[Paired | None, str]:
    """Both models on the task's items; None with the reason where there is nothing to resample."""
    if one.score is None or other.score is None:
        return None, "no interval: " + ((one.remark if one.score is None else other.remark) or "undefined")
    if mine.figures is None or theirs.figures is None:
        return None, f"no interval: {one.measure} is not made of the {one.unit} one by one"
    if mine.gold is not None:
        return SpearmanPair(mine.figures, theirs.figures, mine.gold, one.task), ""
    # a query without a figure by one model is left out for both
    both = np.isfinite(mine.figures) & np.isfinite(theirs.figures)
    return MeanPair(mine.figures[both], theirs.figures[both], one.task), ""
