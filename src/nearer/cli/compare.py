"""The command compare."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import completion, options
from nearer.cli.bundles import LOADING, Loading, check_json_file, with_bundles
from nearer.cli.output import put, say, show_report, show_table
from nearer.errors import InputError, SettingError
from nearer.storage.whole import write_whole

if TYPE_CHECKING:
    from nearer.evaluation.task import Scorer


@with_bundles
def compare(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL MODEL...", help="Folders or names. All others are compared with the first."),
    ],
    tasks: Annotated[
        str, typer.Option(help="Comma-separated, as for `nearer evaluate`.", autocompletion=completion.tasks)
    ] = "sts",
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    strict: options.Strict = False,
    resamples: Annotated[int, typer.Option(min=100, help="How many times the bootstrap draws the items anew.")] = 1000,
    confidence: Annotated[
        float,
        typer.Option(callback=options.finite, min=0.5, max=0.999, help="How sure the intervals are: 0.95 means 95 %."),
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, max=options.LARGEST_SEED, help="Seed of the bootstrap.")] = 0,
    published: Annotated[
        str,
        typer.Option(
            help="Which published rows to show: all, none, or names of backbones or sources (comma-separated)."
        ),
    ] = "auto",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file as JSON; '-' prints them.")
    ] = None,
    loading: Loading = LOADING,
    precision: options.Precision = options.PrecisionName.float32,
    batch_size: options.BatchSize = None,
) -> None:
    """Score models side by side. Shows how far each is from the first, with an interval, and published figures."""
    from nearer.analysis.compare import compare as run
    from nearer.analysis.compare import comparison_tables, rows_beside
    from nearer.baselines import load_scorer
    from nearer.evaluation import load_tasks

    if len(models) < 2:
        raise SettingError("models: one given, at least two are needed; `nearer evaluate` scores one.")
    check_json_file(json_file)
    loaded = load_tasks(options.split_names(tasks), data, strict=strict)
    for task in loaded:
        if task.report:
            show_report(task.report)
        for remark in task.remarks():
            say(f"{task.name} {task.split}: {remark}")
    beside = rows_beside(loaded, published)

    def one_by_one() -> Iterator[Scorer]:
        for name in models:
            yield load_scorer(
                name,
                **loading.arguments(precision=precision.value),
            )

    found = run(
        one_by_one(),
        loaded,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        batch_size=batch_size,
        progress=True,
    )
    if json_file is not None:
        published_rows = [row.to_dict() for row in beside]
        text = json.dumps({**found.to_dict(), "published": published_rows}, indent=2, ensure_ascii=False)
        if str(json_file) == "-":
            put(text)
            return
        _write(json_file, text)
    for table in comparison_tables(found, beside):
        show_table(table)


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text + "\n", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from None
    say(f"everything: {path}")
