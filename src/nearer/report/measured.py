"""Scores and analyses of all models of a page, each model loaded once and each sentence encoded once by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nearer.analysis import Analysis, Comparison, SideBySide, SpearmanPair, analyse, paired_bootstrap, side_by_side
from nearer.baselines import load_scorer
from nearer.errors import InputError, NearerError
from nearer.evaluation import Scorer, Task, TaskScore, evaluate, load_tasks
from nearer.evaluation.held_out_task import NAME as HELD_OUT
from nearer.evaluation.sts_sets import EVERYDAY
from nearer.report.subjects import Subject


@dataclass(frozen=True)
class Measured:
    """scores: of each subject, those of its run and those taken for the page. analyses, compared (one a task) and each
    task's differences from the first model: of `analysed` alone, in their order.

    remarks: what could not be done as one would expect. protocols: how each model was used, by label.
    """

    scores: list[list[TaskScore]]
    analysed: list[Subject] = field(default_factory=list)
    analyses: list[Analysis] = field(default_factory=list)
    compared: list[SideBySide] = field(default_factory=list)
    differences: list[list[Comparison | None]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    protocols: dict[str, dict[str, Any]] = field(default_factory=dict)


class EncodedOnce:
    """A model that remembers the vectors it gave: evaluation and analysis ask for the same sentences."""

    def __init__(self, model: Scorer) -> None:
        self._model = model
        self._known: dict[str, NDArray[np.float32]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, sentences: Sequence[str], *, batch_size: int | None, progress: bool) -> NDArray[np.float32]:
        new = list(dict.fromkeys(sentence for sentence in sentences if sentence not in self._known))
        if new:
            vectors = self._model.encode(new, batch_size=batch_size, progress=progress)
            self._known.update(zip(new, vectors, strict=True))
        return np.stack([self._known[sentence] for sentence in sentences])


def chosen_tasks(
    subjects: Sequence[Subject], tasks: Sequence[str | Task] | None, data: str | Path | None
) -> tuple[list[Task], list[str]]:
    """The tasks that are named; else the dev tasks of the first run, of models STS-B's dev set; else `everyday`.

    And what was in the way of them.
    """
    if tasks is not None:
        return load_tasks(list(tasks), data), []
    run = next((subject.run for subject in subjects if subject.run is not None), None)
    wanted = ["stsb-dev"] if run is None and data is not None else []
    if run is not None:
        named = run.settings.get("select_on") or []
        names = [*([named] if isinstance(named, str) else named), *(run.settings.get("watch_on") or [])]
        # what was held out has no scored pairs to look at; its curve is drawn
        wanted, data = [name for name in names if name != HELD_OUT], data or run.config.data
    try:
        found = [task for task in load_tasks(wanted, data) if _can_be_analysed(task)] if wanted else []
        lacking = "" if found or not wanted else f"{', '.join(wanted)}: no scored pairs to look at"
    except NearerError as error:
        found, lacking = [], str(error)
    if found:
        return found, []
    remark = f"The bundled {EVERYDAY} pairs (STS) are used instead of the dev tasks ({lacking.rstrip('.')})."
    return load_tasks([EVERYDAY], None), [remark] if lacking else []


def measure(
    subjects: Sequence[Subject],
    tasks: Sequence[Task],
    *,
    loaded: Mapping[str, Scorer] | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    precision: str = "float32",
    options: Mapping[str, Any] | None = None,
    corpus: Sequence[str] | None = None,
    examples: int = 3,
    progress: bool = False,
) -> Measured:
    """loaded: models that are there already, by target. options: of loading models that are not the folder of a run."""
    pairs = [task for task in tasks if _can_be_analysed(task)]
    scores: list[list[TaskScore]] = []
    protocols: dict[str, dict[str, Any]] = {}
    analysed, analyses = [], []
    for subject in subjects:
        own = list(subject.run.scores.scores) if subject.run and subject.run.scores else []
        scores.append(own)
        if subject.run and subject.run.scores:
            protocols[subject.label] = subject.run.scores.protocol
        if subject.model is None:
            continue
        found = (loaded or {}).get(subject.target)
        if found is None:
            own_options = {} if subject.run else dict(options or {})
            found = load_scorer(subject.model, device=device, precision=precision, **own_options)
        model = cast(Scorer, EncodedOnce(found))
        known = {score.data_hash for score in own}
        lacking = [task for task in tasks if task.data_hash() not in known]
        if lacking:
            taken = evaluate(model, lacking, batch_size=batch_size, progress=progress)
            own += taken.scores
            protocols[subject.label] = taken.protocol
        if pairs:
            analysed.append(subject)
            analyses.append(analyse(model, pairs, corpus=corpus, batch_size=batch_size, progress=progress))
    compared = side_by_side(analyses, examples=examples) if analyses else []
    return Measured(scores, analysed, analyses, compared, _differences(analyses), _remarks(subjects), protocols)


def _can_be_analysed(task: Task) -> bool:
    return len({pair.score for pair in task.pairs}) > 1


def _differences(analyses: Sequence[Analysis]) -> list[list[Comparison | None]]:
    """For each task and each model but the first: its difference from that one; None where it is undefined."""
    found: list[list[Comparison | None]] = []
    for same in zip(*(analysis.tasks for analysis in analyses), strict=True):
        first, *others = (task.encoded for task in same)
        row: list[Comparison | None] = []
        for other in others:
            try:
                both = SpearmanPair(other.similarities, first.similarities, first.gold, first.task.name)
                row.append(paired_bootstrap(both))
            except InputError:  # no score: said beside it
                row.append(None)
        found.append(row)
    return found


def _remarks(subjects: Sequence[Subject]) -> list[str]:
    return [
        f"{subject.label}: no model is in its folder (the run has not saved one yet, or it was removed)."
        for subject in subjects
        if subject.model is None
    ]
