"""From what was named on the command line to what the page is about: runs, runs of several seeds, models.

And what is measured of them: scores and analyses, each model loaded once and each sentence encoded once by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nearer.analysis import Analysis, Comparison, SideBySide, SpearmanPair, analyse, paired_bootstrap, side_by_side
from nearer.analysis.side_by_side import short_labels
from nearer.baselines import load_scorer
from nearer.errors import InputError, NearerError, SettingError
from nearer.evaluation import Scorer, Task, TaskScore, evaluate, load_tasks
from nearer.evaluation.held_out_task import NAME as HELD_OUT
from nearer.evaluation.sts_sets import EVERYDAY
from nearer.runs.folder import Run, is_run, read_run

# any of these makes a folder one with a model in it
MODEL_FILES = ("config.json", "modules.json", "nearer.json", "nearer_onnx.json", "static_words.json")
SWEEP = "sweep.json"
SEED = re.compile(r"seed-(\d+)")


@dataclass(frozen=True)
class Subject:
    """A run with its model, or a model alone.

    series: its number on the page, which gives it its column in tables and its colour in charts. model: what
    can be loaded, None where a run has none. group: the folder of runs that differ by their seed.
    """

    target: str
    label: str
    series: int
    run: Run | None
    model: str | None
    group: str | None = None


def read_subjects(targets: Sequence[str | Path]) -> list[Subject]:
    """Everything named, in its order; the runs of a folder of seeds one by one."""
    if not targets:
        raise SettingError("nothing named; give the folders of runs, or models.")
    named = [str(target) for target in targets]
    paths = [str(Path(name).resolve()) if Path(name).is_dir() else name for name in named]
    twice = next((name for name, path in zip(named, paths, strict=True) if paths.count(path) > 1), None)
    if twice is not None:
        raise SettingError(f"{twice}: is named twice.")
    subjects: list[Subject] = []
    for target, label in zip(named, short_labels(paths), strict=True):
        subjects += _subjects(target, label, len(subjects), alone=len(named) == 1)
    return subjects


def _subjects(target: str, label: str, series: int, *, alone: bool) -> list[Subject]:
    folder = Path(target).expanduser()
    if not folder.is_dir():
        if folder.exists() or target.startswith((".", "/", "~")):
            raise InputError(f"{target}: is not a folder; a run or a model is one.")
        return [Subject(target, label, series, None, target)]  # the name of a model
    if is_run(folder):
        return [_of_run(folder, label, series)]
    if seeds := _seeds(folder):
        return [
            _of_run(seed, seed.name if alone else f"{label}/{seed.name}", series + number, group=label)
            for number, seed in enumerate(seeds)
        ]
    if (folder / SWEEP).exists():
        raise InputError(f"{target}: is a sweep; name runs in it, such as {_example(folder)}.")
    if not any((folder / file).exists() for file in MODEL_FILES):
        raise InputError(f"{target}: is neither a run (no config.yaml) nor a model (no config.json or modules.json).")
    return [Subject(target, label, series, None, target)]


def _of_run(folder: Path, label: str, series: int, group: str | None = None) -> Subject:
    run = read_run(folder)
    return Subject(str(folder), label, series, run, None if run.model is None else str(run.model), group)


def _seeds(folder: Path) -> list[Path]:
    """The runs that differ by their seed, in the order of the seeds."""
    found = [(SEED.fullmatch(inner.name), inner) for inner in folder.iterdir() if is_run(inner)]
    return [inner for _, inner in sorted((int(match.group(1)), inner) for match, inner in found if match)]


def _example(sweep: Path) -> str:
    return str(next((found.parent for found in sorted(sweep.glob("*/*/config.yaml"))), sweep / "…"))


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
