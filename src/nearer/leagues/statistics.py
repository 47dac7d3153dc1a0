"""What a league's figures say, and how far they can be trusted: spreads over seeds, flips of order, differences.

All functions take plain numbers and know nothing of runs. Slow versions of them are in the tests.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearer.analysis.bootstrap import RankedColumn, correlations, draw_items, p_value
from nearer.evaluation.task import ItemScores

Values = NDArray[np.float64]
CONFIDENCE = 0.95
SEED_STREAM = 2**31  # of random numbers: beyond the numbers of tasks


@dataclass(frozen=True)
class Spread:
    """Mean over seeds, with the 95 % interval of Student's t; a single seed has none."""

    mean: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def half(self) -> float | None:
        return None if self.high is None else self.high - self.mean


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Spread(mean, None, None, len(values))
    half = _t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Spread(mean, mean - half, mean + half, len(values))


def _t(freedom: float) -> float:
    """How many standard errors the interval reaches on each side."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


@dataclass(frozen=True)
class Difference:
    """One method less another. items: whether items and seeds were resampled; else the interval is over seeds alone.

    Without an interval there is one seed each, and no items to resample.
    """

    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    items: bool

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def difference_over_seeds(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Welch's t: each method's seeds have a variance of their own."""
    from scipy.special import stdtr

    difference = statistics.fmean(first) - statistics.fmean(second)
    errors = [statistics.variance(side) / len(side) for side in (first, second) if len(side) > 1]
    if len(errors) < 2:
        return Difference(difference, None, None, None, items=False)
    error = math.sqrt(sum(errors))
    if error == 0:
        return Difference(difference, difference, difference, float(difference == 0), items=False)
    sizes = (len(first), len(second))
    freedom = sum(errors) ** 2 / sum(part**2 / (size - 1) for part, size in zip(errors, sizes, strict=True))
    half = _t(freedom) * error
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Difference(difference, difference - half, difference + half, p, items=False)


def resampled_averages(
    tasks: Sequence[Mapping[str, Sequence[ItemScores]]], *, resamples: int = 1000, seed: int = 0
) -> dict[str, Values]:
    """Each method's average over the tasks, in every resample (resamples,).

    tasks: by method, its items one seed after the other. All methods and seeds see the same items drawn, so that
    differences are paired; each task is resampled by itself. Of each method the seeds are drawn with replacement too,
    the same for all its tasks: a difference that hangs on one lucky run is no difference.
    """
    sizes = {method: len(seeds) for method, seeds in tasks[0].items()}
    weights = {
        method: _seed_weights(size, resamples, seed, number) for number, (method, size) in enumerate(sizes.items())
    }
    totals = {method: np.zeros(resamples) for method in sizes}
    for number, by_method in enumerate(tasks):
        columns = [items for seeds in by_method.values() for items in seeds]
        scores = iter(_resampled(columns, resamples, seed, number))
        for method, size in sizes.items():
            of_seeds = np.stack([next(scores) for _ in range(size)], axis=1)  # (resamples, seeds)
            totals[method] += (of_seeds * weights[method]).sum(axis=1)
    return {method: total / len(tasks) for method, total in totals.items()}


def _seed_weights(seeds: int, resamples: int, seed: int, number: int) -> Values:
    """(resamples, seeds), rows of which sum to 1."""
    random = np.random.default_rng([seed, SEED_STREAM + number])
    return random.multinomial(seeds, [1 / seeds] * seeds, size=resamples) / seeds


def _resampled(columns: Sequence[ItemScores], resamples: int, seed: int, number: int) -> Values:
    """Scores (columns, resamples) of models on one task, all from the same drawn items."""
    gold = columns[0].gold
    if gold is None:
        values = np.stack([column.values for column in columns])
        values = values[:, np.isfinite(values).all(axis=0)]  # an item without a figure by one is left out for all
        blocks = draw_items(values.shape[1], resamples, seed=seed, number=number)
        return np.concatenate([values @ times.T / times.sum(axis=1) for times in blocks], axis=1)
    ranked, of_gold = [RankedColumn(column.values) for column in columns], RankedColumn(gold)
    found = []
    for times in draw_items(len(gold), resamples, seed=seed, number=number):
        right = of_gold.centred_ranks(times)
        found.append(np.stack([correlations(times, column.centred_ranks(times), right) for column in ranked]))
    return np.concatenate(found, axis=1)


def difference_of_resamples(difference: float, first: Values, second: Values) -> Difference:
    """difference: of the methods as they are. Resamples in which a score is undefined are left out."""
    drawn = first - second
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return Difference(difference, None, None, None, items=False)
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Difference(difference, float(low), float(high), p_value(drawn), items=True)


def flip_share(first: Sequence[float], second: Sequence[float]) -> float:
    """How often two single runs, one of each method, stand the other way round than the means; ties count half.

    0: any run of the better one beats any of the other. 0.5: the order is a toss.
    """
    better = statistics.fmean(first) - statistics.fmean(second)
    if better == 0:
        return 0.5
    sides = [math.copysign(1, better) * (one - other) for one, other in itertools.product(first, second)]
    return sum(1.0 if side < 0 else 0.5 if side == 0 else 0.0 for side in sides) / len(sides)


@dataclass(frozen=True)
class Rank:
    """A method's rank by its mean, and its ranks seed by seed: their mean, the best and the worst."""

    rank: int
    mean: float
    best: float
    worst: float


def find_ranks(scores: Mapping[str, Mapping[int, float]]) -> dict[str, Rank]:
    """scores: by method and seed. Seed by seed, among the seeds that all methods have."""
    means = {method: statistics.fmean(by_seed.values()) for method, by_seed in scores.items()}
    shared = set.intersection(*(set(by_seed) for by_seed in scores.values()))
    by_seed = [rank_values({method: scores[method][seed] for method in scores}) for seed in sorted(shared)]
    by_seed = by_seed or [rank_values(means)]
    found = {}
    for method in scores:
        ranks = [ranks[method] for ranks in by_seed]
        above = sum(other > means[method] for other in means.values())
        found[method] = Rank(above + 1, statistics.fmean(ranks), min(ranks), max(ranks))
    return found


def rank_values(values: Mapping[str, float]) -> dict[str, float]:
    """Highest first, from 1; equal ones share the mean of their ranks."""
    return {
        name: 1 + sum(other > value for other in values.values()) + (list(values.values()).count(value) - 1) / 2
        for name, value in values.items()
    }


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's τ-b of two orders: 1 the same, −1 the reverse; None where all values of one are equal."""
    signs = [
        (np.sign(first[i] - first[j]), np.sign(second[i] - second[j]))
        for i, j in itertools.combinations(range(len(first)), 2)
    ]
    agreeing = sum(float(one * other) for one, other in signs)
    sizes = sum(one != 0 for one, _ in signs) * sum(other != 0 for _, other in signs)
    return agreeing / math.sqrt(sizes) if sizes else None
