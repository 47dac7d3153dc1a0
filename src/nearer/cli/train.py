"""Commands that train: train, demo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from nearer.cli import completion, options
from nearer.cli.output import say, show_table
from nearer.errors import SettingError
from nearer.text.reading import MAX_CHARACTERS


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A name (see `nearer recipes`) or a YAML file of your own.",
            autocompletion=completion.recipes,
        ),
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Text to learn from: txt, csv, tsv, jsonl, parquet, hf:NAME.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Start from this model instead of the recipe's.")] = None,
    teacher: Annotated[
        list[str] | None,
        typer.Option(help="Learn from this model's rankings (RankCSE, RankEncoder, refine's judge); may be repeated."),
    ] = None,
    pooler_as_head: Annotated[
        bool,
        typer.Option(
            "--pooler-as-head", help="Start with the checkpoint's pooling layer as head (published supervised SimCSE)."
        ),
    ] = False,
    data: Annotated[Path | None, typer.Option(help="Folder of the STS sets, for dev and test scores.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/RECIPE-seedN.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed of the run: decides all that is random.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Run once with each of these seeds, such as 0,1,2, and show mean ± sd.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="End after so many steps.")] = None,
    no_compile: Annotated[
        bool, typer.Option("--no-compile", help="On a GPU: do not compile or capture the training step.")
    ] = False,
    columns: Annotated[
        str | None, typer.Option(help="Which columns of the corpus to read, in order, by name or number from 0.")
    ] = None,
    encoding: options.Encoding = "utf-8",
    max_characters: options.MaxCharacters = MAX_CHARACTERS,
    strip_contained: options.StripContained = False,
    allow_dropped: options.AllowDropped = False,
    allow_pickle: options.AllowPickle = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace one setting; `nearer settings` lists them."),
    ] = None,
    resume_run: Annotated[Path | None, typer.Option("--resume", metavar="RUN", help="Continue this run.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write RUN/report.html at the end.")] = False,
) -> None:
    """Train an encoder with a recipe. The result is RUN/model, which `nearer` and sentence-transformers load."""
    from nearer import training

    if resume_run is not None:
        if recipe or corpus or model or teacher or settings or seeds or pooler_as_head:
            raise SettingError("--resume: goes on with the run's own recipe, corpus and settings; give none of them.")
        run = training.resume(resume_run, progress=True)
        _show(run)
        _report(run.folder, no_report)
        _tell_untrained([run])
        return
    if recipe is None or corpus is None:
        raise SettingError("a recipe and --corpus FILE are needed (`nearer recipes` lists recipes), or --resume RUN.")
    overrides = training.recipes.parse_overrides(settings or [])
    if seed is not None:
        overrides["seed"] = seed
    if max_steps is not None:
        overrides["max_steps"] = max_steps
    if no_compile:
        overrides["compile"] = False
    if pooler_as_head:
        overrides["pooler_as_head"] = True
    if allow_pickle:
        overrides["allow_pickle"] = True
    arguments: dict[str, Any] = {
        "recipe": recipe,
        "corpus": corpus,
        "model": model,
        "teachers": teacher,
        "data": data,
        "columns": options.column_names(columns),
        "reading": {
            "encoding": encoding,
            "max_characters": max_characters,
            "strip_contained": strip_contained,
            "allow_dropped": allow_dropped,
        },
        "settings": overrides,
        "progress": True,
    }
    if seeds is None:
        run = training.train(**arguments, out=out)
        _show(run)
        _report(run.folder, no_report)
        _tell_untrained([run])
        return
    folder = out or Path("runs") / Path(recipe).stem
    runs, figures = training.train_seeds(options.seed_numbers(seeds), folder, **arguments)
    table = Table(title=f"{folder}, seeds {seeds}", title_justify="left")
    table.add_column("task")
    table.add_column("mean ± sd" if len(runs) > 1 else "score", justify="right")
    for name, figure in figures.items():
        table.add_row(name, figure)
    show_table(table)
    _report(folder, no_report)
    _tell_untrained(runs)


def _show(run: Any) -> None:
    if run.scores is not None:
        show_table(run.scores.table())
    if run.best_score is not None:
        say(f"best on dev: {run.best_score:.2f} at step {run.best_step}")
    say(f"model: {run.model}")


def _tell_untrained(runs: Sequence[Any]) -> None:
    """The last line, where training gave nothing: nobody should take the model for a trained one."""
    untrained = [run for run in runs if run.untrained]
    if untrained:
        which = "" if len(runs) == 1 else f" ({', '.join(run.folder.name for run in untrained)})"
        say(
            f"untrained{which}: no step was better on dev than the model it started from, which is kept as it was. "
            "The metrics and the report show what the steps did."
        )


def _report(folder: Path, unwanted: bool) -> None:
    """The page about a run, or about the seeds of one, by the first process alone."""
    from nearer import distributed
    from nearer.report import report_after_run

    if not unwanted and distributed.rank() == 0:
        page = report_after_run(folder, say=say)
        if page is not None:
            say(f"report: {page}")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for texts, runs and models; an earlier demo's is replaced.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[
        int,
        typer.Option(min=0, max=options.LARGEST_SEED, help="Which functions are held out, and the seed of training."),
    ] = 0,
    budget: Annotated[str, typer.Option(help="For adapt, such as 4min; a minute comes on top.")] = "4min",
) -> None:
    """Adapt the bundled encoder to the docstrings of the Python packages on this machine, offline: before and after."""
    from nearer.demo.run import run_demo

    run_demo(out, budget=budget, seed=seed, show=show_table)
