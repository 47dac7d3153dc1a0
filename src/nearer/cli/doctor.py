"""The command that looks at the installation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nearer.cli.output import put, show_table


def doctor(
    data: Annotated[
        Path | None, typer.Option(help="A folder of published data sets: check that every example is there.")
    ] = None,
    online: Annotated[bool, typer.Option("--online", help="Ask the Hugging Face hub as well.")] = False,
    verify_place: Annotated[
        Path | None,
        typer.Option("--verify", help="Check instead what nearer wrote there: a run, a model, an index, any folder."),
    ] = None,
    json_wanted: Annotated[bool, typer.Option("--json", help="Print JSON, for another program.")] = False,
) -> None:
    """Check installation, devices, models, caches and data, and say how to repair what is wrong.

    With --verify DIR, compare everything that nearer wrote there with its checksums.
    Ends with 1 if something that is needed is broken.
    """
    from nearer.doctor import examine, usable
    from nearer.doctor.findings import as_json, as_tables

    if verify_place is None:
        findings = list(examine(data, online=online))
    else:
        from nearer.doctor.verify import verify

        findings = list(verify(verify_place))
    if json_wanted:
        put(as_json(findings))
    else:
        show_table(as_tables(findings, encoding=sys.stdout.encoding))
    if not usable(findings):
        raise typer.Exit(1)
