"""The command report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearer.cli import options
from nearer.cli.output import say


def report(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="RUN|MODEL...", help="Folders of runs or of their seeds; models by folder or name."),
    ],
    out: Annotated[Path, typer.Option(help="File to write the page to.")] = Path("report.html"),
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated, as for `nearer evaluate`: score all models on these, and analyse the STS tasks. "
            "Default: the first run's dev tasks, or the bundled everyday."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the published sets.")] = None,
    published: Annotated[
        str,
        typer.Option(
            help="Which published rows to show: all, none, or names of backbones or sources (comma-separated)."
        ),
    ] = "auto",
    figures: Annotated[Path | None, typer.Option(help="Folder for all drawings, as SVG and PNG files.")] = None,
    corpus: Annotated[str | None, typer.Option(help="Text for rank vectors and shared neighbours.")] = None,
    size: Annotated[int, typer.Option(min=100, help="How many different sentences of the corpus to use.")] = 10_000,
    examples: Annotated[int, typer.Option(min=0, help="Show so many queries with their rankings.")] = 3,
    pooling: options.Pooling = None,
    max_length: options.MaxLength = None,
    pooler_as_head: options.PoolerAsHead = False,
    precision: options.Precision = options.PrecisionName.float32,
    batch_size: options.BatchSize = None,
    device: options.Device = None,
    trust_remote_code: options.RemoteCode = False,
    allow_pickle: options.AllowPickle = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False,
) -> None:
    """Write one page about runs and models: settings, curves, scores, analysis, and how to repeat it.

    --pooling, --max-length and --pooler-as-head are used for models that are not the folder of a run.
    """
    from nearer.report import write_report

    given: dict[str, Any] = {
        "pooling": pooling,
        "max_length": max_length,
        "pooler_as_head": pooler_as_head,
        "trust_remote_code": trust_remote_code,
        "allow_pickle": allow_pickle,
    }
    page = write_report(
        targets,
        out,
        tasks=None if tasks is None else [name.strip() for name in tasks.split(",") if name.strip()],
        data=data,
        published=published,
        figures=figures,
        corpus=None if corpus is None else _drawn(corpus, size),
        examples=examples,
        options={name: value for name, value in given.items() if value},
        precision=precision.value,
        batch_size=batch_size,
        device=device,
        force=force,
        progress=True,
    )
    drawings = f"; drawings: {figures}" if figures else ""
    say(f"{page}: {page.stat().st_size / 1024:,.0f} KiB, all in one file{drawings}")


def _drawn(corpus: str, size: int) -> list[str]:
    from nearer.cli.output import show_report
    from nearer.teachers.rank_vectors import sample_sentences
    from nearer.text import read_sentences

    reading = read_sentences(corpus)
    sentences = sample_sentences(reading, size, 0)
    show_report(reading.report)
    reading.report.check_kept(told=True)
    return sentences
