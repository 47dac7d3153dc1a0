"""From targets to the page on disk, and figures as files beside it.

matplotlib draws the figures, for papers and slides (`analysis.figures` says which draws what). The page is one HTML
file that holds its style and its script, asks for nothing from anywhere, and lets nothing in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearer
from nearer.analysis.compare import AUTO, rows_beside
from nearer.errors import InputError, first_line
from nearer.evaluation import Scorer, Task
from nearer.evaluation.published import Published
from nearer.extras import require
from nearer.report.analysis_section import behind_section, rankings_section
from nearer.report.curves import curve_names, curve_title, curves_section
from nearer.report.scores import scores_section
from nearer.report.subjects import Measured, Subject, chosen_tasks, measure, read_subjects
from nearer.report.template import HERE, STYLES, fill_template, read_markup
from nearer.report.training_section import page_command, reproduce_section, trained_section
from nearer.report.verdict import title, verdict
from nearer.storage.whole import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PAGE = "report.html"
PARTS = {
    "trained": "How",
    "curves": "Curves",
    "scores": "Scores",
    "behind": "Behind the scores",
    "rankings": "Rankings",
    "reproduce": "How to repeat it",
}


def write_report(
    targets: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    tasks: Sequence[str | Task] | None = None,
    data: str | Path | None = None,
    published: str | Sequence[Published] = AUTO,
    figures: str | Path | None = None,
    corpus: Sequence[str] | None = None,
    examples: int = 3,
    loaded: Mapping[str, Scorer] | None = None,
    options: Mapping[str, Any] | None = None,
    device: str | None = None,
    precision: str = "float32",
    batch_size: int | None = None,
    force: bool = False,
    progress: bool = False,
) -> Path:
    """Write one page about runs and models side by side.

    tasks: to score all models on and, those with scored pairs, to look behind; None for the first run's dev tasks, or
    what can be had of them. data: folder of the published sets. published: rows to stand beside, or which ones, as
    `rows_beside` has it. figures: a folder for all drawings as SVG and PNG. corpus: sentences for rank vectors.
    loaded: models that are in memory already, by target. options: of loading models that are not the folder of a run.
    force: replace a page that is there.
    """
    named = [targets] if isinstance(targets, str | Path) else list(targets)
    page = Path(out)
    _check(page, force)
    if figures is not None:
        check_figures(Path(figures))
    if isinstance(published, str):
        rows_beside([], published)  # names that are unknown
    subjects = read_subjects(named)
    wanted, remarks = chosen_tasks(subjects, tasks, data)
    measured = measure(
        subjects,
        wanted,
        loaded=loaded,
        device=device,
        batch_size=batch_size,
        precision=precision,
        options=options,
        corpus=corpus,
        examples=examples,
        progress=progress,
    )
    measured.remarks.extend(remarks)
    if isinstance(published, str):
        scores = [score for own in measured.scores for score in own]
        published = rows_beside(scores, published)
    names = [task for task in tasks or () if isinstance(task, str)]
    command = page_command([str(target) for target in named], page, names, data, dict(options or {}))
    try:
        write_whole(page, render_page(subjects, measured, published=published, made_by=command))
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}).") from None
    if figures is not None:
        write_figures(subjects, measured, Path(figures))
    return page


def report_after_run(
    folder: str | Path, *, model: Scorer | None = None, device: str | None = None, say: Callable[[str], None] = print
) -> Path | None:
    """The page of a run that has just ended, in its folder. Never fails: a run is worth more than its page.

    model: the finished model, if it is in memory; else it is loaded to the device. say: gets the reason why there is
    no page, and the command to try again.
    """
    loaded = {} if model is None else {str(folder): model}
    try:
        return write_report(folder, Path(folder) / PAGE, loaded=loaded, device=device, force=True)
    except Exception as error:  # whatever it is
        reason = first_line(error).rstrip(".")
        say(f"no report ({reason}); try again with: nearer report {folder} --out {Path(folder) / PAGE}")
        return None


def _check(out: Path, force: bool) -> None:
    """What would be in the way of the page, before models are loaded."""
    if out.is_dir():
        raise InputError(f"{out}: is a folder; name a file, such as {out / PAGE}.")
    if not out.parent.is_dir():
        raise InputError(f"{out}: the folder {out.parent} does not exist.")
    if out.exists() and not force:
        raise InputError(f"{out}: is there already; name another --out, or --force to replace it.")


def render_page(
    subjects: Sequence[Subject], measured: Measured, *, published: Sequence[Published] = (), made_by: str = ""
) -> str:
    """`page.html.jinja`, filled in. made_by: the command that writes it."""
    sections = {
        "trained": trained_section(subjects),
        "curves": curves_section(subjects),
        "scores": scores_section(subjects, measured.scores, measured.protocols, published),
        "behind": behind_section(measured),
        "rankings": rankings_section(measured),
        "reproduce": reproduce_section(subjects, made_by),
    }
    return fill_template(
        HERE / "page.html.jinja",
        title=title(subjects),
        verdict=verdict(subjects, measured),
        sections=sections,
        parts=PARTS,
        version=nearer.__version__,
        style=read_markup(*STYLES),
        script=read_markup(HERE / "page.js"),
    )


def check_figures(folder: Path) -> None:
    """Whether they can be drawn and written, before models are loaded."""
    require("matplotlib", "plots", "--figures: drawing figures as files")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used as a folder ({error.strerror}).") from None


def write_figures(subjects: Sequence[Subject], measured: Measured, folder: Path) -> list[Path]:
    """Curves and analyses, each as SVG and PNG; those there are replaced."""
    from nearer.analysis.figures import figure_of, save_figure
    from nearer.analysis.plots import gallery

    runs = [subject for subject in subjects if subject.run is not None]
    figures = {
        f"curve-{number:02d}-{_slug(name)}": figure_of(
            partial(_draw_curve, runs=runs, name=name), title=curve_title(name)
        )
        for number, name in enumerate(curve_names([subject.run.metrics for subject in runs if subject.run]), start=1)
    }
    if measured.analyses:
        figures |= gallery(measured.analyses, measured.compared)
    return [
        save_figure(figure, folder / f"{name}.{kind}") for name, figure in figures.items() for kind in ("svg", "png")
    ]


def _draw_curve(axes: Axes, *, runs: Sequence[Subject], name: str) -> None:
    from nearer.analysis.figures import COLOURS

    for subject in runs:
        if subject.run is not None:
            steps, values = subject.run.metrics.series(name)
            if steps:
                axes.plot(steps, values, color=COLOURS[subject.series % len(COLOURS)], label=subject.label)
    axes.grid(axis="y")
    axes.set_xlabel("step")
    axes.set_ylabel(name.replace("_", " "))
    if len(runs) > 1:
        axes.legend(fontsize="small")


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
