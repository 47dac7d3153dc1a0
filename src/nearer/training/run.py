"""One run, from recipe to finished model."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nearer import distributed
from nearer.encoder import Encoder
from nearer.encoder.precision import has_bfloat16_products
from nearer.errors import InputError, SettingError, TrainingError
from nearer.evaluation import Results, evaluate, load_tasks
from nearer.methods import Method, known_methods
from nearer.runs.checkpoints import best_folder, latest_checkpoint, stopped_folder
from nearer.runs.config import CONFIG, LOCK, RunConfig
from nearer.storage.whole import make_folder, written_by_us_alone
from nearer.teachers import RankEncoder, load_model
from nearer.terminal import say
from nearer.text.in_memory import Source
from nearer.text.token_store import TokenStore
from nearer.training.corpus import check_length, corpus_file, corpus_reading, open_corpus, read_options, training_length
from nearer.training.feed import seen_records
from nearer.training.loop import fit
from nearer.training.memory import check_memory
from nearer.training.numerics import changed_libraries, choose_numerics, onednn_failed, pinned
from nearer.training.recipes import Recipe, check_recipe, load_recipe
from nearer.training.selection import can_test, dev_tasks
from nearer.training.starting_encoder import starting_encoder
from nearer.training.trainer import Trainer
from nearer.versions import library_versions


@dataclass(frozen=True)
class TrainedModel:
    """What a run ended with.

    Attributes:
        folder: The run folder.
        model: The finished model's folder; of a run that was stopped, what it had learnt by then.
        best_step: The step whose weights were kept; None where no dev task chose one.
        best_score: Its score on the dev task.
        scores: Those of the finished model on the recipe's test tasks, if it has any.
        stopped_after: The step after which the run was stopped, as it was asked to; None: it came to its end.

    Examples:
        >>> import nearer
        >>> text = [f"The {one} is near the {other}." for one in ("boat", "horse") for other in ("kettle", "garden")]
        >>> quick = {"max_steps": 1, "batch_size": 4, "select_on": [], "test_on": []}
        >>> trained = nearer.train("simcse-wiki-mini", text, out="run", settings=quick)
        >>> trained.load().encode("A boat.").shape
        (256,)
    """

    folder: Path
    model: Path
    best_step: int | None
    best_score: float | None
    scores: Results | None
    stopped_after: int | None = None

    @property
    def untrained(self) -> bool:
        """Whether no step was better than the model that the run started from, which then was kept."""
        return self.best_step == 0

    def load(self, device: str | None = None) -> Encoder | RankEncoder:
        return load_model(self.model, device=device)


def train(
    recipe: str | Path,
    corpus: Source,
    *,
    model: str | Path | None = None,
    teachers: Sequence[str | Path] | None = None,
    out: str | Path | None = None,
    data: str | Path | None = None,
    columns: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
    stop_after: int | None = None,
    progress: bool = False,
) -> TrainedModel:
    """Train a model by a recipe (a name or a YAML file) on a corpus.

    Args:
        recipe: A recipe's name, or a YAML file.
        corpus: A file, or records in memory: a list or another iterable, a data frame, a data set.
        model: Replaces the recipe's checkpoint.
        teachers: Replace the recipe's teachers.
        out: The run folder, which must not exist yet; None makes one below `runs`.
        data: The folder of the STS sets, for dev and test tasks of that name.
        columns: The names of the corpus' columns; None finds them by their usual names.
        settings: Replace single settings of the recipe.
        reading: How the corpus is read, as `nearer.text.ReadOptions` names it (encoding, max_characters,
            strip_contained, allow_dropped).
        stop_after: Stop when so many steps are taken, with everything saved; `resume` goes on to the end. Learning
            rates are those of the whole run all the same.
        progress: Show a bar.

    Examples:
        >>> import nearer
        >>> text = [f"The {one} is near the {other}." for one in ("boat", "horse") for other in ("kettle", "garden")]
        >>> quick = {"max_steps": 1, "batch_size": 4, "select_on": [], "test_on": []}
        >>> nearer.train("simcse-wiki-mini", text, out="run", settings=quick).model.name
        'model'
    """
    _check_stop(stop_after)
    overrides = dict(settings or {})
    if model is not None:
        overrides["model"] = str(model)
    if teachers:
        overrides["teachers"] = [str(teacher) for teacher in teachers]
    loaded = load_recipe(recipe, overrides)
    options = read_options(loaded, columns, reading)
    folder = Path(out) if out is not None else Path("runs") / f"{loaded.name}-seed{loaded.training.seed}"
    with _alone(folder):
        if (folder / CONFIG).exists():
            raise SettingError(
                f"{folder}: a run is there already; go on with it (nearer train --resume {folder}), or name another "
                "folder.",
                argument="out",
            )
        file, named = corpus_file(corpus, loaded, options, folder)
        config = RunConfig(
            recipe=loaded.name,
            settings=loaded.to_dict(),
            corpus=file,
            columns=named,
            reading=dict(reading or {}),
            data=None if data is None else str(data),
            libraries=library_versions(),
        )
        return _run(folder, loaded, config, stop_after, progress)


def resume(folder: str | Path, *, stop_after: int | None = None, progress: bool = False) -> TrainedModel:
    """Go on with a run that was interrupted or stopped, as if it never had been.

    Args:
        folder: The run folder.
        stop_after: Stop when so many steps are taken in all, as `train` does.
        progress: Show a bar.

    Examples:
        >>> import nearer
        >>> nearer.resume("no-run")
        Traceback (most recent call last):
        nearer.errors.SettingError: no-run: is not the folder of a run (no config.yaml).
    """
    _check_stop(stop_after)
    config = RunConfig.read(Path(folder))
    recipe = check_recipe(config.settings, config.recipe)
    with _alone(Path(folder)):
        return _run(Path(folder), recipe, config, stop_after, progress)


def _check_stop(stop_after: int | None) -> None:
    if stop_after is not None and stop_after < 1:
        raise SettingError(f"stop_after: {stop_after} is no number of steps; 1 is the least.", argument="stop_after")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else trains into this folder: of several processes of one run, the first holds the lock for all."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder}: is a file; name another --out.")
    if int(os.environ.get("RANK", "0")):
        yield
        return
    try:
        make_folder(folder)
    except OSError as error:
        raise TrainingError(f"{folder}: cannot be written ({error.strerror}).") from None
    try:
        with written_by_us_alone(folder / LOCK, folder):
            yield
    finally:
        if folder.is_dir() and {path.name for path in folder.iterdir()} == {LOCK}:  # nothing came of it
            (folder / LOCK).unlink()
            folder.rmdir()


def _run(folder: Path, recipe: Recipe, config: RunConfig, stop_after: int | None, progress: bool) -> TrainedModel:
    device = distributed.local_device()
    distributed.start(device)
    recipe, on_precision = _computable(recipe, device)
    numerics, remarks = choose_numerics(config.numerics, device, recipe.training.precision)
    remarks += on_precision
    if config.numerics is None:  # what was recorded at the start stays: the run must go on with it next time, too
        config = config.changed(numerics=numerics.to_dict())
    remarks += changed_libraries(config.libraries, library_versions())
    with pinned(numerics, device) as not_pinned:
        result = _carry_out(folder, recipe, config, device, [*remarks, *not_pinned], stop_after, progress)
        failed = onednn_failed(numerics)
    for remark in failed:
        say(remark)
    return result


def _computable(recipe: Recipe, device: torch.device) -> tuple[Recipe, list[str]]:
    """The recipe with a precision that this machine has instructions for: without, a step takes minutes."""
    if recipe.training.precision != "bf16" or has_bfloat16_products(device):
        return recipe, []
    training = recipe.training.model_copy(update={"precision": "float32"})
    remark = "precision: this processor has no instructions for bf16 products; the run computes in float32"
    return replace(recipe, training=training), [remark]


def _carry_out(
    folder: Path,
    recipe: Recipe,
    config: RunConfig,
    device: torch.device,
    remarks: list[str],
    stop_after: int | None,
    progress: bool,
) -> TrainedModel:
    started = time.perf_counter()
    settings = recipe.training
    # everything that can be wrong is looked at before the first step
    method: Method = known_methods()[settings.method](recipe.method)
    teachers = method.followed_teachers()
    nearness = None if teachers is None else partial(teachers.cosines, device=device)
    dev = dev_tasks(settings, config.data, corpus_reading(recipe, config), folder, nearness)
    remarks = [*remarks, *dev.remarks]
    if settings.test_on and not can_test(settings.test_on, config.data):
        remarks.append(
            f"no test scores at the end: {', '.join(settings.test_on)} needs the folder of the published sets (data)"
        )
    torch.manual_seed(settings.seed)
    encoder, settings, noted = starting_encoder(settings, method, device)
    remarks += noted
    shown = progress and distributed.rank() == 0
    reading = dev.reading
    if settings.max_length == "auto":
        settings = settings.model_copy(update={"max_length": training_length(reading, encoder)})
        config = config.changed(settings={**config.settings, "max_length": settings.max_length})
    longest = settings.longest
    check_length(longest, encoder)
    store, cut = open_corpus(reading, encoder, method, longest, progress=shown)
    remarks += cut
    if config.tokens not in (None, store.folder.name):
        raise InputError(f"{config.corpus}: is not the text that {folder} was started with; nothing was done.")
    method.seen = seen_records(store, settings)
    remarks += method.prepare(encoder, reading, max_length=longest, progress=shown)
    for name, digest in config.learns_from.items():
        if method.identity().get(name) != digest:
            raise InputError(f"{name}: is not the one that {folder} was started with; nothing was done.")
    trainer = Trainer(encoder, method, store, settings)
    remarks += check_memory(trainer)
    if distributed.rank() == 0:  # from here on there is a run: nothing is wrong with what was asked for
        config.changed(tokens=store.folder.name, learns_from=method.identity()).write(folder)
        dev.write(folder)
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    state = fit(trainer, folder, dev.selection, stop_after=stop_after, progress=progress, remarks=remarks)
    stopped = state.step if state.step < trainer.steps else None
    model = folder / "model" if stopped is None else stopped_folder(folder / "checkpoints", stopped)
    result = TrainedModel(folder, model, state.best_step, state.best_score, None, stopped)
    if distributed.rank() == 0:
        provenance = {
            **method.describe(),
            "recipe": recipe.name,
            "settings": settings.model_dump(),
            "seconds": round(time.perf_counter() - started, 1),  # of a resumed run: since it went on
            # without evaluations, checkpoints and compiling; None where no step was left to take
            "step_seconds": trainer.step_seconds,
            "peak_memory": torch.cuda.max_memory_allocated(device) if on_gpu else None,  # bytes
            "machine": _machine(device),
            **_data_facts(store),
            **dev.describe(),
        }
        _write_model(result, encoder, method, provenance, progress)
        if stopped is None:
            result = _finish(result, settings.test_on, config.data, device, progress)
    distributed.wait_for_all()
    return result


def _machine(device: torch.device) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return f"{name}, {os.cpu_count()} CPU cores, {platform.system()}"


def _data_facts(store: TokenStore) -> dict[str, Any]:
    report = store.facts["report"]
    return {
        "corpus": report["source"],
        "records": len(store),
        "dropped": report["dropped"] - report["faults"].get("held_out", {}).get("count", 0),
        "tokens": store.folder.name,
    }


def _write_model(
    trained: TrainedModel, encoder: Encoder, method: Method, provenance: dict[str, Any], progress: bool
) -> None:
    """The best weights, or the last ones where no dev task chose."""
    if trained.model.exists():
        return
    if trained.best_step is not None:
        encoder = Encoder.load(best_folder(trained.folder / "checkpoints", trained.best_step), device=encoder.device)
    noted = {"best_step": trained.best_step, "dev_score": trained.best_score}
    noted |= {} if trained.stopped_after is None else {"stopped_after": trained.stopped_after}
    encoder.provenance = {**provenance, **noted}
    method.finished(encoder, progress=progress).save(trained.model)


def _finish(
    trained: TrainedModel, test_on: list[str], data: str | None, device: torch.device, progress: bool
) -> TrainedModel:
    """Scored on the test tasks that can be had, without what only a run under way needs."""
    # the last checkpoint stays, so that the run can be looked at and trained further
    checkpoints = trained.folder / "checkpoints"
    last = latest_checkpoint(checkpoints)
    for path in (path for kind in ("best", "step", "stopped") for path in checkpoints.glob(f"{kind}-*")):
        if path != last:
            shutil.rmtree(path, ignore_errors=True)
    if not test_on or not can_test(test_on, data):
        return trained
    scores = evaluate(load_model(trained.model, device=device), load_tasks(test_on, data), progress=progress)
    scores.write_json(trained.folder / "scores.json")
    return replace(trained, scores=scores)
