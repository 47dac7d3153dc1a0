"""Pairs of sentences with gold scores: what an STS task is made of. Similarities against the gold, no regressor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from nearer.errors import InputError, SettingError
from nearer.evaluation.measures import AGGREGATIONS, Values, aggregate, joined, pearson, spearman, why_undefined
from nearer.evaluation.sts_sets import YEARS
from nearer.evaluation.task import ItemScores, Scorer, SentenceVectors, Task, TaskScore
from nearer.text import read_pairs
from nearer.text.faults import ReadReport
from nearer.text.in_memory import Source
from nearer.text.records import Pair

CORRELATIONS = {"spearman": spearman, "pearson": pearson}


@dataclass(frozen=True)
class PairTask(Task):
    """A task: its pairs by subset. A task without subsets has one, named like the task itself.

    aggregation, correlation: which of its figures stands for the task; the others are computed too.
    """

    kind: ClassVar[str] = "sts"

    name: str
    split: str
    layout: str
    subsets: dict[str, list[Pair]]
    report: ReadReport | None = field(default=None, compare=False)
    aggregation: str = "all"
    correlation: str = "spearman"

    def __post_init__(self) -> None:
        for subset, pairs in self.subsets.items():
            unscored = sum(pair.score is None for pair in pairs)
            if unscored:
                raise InputError(
                    f"{subset}: {unscored:,} of {len(pairs):,} pairs have no score; a task needs one for each."
                )
        if len(self.pairs) < 2:
            raise InputError(f"{self.name}: {len(self.pairs)} pairs, a correlation needs at least 2.")
        check_figure(self.correlation, self.aggregation)
        if self.layout == "flat" and self.name in YEARS and self.aggregation != "all":
            raise SettingError(
                f"aggregation: {self.aggregation!r} is over a year's subsets, which {self.name} as fetched from the "
                "hub does not have; use 'all', or SentEval's or the raw folders."
            )

    @property
    def pairs(self) -> list[Pair]:
        return [pair for subset in self.subsets.values() for pair in subset]

    def sentences(self) -> Iterator[str]:
        return (sentence for pair in self.pairs for sentence in (pair.first, pair.second))

    def score(self, model: Scorer, vectors: SentenceVectors) -> TaskScore:
        sides = {subset: _sides(model, pairs, vectors) for subset, pairs in self.subsets.items()}
        return self.make_score(
            count=len(self.pairs),
            unit="pairs",
            measure=figure_name(self.correlation, self.aggregation),
            figures=_figures(list(sides.values())),
            protocol={"correlation": self.correlation, "aggregation": self.aggregation},
            details={"subsets": {subset: _subset_figures(*both) for subset, both in sides.items()}},
            dropped=self.report.dropped if self.report else 0,
            remark=_remark(sides),
        )

    def apply_options(self, options: Mapping[str, str]) -> PairTask:
        return replace(
            self,
            aggregation=options.get("aggregation", self.aggregation),
            correlation=options.get("correlation", self.correlation),
        )

    def item_scores(self, measure: str, model: Scorer, vectors: SentenceVectors) -> ItemScores | None:
        return ItemScores(*_sides(model, self.pairs, vectors)) if measure == figure_name("spearman", "all") else None

    def data_hash(self) -> str:
        """A digest of the sentences and scores in their order: equal hashes, equal data."""
        digest = hashlib.sha256()
        for subset, pairs in self.subsets.items():
            digest.update(json.dumps(subset).encode())
            for pair in pairs:
                digest.update(json.dumps(pair).encode())  # quoted: no sentence can look like two
        return digest.hexdigest()[:16]


def file_task(
    source: Source, *, columns: Sequence[str] | None = None, name: str | None = None, argument: str = "source"
) -> PairTask:
    """Any file with two sentences and a score is a task, and so are such records in memory (a list, a data frame …).

    What cannot be used is in its report. argument: what messages call records in memory.
    """
    reading = read_pairs(source, columns=columns, argument=argument)
    pairs = list(reading)
    where = reading.source
    unscored = sum(pair.score is None for pair in pairs)
    if unscored:
        raise InputError(
            f"{where}: {unscored:,} of {len(pairs):,} pairs have no score; a task needs a third column with one."
        )
    if len(pairs) < 2:
        raise InputError(f"{where}: {len(pairs)} usable pairs found, a correlation needs at least 2.\n{reading.report}")
    if name is None:
        name = Path(where).name.lstrip(".").split(".")[0] if reading.in_memory is None else "pairs"
    layout = "file" if reading.in_memory is None else "in memory"
    return PairTask(name, layout, layout, {name: pairs}, reading.report)


def check_figure(correlation: str, aggregation: str) -> None:
    """Whether a pair task has such a figure."""
    if aggregation not in AGGREGATIONS:
        raise SettingError(f"aggregation: {aggregation!r} is not one of {', '.join(AGGREGATIONS)}.")
    if correlation not in CORRELATIONS:
        raise SettingError(f"correlation: {correlation!r} is not one of {', '.join(CORRELATIONS)}.")


def figure_name(correlation: str, aggregation: str) -> str:
    """`spearman` is over all pairs joined; `spearman mean` and `spearman wmean` are over the subsets."""
    return correlation if aggregation == "all" else f"{correlation} {aggregation}"


def _sides(model: Scorer, pairs: list[Pair], vectors: SentenceVectors) -> tuple[Values, Values]:
    """Similarities and gold scores (pairs,)."""
    first, second = vectors.of(pair.first for pair in pairs), vectors.of(pair.second for pair in pairs)
    return model.pair_scores(first, second), np.array([pair.score for pair in pairs], dtype=np.float64)


def _figures(sides: list[tuple[Values, Values]]) -> dict[str, float | None]:
    return {
        figure_name(correlation, aggregation): _percent(value)
        for correlation, measure in CORRELATIONS.items()
        for aggregation, value in aggregate(measure, sides).items()
    }


def _subset_figures(predicted: Values, gold: Values) -> dict[str, float | int | None]:
    figures = {name: _percent(measure(predicted, gold)) for name, measure in CORRELATIONS.items()}
    return {"pairs": len(gold), **figures}


def _remark(sides: dict[str, tuple[Values, Values]]) -> str:
    if reason := why_undefined(*joined(list(sides.values()))):
        return f"undefined: {reason}"
    for subset, both in sides.items():
        if reason := why_undefined(*both):
            return f"undefined over subsets: in {subset} {reason}"
    return ""


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
