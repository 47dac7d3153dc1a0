"""A run's folder as files: `config.yaml`, `metrics.jsonl`, `scores.json`, `model/`. Training's code is not asked.

A run that is under way, was interrupted or lost its model is a run all the same; what it lacks is said on the page.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nearer.errors import InputError, first_line
from nearer.report.metrics_log import MetricsLog, read_metrics
from nearer.report.score_file import ScoreFile, read_scores

CONFIG, METRICS, SCORES, MODEL = "config.yaml", "metrics.jsonl", "scores.json", "model"
BEST = Path("checkpoints") / "best"  # the best weights so far, as a model, until the run ends
OWN = "nearer.json"
NEEDED = ("recipe", "settings", "corpus")


@dataclass(frozen=True)
class Run:
    """One run. facts: its config; provenance: what its model says of how it was made, empty without a model."""

    folder: Path
    facts: dict[str, Any]
    metrics: MetricsLog
    scores: ScoreFile | None
    provenance: dict[str, Any]

    @property
    def recipe(self) -> str:
        return str(self.facts["recipe"])

    @property
    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = self.facts["settings"]
        return settings

    def noted(self, name: str) -> Any:
        """What only some runs note, with their model or in their config: `seconds`, `machine`; None without."""
        return self.provenance.get(name, self.facts.get(name))

    @property
    def seconds(self) -> float | None:
        found = self.noted("seconds")
        return float(found) if isinstance(found, int | float) else None

    @property
    def finished(self) -> bool:
        return (self.folder / MODEL).is_dir()

    @property
    def model(self) -> Path | None:
        """The finished model, or the best so far; None where neither was written, or was removed."""
        return next((place for place in (self.folder / MODEL, self.folder / BEST) if place.is_dir()), None)

    @property
    def best(self) -> tuple[int, float] | None:
        """The step that was kept and its dev score: the first of the highest."""
        steps, scores = self.metrics.series("dev")
        highest = max(zip(scores, [-step for step in steps], strict=True), default=None)
        return None if highest is None else (-highest[1], highest[0])


def is_run(folder: Path) -> bool:
    """Whether a folder was begun as a run, whole or not."""
    return (folder / CONFIG).is_file() or (folder / METRICS).is_file()


def read_run(folder: Path) -> Run:
    """Everything that is in a run's folder, checked."""
    return Run(
        folder=folder,
        facts=_config(folder),
        metrics=read_metrics(folder / METRICS),
        scores=read_scores(folder / SCORES) if (folder / SCORES).exists() else None,
        provenance=_provenance(folder / MODEL / OWN),
    )


def _config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        facts = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder}: is not a whole run (no {CONFIG}); was it copied in part?") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read ({' '.join(first_line(error).split())}).") from None
    lacking = [name for name in NEEDED if not isinstance(facts, dict) or facts.get(name) is None]
    if lacking:
        raise InputError(f"{path}: is not that of a run (no {', '.join(lacking)}).")
    if not isinstance(facts["settings"], dict):
        raise InputError(f"{path}: settings are not a list of `setting: value` lines.")
    return {str(name): value for name, value in facts.items()}


def _provenance(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get("provenance") or {}
        return dict(found)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({first_line(error)}).") from None
