"""Ranks in many resamples at once, from how often each item is drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class RankedColumn:
    """Values whose ranks in any resample follow from how often each item is drawn: no sorting, ties and all."""

    def __init__(self, values: Values) -> None:
        _, self.group = np.unique(values, return_inverse=True)  # equal values share a group
        self.order = np.argsort(self.group, kind="stable")
        self.starts = np.flatnonzero(np.diff(self.group[self.order], prepend=-1))

    def centred_ranks(self, times: Values) -> Values:
        """Mean ranks (resamples, items) less their mean."""
        drawn = np.add.reduceat(times[:, self.order], self.starts, axis=1)  # (resamples, groups)
        ranks = drawn.cumsum(axis=1) - drawn / 2
        centred: Values = (ranks - times.sum(axis=1, keepdims=True) / 2)[:, self.group]
        return centred


def correlations(times: Values, first: Values, second: Values) -> Values:
    """Pearson's, in percent, of centred columns of which each entry stands for `times` items."""
    weighted = times * second
    products = np.einsum("ri,ri->r", first, weighted)
    spreads = np.einsum("ri,ri,ri->r", first, first, times) * np.einsum("ri,ri->r", second, weighted)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Values = np.where(spreads > 0, 100 * products / np.sqrt(spreads), np.nan)
    return found
