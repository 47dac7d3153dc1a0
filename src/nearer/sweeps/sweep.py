"""Sweeps: a recipe at every point of a grid of settings, with every seed, in one folder that can be gone on with.

out/sweep.json                                    what is swept
out/learning_rate=2e-05,temperature=0.05/seed-0   a run, with its figures in sweep-run.json
out/construct/low=0.1,negatives=3                 data that was built for runs, where construction is swept
out/results.json, results.csv, heat-map.png       what was found
"""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from nearer.encoder import Encoder
from nearer.errors import MissingExtraError, NearerError, SettingError, TrainingError, first_line
from nearer.evaluation import load_tasks
from nearer.evaluation.held_out_task import NAME as HELD_OUT
from nearer.runs.config import CONFIG
from nearer.sweeps.builds import Builds
from nearer.sweeps.construction import BOTH_NAME, names_of_both
from nearer.sweeps.grid import PlannedRun, plan_runs, point_name
from nearer.sweeps.heat_map import draw
from nearer.sweeps.results import SweepPoint, SweepResult, SweepRun, check_folder, find_runs, open_folder, record, tidy
from nearer.text import read_sentences
from nearer.text.scored_lists import read_as
from nearer.training.corpus import read_options
from nearer.training.loop import Interrupted
from nearer.training.recipes import Recipe
from nearer.training.run import TrainedModel, resume, train
from nearer.training.selection import Selection, asked_about_by, can_test
from nearer.training.settings import TrainingSettings
from nearer.training.starting_encoder import LOADED_BY, load_checkpoint


class SweepStopped(KeyboardInterrupt):
    """The user asked to stop; what was reached is kept."""


def sweep(
    recipe: str | Path,
    corpus: str | Path,
    grid: Mapping[str, Sequence[Any]],
    seeds: Sequence[int] = (0,),
    out: str | Path | None = None,
    *,
    model: str | Path | None = None,
    teachers: Sequence[str | Path] | None = None,
    data: str | Path | None = None,
    columns: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
    keep_models: bool = False,
    say: Callable[[str], None] = lambda message: None,
    progress: bool = False,
) -> SweepResult:
    """Train by a recipe at every point of a grid with every seed.

    Called again with the same `out` it goes on: finished runs are kept, interrupted and failed ones resumed, points
    and seeds may be added. A failed run is noted and the others go on.

    Args:
        recipe: A recipe's name, or a YAML file.
        corpus: A file.
        grid: The values to try, by the name of the setting; `construct.low` and so on are settings of construction
            (debiased samples), and `corpus` is then plain text.
        seeds: The seeds that every point is trained with.
        out: The sweep's folder; None makes one below `runs`.
        model: As for `train`.
        teachers: As for `train`.
        data: As for `train`.
        columns: As for `train`.
        settings: As for `train`: what is the same at all points.
        reading: As for `train`.
        keep_models: Keep the models of all points; else those of the best point (by mean dev score) alone.
        say: Is told what is done, a line a run.
        progress: Show a bar.

    Examples:
        >>> import nearer, pathlib
        >>> things = ("boat", "horse", "kettle", "garden")
        >>> text = [f"The {one} is near the {other}.\\n" for one in things for other in things]
        >>> written = pathlib.Path("mine.txt").write_text("".join(text))
        >>> quick = {"max_steps": 1, "batch_size": 4, "held_out": 4, "test_on": [], "watch_on": []}
        >>> found = nearer.sweep("simcse-wiki-mini", "mine.txt", {"temperature": [0.05, 0.1]}, settings=quick)
        >>> len(found.points)
        2
    """
    fixed = dict(settings or {})
    if model is not None:
        fixed["model"] = str(model)
    if teachers:
        fixed["teachers"] = [str(teacher) for teacher in teachers]
    understood, planned = plan_runs(recipe, grid, seeds, fixed)
    texts = _check_sources(planned, corpus, columns, reading, data)
    constructs = planned[0].construction is not None
    name = planned[0].recipe.name
    swept = {"seed", *understood, *(names_of_both() if BOTH_NAME in understood else ())}
    folder = Path(out) if out is not None else Path("runs") / f"{name}-sweep"
    facts: dict[str, Any] = {
        "recipe": name,
        "corpus": str(corpus),
        "texts": texts,
        "data": None if data is None else str(Path(data).resolve()),
        "settings": {key: value for key, value in planned[0].settings.items() if key not in swept},
        "grid": understood,
        "seeds": list(seeds),
        "keep_models": keep_models,
    }
    check_folder(folder)
    lock = FileLock(folder / ".sweep.lock", timeout=0)
    try:
        with lock:
            facts = open_folder(folder, facts)
            arguments: dict[str, Any] = {"recipe": recipe, "corpus": corpus, "data": data, "columns": columns}
            arguments |= {"reading": reading, "progress": progress}
            builds = Builds(folder, corpus, _sentence_options(columns, reading), say) if constructs else None
            runs = _all_runs(folder, planned, arguments, facts, say, builds)
            return _concluded(_result(folder, facts, runs), keep_models=facts["keep_models"])
    except Timeout:
        raise SettingError(f"{folder}: another sweep is running there; wait for it, or name another --out.") from None


