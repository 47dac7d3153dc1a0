"""A model card from what is on record. What nobody noted is left out, or said to be unknown; nothing is guessed.

The prose stands in `model_card.md.jinja`. The tests run the lines of Python in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nearer.errors import SettingError
from nearer.evaluation.tasks import kind_name, shown_name
from nearer.export.source import Source
from nearer.export.training_facts import TrainingFacts, training_facts
from nearer.methods import known_methods
from nearer.report.numbers import figure, listed
from nearer.report.scores import Block, blocks
from nearer.runs.score_file import ScoreFile
from nearer.teachers import RankEncoder

LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|multilingual")
LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction", "nearer")


@dataclass(frozen=True)
class Told:
    """What only the user can know. name: what the model is called in examples, such as its name on the hub."""

    name: str
    languages: tuple[str, ...] = ()
    licence: str | None = None

    def __post_init__(self) -> None:
        wrong = next((language for language in self.languages if not LANGUAGE.fullmatch(language)), None)
        if wrong is not None:
            raise SettingError(f"--language: {wrong!r} is not a language's code such as en, de or zh.")
        if self.licence is not None and not LICENCE.fullmatch(self.licence):
            raise SettingError(
                f"--license: {self.licence!r} is not a licence's name such as apache-2.0 or cc-by-sa-4.0."
            )
        if not self.name or not self.name.isprintable() or '"' in self.name or "\\" in self.name:
            raise SettingError(f"--name: {self.name!r} cannot be the name of a model.")


def model_card(source: Source, told: Told, scores: ScoreFile | None) -> str:
    """The whole README.md, as the hub reads it."""
    from jinja2 import Environment, StrictUndefined

    trained = training_facts(source)
    measured = scores if scores is not None and scores.scores else None
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    environment.globals |= {"markdown_table": markdown_table, "fenced_yaml": _fenced_yaml}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        front_matter=_as_yaml(_front_matter(trained, told)),
        name=told.name,
        languages=told.languages,
        licence=told.licence,
        encoder=source.encoder,
        settings=source.encoder.settings,
        weights=sum(weight.numel() for weight in source.encoder.parameters()),
        ranks_by=source.model.scoring if isinstance(source.model, RankEncoder) else None,
        trained=trained,
        method=method.facts if (method := known_methods().get(trained.method or "")) else None,
        score_tables=[_block(block) for block in blocks([measured.scores])] if measured else [],
        measured_with=_protocol(measured) if measured else "",
        selected_on=listed(_chosen_by(trained, scores)),
    )


def _front_matter(trained: TrainingFacts, told: Told) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "language": list(told.languages),
        "license": told.licence,
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": [*TAGS, *([trained.method] if trained.method else [])],
        "base_model": trained.base_model,
        "datasets": [trained.dataset] if trained.dataset else None,
    }
    return {name: value for name, value in facts.items() if value}


def _block(block: Block) -> str:
    rows = []
    for row in block.rows:
        score = row.scores[0]
        how = ", ".join(f"{name} {value}" for name, value in score.protocol.items() if value not in (False, None))
        number = f"{score.count:,} {score.unit}"
        cells = [score.task, score.split, number, score.measure, figure(score.score), how, f"`{score.data_hash[:16]}`"]
        rows.append(cells)
    if len(block.averaged) > 1:
        name = f"average of {len(block.averaged)}" + (", without dev" if len(block.rows) > len(block.averaged) else "")
        rows.append([f"**{name}**", "", "", "", f"**{figure(block.average(0))}**", "", ""])
    return markdown_table(
        [kind_name(block.kind), "split", "data", "measure", "score", "protocol", "data's digest"], rows
    )


def _protocol(scores: ScoreFile) -> str:
    facts = {name.replace("_", " "): value for name, value in scores.protocol.items() if value not in (False, None)}
    return ", ".join(name if value is True else f"{name} {value}" for name, value in facts.items())


def _chosen_by(trained: TrainingFacts, scores: ScoreFile | None) -> list[str]:
    """The tasks among the scores by which a run selected."""
    selected = trained.settings.get("select_on") or []
    names = {form.lower() for name in selected for form in (name, shown_name(name)) if form}
    found = scores.scores if scores is not None else ()
    return [score.task for score in found if {score.task.lower(), f"{score.task} {score.split}".lower()} & names]


def _as_yaml(values: dict[str, Any]) -> str:
    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def _fenced_yaml(values: dict[str, Any]) -> str:
    """A block of Markdown that no text in the values can end."""
    text = _as_yaml(values)
    fence = "`" * (2 + max((len(run) for run in re.findall("`+", text)), default=1))
    return f"{fence}yaml\n{text}{fence}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells may hold anything: bars and line breaks would end them."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").replace("<", "&lt;").split())
