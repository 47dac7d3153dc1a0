"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys

from rich.console import RenderableType

from nearer.terminal import console, put, put_data, say
from nearer.text.faults import ReadReport

__all__ = ["one_line", "put", "put_data", "say", "show_report", "show_table"]

# a pipe has no width of its own: do not fold paths and messages there
PIPE_WIDTH = 200


def show_report(report: ReadReport) -> None:
    """The account of a reading, if there is anything in it to tell."""
    if report.tallies or report.notes:
        say(str(report))


def show_table(table: RenderableType) -> None:
    # names and paths are shown as they are, also where they look like rich's markup or its emoji
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console(width=width, markup=False, emoji=False, highlight=False).print(table)


def one_line(text: str) -> str:
    """A sentence for a line with tab-separated columns; quoted cells and JSON can hold line breaks."""
    return text.translate(str.maketrans("\t\r\n", "   "))
