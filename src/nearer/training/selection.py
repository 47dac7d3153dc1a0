"""The tasks by which a run is judged: dev tasks choose the step that is kept, watched ones do not, tests come last.

Dev sentences are tokenised once a run and encoded once an evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from nearer.analysis import geometry
from nearer.analysis.ratings import positive_threshold
from nearer.encoder import Encoder
from nearer.encoder.batching import Tokenised
from nearer.errors import SettingError
from nearer.evaluation import SentenceVectors, Task, load_tasks
from nearer.evaluation.held_out_task import NAME as HELD_OUT
from nearer.evaluation.held_out_task import Nearness, held_out_task, write_task
from nearer.evaluation.measures import spearman
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.evaluation.tasks import is_test, needs_data
from nearer.methods import known_methods
from nearer.text.reading import Reading
from nearer.text.reading_filters import hold_out
from nearer.training.recipes import Recipe
from nearer.training.settings import TrainingSettings


@dataclass(frozen=True)
class DevScore:
    """The mean score over the dev tasks in percent, and how their sentences lie on the sphere.

    watched: scores of tasks that choose nothing. alignment: of the pairs that count as positives; None where no task
    has such pairs.
    """

    score: float
    tasks: dict[str, float]
    uniformity: float
    alignment: float | None = None
    watched: dict[str, float] = field(default_factory=dict)


class Selection:
    """Dev tasks, read once: `select_on` choose the step that is kept, `watch_on` are scored beside them."""

    def __init__(
        self, select_on: Sequence[str | Task], data: str | Path | None, *, watch_on: Sequence[str] = ()
    ) -> None:
        for name in select_on:
            if isinstance(name, str) and is_test(name):
                raise SettingError(f"select_on: {name!r} is a test set; select on a dev set such as stsb-dev.")
        tasks = load_tasks(select_on, data)
        for task in tasks:
            if task.pairs and len({pair.score for pair in task.pairs}) < 2:
                raise SettingError(f"select_on: all gold scores of {task.name} are equal; nothing can be told by it.")
        self.selecting = len(tasks)
        tasks += load_tasks(watch_on, data) if watch_on else []
        self.sentences = list(dict.fromkeys(sentence for task in tasks for sentence in task.sentences()))
        rows = {sentence: row for row, sentence in enumerate(self.sentences)}
        self.tasks = [_Pairs(task, rows) if task.pairs else _Other(task, rows) for task in tasks]
        names = [f"{task.name} {task.split}" for task in tasks]
        self.names = _distinct([*names[: self.selecting], *(f"{name} (watched)" for name in names[self.selecting :])])
        self._tokenised: Tokenised | None = None

    def score(self, encoder: Encoder, precision: str = "float32") -> DevScore:
        if self._tokenised is None:
            self._tokenised = encoder.tokenised(self.sentences)
        vectors = encoder.encode_tokens(self._tokenised, precision=precision)
        scores = [task.score(encoder, vectors) for task in self.tasks]
        found = [score for score in scores if score is not None]
        if len(found) < len(scores):  # all vectors alike: worse than any order
            return DevScore(-100.0, {}, 0.0)
        named = list(zip(self.names, found, strict=True))
        return DevScore(
            sum(found[: self.selecting]) / self.selecting,
            dict(named[: self.selecting]),
            uniformity(vectors),
            self._alignment(vectors),
            watched=dict(named[self.selecting :]),
        )

    def _alignment(self, vectors: Tensor) -> float | None:
        """Of the positives of all tasks of pairs together."""
        distances = [task.distances(vectors) for task in self.tasks if isinstance(task, _Pairs)]
        return float(torch.cat(distances).mean()) if sum(map(len, distances)) else None


class _Pairs:
    """A task of pairs, scored on the device: where its sentences stand among all, and their gold scores."""

    def __init__(self, task: Task, rows: dict[str, int]) -> None:
        self.first = torch.tensor([rows[pair.first] for pair in task.pairs])
        self.second = torch.tensor([rows[pair.second] for pair in task.pairs])
        self.gold: NDArray[np.float64] = np.array([pair.score for pair in task.pairs], dtype=np.float64)
        self.positive = torch.from_numpy(np.flatnonzero(self.gold > positive_threshold(self.gold)))

    def distances(self, vectors: Tensor) -> Tensor:
        """‖x − y‖² of the pairs that are scored high, on the sphere (positives,)."""
        rows = self.positive.to(vectors.device)
        first, second = (normalize(vectors[side[rows]].float(), dim=-1) for side in (self.first, self.second))
        return 2 - 2 * (first * second).sum(dim=-1)

    def score(self, encoder: Encoder, vectors: Tensor) -> float | None:
        """Spearman's correlation in percent over all pairs joined, as `evaluate` has it with aggregation `all`."""
        self.first, self.second = self.first.to(vectors.device), self.second.to(vectors.device)
        # in float64: rounding must not make ties
        unit = normalize(vectors.double(), dim=-1, eps=1e-300)
        cosines = (unit[self.first] * unit[self.second]).sum(dim=-1)
        found = spearman(cosines.cpu().numpy(), self.gold)
        return None if found is None else 100 * found