def _check_sources(
    planned: Sequence[PlannedRun],
    corpus: str | Path,
    columns: Sequence[str] | None,
    reading_options: Mapping[str, Any] | None,
    data: str | Path | None,
) -> dict[str, str]:
    """Everything the runs will read is there; returns a digest of the text for each way it is read."""
    check_one_process("a sweep", "use `nearer train` for each point")
    every = [run.recipe.training for run in planned]
    recipes = {(run.recipe.training.data, run.recipe.training.duplicates): run.recipe for run in planned}
    texts = {}
    if planned[0].construction is not None:
        texts["sentences to construct from"] = _check_construction(planned, corpus, columns, reading_options)
        recipes = {}
    for (kind, duplicates), recipe in recipes.items():
        texts[f"{kind}, duplicates {duplicates}"] = text_digest(recipe, corpus, columns, reading_options)
    for dev in dict.fromkeys(tuple(each.select_on) for each in every):
        check_dev_tasks(dev, data)
    for tests in dict.fromkeys(tuple(each.test_on) for each in every):
        if tests and can_test(tests, data):  # else runs do without test scores
            load_tasks(tests, data)
    if len({asked_about_by(run.recipe) for run in planned}) > 1:
        raise SettingError(
            f"select_on: {HELD_OUT} sentences are asked about in the teachers' order, and the points have different "
            "teachers; name a dev task that is the same for all."
        )
    check_models(every)
    return texts


def check_one_process(what: str, instead: str) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SettingError(f"{what} trains in one process; under torchrun, {instead}.")


def text_digest(
    recipe: Recipe, corpus: str | Path, columns: Sequence[str] | None, reading_options: Mapping[str, Any] | None
) -> str:
    """Of the text as a recipe reads it; what cannot be read, or holds no record, is an error."""
    reading = read_as(recipe.training.data, corpus, read_options(recipe, columns, reading_options))
    next(iter(reading), None)
    reading.report.check_kept()
    return reading.fingerprint()


def check_dev_tasks(names: Sequence[str], data: str | Path | None) -> None:
    if not names:
        raise SettingError("select_on: is empty, so no dev score would tell the points apart; name a dev task.")
    if named := [name for name in names if name != HELD_OUT]:
        Selection(named, data)


def check_models(every: Sequence[TrainingSettings]) -> None:
    """That each checkpoint can be loaded, as the runs will load it."""
    different = {(each.model, *(getattr(each, name) for name in LOADED_BY)): each for each in every}
    for settings in different.values():
        load_checkpoint(settings, torch.device("cpu"))


def _sentence_options(columns: Sequence[str] | None, reading: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**(reading or {}), **({} if columns is None else {"columns": columns})}


def _check_construction(
    planned: Sequence[PlannedRun],
    corpus: str | Path,
    columns: Sequence[str] | None,
    reading_options: Mapping[str, Any] | None,
) -> str:
    """The text and the encoders that data is built from; returns the text's digest."""
    for run in planned:
        if run.recipe.training.data != "debiased":
            raise SettingError(
                f"construct: builds debiased samples, and {run.recipe.name} learns from {run.recipe.training.data}; "
                "take a recipe of debcse."
            )
    reading = read_sentences(corpus, **_sentence_options(columns, reading_options))
    next(iter(reading), None)
    reading.report.check_kept()
    plans = [run.construction for run in planned if run.construction is not None]
    for model, pooling in dict.fromkeys((plan.model, plan.pooling) for plan in plans):
        Encoder.load(model, pooling=pooling, device="cpu")
    return reading.fingerprint()


