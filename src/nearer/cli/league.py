"""The command league."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearer.cli import options
from nearer.cli.output import put, say, show_table


def league(
    file: Annotated[
        Path, typer.Argument(metavar="LEAGUE.yaml", help="Methods, backbones, text, steps, tuning, tests.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the league. The same command goes on there.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and tell the runs; train nothing.")
    ] = False,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Write results and page of the runs that are done; train nothing.")
    ] = False,
    drop_models: Annotated[
        bool, typer.Option("--drop-models", help="Remove each model when it has been scored.")
    ] = False,
    engine: Annotated[
        options.EngineName,
        typer.Option(help="Train in processes of this machine, or with Ray on any number of machines."),
    ] = options.EngineName.process,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs at a time. Default: 1; with Ray one for each GPU, or 2.")
    ] = None,
) -> None:
    """Let methods meet: the same text, steps, tuning and tests for each, and one page of what can be told apart."""
    from nearer.leagues.league import announce
    from nearer.leagues.league import league as run_league
    from nearer.leagues.page import PAGE

    if dry_run:
        for line in announce(file, out):
            put(line)
        return
    outcome = run_league(
        file,
        out,
        engine=engine.value,
        workers=workers,
        keep_models=not drop_models,
        run=not page_only,
        say=say,
        progress=True,
    )
    show_table(outcome.table())
    for failure in outcome.failures:
        say(failure)
    say(f"page: {out / PAGE}")
    if outcome.failures:
        say("the same command tries again what failed, and goes on with what is not done")
        raise typer.Exit(1)
