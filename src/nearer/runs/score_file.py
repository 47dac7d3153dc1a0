"""Scores from the JSON file that an evaluation writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearer.errors import InputError
from nearer.evaluation.task import TaskScore
from nearer.storage.sealed import sealed_content
from nearer.typed_files import as_typed

NEEDED = ("task", "kind", "split", "layout", "count", "unit", "measure", "figures", "data_hash")
WORDS = ("task", "kind", "split", "layout", "unit", "measure", "data_hash")


@dataclass(frozen=True)
class ScoreFile:
    """scores: one a task; protocol: what holds for all of them."""

    scores: tuple[TaskScore, ...]
    protocol: dict[str, Any]


def read_scores(path: Path) -> ScoreFile:
    mend = "write it anew with `nearer evaluate … --json`, or remove it"
    content = sealed_content(path, mend=mend)
    if not isinstance(content, dict) or not isinstance(content.get("scores"), list):
        raise InputError(f"{path}: holds no scores; {mend}.")
    scores = tuple(_score(values, path, number) for number, values in enumerate(content["scores"], start=1))
    protocol = content.get("protocol")
    return ScoreFile(scores, dict(protocol) if isinstance(protocol, dict) else {})


def _score(values: Any, path: Path, number: int) -> TaskScore:
    given = values if isinstance(values, dict) else {}
    lacking = [name for name in NEEDED if name not in given]
    lacking += [name for name in WORDS if name in given and not isinstance(given[name], str)]
    lacking += [] if type(given.get("count")) is int else ["count"]
    figures = given.get("figures")
    if not lacking and not (isinstance(figures, dict) and given["measure"] in figures and _all_figures(figures)):
        lacking = ["figures"]
    if lacking:
        raise InputError(f"{path}: score {number} has no usable {lacking[0]}; was it written by another version?")
    return as_typed(TaskScore, given, f"{path}: score {number}")


def _all_figures(figures: dict[str, Any]) -> bool:
    return all(value is None or (isinstance(value, int | float) and value == value) for value in figures.values())
