"""The command analyse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearer.cli import options
from nearer.cli.bundles import LOADING, Loading, sample_corpus, with_bundles
from nearer.cli.output import say, show_report, show_table
from nearer.errors import InputError, SettingError

if TYPE_CHECKING:
    from nearer.analysis import Analysis, SideBySide

ANALYSIS_FILE, FIGURES = "analysis.json", "figures"


@with_bundles
def analyse(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Folders, the bundled 'wiki-mini', or hub names.")
    ],
    tasks: Annotated[
        str, typer.Option(help="Comma-separated: stsb-dev, sts12 …, everyday (bundled), or files of scored pairs.")
    ] = "stsb-dev",
    data: Annotated[Path | None, typer.Option(help="Folder of the STS sets (SentEval's layout or raw).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for analysis.json and the figures. Default: print tables only.")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Text for rank vectors, shared neighbours and word frequencies.")
    ] = None,
    size: Annotated[
        int, typer.Option(min=2, help="How many different sentences of the corpus to use; the seed chooses them.")
    ] = 10_000,
    threshold: Annotated[
        float | None,
        typer.Option(
            callback=options.finite,
            help="Pairs with a higher score are positives. Default: four fifths of the scale (4 of 5).",
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Show so many queries with their rankings.")] = 3,
    path: Annotated[
        bool, typer.Option("--path", help="The models are steps of one training: draw their path with arrows.")
    ] = False,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Estimate rank vectors from the corpus' covariance: much faster.")
    ] = False,
    neighbours: Annotated[int, typer.Option(min=1, help="How many nearest sentences of the corpus to compare.")] = 100,
    seed: Annotated[
        int,
        typer.Option(min=0, max=options.LARGEST_SEED, help="Seed: decides which random pairs and sentences are used."),
    ] = 0,
    loading: Loading = LOADING,
    precision: options.Precision = options.PrecisionName.float32,
    batch_size: options.BatchSize = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an analysis in the folder.")] = False,
) -> None:
    """Show what lies behind scores: alignment, uniformity, spectrum, similarity by rating, biases, single rankings."""
    from nearer.analysis import analyse as run
    from nearer.analysis import side_by_side
    from nearer.analysis.side_by_side import examples_table
    from nearer.baselines import load_scorer
    from nearer.evaluation import load_tasks

    # what can be wrong without a model first: loading and encoding take time
    if out is not None:
        _check_folder(out, force)
    loaded = load_tasks(options.split_names(tasks), data)
    for task in loaded:
        if not task.pairs:
            raise SettingError(
                f"--tasks: {task.name} has no scored pairs; analysis is of tasks such as stsb-dev or a file."
            )
    for task in loaded:
        if task.report:
            show_report(task.report)
    sentences = None if corpus is None else sample_corpus(corpus, size, seed)
    analyses: list[Analysis] = []
    for name in models:
        model = load_scorer(
            name,
            **loading.arguments(precision=precision.value),
        )
        found = run(
            model,
            loaded,
            corpus=sentences,
            threshold=threshold,
            neighbours=neighbours,
            approximate=approximate,
            seed=seed,
            batch_size=batch_size,
            progress=True,
        )
        show_table(found.table())
        analyses.append(found)
    compared = side_by_side(analyses, examples=examples)
    for common in compared if examples else []:
        if common.remark:
            say(common.remark)
        else:
            show_table(examples_table(common.examples))
    if out is not None:
        _write(analyses, compared, out, path)


def _check_folder(out: Path, force: bool) -> None:
    from nearer.extras import require

    require("matplotlib", "plots", "--out: drawing figures")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, a folder is needed.")
    if (out / ANALYSIS_FILE).exists() and not force:
        raise InputError(f"{out}: an analysis is there already; choose another folder, or --force.")
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}).") from None


def _write(analyses: list[Analysis], compared: list[SideBySide], out: Path, arrows: bool) -> None:
    from nearer.analysis import write_analyses
    from nearer.analysis.figures import save_figure
    from nearer.analysis.plots import gallery

    write_analyses(analyses, out / ANALYSIS_FILE, compared=[common.to_dict() for common in compared])
    figures = gallery(analyses, compared, arrows=arrows)
    for name, figure in figures.items():
        for kind in ("svg", "png"):
            save_figure(figure, out / FIGURES / f"{name}.{kind}")
    say(f"{out / ANALYSIS_FILE}: all figures; {out / FIGURES}: {len(figures)} drawings, as SVG and PNG")
