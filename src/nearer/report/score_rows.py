"""Scores of several models in rows: figures share one only if task, split, measure and data are the same."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from nearer.evaluation.task import TaskScore

UNTESTED = ("dev", "train")


@dataclass
class Row:
    """One task; scores by the place of the model among all."""

    sample: TaskScore
    name: str = ""
    scores: dict[int, TaskScore] = field(default_factory=dict)

    @property
    def averaged(self) -> bool:
        """What was selected on says nothing about the test."""
        return self.sample.split not in UNTESTED


@dataclass(frozen=True)
class Block:
    """Tasks of one kind and one layout of the data: those that can be averaged, the others after them."""

    kind: str
    layout: str
    rows: list[Row]

    @property
    def averaged(self) -> list[Row]:
        return [row for row in self.rows if row.averaged]

    def average(self, place: int) -> float | None:
        """A model's mean over the tasks; None where it lacks one, or one is undefined."""
        found = [row.scores[place].score for row in self.averaged if place in row.scores]
        known = [score for score in found if score is not None]
        return statistics.fmean(known) if len(known) == len(self.averaged) else None


def blocks(scores: Sequence[Sequence[TaskScore]]) -> list[Block]:
    """scores: those of each model. Blocks and rows in the order in which they first come."""
    rows: dict[tuple[str, ...], Row] = {}
    for place, own in enumerate(scores):
        for score in own:
            key = (score.kind, score.layout, score.task, score.split, score.measure, score.data_hash)
            rows.setdefault(key, Row(score)).scores[place] = score
    _name(list(rows.values()))
    found: dict[tuple[str, str], Block] = {}
    for row in rows.values():
        kind, layout = row.sample.kind, row.sample.layout
        found.setdefault((kind, layout), Block(kind, layout, [])).rows.append(row)
    for block in found.values():
        block.rows.sort(key=lambda row: not row.averaged)
    return list(found.values())


def _name(rows: Sequence[Row]) -> None:
    """The shortest names that tell rows apart: the task, then with its split, its data's layout, its data's digest."""
    forms = [
        (
            sample.task if sample.split in ("test", "file") else f"{sample.task} {sample.split}",
            f"{sample.task} {sample.split}, {sample.measure}",
            f"{sample.task} {sample.split}, {sample.measure}, {sample.layout}",
        )
        for sample in (row.sample for row in rows)
    ]
    for place, row in enumerate(rows):
        same_block = [n for n, other in enumerate(rows) if other.sample.kind == row.sample.kind]
        own = [name for form, name in enumerate(forms[place]) if [forms[n][form] for n in same_block].count(name) == 1]
        row.name = own[0] if own else f"{forms[place][-1]}, data {row.sample.data_hash[:8]}"
