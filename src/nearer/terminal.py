"""What people see on a terminal: text of files, of models and of users, with nothing in it that a terminal obeys.

A sentence can hold bytes that move the cursor, rename the window or write the clipboard (OSC 52), and characters
that turn the order of what follows. All printing of this package goes through this module, which shows them by
their numbers: `\\u001b`. JSON reads these back as what they were.

Progress bars go to standard error, and are shown only where somebody asked for one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console


# C0 without tab and line feed, DEL, C1; embeddings, overrides and isolates of bidirectional text
OBEYED = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
SHOWN = {code: f"\\u{code:04x}" for code in OBEYED if chr(code) not in "\t\n"}


def visible(text: str) -> str:
    """The text, with the characters that a terminal would obey shown by their numbers."""
    return text.translate(SHOWN)


_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


def say(message: str, *, end: str = "\n") -> None:
    """A line for people, on standard error."""
    said = _said.get()
    if said is not None:
        if message in said:
            return
        said.add(message)
    print(visible(message), end=end, file=sys.stderr, flush=True)


@contextmanager
def each_line_once(said: set[str]) -> Iterator[None]:
    """`say` leaves out what it has said before, since many runs have the same remarks. said: these lines; it adds."""
    token = _said.set(said)
    try:
        yield
    finally:
        _said.reset(token)


def put(text: str = "") -> None:
    """A line of results for people, or JSON, on standard output."""
    print(visible(text))


def put_data(text: str) -> None:
    """A line of results that programs read too: as it is, unless a terminal would show it."""
    print(visible(text) if sys.stdout.isatty() else text)


def console(**options: Any) -> Console:
    """rich's console, for tables and bars; what is printed on it is made visible, names and cells alike."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class VisibleConsole(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(visible(text), **how)

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            if isinstance(renderable, Text) and renderable.plain != (shown := visible(renderable.plain)):
                renderable = renderable.copy()
                renderable.plain = shown  # before it is folded, so that nothing is cut off
            for segment in super().render(renderable, options):
                text, style, control = segment
                yield segment if control else Segment(visible(text), style)

    return VisibleConsole(**options)


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
