"""Scores that carry their protocol: looking them up, averaging them, and writing them as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.errors import InputError
from nearer.evaluation.task import TaskScore
from nearer.evaluation.tasks import shown_name
from nearer.storage.sealed import write_sealed_json

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Results:
    """What an evaluation found: the scores, and everything needed to repeat it.

    Attributes:
        model: The model's folder or name.
        protocol: What holds for all tasks; what a task adds to it stands in its score.
        scores: One for each task, in the order in which they were asked for.
        sentences: How many different sentences were encoded.
        seconds: How long encoding and scoring took.
        libraries: The versions of the libraries that computed them.

    Examples:
        >>> import nearer
        >>> encoder = nearer.Encoder.load("wiki-mini", pooling="mean")
        >>> results = nearer.evaluate(encoder, ["everyday"])
        >>> round(results["everyday"], 1), results.average == results["everyday"]
        (48.3, True)
    """

    model: str
    protocol: dict[str, Any]
    scores: list[TaskScore]
    sentences: int
    seconds: float
    libraries: dict[str, str]

    @property
    def kinds(self) -> dict[str, list[TaskScore]]:
        """The scores by kind of task, both in the order in which they were asked for."""
        kinds: dict[str, list[TaskScore]] = {}
        for score in self.scores:
            kinds.setdefault(score.kind, []).append(score)
        return kinds

    @property
    def averages(self) -> dict[str, float | None]:
        """For each kind the mean over its tasks, undefined if one of them is."""
        return {kind: _mean([score.score for score in scores]) for kind, scores in self.kinds.items()}

    @property
    def average(self) -> float | None:
        """The mean over the tasks; undefined if one of them is, and over tasks of several kinds."""
        averages = list(self.averages.values())
        return averages[0] if len(averages) == 1 else None

    def __getitem__(self, task: str) -> float | None:
        """A task's figure, by its name as asked for (`stsb-dev`) or as shown (`STS-B`, `STS-B dev`).

        A kind before it tells tasks of one name apart: `sts:STS-B`.
        """
        wanted = {task.lower(), shown_name(task).lower()}
        found = [score for score in self.scores if wanted & {name.lower() for name in _names(score)}]
        if len(found) != 1:
            raise KeyError(f"{task!r} is {len(found) or 'none'} of the tasks: {', '.join(self.by_name())}")
        return found[0].score

    def by_name(self) -> dict[str, float | None]:
        """Every task's figure. Split, kind and place stand in its name only where other tasks share the rest."""
        named = {}
        names = [_names(score) for score in self.scores]
        for place, score in enumerate(self.scores):
            own = [name for form, name in enumerate(names[place]) if [each[form] for each in names].count(name) == 1]
            named[[*own, f"{names[place][-1]} {place + 1}"][0]] = score.score
        return named

    def to_dict(self) -> dict[str, Any]:
        scores = [{**asdict(score), "score": score.score} for score in self.scores]
        return {**asdict(self), "scores": scores, "average": self.average, "averages": self.averages}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def write_json(self, path: str | Path) -> None:
        try:
            write_sealed_json(Path(path), json.loads(self.to_json()))
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None

    def table(self) -> Group:
        """The figures for a terminal, with the protocol above and below."""
        from nearer.evaluation.results_table import results_table

        return results_table(self)


def _names(score: TaskScore) -> tuple[str, ...]:
    """What a task goes by, the shortest first."""
    full = f"{score.task} {score.split}"
    return score.task, full, f"{score.kind}:{score.task}", f"{score.kind}:{full}"


def _mean(values: list[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if len(defined) == len(values) else None
