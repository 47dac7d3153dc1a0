"""Gold scores and their groups: on which scale people rated, and which pairs lie between two ratings.

By group: how similarities are distributed (SimCSE, Figure G.1; RankCSE, Figure 4), and how well models order pairs that
people rate alike (RankEncoder, Figure 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError
from nearer.evaluation.measures import spearman

Values = NDArray[np.float64]
# those of STS and of most other sets, the narrower first
USUAL = ((0.0, 1.0), (0.0, 5.0))


def rating_scale(gold: Values) -> tuple[float, float]:
    """The scale that these scores were given on: 0 to 1 or 0 to 5 if they fit, else from the lowest to the highest."""
    if not len(gold) or not np.isfinite(gold).all():
        raise InputError(f"gold scores: {len(gold):,} given, some finite numbers are needed.")
    low, high = float(gold.min()), float(gold.max())
    return next((scale for scale in USUAL if scale[0] <= low and high <= scale[1]), (low, high))


def positive_threshold(gold: Values) -> float:
    """Four fifths of the way up the scale: 4 where people rated from 0 to 5 (SimCSE, footnote 3)."""
    low, high = rating_scale(gold)
    return low + (high - low) * 4 / 5


def even_edges(gold: Values, groups: int) -> tuple[float, ...]:
    """The bounds of equally wide groups over the scale: 0, 1, 2, 3, 4, 5 for five of them."""
    low, high = rating_scale(gold)
    if low == high:
        raise InputError(f"gold scores: all are {low:g}; they make no groups.")
    return tuple(np.linspace(low, high, groups + 1).tolist())


def group_indices(values: Values, edges: Sequence[float]) -> list[NDArray[np.int64]]:
    """Where the values of each group stand: from its lower bound up to its upper one, which the last group includes."""
    if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
        raise SettingError(f"edges: {', '.join(f'{edge:g}' for edge in edges)} do not rise.")
    outside = int(((values < edges[0]) | (values > edges[-1])).sum())
    if outside:
        raise SettingError(f"edges: {outside:,} of {len(values):,} values lie outside {edges[0]:g} to {edges[-1]:g}.")
    groups = np.digitize(values, edges[1:-1])
    return [np.flatnonzero(groups == group) for group in range(len(edges) - 1)]


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class RatingGroup:
    """The pairs rated from `low` to `high`: counts in each bin, and the similarities at `QUANTILES`.

    An empty group has neither mean nor quantiles.
    """

    low: float
    high: float
    count: int
    histogram: tuple[int, ...]
    mean: float | None
    quantiles: tuple[float, ...] | None


@dataclass(frozen=True)
class Distributions:
    """bins: the bounds that all groups' histograms share."""

    bins: tuple[float, ...]
    groups: tuple[RatingGroup, ...]


def rating_distributions(
    similarities: Values, gold: Values, *, edges: Sequence[float] | None = None, bins: int = 40
) -> Distributions:
    """edges: bounds of the rating groups; None for five equal ones over the scale (0–1, 1–2 … of STS)."""
    if len(similarities) != len(gold):
        raise InputError(f"similarities: {len(similarities):,} for {len(gold):,} gold scores.")
    if not np.isfinite(similarities).all():
        raise InputError("similarities: some are not finite numbers; the model is broken.")
    if bins < 1:
        raise SettingError(f"bins: {bins} is below 1.")
    edges = even_edges(gold, 5) if edges is None else edges
    # cosines lie between −1 and 1; other similarities need not
    bounds = np.linspace(min(-1, similarities.min()), max(1, similarities.max()), bins + 1)
    indices = group_indices(gold, edges)
    groups = [
        _group(similarities[chosen], low, high, bounds)
        for chosen, low, high in zip(indices, edges, edges[1:], strict=False)
    ]
    return Distributions(tuple(bounds.tolist()), tuple(groups))


def _group(similarities: Values, low: float, high: float, bounds: Values) -> RatingGroup:
    some = len(similarities) > 0
    return RatingGroup(
        low=float(low),
        high=float(high),
        count=len(similarities),
        histogram=tuple(np.histogram(similarities, bounds)[0].tolist()),
        mean=float(similarities.mean()) if some else None,
        quantiles=tuple(np.quantile(similarities, QUANTILES).tolist()) if some else None,
    )


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
    indices = group_indices(gold, edges)
    return tuple(
        GroupScores(
            low=float(low),
            high=float(high),
            count=len(chosen),
            scores={name: in_percent(spearman(values[chosen], gold[chosen])) for name, values in similarities.items()},
        )
        for chosen, low, high in zip(indices, edges, edges[1:], strict=False)
    )


def in_percent(score: float | None) -> float | None:
    return None if score is None else 100 * score
