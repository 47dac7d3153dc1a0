"""What was trained and how: the facts of each run side by side, then every setting with what its recipe says of it.

What recipes say of their settings is read from their YAML files as text. Then the commands that make all of it again,
and how the models are used from Python.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from nearer.report.markup import (
    LACKING,
    Html,
    cell,
    code,
    count,
    duration,
    element,
    figure,
    note,
    paragraph,
    section,
    table,
)
from nearer.report.subjects import Subject
from nearer.runs.folder import Run
from nearer.typed_files import parse_yaml

MAIN = ("method", "model", "teachers", "pooling", "batch_size", "learning_rate", "epochs", "select_on", "seed")
NAMES = {"model": "starts from", "teachers": "learns from", "select_on": "selected on"}


def trained_section(subjects: Sequence[Subject]) -> Html:
    runs = [(subject.label, subject.run) for subject in subjects if subject.run is not None]
    parts: list[Html] = []
    for label, run in runs:
        if not run.finished:
            parts.append(note(element("strong", f"{label}: "), _unfinished(run)))
    if not runs:
        return Html()
    facts = _facts([run for _, run in runs])
    common = [(name, values[0]) for name, values in facts.items() if len(set(values)) == 1]
    entries = [element("div", element("dt", name), element("dd", value)) for name, value in common]
    parts.append(element("dl", *entries, class_="facts"))
    if len(runs) > 1:
        parts.append(_differences(runs, facts))
    parts.append(_settings(runs))
    return section("trained", "What was trained and how", *parts)


def _unfinished(run: Run) -> str:
    return f"the run is not finished; the last step noted is {run.metrics.last_step:,}."


def _facts(runs: Sequence[Run]) -> dict[str, list[str]]:
    """By name, what holds for each run; what is known of none is left out."""
    facts: list[tuple[str, Callable[[Run], str]]] = [("recipe", lambda run: run.recipe)]
    facts += [(NAMES.get(name, name.replace("_", " ")), partial(_setting, name=name)) for name in MAIN]
    facts += [
        ("text", lambda run: run.config.corpus),
        ("records", _records),
        ("steps", lambda run: f"{run.metrics.last_step:,}"),
        ("dev task", _dev_task),
        ("kept", _kept),
        ("took", lambda run: LACKING if run.seconds is None else duration(run.seconds)),
        ("machine", lambda run: shown(run.noted("machine"))),
        ("versions", lambda run: shown(run.config.libraries or None)),
        ("digest of the text’s tokens", lambda run: str(run.config.tokens or LACKING)),
        ("digests of what it learns from", lambda run: shown(run.config.learns_from or None)),
    ]
    found = {name: [value(run) for run in runs] for name, value in facts}
    return {name: values for name, values in found.items() if not set(values) <= {LACKING, "none"}}


def _setting(run: Run, name: str) -> str:
    return shown(run.settings[name]) if run.settings.get(name) is not None else LACKING


def _records(run: Run) -> str:
    if "records" not in run.provenance:
        return LACKING
    dropped = run.provenance.get("dropped") or 0
    left_out = f"; {dropped:,} more could not be used" if dropped else ""
    return f"{int(run.provenance['records']):,} {run.settings.get('data', 'records')}{left_out}"


def _kept(run: Run) -> str:
    if run.best is None:
        return "the last step" if run.finished else LACKING
    step, dev = run.best
    untrained = "" if step else " (untrained: no step was better)"
    return f"step {step:,}, dev {figure(dev)}{untrained}"


def _dev_task(run: Run) -> str:
    held = run.provenance.get("held_out")
    if not isinstance(held, dict):
        return LACKING
    return f"{held['records']:,} records of the text, which were not trained on: {held['asks']} (ndcg@10)"


def _settings(runs: Sequence[tuple[str, Run]]) -> Html:
    """All of them, folded; of one run with what its recipe says, if that came with the package."""
    names = list(dict.fromkeys(name for _, run in runs for name in run.settings))
    notes = recipe_notes(runs[0][1].recipe) if len(runs) == 1 else None
    if notes is not None:
        [(_, run)] = runs
        rows = [[name, *_commented(name, run, notes)] for name in names]
        about = paragraph(f"{run.recipe}: {notes.summary}", kind="quiet")
        return _folded(names, about, table("All settings", ["setting", "value", "the recipe says"], rows, words=True))
    rows = [[name, *_words(_setting(run, name) for _, run in runs)] for name in names]
    head = ["setting", *(label for label, _ in runs)]
    return _folded(names, table("All settings", head, rows, words=True))


def _differences(runs: Sequence[tuple[str, Run]], facts: Mapping[str, list[str]]) -> Html:
    """What does not hold for all runs: facts, then settings that are not among them."""
    told = {*MAIN, *NAMES}
    names = [name for name in dict.fromkeys(name for _, run in runs for name in run.settings) if name not in told]
    settings = {name: [_setting(run, name) for _, run in runs] for name in names}
    rows = [[name, *_words(values)] for name, values in {**facts, **settings}.items() if len(set(values)) > 1]
    if not rows:
        return paragraph("The runs differ in nothing that they note.")
    return table("What differs", ["", *(label for label, _ in runs)], rows, words=True)


def _words(values: Iterable[str]) -> list[Html]:
    return [cell(value, kind="words") for value in values]


def _commented(name: str, run: Run, notes: RecipeNotes) -> list[str]:
    said = notes.said(name, run.settings[name])
    return [*_words([shown(run.settings[name])]), cell(said, kind="words quiet")]


def _folded(names: Sequence[str], *content: Html) -> Html:
    return element("details", element("summary", f"All {count(len(names), 'setting')}"), *content)


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
            parts += [paragraph("Score:"), code("sh", _scoring(subject.model, tasks, run.config.data))]
        parts += [paragraph("Use:"), code("python", _loading(subject.model, by_name=False))]
    return parts


def training_command(run: Run) -> str:
    """Writes the resolved settings as a recipe, and trains by it."""
    recipe = f"{Path(run.recipe).name}.yaml"
    settings = yaml.safe_dump(run.settings, sort_keys=False, allow_unicode=True).rstrip("\n")
    end = "END"
    while end in settings.split("\n"):
        end += "_"
    arguments: list[object] = ["nearer", "train", recipe, "--corpus", run.config.corpus]
    if run.config.columns:
        arguments += ["--columns", ",".join(map(str, run.config.columns))]
    if run.config.data:
        arguments += ["--data", run.config.data]
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


FOLDER = Path(__file__).parent.parent / "recipes"
COMMENTED = re.compile(r"^(\w+):\s.*?\s#\s+(.+)$", flags=re.MULTILINE)


@dataclass(frozen=True)
class RecipeNotes:
    """summary: what the recipe is for; values: its settings; comments: what it says of some of them."""

    summary: str
    values: dict[str, Any]
    comments: dict[str, str]

    def said(self, setting: str, value: object) -> str:
        """The recipe's comment, if the run has the recipe's value; else what the recipe has instead."""
        if setting not in self.values:
            return ""
        if _same(self.values[setting], value):
            return self.comments.get(setting, "")
        return f"the recipe has {shown(self.values[setting])}"


def recipe_notes(name: str) -> RecipeNotes | None:
    """None for a recipe that did not ship with the package: runs note its name, not its text."""
    path = FOLDER / f"{name}.yaml"
    if not re.fullmatch(r"[\w.-]+", name) or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    opening = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    return RecipeNotes(
        summary=opening[1] if len(opening) > 1 else "",  # the first line is the command that runs it
        values=parse_yaml(text),
        comments=dict(COMMENTED.findall(text)),
    )


def shown(value: object) -> str:
    """A setting as one writes it: `0.05`, `none`, `everyday, stsb-dev`."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(shown(part) for part in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(part)}" for name, part in value.items() if part is not None)
    return str(value)


def _same(recipe: object, run: object) -> bool:
    """YAML reads `3e-5` as text, and a list of one is written without brackets."""
    one, two = ([value] if not isinstance(value, list) else value for value in (recipe, run))
    return len(one) == len(two) and all(_equal(first, second) for first, second in zip(one, two, strict=True))


def _equal(one: object, two: object) -> bool:
    try:
        return one == two or float(str(one)) == float(str(two))
    except ValueError:
        return False
