"""STS evaluation: cosines of sentence pairs against gold scores, no regressor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.encoder.settings import EncoderSettings
from nearer.encoder.sources import BUNDLED
from nearer.errors import SettingError
from nearer.evaluation.correlation import AGGREGATIONS, aggregate, joined, pearson, spearman, why_undefined
from nearer.evaluation.pair_task import PairTask, file_task
from nearer.evaluation.results import Results, TaskScore
from nearer.evaluation.sts_data import expand, load_sts
from nearer.evaluation.sts_sets import EVERYDAY, YEARS
from nearer.text.records import Pair
from nearer.versions import library_versions

CORRELATIONS = ("spearman", "pearson")


class Scorer(Protocol):
    """What evaluation asks of a model: vectors of sentences, and a similarity of paired rows."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> EncoderSettings: ...

    def encode(self, sentences: Sequence[str], *, batch_size: int | None, progress: bool) -> NDArray[np.float32]: ...

    def pair_scores(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]: ...


def load_tasks(tasks: Sequence[str | PairTask], data: str | Path | None) -> list[PairTask]:
    """Tasks by name: the STS sets (from the folder `data`), the bundled `everyday`, or a file of scored pairs.

    What is a task already stays as it is. A task that comes twice (`sts,stsb`) is one task.
    """
    single: list[str | PairTask] = []
    for given in tasks:
        stands_for = [given] if isinstance(given, PairTask) or _is_single(given) else expand([given])
        single += [task for task in stands_for if task not in single]
    if not single:
        raise SettingError(f"tasks: none named; sts, {EVERYDAY} or a file of scored pairs.")
    return [_load_task(task, data) for task in single]


def _load_task(name: str | PairTask, data: str | Path | None) -> PairTask:
    if isinstance(name, PairTask):
        return name
    if name == EVERYDAY:
        return file_task(BUNDLED / "everyday-pairs.tsv", name=EVERYDAY)
    if _is_file(name):
        return file_task(name)
    if data is None:
        raise SettingError(f"tasks: {name!r} needs the folder of the STS sets (--data DIR).")
    [task] = load_sts([name], data)
    return task


def _is_single(name: str) -> bool:
    return name == EVERYDAY or _is_file(name)


def _is_file(name: str) -> bool:
    return Path(name).is_file() or bool(Path(name).suffix)


def evaluate(
    encoder: Scorer,
    tasks: str | PairTask | Sequence[str | PairTask] = ("sts",),
    *,
    data: str | Path | None = None,
    aggregation: str = "all",
    correlation: str = "spearman",
    batch_size: int | None = None,
    progress: bool = False,
) -> Results:
    """Score an encoder on STS tasks. Each unique sentence of all tasks together is encoded once."""
    if aggregation not in AGGREGATIONS:
        raise SettingError(f"aggregation: {aggregation!r} is not one of {', '.join(AGGREGATIONS)}.")
    if correlation not in CORRELATIONS:
        raise SettingError(f"correlation: {correlation!r} is not one of {', '.join(CORRELATIONS)}.")
    loaded = load_tasks([tasks] if isinstance(tasks, (str, PairTask)) else tasks, data)
    _check_subsets(loaded, aggregation)
    places = {
        sentence: place
        for place, sentence in enumerate(dict.fromkeys(s for task in loaded for p in task.pairs for s in p[:2]))
    }
    started = time.perf_counter()
    vectors = encoder.encode(list(places), batch_size=batch_size, progress=progress)
    scores = [_score(encoder, task, vectors, places) for task in loaded]
    return Results(
        model=encoder.name,
        protocol=_protocol(encoder, aggregation, correlation),
        scores=scores,
        sentences=len(places),
        seconds=time.perf_counter() - started,
        libraries=library_versions(),
    )


def _check_subsets(tasks: Sequence[PairTask], aggregation: str) -> None:
    whole = [task.name for task in tasks if task.layout == "flat" and task.name in YEARS]
    if whole and aggregation != "all":
        raise SettingError(
            f"aggregation: {aggregation!r} is over a year's subsets, which {whole[0]} as fetched from the hub does not "
            "have; use 'all', or SentEval's or the raw folders."
        )


def _score(encoder: Scorer, task: PairTask, vectors: NDArray[np.float32], places: dict[str, int]) -> TaskScore:
    subsets = {name: _predicted(encoder, pairs, vectors, places) for name, pairs in task.subsets.items()}
    sides = list(subsets.values())
    spearmans, pearsons = aggregate(spearman, sides), aggregate(pearson, sides)
    return TaskScore(
        task=task.name,
        split=task.split,
        layout=task.layout,
        pairs=len(task.pairs),
        spearman={name: _percent(value) for name, value in spearmans.items()},
        pearson={name: _percent(value) for name, value in pearsons.items()},
        subsets={
            name: {
                "pairs": len(gold),
                "spearman": _percent(spearman(predicted, gold)),
                "pearson": _percent(pearson(predicted, gold)),
            }
            for name, (predicted, gold) in subsets.items()
        },
        data_hash=task.data_hash(),
        dropped=task.report.dropped if task.report else 0,
        remark=_remark(subsets),
    )


def _predicted(
    encoder: Scorer, pairs: Sequence[Pair], vectors: NDArray[np.float32], places: dict[str, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = vectors[[places[pair.first] for pair in pairs]]
    second = vectors[[places[pair.second] for pair in pairs]]
    return encoder.pair_scores(first, second), np.array([pair.score for pair in pairs], dtype=np.float64)


def _remark(subsets: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> str:
    if reason := why_undefined(*joined(list(subsets.values()))):
        return f"undefined: {reason}"
    for name, sides in subsets.items():
        if reason := why_undefined(*sides):
            return f"undefined over subsets: in {name} {reason}"
    return ""


def _protocol(encoder: Scorer, aggregation: str, correlation: str) -> dict[str, Any]:
    settings = encoder.settings
    return {
        "correlation": correlation,
        "aggregation": aggregation,
        "similarity": getattr(encoder, "scoring", "cosine"),
        "pooling": settings.pooling,
        "head": getattr(encoder, "head", None) is not None and settings.pooling != "cls_before_head",
        "max_length": settings.max_length,
        "text_normalisation": settings.text_normalisation,
        "precision": getattr(encoder, "precision", "float32"),
        **({"prompt": settings.default_prompt} if settings.default_prompt else {}),
    }


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
