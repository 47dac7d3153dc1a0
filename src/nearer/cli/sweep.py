"""The command sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearer.cli import completion, options
from nearer.cli.output import say, show_table
from nearer.text.reading import MAX_CHARACTERS


def sweep(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A name (see `nearer recipes`) or a YAML file of your own.",
            autocompletion=completion.recipes,
        ),
    ],
    corpus: Annotated[str, typer.Option(help="Text to learn from: txt, csv, tsv, jsonl, parquet, hf:NAME.")],
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,VALUE",
            help="A setting and the values it takes; may be repeated. construct.KEY: of the construction (DebCSE).",
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds to run every point with, such as 0,1,2.")] = "0",
    model: Annotated[str | None, typer.Option(help="Start from this model instead of the recipe's.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the STS sets, for dev and test scores.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the sweep. Default: runs/RECIPE-sweep.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="End each run after so many steps.")] = None,
    teacher: Annotated[
        list[str] | None, typer.Option(help="Learn from this model's rankings (RankCSE, RankEncoder); may be repeated.")
    ] = None,
    no_compile: Annotated[
        bool, typer.Option("--no-compile", help="On a GPU: do not compile or capture the training step.")
    ] = False,
    columns: Annotated[str | None, typer.Option(help="Columns of the corpus in order, by name or number.")] = None,
    encoding: options.Encoding = "utf-8",
    max_characters: options.MaxCharacters = MAX_CHARACTERS,
    strip_contained: options.StripContained = False,
    allow_dropped: options.AllowDropped = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting.")] = None,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep the model of every run, not only those of the best point.")
    ] = False,
) -> None:
    """Run a recipe at every point of a grid of settings, with every seed. The same command continues a sweep."""
    from nearer.sweeps.grid import parse_grid
    from nearer.sweeps.sweep import sweep as run_sweep
    from nearer.training.recipes import parse_overrides

    fixed = parse_overrides(settings or [])
    if max_steps is not None:
        fixed["max_steps"] = max_steps
    if no_compile:
        fixed["compile"] = False
    result = run_sweep(
        recipe,
        corpus,
        parse_grid(grid or []),
        options.seed_numbers(seeds),
        out,
        model=model,
        teachers=teacher,
        data=data,
        columns=options.column_names(columns),
        settings=fixed,
        reading={
            "encoding": encoding,
            "max_characters": max_characters,
            "strip_contained": strip_contained,
            "allow_dropped": allow_dropped,
        },
        keep_models=keep_models,
        say=say,
        progress=True,
    )
    show_table(result.table())
    for remark in result.remarks:
        say(remark)
    if result.picture is not None:
        say(f"picture: {result.picture}")
    if result.best is not None and result.best.best_run.model is not None:
        say(f"best model: {result.best.best_run.model}")
    say(f"figures of all runs: {result.folder / 'results.csv'}")
    if result.failed:
        say(f"{len(result.failed)} of {len(result.runs)} runs failed; the same command tries them again")
        raise typer.Exit(1)
