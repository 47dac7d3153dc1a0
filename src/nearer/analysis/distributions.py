"""Similarities by rating group (SimCSE, Figure G.1; RankCSE, Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearer.analysis.ratings import Values, even_edges, group_places
from nearer.errors import InputError, SettingError

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
    places = group_places(gold, edges)
    groups = [
        _group(similarities[chosen], low, high, bounds)
        for chosen, low, high in zip(places, edges, edges[1:], strict=False)
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
