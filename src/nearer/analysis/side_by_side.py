"""Several models on the same tasks: where they lie, how they score by rating, and where their rankings differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from nearer.analysis.analyse import Analysis, TaskAnalysis
from nearer.analysis.examples import RankingExample, ranking_examples
from nearer.analysis.path import PathPoint
from nearer.analysis.rating_groups import GroupScores, scores_by_rating
from nearer.errors import InputError


@dataclass(frozen=True)
class SideBySide:
    """One task. examples: empty where no sentence has enough partners, with the reason in `remark`."""

    task: str
    split: str
    points: tuple[PathPoint, ...]
    rating_scores: tuple[GroupScores, ...]
    examples: tuple[RankingExample, ...]
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def side_by_side(analyses: Sequence[Analysis], *, examples: int = 3) -> list[SideBySide]:
    """The models' analyses task by task; they must be of the same tasks. One model alone will do."""
    if not analyses:
        raise InputError("analyses: none given, at least one is needed.")
    labels = short_labels([analysis.model for analysis in analyses])
    for analysis in analyses[1:]:
        for first, other in zip(analyses[0].tasks, analysis.tasks, strict=False):
            if first.encoded.pairs != other.encoded.pairs:
                raise InputError(f"{analysis.model}: {other.task} is not the task that {analyses[0].model} was given.")
        if len(analysis.tasks) != len(analyses[0].tasks):
            raise InputError(f"{analysis.model}: {len(analysis.tasks)} tasks, {analyses[0].model} has another number.")
    return [
        _compared(dict(zip(labels, same, strict=True)), examples)
        for same in zip(*(analysis.tasks for analysis in analyses), strict=True)
    ]


def _compared(tasks: dict[str, TaskAnalysis], count: int) -> SideBySide:
    one = next(iter(tasks.values()))
    similarities = {label: task.encoded.similarities for label, task in tasks.items()}
    remark, found = "", []
    try:
        found = ranking_examples(one.encoded.task, similarities, count=count)
    except InputError as error:
        remark = str(error)
    return SideBySide(
        task=one.task,
        split=one.split,
        points=tuple(
            PathPoint(label, task.geometry.alignment, task.geometry.uniformity, task.score)
            for label, task in tasks.items()
        ),
        rating_scores=scores_by_rating(similarities, one.encoded.gold),
        examples=tuple(found),
        remark=remark,
    )


def short_labels(names: Sequence[str]) -> list[str]:
    """As few of the last parts of each path as tell all apart; the same name twice gets numbers."""
    parts = [PurePath(name).parts or (name,) for name in names]
    for depth in range(1, max(len(some) for some in parts) + 1):
        labels = ["/".join(some[-depth:]) for some in parts]
        if len(set(labels)) == len(set(names)) and not (depth == 1 and "model" in labels):
            break
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: place + 1].count(label)}"
        for place, label in enumerate(labels)
    ]
