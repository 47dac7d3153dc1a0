"""One run of a league: trained or gone on with, and, where its setting was chosen, scored on the tests.

OUT/BACKBONE/METHOD/temperature=0.05/seed-0   a run folder, with
    sweep-run.json                            how far it has come, its dev score
    cost.json                                 what a step took
    scores.json, items.npz                    the tests' figures, and what they are made of, item by item
"""

from __future__ import annotations

import io
import shutil
import time
import traceback
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearer.errors import NearerError, SettingError
from nearer.evaluation import load_tasks
from nearer.evaluation.evaluate import Results, encode_once, score_tasks
from nearer.evaluation.task import ItemScores, Task
from nearer.leagues.entries import Outside
from nearer.model_notes import read_notes
from nearer.runs.folder import read_scores
from nearer.storage.sealed import read_sealed, sealed_bytes, unsealed_bytes, write_sealed_json
from nearer.storage.whole import whole_file, write_whole
from nearer.sweeps.grid import PlannedRun
from nearer.sweeps.results import SweepRun, record
from nearer.sweeps.sweep import carry_out
from nearer.teachers import load_model
from nearer.training.recipes import check_recipe
from nearer.typed_files import FileFacts

SCORES, ITEMS, COST, FAILURE = "scores.json", "items.npz", "cost.json", "failure.txt"


@dataclass(frozen=True)
class Job:
    """A run to be done, in this process or in a worker: nothing but what both can read.

    recipe: the file that holds all settings; tests: the tasks to score the finished model on, none for a trial.
    """

    run: SweepRun
    label: str
    recipe: Path
    settings: dict[str, Any]
    corpus: str
    columns: list[str] | None
    reading: dict[str, Any]
    data: str | None
    tests: tuple[str, ...]
    outside: Outside | None

    @property
    def plan(self) -> PlannedRun:
        return PlannedRun(self.run.point, self.run.seed, check_recipe(self.settings, self.recipe.stem))


class Cost(FileFacts):
    """step_seconds: without evaluations and compiling; peak_memory: bytes on the GPU, None without one."""

    step_seconds: float | None = None
    peak_memory: int | None = None
    machine: str = ""


def do_job(job: Job, *, progress: bool = False) -> SweepRun:
    """Whatever goes wrong in a method is noted as its failure, and is no other method's."""
    if job.outside is not None:
        job.outside.register()
    run = job.run
    if run.state != "finished":
        arguments: dict[str, Any] = {"recipe": job.recipe, "corpus": job.corpus, "columns": job.columns}
        arguments |= {"reading": job.reading, "data": job.data, "progress": progress}
        (run.folder / FAILURE).unlink(missing_ok=True)
        run = carry_out(run, job.plan, arguments, must_run=False, failures=(Exception,))
    if run.state == "finished":
        try:
            note_cost(run.folder)
            if job.tests:
                score_run(run.folder, load_tasks(job.tests, job.data))
        except Exception as error:
            write_whole(run.folder / FAILURE, traceback.format_exc())
            reason = str(error) if isinstance(error, NearerError) else f"{type(error).__name__}: {error}"
            return replace(run, state="failed", reason=f"cannot be scored: {' '.join(reason.split())}")
    return run


def note_cost(folder: Path) -> None:
    """What the model's notes say of its training: they go with the model, the figures stay."""
    notes = read_notes(folder / "model")
    if notes is None or (folder / COST).exists():
        return
    noted = notes.provenance.model_dump()
    write_sealed_json(folder / COST, {name: noted.get(name) for name in Cost.model_fields})


def read_cost(folder: Path) -> Cost:
    if not (folder / COST).exists():
        return Cost()
    return read_sealed(folder / COST, Cost, error=SettingError, mend="remove it; the cost is then not shown")


def score_run(folder: Path, tasks: Sequence[Task]) -> None:
    """Scores of the finished model, unless they are there for the same data."""
    if is_scored(folder, data_hashes(tasks)):
        return
    model = load_model(folder / "model")
    started = time.perf_counter()
    vectors = encode_once(model, tasks)
    found = score_tasks(model, tasks, vectors, started)
    scored = zip(tasks, found.scores, strict=True)
    items = [task.item_scores(score.measure, model, vectors) for task, score in scored]
    write_items(folder / ITEMS, items)
    found.write_json(folder / SCORES)  # last: with it, both are there


def data_hashes(tasks: Sequence[Task]) -> list[str]:
    return [task.data_hash() for task in tasks]


def is_scored(folder: Path, hashes: Sequence[str]) -> bool:
    """Whether a run has met these tests. hashes: of their data."""
    if not (folder / SCORES).exists() or not (folder / ITEMS).exists():
        return False
    return [score.data_hash for score in read_scores(folder / SCORES).scores] == list(hashes)


def write_items(path: Path, items: Sequence[ItemScores | None]) -> None:
    """Arrays by the task's number; a task without items has none."""
    arrays: dict[str, Any] = {}
    for number, found in enumerate(items):
        if found is not None:
            arrays[f"{number}.values"] = found.values
            if found.gold is not None:
                arrays[f"{number}.gold"] = found.gold
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    with whole_file(path) as half:
        half.write_bytes(sealed_bytes(content.getvalue()))


def read_items(path: Path, tasks: int) -> list[ItemScores | None]:
    try:
        with np.load(io.BytesIO(unsealed_bytes(path.read_bytes())), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise SettingError(f"{path}: cannot be read ({error}); remove it, and the model is scored anew.") from None
    return [_items(found, number) for number in range(tasks)]


def _items(found: Mapping[str, Any], number: int) -> ItemScores | None:
    values = found.get(f"{number}.values")
    return None if values is None else ItemScores(values, found.get(f"{number}.gold"))


def read_results(folder: Path) -> Results:
    """The tests' figures of a run, by the names of `Results.by_name`."""
    file = read_scores(folder / SCORES)
    return Results("", file.protocol, list(file.scores), 0, 0.0, {})


def start_anew(run: SweepRun, plan: PlannedRun) -> SweepRun:
    """A finished run whose model was removed, and is needed again."""
    shutil.rmtree(run.folder, ignore_errors=True)
    fresh = SweepRun(run.point, run.seed, run.folder)
    record(fresh, plan)
    return fresh
