"""Scores that carry their protocol, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class TaskScore:
    """One task's figures in percent; None where a correlation is undefined, with the reason in `remark`."""

    task: str
    split: str
    layout: str
    pairs: int
    spearman: dict[str, float | None]
    pearson: dict[str, float | None]
    subsets: dict[str, dict[str, float | int | None]]
    data_hash: str
    dropped: int = 0
    remark: str = ""


@dataclass(frozen=True)
class Results:
    """What an evaluation found: the scores, and everything needed to repeat it."""

    model: str
    protocol: dict[str, Any]
    scores: list[TaskScore]
    sentences: int
    seconds: float
    libraries: dict[str, str]

    def main(self, score: TaskScore) -> float | None:
        """The figure of the protocol's correlation and aggregation."""
        table: dict[str, float | None] = getattr(score, self.protocol["correlation"])
        return table[self.protocol["aggregation"]]

    @property
    def average(self) -> float | None:
        """The mean over the tasks, undefined if one of them is."""
        values = [self.main(score) for score in self.scores]
        return sum(v for v in values if v is not None) / len(values) if values and None not in values else None

    def __getitem__(self, task: str) -> float | None:
        for score in self.scores:
            if task in (score.task, f"{score.task} {score.split}"):
                return self.main(score)
        raise KeyError(task)

    def to_dict(self) -> dict[str, Any]:
        scores = [{**asdict(score), "score": self.main(score)} for score in self.scores]
        return {**asdict(self), "scores": scores, "average": self.average}

    def write_json(self, path: str | Path) -> None:
        try:
            Path(path).write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None

    def table(self) -> Table:
        from rich.table import Table

        protocol = self.protocol
        kind = f"{protocol['correlation'].capitalize()} × 100, {protocol['aggregation']}"
        table = Table(title=f"{self.model}  ({kind})", caption=self._caption(), title_justify="left")
        for column, justify in (("task", "left"), ("split", "left"), ("pairs", "right"), ("score", "right")):
            table.add_column(column, justify=justify)  # type: ignore[arg-type]
        for score in self.scores:
            shown = score.remark or _percent(self.main(score))
            table.add_row(score.task, score.split, f"{score.pairs:,}", shown)
        if len(self.scores) > 1:
            table.add_section()
            table.add_row("average", "", "", _percent(self.average), style="bold")
        return table

    def _caption(self) -> str:
        protocol = self.protocol
        hidden = ("correlation", "aggregation", "similarity")
        facts = ", ".join(f"{name} {value}" for name, value in protocol.items() if name not in hidden)
        return f"{facts}; {self.sentences:,} unique sentences in {self.seconds:.1f} s"


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
