"""A run's folder as files: `config.yaml`, `metrics.jsonl`, `scores.json`, `model/`. Training's code is not asked.

A run that is under way, was interrupted or lost its model is a run all the same; what it lacks is said on the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nearer.errors import InputError, first_line
from nearer.evaluation.task import TaskScore
from nearer.model_notes import NOTES_FILE, read_notes
from nearer.runs.config import CONFIG, RunConfig
from nearer.storage.checksums import check_folder
from nearer.storage.sealed import sealed_content, unsealed_line
from nearer.typed_files import as_typed

METRICS, SCORES, MODEL = "metrics.jsonl", "scores.json", "model"
BEST = "checkpoints/best-*"  # the best weights so far, as a model, until the run ends; the newest counts
NEEDED = ("recipe", "settings", "corpus")


@dataclass(frozen=True)
class Run:
    """One run. config: what it was started with; provenance: what its model says of how it was made, empty without."""

    folder: Path
    config: RunConfig
    metrics: MetricsLog
    scores: ScoreFile | None
    provenance: dict[str, Any]

    @property
    def recipe(self) -> str:
        return self.config.recipe

    @property
    def settings(self) -> dict[str, Any]:
        return self.config.settings

    def noted(self, name: str) -> Any:
        """What only some runs note, with their model or in their config: `seconds`, `machine`; None without."""
        return self.provenance.get(name, getattr(self.config, name, None))

    @property
    def seconds(self) -> float | None:
        found = self.noted("seconds")
        return float(found) if isinstance(found, int | float) else None

    @property
    def finished(self) -> bool:
        return (self.folder / MODEL).is_dir()

    @property
    def model(self) -> Path | None:
        """The finished model, or the best so far; None where neither was written, or was removed."""
        best = sorted(self.folder.glob(BEST), reverse=True)
        return next((path for path in (self.folder / MODEL, *best) if path.is_dir()), None)

    @property
    def best(self) -> tuple[int, float] | None:
        """The step that was kept and its dev score: the first of the highest."""
        steps, scores = self.metrics.series("dev")
        highest = max(zip(scores, [-step for step in steps], strict=True), default=None)
        return None if highest is None else (-highest[1], highest[0])


def is_run(folder: Path) -> bool:
    """Whether a folder was begun as a run, whole or not."""
    return (folder / CONFIG).is_file() or (folder / METRICS).is_file()


def read_run(folder: Path) -> Run:
    """Everything that is in a run's folder, checked."""
    return Run(
        folder=folder,
        config=_config(folder),
        metrics=read_metrics(folder / METRICS),
        scores=read_scores(folder / SCORES) if (folder / SCORES).exists() else None,
        provenance=_provenance(folder / MODEL),
    )


def _config(folder: Path) -> RunConfig:
    path = folder / CONFIG
    if not path.exists():
        raise InputError(f"{folder}: is not a whole run (no {CONFIG}); was it copied in part?")
    facts = sealed_content(path)
    lacking = [name for name in NEEDED if not isinstance(facts, dict) or facts.get(name) is None]
    if lacking:
        raise InputError(f"{path}: is not that of a run (no {', '.join(lacking)}).")
    if not isinstance(facts["settings"], dict):
        raise InputError(f"{path}: settings are not a list of `setting: value` lines.")
    return as_typed(RunConfig, facts, str(path))


def _provenance(model: Path) -> dict[str, Any]:
    check_folder(model, "the run has to be finished anew", only=(NOTES_FILE,))
    notes = read_notes(model)
    return {} if notes is None else notes.provenance.model_dump(exclude_unset=True)


class Line(NamedTuple):
    step: int
    values: dict[str, float]


class Fault(NamedTuple):
    """A line that could not be used: its number in the file, and why."""

    number: int
    reason: str


@dataclass(frozen=True)
class MetricsLog:
    """Every line of the file is among `lines` or among `faults`."""

    path: Path
    lines: tuple[Line, ...]
    faults: tuple[Fault, ...]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for line in self.lines for name in line.values))

    @property
    def last_step(self) -> int:
        return max((line.step for line in self.lines), default=0)

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """The steps at which a figure was noted, and its values."""
        noted = [line for line in self.lines if name in line.values]
        return [line.step for line in noted], [line.values[name] for line in noted]


def read_metrics(path: Path) -> MetricsLog:
    """All lines of the file; none where it does not exist yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return MetricsLog(path, (), ())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    rows = content.split(b"\n")
    whole, rest = rows[:-1], rows[-1]
    lines, faults = [], []
    for number, row in enumerate(whole, start=1):
        found = _line(row)
        if isinstance(found, Line):
            lines.append(found)
        else:
            faults.append(Fault(number, found))
    if rest:
        faults.append(Fault(len(whole) + 1, "not written to its end"))
    return MetricsLog(path, tuple(lines), tuple(faults))


def _line(row: bytes) -> Line | str:
    """The line, or what is wrong with it."""
    try:
        values = unsealed_line(row)
    except ValueError as error:
        return first_line(error)
    if type(values.get("step")) is not int:
        return "no step"
    figures = {name: value for name, value in values.items() if name != "step"}
    wrong = [name for name, value in figures.items() if not _is_number(value)]
    if wrong:
        return f"{wrong[0]} is not a number"
    return Line(values["step"], {name: float(value) for name, value in figures.items()})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


SCORE_FIELDS = ("task", "kind", "split", "layout", "count", "unit", "measure", "figures", "data_hash")
WORDS = ("task", "kind", "split", "layout", "unit", "measure", "data_hash")


@dataclass(frozen=True)
class ScoreFile:
    """scores: one a task; protocol: what holds for all of them."""

    scores: tuple[TaskScore, ...]
    protocol: dict[str, Any]


def read_scores(path: Path) -> ScoreFile:
    mend = "write it anew with `nearer evaluate … --json`, or remove it"
    content = sealed_content(path, mend=mend)
    if not isinstance(content, dict) or not isinstance(content.get("scores"), list):
        raise InputError(f"{path}: holds no scores; {mend}.")
    scores = tuple(_score(values, path, number) for number, values in enumerate(content["scores"], start=1))
    protocol = content.get("protocol")
    return ScoreFile(scores, dict(protocol) if isinstance(protocol, dict) else {})


def _score(values: Any, path: Path, number: int) -> TaskScore:
    given = values if isinstance(values, dict) else {}
    lacking = [name for name in SCORE_FIELDS if name not in given]
    lacking += [name for name in WORDS if name in given and not isinstance(given[name], str)]
    lacking += [] if type(given.get("count")) is int else ["count"]
    figures = given.get("figures")
    if not lacking and not (isinstance(figures, dict) and given["measure"] in figures and _all_figures(figures)):
        lacking = ["figures"]
    if lacking:
        raise InputError(f"{path}: score {number} has no usable {lacking[0]}; was it written by another version?")
    return as_typed(TaskScore, given, f"{path}: score {number}")


def _all_figures(figures: dict[str, Any]) -> bool:
    return all(value is None or (isinstance(value, int | float) and value == value) for value in figures.values())
