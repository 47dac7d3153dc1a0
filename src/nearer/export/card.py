"""A model card from what is on record. What nobody noted is left out, or said to be unknown; nothing is guessed. How a
model was trained is read from its run's folder, else from what the model says itself.

The prose stands in `model_card.md.jinja`. The tests run the lines of Python in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nearer.encoder.sources import BUNDLED_MODELS, MODELS_VARIABLE
from nearer.errors import SettingError
from nearer.evaluation.tasks import kind_name, shown_name
from nearer.export.source import Source, is_local, without_folders
from nearer.methods import known_methods
from nearer.report.markup import duration, figure, listed
from nearer.report.scores import Block, blocks
from nearer.report.training_section import recipe_notes, shown
from nearer.runs.folder import MODEL, ScoreFile
from nearer.teachers import RankEncoder
from nearer.text.hub import HUB_PREFIX

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


# what a run notes with its model besides the method's own settings
NOT_SETTINGS = {
    *("method", "recipe", "settings", "seconds", "machine", "corpus", "records", "dropped", "tokens"),
    *("best_step", "dev_score", "held_out", "whitening", "flow"),
}


@dataclass(frozen=True)
class TrainingFacts:
    """facts: by name, in words, what is known; settings: all of them; empty where nothing is on record.

    method: its name in a recipe. untrained: whether no step was better than the model it started from, which was kept.
    base_model, dataset: names on the hub; None for what lies on this machine alone.
    """

    method: str | None
    untrained: bool
    facts: dict[str, str]
    settings: dict[str, Any]
    base_model: str | None
    dataset: str | None


def training_facts(source: Source) -> TrainingFacts:
    noted: dict[str, Any] = dict(source.run.provenance if source.run else {}) or dict(source.encoder.provenance)
    settings = _settings(source, noted)
    method = settings.get("method", noted.get("method"))
    corpus = str((source.run.config.corpus if source.run else None) or noted.get("corpus") or "")
    model = str(settings.get("model") or "")
    hub_corpus = corpus.removeprefix(HUB_PREFIX).partition("?")[0] if corpus.startswith(HUB_PREFIX) else None
    return TrainingFacts(
        method=None if method is None else str(method),
        untrained=noted.get("best_step") == 0,
        facts=_facts(source, noted, settings, corpus),
        settings=without_folders(settings),
        base_model=model if model and _on_the_hub(model) else None,
        dataset=hub_corpus or None,
    )


def _settings(source: Source, noted: Mapping[str, Any]) -> dict[str, Any]:
    if source.run is not None:
        return dict(source.run.settings)
    own = {name: value for name, value in noted.items() if name not in NOT_SETTINGS}
    return {**(noted.get("settings") or {}), **own}


def _facts(source: Source, noted: Mapping[str, Any], settings: Mapping[str, Any], corpus: str) -> dict[str, str]:
    run = source.run
    recipe = run.recipe if run else noted.get("recipe")
    notes = recipe_notes(str(recipe)) if recipe else None
    facts: dict[str, str | None] = {
        "recipe": f"`{recipe}`" + (f": {notes.summary}" if notes and notes.summary else "") if recipe else None,
        "starts from": _public(settings.get("model")),
        "learns from": _public(settings.get("teachers")),
        "text": Path(corpus).name if is_local(corpus) else corpus or None,
        "records": _records(noted, settings),
        "digest of the text's tokens": noted.get("tokens") or (run.config.tokens if run else None),
        "digests of what it learns from": shown(run.config.learns_from) if run and run.config.learns_from else None,
        "seed": _plain(settings.get("seed")),
        "steps": f"{run.metrics.last_step:,}" if run and run.metrics.last_step else None,
        "dev task": _held_out(noted),
        "kept": _kept(noted, settings),
        "took": duration(float(noted["seconds"])) if isinstance(noted.get("seconds"), int | float) else None,
        "machine": _plain(noted.get("machine")),
        "versions": shown(run.config.libraries) if run and run.config.libraries else None,
    }
    if isinstance(noted.get("whitening"), dict):
        facts["whitened on"] = shown(without_folders(noted["whitening"]))
    if isinstance(noted.get("flow"), dict):
        facts["flow fitted on"] = shown(without_folders(noted["flow"]))
    return {name: value for name, value in facts.items() if value}


def _records(noted: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    if "records" not in noted:
        return None
    dropped = noted.get("dropped") or 0
    left_out = f"; {dropped:,} more could not be used" if dropped else ""
    return f"{int(noted['records']):,} {settings.get('data', 'records')}{left_out}"


def _kept(noted: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    if noted.get("best_step") is None:
        return None
    tasks = shown(without_folders(settings.get("select_on") or []))
    if noted["best_step"] == 0:
        return f"step 0, the model as it was: no step was better on {tasks} ({figure(noted.get('dev_score'))})"
    return f"step {noted['best_step']:,}, the best on {tasks} ({figure(noted.get('dev_score'))})"


def _held_out(noted: Mapping[str, Any]) -> str | None:
    held = noted.get("held_out")
    if not isinstance(held, dict):
        return None
    return f"{held.get('records'):,} records of the text, which were not trained on: {held.get('asks')} (ndcg@10)"


def _public(value: Any) -> str | None:
    return None if not value else shown(without_folders(value))


def _plain(value: Any) -> str | None:
    return None if value is None else shown(value)


def _on_the_hub(name: str) -> bool:
    """Whether a model's name was looked up there: not a folder, not bundled, not from the user's own models."""
    roots = filter(None, os.environ.get(MODELS_VARIABLE, "").split(os.pathsep))
    own = any((Path(root).expanduser() / name).is_dir() for root in roots)
    of_a_run = name.count("/") > 1 or Path(name).name == MODEL  # a path from where the run was started
    return not (is_local(name) or Path(name).exists() or name in BUNDLED_MODELS or own or of_a_run)
