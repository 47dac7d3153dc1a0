"""Progress bars on standard error, shown only where somebody asked for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from nearer.terminal import console


class Advance(Protocol):
    def __call__(self, amount: int = 1) -> None: ...


@contextmanager
def progress_bar(description: str, total: int | None, unit: str, *, shown: bool) -> Iterator[Advance]:
    """Yields a function that moves the bar on; without `shown`, one that does nothing."""
    if not shown:
        yield lambda amount=1: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit} {{task.fields[rate]}}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console(stderr=True)) as progress:
        task = progress.add_task(description, total=total, rate="")

        def advance(amount: int = 1) -> None:
            progress.advance(task, amount)
            speed = progress.tasks[0].finished_speed or progress.tasks[0].speed
            progress.update(task, rate=f"({speed:,.0f}/s)" if speed else "")

        yield advance
