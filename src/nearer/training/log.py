"""What a run writes and shows as it goes: metrics.jsonl, a progress bar, TensorBoard where asked for."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from nearer.extras import require
from nearer.storage.sealed import sealed_line, unsealed_line
from nearer.storage.whole import sync_folder, write_whole
from nearer.terminal import console, say


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
