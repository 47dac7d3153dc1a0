"""The commands that make all of it again, and how the models are used from Python."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import yaml

from nearer.report.markup import Html, code, element, paragraph, section
from nearer.report.run_folder import Run
from nearer.report.subjects import Subject


def reproduce_section(subjects: Sequence[Subject], made_by: str) -> Html:
    """made_by: the command that writes this page."""
    parts: list[Html] = []
    for subject in subjects:
        own = _run(subject, subject.run) if subject.run is not None else []
        if subject.run is None and subject.model is not None:
            own = [code("python", _loading(subject.model, by_name=True))]
        parts += own if len(subjects) == 1 else [element("details", element("summary", subject.label), *own)]
    page = [paragraph("This page:"), code("sh", made_by)]
    return section("reproduce", "How to repeat it", *parts, *page)


def _run(subject: Subject, run: Run) -> list[Html]:
    parts = [
        paragraph(
            "Train. The settings stand here as they were resolved, so that later changes to recipes make no difference."
        ),
        code("sh", training_command(run)),
    ]
    if not run.finished:
        parts += [paragraph("Go on with the run:"), code("sh", _command("nearer", "train", "--resume", run.folder))]
    if subject.model is not None:
        tasks = run.settings.get("test_on") or []
        if tasks:
            parts += [paragraph("Score:"), code("sh", _scoring(subject.model, tasks, run.facts.get("data")))]
        parts += [paragraph("Use:"), code("python", _loading(subject.model, by_name=False))]
    return parts


def training_command(run: Run) -> str:
    """Writes the resolved settings as a recipe, and trains by it."""
    recipe = f"{Path(run.recipe).name}.yaml"
    settings = yaml.safe_dump(run.settings, sort_keys=False, allow_unicode=True).rstrip("\n")
    end = "END"
    while end in settings.split("\n"):
        end += "_"
    arguments: list[object] = ["nearer", "train", recipe, "--corpus", run.facts["corpus"]]
    if run.facts.get("columns"):
        arguments += ["--columns", ",".join(map(str, run.facts["columns"]))]
    if run.facts.get("data"):
        arguments += ["--data", run.facts["data"]]
    again = f"{run.folder.name or run.recipe}-again"
    return f"cat > {shlex.quote(recipe)} << '{end}'\n{settings}\n{end}\n{_command(*arguments, '--out', again)}"


def _scoring(model: str, tasks: Sequence[str], data: object) -> str:
    where = ["--data", data] if data else []
    return _command("nearer", "evaluate", model, "--tasks", ",".join(tasks), *where)


def _loading(model: str, *, by_name: bool) -> str:
    """The lines that load a model; what is a run's own loads in sentence-transformers too, unless it ranks."""
    lines = [
        "import nearer",
        "",
        f"encoder = nearer.load_model({model!r})",
        'encoder.rank("Somebody has lunch.", ["A man is eating.", "It rains."])',
    ]
    if not by_name and not (Path(model) / "rank_corpus.json").exists():
        lines += [
            "",
            "from sentence_transformers import SentenceTransformer",
            "",
            f'SentenceTransformer({model!r}).encode(["Somebody has lunch."])',
        ]
    return "\n".join(lines)


def _command(*arguments: object) -> str:
    return shlex.join(str(argument) for argument in arguments)


def page_command(
    targets: Sequence[str], out: Path, tasks: Sequence[str], data: str | Path | None, options: dict[str, object]
) -> str:
    arguments: list[object] = ["nearer", "report", *targets, "--out", out]
    arguments += ["--tasks", ",".join(tasks)] if tasks else []
    arguments += ["--data", data] if data else []
    for name, value in options.items():
        if value is True:
            arguments.append(f"--{name.replace('_', '-')}")
        elif value:
            arguments += [f"--{name.replace('_', '-')}", value]
    return _command(*arguments)