def _all_runs(
    folder: Path,
    planned: Sequence[PlannedRun],
    arguments: dict[str, Any],
    facts: dict[str, Any],
    say: Callable[[str], None],
    builds: Builds | None = None,
) -> list[SweepRun]:
    runs, others = find_runs(folder, planned)
    if others:
        say(f"{others} earlier runs in {folder} are not of this grid and stay as they are")
    for number, plan in enumerate(planned):
        label = f"{number + 1} of {len(runs)}: {point_name(plan.point)}, seed {plan.seed}"
        run = runs[number]
        if run.state == "finished":
            say(f"{label}: done before, dev {run.dev:.2f}")
            continue
        say(f"{label}: goes on" if (run.folder / CONFIG).exists() else label)
        try:
            must_run = not any(each.state == "finished" for each in runs)
            runs[number] = carry_out(run, plan, arguments, builds=builds, must_run=must_run)
        except KeyboardInterrupt as stop:
            step = f" after its step {stop.step}" if isinstance(stop, Interrupted) else ""
            raise SweepStopped(
                f"stopped in run {number + 1} of {len(runs)}{step}; the same command goes on from there"
            ) from None
        if runs[number].state == "failed":
            say(f"failed: {runs[number].reason}")
        result = _result(folder, facts, runs)
        result.write()
        tidy(result.points, keep_models=facts["keep_models"])
    return runs


def carry_out(
    run: SweepRun,
    plan: PlannedRun,
    arguments: dict[str, Any],
    *,
    must_run: bool,
    builds: Builds | None = None,
    failures: tuple[type[Exception], ...] = (NearerError, torch.OutOfMemoryError),
) -> SweepRun:
    """The run, begun or gone on with, finished or failed; its record in its folder says so.

    arguments: for `train`, without settings and folder. must_run: a mistake is raised, since what stops the first run
    would stop all. builds: where a point's data is built, if any is. failures: what is noted as the reason why a run
    failed.
    """
    began = time.perf_counter()

    def noted(**figures: Any) -> SweepRun:
        noted = replace(run, **{"seconds": run.seconds + time.perf_counter() - began, "reason": "", **figures})
        record(noted, plan)
        return noted

    begun = (run.folder / CONFIG).exists()
    noted(state="started")
    try:
        if begun:
            trained = resume(run.folder, progress=arguments["progress"])
        else:
            given = dict(arguments)
            if builds is not None and plan.construction is not None:  # what is built has columns of its own
                data = builds.data(plan.construction, progress=arguments["progress"])
                given |= {"corpus": data, "columns": None}
            trained = train(**given, settings=plan.recipe.to_dict(), out=run.folder)
    except KeyboardInterrupt:
        noted(state="started")
        raise
    except failures as error:
        if must_run and not isinstance(error, TrainingError | torch.OutOfMemoryError):
            if not begun:
                shutil.rmtree(run.folder, ignore_errors=True)
            raise
        return noted(state="failed", reason=_reason(error))
    finally:
        if torch.cuda.is_available():  # the trainer stands in a cycle, and the next run needs its memory
            gc.collect()
    if trained.best_score is None:
        reason = f"no dev score: nothing could be held out of {arguments['corpus']}; name a dev task by select_on."
        return noted(state="failed", reason=reason)
    return noted(state="finished", **_figures(trained))


def _reason(error: Exception) -> str:
    if isinstance(error, NearerError):
        return " ".join(str(error).split())
    known = isinstance(error, torch.OutOfMemoryError)  # its first line says so
    return first_line(error) if known else f"{type(error).__name__}: {first_line(error)}"


def _figures(trained: TrainedModel) -> dict[str, Any]:
    figures: dict[str, Any] = {"dev": trained.best_score, "best_step": trained.best_step}
    if trained.scores is not None:
        figures |= {"tests": trained.scores.by_name(), "average": trained.scores.average}
    return figures


def _result(folder: Path, facts: dict[str, Any], runs: Sequence[SweepRun]) -> SweepResult:
    seeds: list[int] = facts["seeds"]
    parts = [list(runs[start : start + len(seeds)]) for start in range(0, len(runs), len(seeds))]
    points = [SweepPoint(part[0].point, part) for part in parts]
    return SweepResult(folder, facts["recipe"], facts["grid"], seeds, points)


def _concluded(result: SweepResult, *, keep_models: bool) -> SweepResult:
    """Written down and drawn, also where nothing was left to run."""
    result.write()
    tidy(result.points, keep_models=keep_models)
    remarks = []
    picture = None
    try:
        picture = draw(result)
    except MissingExtraError as error:
        remarks.append(f"no picture: {error}")
    lost = [run for run in result.best.runs if run.state == "finished" and not run.model] if result.best else []
    if lost:
        seeds = ", ".join(str(run.seed) for run in lost)
        remarks.append(f"the best point's models of seeds {seeds} were removed while another was best (--keep-models)")
    return replace(result, picture=picture, remarks=tuple(remarks))
