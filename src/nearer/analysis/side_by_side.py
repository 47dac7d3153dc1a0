"""Several models on the same tasks: where they lie, how they score by rating, and where their rankings differ.

Rankings of single queries stand beside the gold one (RankCSE, Tables 1 and 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from nearer.analysis.analyse import Analysis, TaskAnalysis
from nearer.analysis.geometry import PathPoint
from nearer.analysis.ratings import GroupScores, Values, scores_by_rating
from nearer.errors import InputError
from nearer.evaluation.measures import kendall
from nearer.evaluation.ranking_task import RankingQuery, ranking_of
from nearer.evaluation.task import Task

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class SideBySide:
    """One task. examples: empty where no sentence has enough partners, with the reason in `remark`."""

    task: str
    split: str
    points: tuple[PathPoint, ...]
    rating_scores: tuple[GroupScores, ...]
    examples: tuple[RankingExample, ...]
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def side_by_side(analyses: Sequence[Analysis], *, examples: int = 3) -> list[SideBySide]:
    """The models' analyses task by task; they must be of the same tasks. One model alone will do."""
    if not analyses:
        raise InputError("analyses: none given, at least one is needed.")
    labels = short_labels([analysis.model for analysis in analyses])
    for analysis in analyses[1:]:
        for first, other in zip(analyses[0].tasks, analysis.tasks, strict=False):
            if first.encoded.pairs != other.encoded.pairs:
                raise InputError(f"{analysis.model}: {other.task} is not the task that {analyses[0].model} was given.")
        if len(analysis.tasks) != len(analyses[0].tasks):
            raise InputError(f"{analysis.model}: {len(analysis.tasks)} tasks, {analyses[0].model} has another number.")
    return [
        _compared(dict(zip(labels, same, strict=True)), examples)
        for same in zip(*(analysis.tasks for analysis in analyses), strict=True)
    ]


def _compared(tasks: dict[str, TaskAnalysis], count: int) -> SideBySide:
    one = next(iter(tasks.values()))
    similarities = {label: task.encoded.similarities for label, task in tasks.items()}
    remark, found = "", []
    try:
        found = ranking_examples(one.encoded.task, similarities, count=count)
    except InputError as error:
        remark = str(error)
    return SideBySide(
        task=one.task,
        split=one.split,
        points=tuple(
            PathPoint(label, task.geometry.alignment, task.geometry.uniformity, task.score)
            for label, task in tasks.items()
        ),
        rating_scores=scores_by_rating(similarities, one.encoded.gold),
        examples=tuple(found),
        remark=remark,
    )


def short_labels(names: Sequence[str]) -> list[str]:
    """As few of the last parts of each path as tell all apart; the same name twice gets numbers."""
    parts = [PurePath(name).parts or (name,) for name in names]
    for depth in range(1, max(len(some) for some in parts) + 1):
        labels = ["/".join(some[-depth:]) for some in parts]
        if len(set(labels)) == len(set(names)) and not (depth == 1 and "model" in labels):
            break
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: number + 1].count(label)}"
        for number, label in enumerate(labels)
    ]


@dataclass(frozen=True)
class Partner:
    """A sentence that people compared with the query: scores, and its rank by each; equal scores share the best."""

    sentence: str
    gold: float
    gold_rank: int
    scores: dict[str, float]
    ranks: dict[str, int]


@dataclass(frozen=True)
class RankingExample:
    """partners: by falling gold score. kendall: each model's correlation (tau-b) with the gold order, −1 to 1."""

    query: str
    partners: tuple[Partner, ...]
    kendall: dict[str, float]


def ranking_examples(task: Task, similarities: Mapping[str, Values], *, count: int = 3) -> list[RankingExample]:
    """The `count` queries that the models order most differently, judged by Kendall's correlation with the gold.

    Queries are those of the task's ranking task: sentences with more than three partners, whose gold scores differ.
    similarities: of the task's pairs by each model. Of one model alone, the queries that it orders worst. Equal ones:
    more partners first, then the earlier in the file. Where a model finds all partners equally similar there is no
    order to show, and the query is passed over.
    """
    if not similarities:
        raise InputError("ranking examples: no model given, at least one is needed.")
    pairs = task.pairs
    for name, values in similarities.items():
        if len(values) != len(pairs):
            raise InputError(f"{name}: {len(values):,} similarities for {len(pairs):,} pairs.")
    rows: dict[tuple[str, str], int] = {}
    for row, (first, second, _) in enumerate(pairs):
        rows.setdefault((first, second), row)
        rows.setdefault((second, first), row)
    examples = [_example(query, rows, similarities) for query in ranking_of(task).queries]
    found = [
        (-_contrast(example), -len(example.partners), number, example)
        for number, example in enumerate(examples)
        if example is not None
    ]
    return [example for *_, example in sorted(found, key=lambda item: item[:3])[:count]]


def examples_table(examples: Sequence[RankingExample]) -> Group:
    """Each query above its partners: gold and scores, with ranks in brackets (RankCSE, Table 1)."""
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


def _example(
    query: RankingQuery, rows_of_pairs: Mapping[tuple[str, str], int], similarities: Mapping[str, Values]
) -> RankingExample | None:
    rows = [rows_of_pairs[query.sentence, partner] for partner in query.partners]
    gold = np.array(query.gold, dtype=np.float64)
    scores = {name: values[rows] for name, values in similarities.items()}
    correlations = {name: kendall(values, gold) for name, values in scores.items()}
    if any(found is None for found in correlations.values()):
        return None
    ranks = {name: _ranks(values) for name, values in scores.items()}
    gold_ranks = _ranks(gold)
    return RankingExample(
        query=query.sentence,
        partners=tuple(
            Partner(
                sentence=query.partners[index],
                gold=query.gold[index],
                gold_rank=gold_ranks[index],
                scores={name: float(values[index]) for name, values in scores.items()},
                ranks={name: by_model[index] for name, by_model in ranks.items()},
            )
            for index in np.argsort(-gold, kind="stable").tolist()
        ),
        kendall={name: found for name, found in correlations.items() if found is not None},
    )


def _contrast(example: RankingExample) -> float:
    found = list(example.kendall.values())
    # rounded: which of two equal contrasts comes first must not hang on a last bit
    return round(max(found) - min(found) if len(found) > 1 else -found[0], 9)


def _ranks(values: Values) -> list[int]:
    """From 1 for the highest; equal ones share the best rank, as in the paper's tables."""
    from scipy.stats import rankdata

    ranks: list[int] = rankdata(-values, method="min").astype(int).tolist()
    return ranks
