"""How far the building of lists has come: lists, sentences and tokens a second, on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nearer.terminal import console


@dataclass
class Pace:
    """What was generated since `begun`, by this process or its workers."""

    begun: float = field(default_factory=time.monotonic)
    sentences: int = 0
    tokens: int = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def __str__(self) -> str:
        rate = self.tokens / max(self.seconds, 1e-9)
        return f"{self.sentences:,} sentences, {self.tokens:,} tokens ({rate:,.0f}/s)"


class Progress:
    """Without a bar it only counts."""

    def __init__(self) -> None:
        self.pace = Pace()

    def generated(self, sentences: int, tokens: int) -> None:
        self.pace.sentences += sentences
        self.pace.tokens += tokens

    def ended(self) -> None:
        """One list more."""


@contextmanager
def list_progress(done: int, total: int, *, shown: bool) -> Iterator[Progress]:
    if not shown:
        yield Progress()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("ranking lists"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bar(*columns, console=console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done, pace="")

        class Shown(Progress):
            def generated(self, sentences: int, tokens: int) -> None:
                super().generated(sentences, tokens)
                bar.update(task, pace=str(self.pace))

            def ended(self) -> None:
                bar.advance(task)

        yield Shown()
