"""From targets to the page on disk, and figures as files beside it.

The page is one HTML file that holds its style and its script, asks for nothing from anywhere, and lets nothing in.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nearer
from nearer.analysis.compare import AUTO, rows_beside
from nearer.errors import InputError, first_line
from nearer.evaluation import Scorer, Task
from nearer.evaluation.published import Published
from nearer.report.analysis_section import behind_section, rankings_section
from nearer.report.curves import curves_section
from nearer.report.figure_files import check_figures, write_figures
from nearer.report.markup import Html, text
from nearer.report.measured import Measured, chosen_tasks, measure
from nearer.report.scores import scores_section
from nearer.report.subjects import Subject, read_subjects
from nearer.report.training_section import page_command, reproduce_section, trained_section
from nearer.report.verdict import title, verdict
from nearer.storage.whole import write_whole

PAGE = "report.html"
HERE = Path(__file__).parent
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
    from jinja2 import Environment, StrictUndefined

    # `text` escapes all that no `element` made
    environment = Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined, autoescape=True, finalize=text
    )
    return environment.from_string(_file("page.html.jinja")).render(
        title=title(subjects),
        verdict=verdict(subjects, measured),
        sections=sections,
        parts=PARTS,
        version=nearer.__version__,
        style=Html((HERE.parent / "look.css").read_text(encoding="utf-8") + _file("page.css")),
        script=Html(_file("page.js")),
        digest=_digest,
    )


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
