"""Scoring a model on tasks of any kind, each unique sentence of all of them encoded once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nearer.errors import SettingError
from nearer.evaluation.pair_task import check_figure
from nearer.evaluation.reranking_task import READINGS
from nearer.evaluation.results import Results
from nearer.evaluation.task import Scorer, SentenceVectors, Task
from nearer.evaluation.tasks import given_tasks, load_tasks
from nearer.versions import library_versions


def evaluate(
    encoder: Scorer,
    tasks: str | Path | Task | Iterable[Any] | Mapping[str, Any] = ("sts",),
    *,
    data: str | Path | None = None,
    aggregation: str | None = None,
    correlation: str | None = None,
    reading: str | None = None,
    strict: bool = False,
    batch_size: int | None = None,
    progress: bool = False,
) -> Results:
    """Score an encoder on tasks; each unique sentence of all of them is encoded once.

    Args:
        encoder: An `Encoder`, a `RankEncoder`, or anything else with their `encode`, `pair_scores` and `score_matrix`.
        tasks: Names that `load_tasks` knows, tasks as they are, or scored pairs in memory: a list of (sentence,
            sentence, score), a data frame or a data set, by themselves, in a list of tasks, or by name, as
            {"mine": pairs}. Columns of other names: `file_task(pairs, columns=…)` makes a task of them.
        data: The folder of the published sets, for tasks of their names.
        aggregation: Of tasks made of pairs, over their subsets; None leaves it as it is, `all` unless a task says else.
        correlation: Of tasks made of pairs; None leaves it as it is, `spearman` unless a task says else.
        reading: Of reranking tasks, MTEB's v1 or v2; None leaves it as it is, `mteb-v1` unless a task says else.
        strict: What is odd in retrieval and reranking data is an error instead of being counted.
        batch_size: How many sentences pass the encoder together at most; None lets it choose.
        progress: Show a bar.

    Shapes:
        Of `score_matrix`, with vectors (first, dimension) and (second, dimension): (first, second). Of `pair_scores`,
        with two times (pairs, dimension): (pairs,).

    Examples:
        >>> import nearer
        >>> encoder = nearer.Encoder.load("wiki-mini", pooling="mean")
        >>> pairs = [("It rains.", "It is raining.", 5), ("It rains.", "He has lunch.", 0)]
        >>> nearer.evaluate(encoder, {"mine": pairs}).by_name()
        {'mine': 100.0}
    """
    check_figure("spearman" if correlation is None else correlation, "all" if aggregation is None else aggregation)
    if reading not in (None, *READINGS):
        raise SettingError(f"reading: {reading!r} is not one of {', '.join(READINGS)}.")
    given = given_tasks(tasks)
    asked = {"aggregation": aggregation, "correlation": correlation, "reading": reading}
    options = {name: value for name, value in asked.items() if value is not None}
    loaded = [task.apply_options(options) for task in load_tasks(given, data, strict=strict)]
    started = time.perf_counter()
    vectors = encode_once(encoder, loaded, batch_size=batch_size, progress=progress)
    return score_tasks(encoder, loaded, vectors, started)


def encode_once(
    encoder: Scorer, tasks: Sequence[Task], *, batch_size: int | None = None, progress: bool = False
) -> SentenceVectors:
    """The vectors of all sentences of the tasks, each unique one encoded once."""
    unique = dict.fromkeys(sentence for task in tasks for sentence in task.sentences())
    rows = {sentence: row for row, sentence in enumerate(unique)}
    return SentenceVectors(rows, encoder.encode(list(rows), batch_size=batch_size, progress=progress))


def score_tasks(encoder: Scorer, tasks: Sequence[Task], vectors: SentenceVectors, started: float) -> Results:
    """started: when the encoding began, by `time.perf_counter`."""
    scores = [task.score(encoder, vectors) for task in tasks]
    return Results(
        model=encoder.name,
        protocol=_protocol(encoder),
        scores=scores,
        sentences=len(vectors.rows),
        seconds=time.perf_counter() - started,
        libraries=library_versions(),
    )


def _protocol(encoder: Scorer) -> dict[str, Any]:
    """What holds for all tasks; a task's own part of it is in its score."""
    settings = encoder.settings
    return {
        "similarity": getattr(encoder, "scoring", "cosine"),
        "pooling": settings.pooling,
        "head": getattr(encoder, "head", None) is not None and settings.pooling != "cls_before_head",
        "max_length": settings.max_length,
        "text_normalisation": settings.text_normalisation,
        "precision": getattr(encoder, "precision", "float32"),
        **({"prompt": settings.default_prompt} if settings.prompt(None) else {}),
        **({"truncate_dim": settings.truncate_dim} if settings.truncate_dim else {}),
    }
