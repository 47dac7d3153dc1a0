"""Gold scores and their groups: on which scale people rated, and which pairs lie between two ratings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError

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


def group_places(values: Values, edges: Sequence[float]) -> list[NDArray[np.int64]]:
    """Where the values of each group stand: from its lower bound up to its upper one, which the last group includes."""
    if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
        raise SettingError(f"edges: {', '.join(f'{edge:g}' for edge in edges)} do not rise.")
    outside = int(((values < edges[0]) | (values > edges[-1])).sum())
    if outside:
        raise SettingError(f"edges: {outside:,} of {len(values):,} values lie outside {edges[0]:g} to {edges[-1]:g}.")
    groups = np.digitize(values, edges[1:-1])
    return [np.flatnonzero(groups == group) for group in range(len(edges) - 1)]
