"""Alignment and uniformity as a model changes: over checkpoints, or between models (SimCSE, Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nearer.analysis.encoded_task import EncodedTask, encode_tasks
from nearer.analysis.geometry import alignment, positives, uniformity
from nearer.analysis.ratings import positive_threshold
from nearer.errors import InputError, first_line
from nearer.evaluation.measures import spearman
from nearer.evaluation.task import Scorer, Task
from nearer.typed_files import parse_json

METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True)
class PathPoint:
    """One model on the way. score: Spearman's correlation in percent on the same pairs, None where undefined."""

    label: str
    alignment: float | None
    uniformity: float
    score: float | None = None
    step: int | None = None


def trace_path(
    models: Iterable[tuple[str, Scorer]],
    task: Task,
    *,
    threshold: float | None = None,
    batch_size: int | None = None,
    progress: bool = False,
) -> list[PathPoint]:
    """A point for each (label, model), in their order; they may be loaded as they are asked for.

    threshold: pairs scored above it are the positives; None for four fifths of the scale (4 of 5).
    """
    points = []
    for label, model in models:
        [encoded] = encode_tasks(model, [task], batch_size=batch_size, progress=progress)
        points.append(path_point(label, encoded, threshold))
    if not points:
        raise InputError("path: no models given, at least one is needed.")
    return points


def path_point(label: str, task: EncodedTask, threshold: float | None = None) -> PathPoint:
    chosen = positives(task.gold, positive_threshold(task.gold) if threshold is None else threshold)
    found = spearman(task.similarities, task.gold)
    return PathPoint(
        label=label,
        alignment=alignment(task.vectors[task.first[chosen]], task.vectors[task.second[chosen]]),
        uniformity=uniformity(task.vectors),
        score=None if found is None else 100 * found,
    )


def run_path(run: str | Path) -> list[PathPoint]:
    """What a run noted at each dev evaluation; alignment only where the run noted it too.

    A run keeps the weights of its last and its best step alone, so the way between is known from its metrics.
    """
    file = Path(run) / METRICS_FILE
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{run}: is not the folder of a run (no {METRICS_FILE}).") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({first_line(error)}).") from None
    lines = text.split("\n")[:-1]  # what follows the last line feed is still being written, or was when the run died
    noted = [_noted(line, file, number) for number, line in enumerate(lines, start=1)]
    points = [point for point in noted if point is not None]
    if not points:
        raise InputError(f"{file}: holds no uniformity; the run had no dev task (select_on).")
    return points


def _noted(line: str, file: Path, number: int) -> PathPoint | None:
    """The point of a line that was written at an evaluation; other lines hold losses."""
    try:
        values = parse_json(line)
        step = int(values["step"])
        if "uniformity" not in values:
            return None
        known = {name: float(values[name]) for name in ("alignment", "uniformity", "dev") if name in values}
    except (ValueError, KeyError, TypeError, OverflowError):
        raise InputError(f"{file}: line {number} is not what a run writes (a step and numbers, as JSON).") from None
    return PathPoint(f"step {step}", known.get("alignment"), known["uniformity"], known.get("dev"), step)
