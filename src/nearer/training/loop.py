"""The one loop: batches in, loss, optimiser, evaluation, checkpoint. It never asks which method it runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nearer.distributed import agree, rank, sum_gradients, wait_for_all
from nearer.encoder import Encoder
from nearer.errors import TrainingError
from nearer.methods.contract import Losses, Method
from nearer.training.capture import CapturedEncoder
from nearer.training.checkpoints import clear_unfinished, latest_checkpoint, load_checkpoint, save_checkpoint
from nearer.training.feed import Feed, captures
from nearer.training.interrupt import listening
from nearer.training.log import RunLog
from nearer.training.optimiser import learning_rate, make_optimiser
from nearer.training.selection import Selection
from nearer.training.settings import TrainingSettings
from nearer.training.watch import Watch

LOG_EVERY = 10


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
    encoder: Encoder,
    method: Method,
    feed: Feed,
    settings: TrainingSettings,
    folder: Path,
    selection: Selection | None,
    *,
    progress: bool,
    remarks: list[str],
) -> State:
    """Train from the folder's last checkpoint, or from the start. The best weights lie in `checkpoints/best`."""
    device = encoder.device
    model = nn.ModuleDict({"encoder": encoder, "method": method.modules()})
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = make_optimiser(parameters, settings, device)
    steps = total_steps(feed, settings)
    checkpoints = folder / "checkpoints"
    state = State()
    if (found := latest_checkpoint(checkpoints)) is not None:
        state = State(**load_checkpoint(found, model, optimiser))
    first = rank() == 0
    if first:
        clear_unfinished(folder)
    watch = Watch(**state.watch)
    shown = progress and first
    log = (
        RunLog(folder, steps=steps, start=state.step, shown=shown, tensorboard=settings.tensorboard) if first else None
    )
    say: Callable[[str], None] = log.say if log else lambda message: None
    warnings = watch.text(feed.store.facts["report"]) if state.step == 0 else []
    for remark in [*remarks, *[f"warning: {warning}" for warning in warnings]]:
        say(remark)
    usual = CapturedEncoder(encoder) if captures(settings, device) else encoder
    precision = _precision(settings, device)
    seen = 0
    recent: list[Losses] = []  # read only now and then: reading a value makes the CPU wait for the GPU
    last_loss = math.nan

    def evaluate() -> None:
        """On the first process: dev score, and the best weights kept."""
        assert log is not None
        if selection is None:
            return
        dev = selection.score(encoder)
        log.write(state.step, {"dev": dev.score, "uniformity": dev.uniformity, **dev.tasks})
        if state.best_score is None or dev.score > state.best_score:
            state.best_score, state.best_step = dev.score, state.step
            encoder.save(checkpoints / "best", overwrite=True)
        log.dev = f"dev {dev.score:.2f} (best {state.best_score:.2f})"
        for warning in watch.evaluation(last_loss, dev):
            log.say(f"warning: {warning}")

    def save() -> None:
        if first:
            state.watch = asdict(watch)
            save_checkpoint(checkpoints, state.step, model, optimiser, asdict(state))
        wait_for_all()

    try:
        with listening() as interruption:
            model.train()
            if state.step == 0 and first:
                evaluate()  # the untrained model counts as a candidate: training may make things worse
            while state.step < steps:
                for group in optimiser.param_groups:
                    group["lr"] = learning_rate(state.step, steps, settings)
                for part in range(settings.accumulation):
                    number = state.step * settings.accumulation + part
                    batch = feed.batch(number)
                    feed.seed_dropout(number)
                    if isinstance(usual, CapturedEncoder):
                        usual.begin_step()
                    with precision():
                        losses = method.loss(usual if feed.whole(number) else encoder, batch)  # type: ignore[arg-type]
                    (losses.total / settings.accumulation).backward()  # type: ignore[no-untyped-call]
                    seen += len(batch.records)
                    recent.append(Losses(losses.total.detach(), {k: v.detach() for k, v in losses.parts.items()}))
                    del losses  # no graph of a plain step may be alive when the next one is captured
                sum_gradients(parameters)
                norm = nn.utils.clip_grad_norm_(parameters, settings.clip)
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
                state.step += 1

                due = state.step % settings.evaluate_every == 0 or state.step == steps
                if state.step % LOG_EVERY == 0 or due or device.type == "cpu":
                    last_loss = _read(recent, norm, state.step, optimiser, checkpoints, log)
                    recent.clear()
                    if log:
                        log.show(state.step, last_loss, seen)
                stop = (
                    agree(interruption.asked, device) if state.step % LOG_EVERY == 0 or device.type == "cpu" else False
                )
                if due and first:
                    evaluate()
                if stop or due or state.step % (settings.checkpoint_every or settings.evaluate_every) == 0:
                    save()
                if stop and state.step < steps:
                    raise Interrupted(state.step, folder)
    except OSError as error:
        last = latest_checkpoint(checkpoints)
        raise TrainingError(f"{folder}: {error.strerror or error}; the last good checkpoint is {last}.") from error
    finally:
        if log:
            log.close()
    return state


def total_steps(feed: Feed, settings: TrainingSettings) -> int:
    """Optimiser steps of the whole run."""
    steps = math.ceil(feed.plan.steps_per_epoch * settings.epochs / settings.accumulation)
    return steps if settings.max_steps is None else min(settings.max_steps, steps)


def _precision(settings: TrainingSettings, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    if settings.precision == "bf16" or (settings.precision == "auto" and device.type == "cuda"):
        # without its cache, which would hold on to weights cast inside a graph
        return lambda: torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
    return nullcontext


def _read(
    recent: list[Losses],
    norm: Tensor,
    step: int,
    optimiser: torch.optim.Optimizer,
    checkpoints: Path,
    log: RunLog | None,
) -> float:
    """The mean loss since the last look; one that is not a number ends the run before it spoils a checkpoint."""
    loss = float(torch.stack([losses.total for losses in recent]).mean())
    if not math.isfinite(loss) or not math.isfinite(float(norm)):
        last = latest_checkpoint(checkpoints)
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint was written yet"
        raise TrainingError(
            f"step {step}: the loss or its gradient is not a number; {kept}. "
            "Lower learning_rate, or set warmup=0.1, or precision=float32."
        )
    if log:
        parts = {name: float(torch.stack([losses.parts[name] for losses in recent]).mean()) for name in recent[0].parts}
        rate = float(optimiser.param_groups[0]["lr"])
        log.write(step, {"loss": loss, **parts, "gradient_norm": float(norm), "learning_rate": rate})
    return loss
