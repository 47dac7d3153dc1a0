"""Scores that carry their protocol, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.errors import InputError
from nearer.evaluation.sts_sets import TASKS

if TYPE_CHECKING:
    from rich.console import Group


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
        """A task's figure, by its name as asked for (`stsb-dev`) or as shown (`STS-B`, `STS-B dev`)."""
        wanted = {task, " ".join(TASKS.get(task.lower(), ()))}
        found = [score for score in self.scores if wanted & {score.task, f"{score.task} {score.split}"}]
        if len(found) != 1:
            names = ", ".join(f"{score.task} {score.split}" for score in self.scores)
            raise KeyError(f"{task!r} is {len(found) or 'none'} of the tasks: {names}")
        return self.main(found[0])

    def to_dict(self) -> dict[str, Any]:
        scores = [{**asdict(score), "score": self.main(score)} for score in self.scores]
        return {**asdict(self), "scores": scores, "average": self.average}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def write_json(self, path: str | Path) -> None:
        try:
            Path(path).write_text(self.to_json() + "\n", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None

    def table(self) -> Group:
        """The figures for a terminal, with the protocol above and below."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        kind = f"{self.protocol['correlation'].capitalize()} × 100, {self.protocol['aggregation']}"
        table = Table()
        for column, justify in (("task", "left"), ("split", "left"), ("pairs", "right"), ("score", "right")):
            table.add_column(column, justify=justify)  # type: ignore[arg-type]
        for score in self.scores:
            figure = self.main(score)
            shown = score.remark if figure is None else _percent(figure)
            table.add_row(Text(score.task), score.split, f"{score.pairs:,}", shown)
        if len(self.scores) > 1:
            table.add_section()
            table.add_row("average", "", "", _percent(self.average), style="bold")
        # beside the table, not its title and caption: those are folded to its width
        return Group(Text(f"{self.model}  ({kind})", style="italic"), table, Text(self._caption(), style="dim"))

    def _caption(self) -> str:
        hidden = [("correlation", "spearman"), ("correlation", "pearson"), ("similarity", "cosine")]
        shown = {
            name: value
            for name, value in self.protocol.items()
            if name != "aggregation" and (name, value) not in hidden and value is not False
        }
        facts = ", ".join(name if value is True else f"{name} {value}" for name, value in shown.items())
        return f"{facts}; {self.sentences:,} unique sentences in {self.seconds:.1f} s"


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
