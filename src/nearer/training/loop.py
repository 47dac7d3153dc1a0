"""The one loop: step after step, and now and then a look at the losses, an evaluation, a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nearer.distributed import agree, rank, wait_for_all
from nearer.errors import ModelError, TrainingError
from nearer.storage.whole import clear_unfinished
from nearer.training.best import Best
from nearer.training.checkpoints import cannot_be_saved, latest_checkpoint, save_checkpoint, whole_checkpoint
from nearer.training.interrupt import listening
from nearer.training.log import RunLog
from nearer.training.metrics import Means, Metrics
from nearer.training.optimiser import learning_rate
from nearer.training.selection import Selection
from nearer.training.trainer import Trainer
from nearer.training.watch import Watch
from nearer.training.working_copy import set_training
from nearer.typed_files import as_typed

LOG_EVERY = 10
# At most this share of the time goes into writing checkpoints, unless their steps are named
CHECKPOINT_SHARE = 0.05


@dataclass
class State:
    """What a run knows beside its weights; saved with every checkpoint."""

    step: int = 0
    best_score: float | None = None
    best_step: int | None = None
    watch: dict[str, Any] = field(default_factory=dict)


class Interrupted(KeyboardInterrupt):
    """The user asked to stop; everything up to `step` is saved in `folder`."""

    def __init__(self, step: int, folder: Path) -> None:
        super().__init__(f"stopped after step {step}; go on with: nearer train --resume {folder}")
        self.step = step


def fit(trainer: Trainer, folder: Path, selection: Selection | None, *, progress: bool, remarks: list[str]) -> State:
    """Train from the folder's last whole checkpoint, or from the start. The best weights lie in `best_folder`."""
    settings, steps, on_cpu = trainer.settings, trainer.steps, trainer.device.type == "cpu"
    checkpoints = folder / "checkpoints"
    state = State()
    found, damaged = whole_checkpoint(checkpoints, finished=(folder / "model").is_dir())
    if found is not None:
        state = as_typed(State, trainer.restore(found), str(found), error=TrainingError)
        remarks = [*remarks, *damaged, f"going on from {found.name}"]
    wait_for_all()  # all have chosen the same one before anything is removed
    first = rank() == 0
    if first:
        clear_unfinished(folder)
        clear_unfinished(checkpoints)
    resumed = state.step
    watch = as_typed(Watch, state.watch, str(found), error=TrainingError)
    best = Best(trainer.encoder, checkpoints)
    shown = progress and first
    try:
        log = (
            RunLog(folder, steps=steps, start=state.step, shown=shown, tensorboard=settings.tensorboard)
            if first
            else None
        )
    except OSError as error:
        raise TrainingError(f"{folder}: cannot be written ({error.strerror or error}).") from error
    say: Callable[[str], None] = log.say if log else lambda message: None
    warnings = watch.text(trainer.feed.store.facts["report"]) if state.step == 0 else []
    for remark in [*remarks, *[f"warning: {warning}" for warning in warnings]]:
        say(remark)
    metrics = Metrics(trainer.device)
    last_loss = math.nan
    saved = time.perf_counter()
    saving_took = 0.0

    def look(*, wait: bool) -> None:
        nonlocal last_loss
        for means in metrics.look(state.step, wait=wait):
            last_loss = _written(means, trainer, checkpoints, log)
            if log:
                log.show(state.step, last_loss, trainer.seen)

    def evaluate() -> None:
        """On the first process: dev score, and the best weights kept."""
        assert log is not None
        if selection is None:
            return
        trainer.encoder.weights_changed()
        dev = selection.score(trainer.encoder, trainer.precision)
        alignment = {} if dev.alignment is None else {"alignment": dev.alignment}
        log.write(state.step, {"dev": dev.score, "uniformity": dev.uniformity, **alignment, **dev.tasks, **dev.watched})
        if state.best_score is None or dev.score > state.best_score:
            state.best_score, state.best_step = dev.score, state.step
            best.keep(state.step)
        log.dev = f"dev {dev.score:.2f} (best {state.best_score:.2f})"
        for warning in watch.evaluation(last_loss, dev):
            log.say(f"warning: {warning}")

    def save() -> None:
        nonlocal saved, saving_took
        before = time.perf_counter()
        if log:
            log.sync()
            state.watch = asdict(watch)
            try:
                best.write()
                save_checkpoint(checkpoints, state.step, trainer.model, trainer.optimiser, asdict(state))
            except ModelError as error:
                raise cannot_be_saved(checkpoints, error) from error
        wait_for_all()
        saved = time.perf_counter()
        saving_took = saved - before

    def save_is_due(evaluated: bool) -> bool:
        if settings.checkpoint_every is not None:
            return state.step % settings.checkpoint_every == 0
        worth_it = time.perf_counter() - saved >= saving_took / CHECKPOINT_SHARE
        return evaluated and agree(worth_it, trainer.device)

    try:
        with listening() as interruption:
            set_training(trainer.model)
            if state.step == 0 and first:
                evaluate()  # the untrained model counts as a candidate: training may make things worse
            while state.step < steps:
                metrics.add(trainer.advance())
                state.step = trainer.step
                for remark in trainer.remarks():
                    say(remark)
                if state.step - resumed == LOG_EVERY and trainer.start_up_seconds:
                    say(f"start-up: {trainer.start_up_seconds:.1f} s for compiling and capturing (the former is kept)")

                last = state.step == steps
                due = state.step % settings.evaluate_every == 0 or last
                stop = False
                if state.step % LOG_EVERY == 0 or due or on_cpu:
                    look(wait=due)
                    stop = agree(interruption.asked, trainer.device) and not last
                if due and first:
                    evaluate()
                if stop or last or save_is_due(evaluated=due):
                    look(wait=True)  # nothing that is not a number may get into a checkpoint
                    save()
                if stop:
                    raise Interrupted(state.step, folder)
    except OSError as error:
        good = latest_checkpoint(checkpoints)
        raise TrainingError(f"{folder}: {error.strerror or error}; the last good checkpoint is {good}.") from error
    finally:
        trainer.close()
        if log:
            log.close()
    return state


def _written(means: Means, trainer: Trainer, checkpoints: Path, log: RunLog | None) -> float:
    """The mean loss, logged; one that is not a number ends the run before it spoils a checkpoint."""
    if not means.finite:
        last = latest_checkpoint(checkpoints)
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint was written yet"
        raise TrainingError(
            f"step {means.step}: the loss or its gradient is not a number; {kept}. "
            "Lower learning_rate, or set warmup=0.1, or precision=float32."
        )
    if log:
        rate = learning_rate(means.step - 1, trainer.steps, trainer.settings)
        log.write(means.step, {**means.values, "learning_rate": rate})
    return means.values["loss"]
