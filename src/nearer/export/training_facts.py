"""How a model was trained, as far as it is on record: from its run's folder, else from what the model says itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.encoder.sources import BUNDLED_MODELS, MODELS_VARIABLE
from nearer.export.source import Source, is_local, without_folders
from nearer.report.numbers import duration, figure
from nearer.report.recipe_notes import recipe_notes, shown
from nearer.runs.folder import MODEL
from nearer.text.hub import HUB_PREFIX

# what a run notes with its model besides the method's own settings
NOT_SETTINGS = {
    *("method", "recipe", "settings", "seconds", "machine", "corpus", "records", "dropped", "tokens"),
    *("best_step", "dev_score", "held_out", "whitening"),
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