class _Other:
    """A task of any other kind, which scores itself."""

    def __init__(self, task: Task, rows: dict[str, int]) -> None:
        self.task = task
        self.rows = rows

    def score(self, encoder: Encoder, vectors: Tensor) -> float | None:
        return self.task.score(encoder, SentenceVectors(self.rows, vectors.float().cpu().numpy())).score


def _distinct(names: list[str]) -> list[str]:
    """Names for the log: files in different folders may have the same."""
    return [name if names.count(name) == 1 else f"{name} {number + 1}" for number, name in enumerate(names)]


def uniformity(vectors: Tensor, most: int = 2000) -> float:
    """That of the first `most` sentences; 0 of a single one."""
    return geometry.uniformity(vectors[:most]) if len(vectors) > 1 else 0.0


@dataclass(frozen=True)
class DevTasks:
    """selection: None where nothing chooses, and the last step is kept. reading: the text that is left to train on."""

    selection: Selection | None
    reading: Reading[Any]
    remarks: list[str]
    held_out: RetrievalTask | None = None
    held_out_records: int = 0

    def write(self, folder: Path) -> None:
        """The held-out task, for other models to be scored on."""
        if self.held_out is not None and not (folder / HELD_OUT / "qrels.tsv").exists():
            write_task(self.held_out, folder / HELD_OUT)

    def describe(self) -> dict[str, Any]:
        """What a saved model should say of it."""
        if self.held_out is None:
            return {}
        task = self.held_out
        return {
            "held_out": {
                "records": self.held_out_records,
                "queries": len(task.queries),
                "asks": task.layout,
                "data_hash": task.data_hash(),
            }
        }


def dev_tasks(
    settings: TrainingSettings, data: str | None, reading: Reading[Any], folder: Path, nearness: Nearness | None = None
) -> DevTasks:
    """Made before anything is trained. The named tasks are read first: what is wrong with them shows at once.

    nearness: see `held_out_task`.
    """
    named = [name for name in settings.select_on if name != HELD_OUT]
    selection = _selection(settings, named, data) if named else None
    if HELD_OUT not in settings.select_on:
        nothing = ["no dev task (select_on is empty): the last step is kept, whatever it is worth"]
        return DevTasks(selection, reading, [] if named else nothing)
    if settings.data in ("scored", "labelled"):  # of which a record's texts need not belong together
        kind = "scored lists" if settings.data == "scored" else "labelled pairs"
        raise SettingError(
            f"select_on: nothing is held out of {kind}; name a task (--set select_on=retrieval:FOLDER), or keep "
            "the last step (--set select_on=[])."
        )
    held = hold_out(reading, settings.held_out)
    task = held_out_task(held.records, nearness)
    if task is None:
        others = "" if named else "; the last step is kept. Name a dev task of your own (--set select_on=FILE)"
        remark = (
            f"nothing is held out for a dev task: {reading.source} is too small, or its texts are too short{others}"
        )
        return DevTasks(selection, reading, [remark])
    selection = _selection(settings, [task, *named], data)
    remark = (
        f"dev task: {len(held.records):,} records held out of training, {task.layout}; {folder / HELD_OUT} has them "
        f"(nearer evaluate MODEL --tasks retrieval:{folder / HELD_OUT})"
    )
    return DevTasks(selection, held.rest, [remark], task, len(held.records))


def _selection(settings: TrainingSettings, tasks: Sequence[str | RetrievalTask], data: str | None) -> Selection:
    try:
        return Selection(tasks, data, watch_on=settings.watch_on)
    except SettingError as error:
        if data is None and error.argument == "data":
            names = ", ".join(task for task in tasks if isinstance(task, str))
            raise SettingError(
                f"select_on: {names} needs the folder of the published sets (--data DIR); or select on records held "
                f"out of your own text (--set select_on={HELD_OUT}), on a file of your own scored pairs, or on nothing "
                "(--set select_on=[])."
            ) from None
        raise


def asked_about_by(recipe: Recipe) -> str:
    """The teachers in whose order held-out sentences are asked about: other ones make another dev task."""
    teachers = known_methods()[recipe.training.method](recipe.method).followed_teachers()
    if teachers is None or HELD_OUT not in recipe.training.select_on:
        return ""
    return json.dumps(teachers.describe(), sort_keys=True)


def can_test(tasks: Sequence[str], data: str | Path | None) -> bool:
    """Whether these tasks can be had: the published sets only with their folder. Unknown names are an error."""
    need_folder = [task for task in tasks if needs_data(task)]
    return data is not None or not need_folder
