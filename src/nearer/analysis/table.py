"""An analysis for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group

    from nearer.analysis.analyse import Analysis, TaskAnalysis
    from nearer.analysis.examples import RankingExample

COLUMNS = ("task", "score", "align", "uniform", "cosine", "rank", "length", "words", "freq.")


def analysis_table(analysis: Analysis) -> Group:
    """A row a task; the caption says what the columns are."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for place, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if place else "left")
    for task in analysis.tasks:
        shape = task.geometry
        table.add_row(
            Text(task.shown),
            *map(_shown, (task.score, shape.alignment, shape.uniformity, shape.anisotropy)),
            f"{shape.effective_rank:.0f}",
            *map(_shown, (task.length.partial, task.overlap.partial, task.frequency.with_cosine)),
        )
    lines = [Text(f"{task.shown}: {remark}") for task in analysis.tasks for remark in task.remarks]
    lines += [Text(f"{task.shown}: {_ranks(task)}") for task in analysis.tasks if task.rank_space is not None]
    return Group(Text(analysis.model, style="italic"), table, *lines, Text(_caption(analysis), style="dim"))


def examples_table(examples: Sequence[RankingExample]) -> Group:
    """Each query above its partners: gold and scores, with places in brackets (RankCSE, Table 1)."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Text | Table] = []
    for example in examples:
        names = list(example.kendall)
        table = Table()
        table.add_column("sentence", overflow="fold")
        for name in ("gold", *names):
            table.add_column(name, justify="right", no_wrap=True)
        for partner in example.partners:
            scores = [f"{partner.scores[name]:.2f} ({partner.ranks[name]})" for name in names]
            table.add_row(Text(partner.sentence), f"{partner.gold:.2f} ({partner.gold_rank})", *scores)
        table.add_section()
        table.add_row("Kendall's correlation with gold", "", *[f"{example.kendall[name]:.2f}" for name in names])
        parts += [Text(f"query: {example.query}", style="bold"), table]
    return Group(*parts)


def _caption(analysis: Analysis) -> str:
    facts = [f"{name} {value}" for name, value in analysis.protocol.items() if value is not None]
    return (
        "score: Spearman × 100; align, uniform: lower is better; cosine: mean over all pairs; rank: effective rank; "
        "length, words: Spearman of similarity with length difference and shared words, gold held fixed; freq.: of "
        f"mean cosine with word frequency\n{', '.join(facts)}"
    )


def _ranks(task: TaskAnalysis) -> str:
    found = task.rank_space
    assert found is not None
    base, ranks = found.base, found.ranks
    return (
        f"vectors → rank vectors over {found.corpus:,} sentences: score {_shown(base.score)} → {_shown(ranks.score)}, "
        f"alignment {_shown(base.alignment)} → {_shown(ranks.alignment)}, "
        f"uniformity {_shown(base.uniformity)} → {_shown(ranks.uniformity)}"
    )


def _shown(figure: float | None) -> str:
    return "–" if figure is None else f"{round(figure, 2) + 0.0:.2f}"  # no minus before 0.00
