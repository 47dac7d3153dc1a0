"""The one loop: step after step, and now and then a look at the losses, an evaluation, a checkpoint.

Behind it: how Ctrl-C ends it after the step at hand, and the signs that a run goes wrong, each told once.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from nearer.distributed import agree, rank, wait_for_all
from nearer.errors import ModelError, TrainingError
from nearer.runs.checkpoints import Best, cannot_be_saved, latest_checkpoint, save_checkpoint, whole_checkpoint
from nearer.storage.whole import clear_unfinished
from nearer.text.faults import Fault
from nearer.training.log import Means, Metrics, RunLog
from nearer.training.selection import DevScore, Selection
from nearer.training.step import learning_rate
from nearer.training.trainer import Trainer
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


def fit(
    trainer: Trainer,
    folder: Path,
    selection: Selection | None,
    *,
    stop_after: int | None = None,
    progress: bool,
    remarks: list[str],
) -> State:
    """Train from the folder's last whole checkpoint, or from the start. The best weights lie in `best_folder`.

    stop_after: the step at which to stop before the end, with a checkpoint from which the run goes on.
    """
    settings, steps, on_cpu = trainer.settings, trainer.steps, trainer.device.type == "cpu"
    until = steps if stop_after is None else min(steps, stop_after)
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
    beside_steps = 0.0  # seconds for evaluations and checkpoints

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
            began = time.perf_counter()
            while state.step < until:
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
                between = time.perf_counter()
                if due and first:
                    evaluate()
                if stop or state.step == until or save_is_due(evaluated=due):
                    look(wait=True)  # nothing that is not a number may get into a checkpoint
                    save()
                beside_steps += time.perf_counter() - between
                if stop:
                    raise Interrupted(state.step, folder)
            if state.step > resumed:
                stepping = time.perf_counter() - began - beside_steps - trainer.start_up_seconds
                trainer.step_seconds = max(0.0, stepping) / (state.step - resumed)
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


class Interruption:
    asked = False


@contextmanager
def listening() -> Iterator[Interruption]:
    """Catches SIGINT and SIGTERM while the loop runs; does nothing outside the main thread."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if interruption.asked:
            raise KeyboardInterrupt
        interruption.asked = True

    before = {kind: signal.signal(kind, ask) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


NEAR_ZERO = 0.02
FALLEN = 1.0  # points below the best dev score
CLUMPED = 0.7  # rise of uniformity above its lowest
DUPLICATE_SHARE = 0.02
CONTAINED_SHARE = 0.1


@dataclass
class Watch:
    """Looks at each evaluation; its memory is part of the checkpoint, so a resumed run says nothing twice."""

    told: list[str] = field(default_factory=list)
    best: float = -101.0
    lowest_uniformity: float = 0.0

    def text(self, report: dict[str, Any]) -> list[str]:
        """A look at the corpus' account before training starts."""
        return [*self._dropped(report), *self._duplicates(report), *self._contained(report)]

    def _dropped(self, report: dict[str, Any]) -> list[str]:
        counts = {Fault[name.upper()]: fault["count"] for name, fault in report["faults"].items()}
        lost = {fault: count for fault, count in counts.items() if fault.drops and fault is not Fault.HELD_OUT}
        if not lost:
            return []
        told = ", ".join(f"{count:,} {fault.label}" for fault, count in lost.items())
        message = f"{report['source']}: {sum(lost.values()):,} of {report['read']:,} records dropped ({told})."
        return self._tell("dropped", message)

    def _contained(self, report: dict[str, Any]) -> list[str]:
        faults = report.get("faults", {})
        contained, held_out = (faults.get(name, {}).get("count", 0) for name in ("contained", "held_out"))
        share = contained / max(1, report.get("kept", 0) + held_out)
        if share < CONTAINED_SHARE:
            return []
        return self._tell(
            "contained",
            f"in {share:.0%} of the pairs one side contains the other: they are matched by their words alone, and "
            "teach little. --strip-contained cuts it out.",
        )

    def _duplicates(self, report: dict[str, Any]) -> list[str]:
        duplicates = report.get("faults", {}).get("duplicate", {}).get("count", 0)
        share = duplicates / max(1, report.get("kept", 0))
        if share < DUPLICATE_SHARE:
            return []
        return self._tell(
            "duplicates",
            f"{share:.0%} of the corpus are duplicates: in a batch they are negatives of themselves. "
            "Set duplicates=drop to leave them out.",
        )

    def evaluation(self, loss: float, dev: DevScore) -> list[str]:
        falling = dev.score < self.best - FALLEN
        warnings: list[str] = []
        # a student whose teacher's vectors lie closer together than its own draws them together, and gets better by it
        if dev.uniformity > self.lowest_uniformity + CLUMPED and dev.score <= self.best:
            warnings += self._tell(
                "collapse",
                f"vectors draw together (uniformity {self.lowest_uniformity:.2f} → {dev.uniformity:.2f}): training "
                "collapses. Lower learning_rate, keep dropout above 0, and do not fix its masks.",
            )
        if loss < NEAR_ZERO and falling:
            warnings += self._tell(
                "overtraining",
                f"the loss is near 0 ({loss:.3f}) while dev falls ({self.best:.2f} → {dev.score:.2f}): nothing is left "
                "to learn from these negatives. Fewer steps (max_steps), a lower learning_rate or larger batches help; "
                "the best step is kept in any case.",
            )
        self.best = max(self.best, dev.score)
        self.lowest_uniformity = min(self.lowest_uniformity, dev.uniformity)
        return warnings

    def _tell(self, name: str, message: str) -> list[str]:
        if name in self.told:
            return []
        self.told.append(name)
        return [message]
