"""Scores within rating groups: how well models order pairs that people rate alike (RankEncoder, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearer.analysis.ratings import Values, even_edges, group_places
from nearer.errors import InputError
from nearer.evaluation.correlation import spearman


@dataclass(frozen=True)
class GroupScores:
    """The pairs rated from `low` to `high`: each model's Spearman correlation in percent, None where undefined."""

    low: float
    high: float
    count: int
    scores: dict[str, float | None]


def scores_by_rating(
    similarities: Mapping[str, Values], gold: Values, *, edges: Sequence[float] | None = None
) -> tuple[GroupScores, ...]:
    """similarities: those of the same pairs by each model or space.

    edges: bounds of the rating groups; None for the paper's thirds of the scale: dissimilar, intermediate, similar.
    """
    for name, values in similarities.items():
        if len(values) != len(gold):
            raise InputError(f"{name}: {len(values):,} similarities for {len(gold):,} gold scores.")
    edges = even_edges(gold, 3) if edges is None else edges
    places = group_places(gold, edges)
    return tuple(
        GroupScores(
            low=float(low),
            high=float(high),
            count=len(chosen),
            scores={name: in_percent(spearman(values[chosen], gold[chosen])) for name, values in similarities.items()},
        )
        for chosen, low, high in zip(places, edges, edges[1:], strict=False)
    )


def in_percent(score: float | None) -> float | None:
    return None if score is None else 100 * score
