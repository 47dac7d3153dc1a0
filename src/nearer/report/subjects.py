"""From what was named on the command line to what the page is about: runs, runs of several seeds, models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearer.analysis.side_by_side import short_labels
from nearer.errors import InputError, SettingError
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
