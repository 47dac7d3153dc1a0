"""What a run writes and shows as it goes: metrics.jsonl, a progress bar, TensorBoard where asked for.

Losses of many steps are read without making the GPU wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nearer.extras import require
from nearer.storage.sealed import sealed_line, unsealed_line
from nearer.storage.whole import sync_folder, write_whole
from nearer.terminal import console, say
from nearer.training.step import Readings


class RunLog:
    """Metrics of one run. Only the first process has one that writes."""

    def __init__(self, folder: Path, *, steps: int, start: int, shown: bool, tensorboard: bool) -> None:
        self.path = folder / "metrics.jsonl"
        self.steps = steps
        self.started = time.perf_counter()
        self.first = start
        self.dev = ""
        self._forget_after(start)
        self.file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 closed in close()
        sync_folder(folder)
        self.board: Any = None
        if tensorboard:
            require("tensorboard", "tensorboard", "tensorboard: true")
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=start)
        self.bar = _Bar(steps, start) if shown else None

    def _forget_after(self, step: int) -> None:
        """Lines of steps that a resumed run takes again."""
        if not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                if step and unsealed_line(line)["step"] <= step:  # without a checkpoint, step 0 is taken again too
                    kept.append(line)
            except (ValueError, KeyError, TypeError):
                continue  # half a line, from a kill in mid-writing, or a damaged one
        write_whole(self.path, (f"{line}\n" for line in kept))

    def write(self, step: int, values: dict[str, float]) -> None:
        line = {"step": step, **{name: float(f"{value:.6g}") for name, value in values.items()}}
        self.file.write(sealed_line(line))
        self.file.flush()
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(name, value, step)

    def sync(self) -> None:
        """What was written lasts: a checkpoint must not outlive the metrics before it."""
        os.fsync(self.file.fileno())

    def show(self, step: int, loss: float | None, sentences: int) -> None:
        if self.bar is not None:
            rate = sentences / max(1e-9, time.perf_counter() - self.started)
            self.bar.update(step, "" if loss is None else f"loss {loss:.4f}", self.dev, f"{rate:,.0f} sentences/s")

    def say(self, message: str) -> None:
        if self.bar is not None:
            self.bar.say(message)
        else:
            say(message)

    def close(self) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()
        if self.bar is not None:
            self.bar.close()


class _Bar:
    def __init__(self, steps: int, start: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("step"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}  {task.fields[dev]}  {task.fields[rate]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console(stderr=True),
            refresh_per_second=4,
        )
        self.task = self.progress.add_task("", total=steps, completed=start, loss="", dev="", rate="")
        self.progress.start()

    def update(self, step: int, loss: str, dev: str, rate: str) -> None:
        self.progress.update(self.task, completed=step, loss=loss, dev=dev, rate=rate)

    def say(self, message: str) -> None:
        self.progress.console.print(message, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self.progress.stop()


@dataclass(frozen=True)
class Means:
    """Mean values over the steps up to `step`; the gradient's norm is that of the last of them."""

    step: int
    values: dict[str, float]
    finite: bool


class Metrics:
    """Collects readings; a look at them starts a copy to the host, which the next look finds done."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._recent: list[Readings] = []
        self._under_way: list[tuple[int, Sequence[str], Tensor, Any]] = []

    def add(self, readings: Readings) -> None:
        self._recent.append(readings)

    def look(self, step: int, *, wait: bool) -> list[Means]:
        """What is known by now of the steps up to `step`: all of it with `wait`, else maybe only the look before."""
        done = self._arrived()
        self._send(step)
        if wait or not self._on_gpu:
            done += self._arrived()
        return done

    def _send(self, step: int) -> None:
        if not self._recent:
            return
        values = torch.stack([readings.values for readings in self._recent])
        names, event = self._recent[0].names, None
        if self._on_gpu:
            host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            host.copy_(values, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            values = host
        self._under_way.append((step, names, values, event))
        self._recent = []

    def _arrived(self) -> list[Means]:
        means = []
        for step, names, values, event in self._under_way:
            if event is not None:
                event.synchronize()
            mean = dict(zip(names, values.mean(dim=0).tolist(), strict=True))
            mean["gradient_norm"] = float(values[-1, -1])
            means.append(Means(step, mean, bool(values.isfinite().all())))
        self._under_way = []
        return means
