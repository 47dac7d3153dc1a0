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
from nearer.evaluation.correlation import AGGREGATIONS, aggregate, pearson, spearman
from nearer.evaluation.pair_task import PairTask, file_task
from nearer.evaluation.results import Results, TaskScore
from nearer.evaluation.sts_data import load_sts
from nearer.text.records import Pair
from nearer.versions import library_versions

CORRELATIONS = ("spearman", "pearson")
EVERYDAY = "everyday"


class Scorer(Protocol):
    """What evaluation asks of a model: vectors of sentences, and a similarity of paired rows."""

    name: str
    settings: EncoderSettings

    def encode(self, sentences: Sequence[str], *, batch_size: int, progress: bool) -> NDArray[np.float32]: ...

    def pair_scores(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]: ...


def load_tasks(names: Sequence[str], data: str | Path | None) -> list[PairTask]:
    """Tasks by name: the STS sets (from the folder `data`), the bundled `everyday`, or a file of scored pairs."""
    tasks = []
    for name in names:
        if name == EVERYDAY:
            tasks.append(file_task(BUNDLED / "everyday-pairs.tsv", name=EVERYDAY))
        elif Path(name).is_file() or Path(name).suffix:
            tasks.append(file_task(name))
        elif data is None:
            raise SettingError(f"tasks: {name!r} needs the folder of the STS sets (--data DIR).")
        else:
            tasks += load_sts([name], data)
    if not tasks:
        raise SettingError(f"tasks: none named; sts, {EVERYDAY} or a file of scored pairs.")
    return tasks


def evaluate(
    encoder: Scorer,
    tasks: Sequence[str | PairTask] = ("sts",),
    *,
    data: str | Path | None = None,
    aggregation: str = "all",
    correlation: str = "spearman",
    batch_size: int = 64,
    progress: bool = False,
) -> Results:
    """Score an encoder on STS tasks. Each unique sentence of all tasks together is encoded once."""
    if aggregation not in AGGREGATIONS:
        raise SettingError(f"aggregation: {aggregation!r} is not one of {', '.join(AGGREGATIONS)}.")
    if correlation not in CORRELATIONS:
        raise SettingError(f"correlation: {correlation!r} is not one of {', '.join(CORRELATIONS)}.")
    loaded = [task for item in tasks for task in ([item] if isinstance(item, PairTask) else load_tasks([item], data))]
    places = {
        sentence: place
        for place, sentence in enumerate(dict.fromkeys(s for task in loaded for p in task.pairs for s in p[:2]))
    }
    started = time.perf_counter()
    vectors = encoder.encode(list(places), batch_size=batch_size, progress=progress)
    scores = [_score(encoder, task, vectors, places) for task in loaded]
    return Results(
        model=encoder.name,
        protocol=_protocol(encoder.settings, aggregation, correlation),
        scores=scores,
        sentences=len(places),
        seconds=time.perf_counter() - started,
        libraries=library_versions(),
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
            name: {"pairs": len(gold), "spearman": _percent(spearman(predicted, gold))}
            for name, (predicted, gold) in subsets.items()
        },
        data_hash=task.data_hash(),
        dropped=task.report.dropped if task.report else 0,
        remark="" if spearmans["all"] is not None else _why_undefined(sides),
    )


def _predicted(
    encoder: Scorer, pairs: Sequence[Pair], vectors: NDArray[np.float32], places: dict[str, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = vectors[[places[pair.first] for pair in pairs]]
    second = vectors[[places[pair.second] for pair in pairs]]
    return encoder.pair_scores(first, second), np.array([pair.score for pair in pairs], dtype=np.float64)


def _why_undefined(sides: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> str:
    gold = np.concatenate([gold for _, gold in sides])
    return f"undefined: all {'gold scores' if np.ptp(gold) == 0 else 'similarities'} are equal"


def _protocol(settings: EncoderSettings, aggregation: str, correlation: str) -> dict[str, Any]:
    return {
        "correlation": correlation,
        "aggregation": aggregation,
        "similarity": "cosine",
        "pooling": settings.pooling,
        "max_length": settings.max_length,
        "text_normalisation": settings.text_normalisation,
        **({"prompt": settings.default_prompt} if settings.default_prompt else {}),
    }


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
