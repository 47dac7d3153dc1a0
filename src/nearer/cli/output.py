"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from nearer.text.faults import ReadReport


def say(message: str) -> None:
    print(message, file=sys.stderr)


def show_report(report: ReadReport) -> None:
    """The account of a reading, if there is anything in it to tell."""
    if report.tallies or report.notes:
        say(str(report))


def show_table(table: Table) -> None:
    # a pipe has no width of its own: do not fold model paths there
    Console(width=None if sys.stdout.isatty() else 120).print(table)
