"""A run's folder as files: `config.yaml`, `metrics.jsonl`, `scores.json`, `model/`. Training's code is not asked.

A run that is under way, was interrupted or lost its model is a run all the same; what it lacks is said on the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.errors import InputError
from nearer.model_notes import NOTES_FILE, read_notes
from nearer.runs.config import CONFIG, RunConfig
from nearer.runs.metrics_log import MetricsLog, read_metrics
from nearer.runs.score_file import ScoreFile, read_scores
from nearer.storage.checksums import check_folder
from nearer.storage.sealed import sealed_content
from nearer.typed_files import as_typed

METRICS, SCORES, MODEL = "metrics.jsonl", "scores.json", "model"
BEST = "checkpoints/best-*"  # the best weights so far, as a model, until the run ends; the newest counts
NEEDED = ("recipe", "settings", "corpus")


@dataclass(frozen=True)
class Run:
    """One run. config: what it was started with; provenance: what its model says of how it was made, empty without."""

    folder: Path
    config: RunConfig
    metrics: MetricsLog
    scores: ScoreFile | None
    provenance: dict[str, Any]

    @property
    def recipe(self) -> str:
        return self.config.recipe

    @property
    def settings(self) -> dict[str, Any]:
        return self.config.settings

    def noted(self, name: str) -> Any:
        """What only some runs note, with their model or in their config: `seconds`, `machine`; None without."""
        return self.provenance.get(name, getattr(self.config, name, None))

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
        best = sorted(self.folder.glob(BEST), reverse=True)
        return next((path for path in (self.folder / MODEL, *best) if path.is_dir()), None)

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
        config=_config(folder),
        metrics=read_metrics(folder / METRICS),
        scores=read_scores(folder / SCORES) if (folder / SCORES).exists() else None,
        provenance=_provenance(folder / MODEL),
    )


def _config(folder: Path) -> RunConfig:
    path = folder / CONFIG
    if not path.exists():
        raise InputError(f"{folder}: is not a whole run (no {CONFIG}); was it copied in part?")
    facts = sealed_content(path)
    lacking = [name for name in NEEDED if not isinstance(facts, dict) or facts.get(name) is None]
    if lacking:
        raise InputError(f"{path}: is not that of a run (no {', '.join(lacking)}).")
    if not isinstance(facts["settings"], dict):
        raise InputError(f"{path}: settings are not a list of `setting: value` lines.")
    return as_typed(RunConfig, facts, str(path))


def _provenance(model: Path) -> dict[str, Any]:
    check_folder(model, "the run has to be finished anew", only=(NOTES_FILE,))
    notes = read_notes(model)
    return {} if notes is None else notes.provenance.model_dump(exclude_unset=True)
