"""Is one model better than another, or only on these pairs? The paired bootstrap.

    paired_bootstrap(SpearmanPair(first, second, gold))         one task
    paired_bootstrap([SpearmanPair(…), SpearmanPair(…)])        the average of several
    paired_bootstrap(MeanPair(first, second))                   accuracies, or figures of queries

Each resample draws items (pairs, queries, sentences) with replacement, the same for both models, and takes the
difference anew. Of several tasks each is resampled by itself. Ranks are those of the resample: an item drawn three
times is three that are tied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from nearer.errors import InputError, SettingError
from nearer.evaluation.measures import why_undefined

Values = NDArray[np.float64]
Method = Literal["percentile", "bca"]
METHODS = ("percentile", "bca")
ENTRIES_AT_ONCE = 2**21  # drawn items that are held together
LEAST_DEFINED = 0.5  # share of resamples in which the difference must be defined


class Paired(Protocol):
    """Two models on the items of one task."""

    def __len__(self) -> int: ...

    def scores(self, times: Values) -> tuple[Values, Values]:
        """Both models' scores (resamples,), given how often each item is drawn (resamples, items); NaN: undefined."""


@dataclass(frozen=True)
class Comparison:
    """difference: first − second, with its confidence interval from `low` to `high` and a two-sided p-value.

    undefined: resamples without a score (all gold scores drawn alike), which are left out.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    confidence: float
    resamples: int
    undefined: int
    method: Method
    seed: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class SpearmanPair:
    """Similarities of the same pairs by two models, and the gold scores. Scores in percent."""

    first: Values
    second: Values
    gold: Values
    name: str = "task"

    def __post_init__(self) -> None:
        for side, values in (("first", self.first), ("second", self.second)):
            if len(values) != len(self.gold):
                raise InputError(
                    f"{self.name}: {len(values):,} {side} similarities for {len(self.gold):,} gold scores."
                )
            if reason := why_undefined(values, self.gold):
                raise InputError(f"{self.name}: the {side} model has no correlation to compare: {reason}.")

    def __len__(self) -> int:
        return len(self.gold)

    def scores(self, times: Values) -> tuple[Values, Values]:
        first, second, gold = (column.centred_ranks(times) for column in self._columns)
        return correlations(times, first, gold), correlations(times, second, gold)

    @cached_property
    def _columns(self) -> tuple[RankedColumn, RankedColumn, RankedColumn]:
        return RankedColumn(self.first), RankedColumn(self.second), RankedColumn(self.gold)


@dataclass(frozen=True, eq=False)
class MeanPair:
    """A figure of each item by two models, of which the mean is the score, in whatever unit: hits, NDCG of queries."""

    first: Values
    second: Values
    name: str = "task"

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second) or len(self.first) < 2:
            raise InputError(
                f"{self.name}: {len(self.first):,} and {len(self.second):,} figures; as many of both, 2 at least."
            )
        if not (np.isfinite(self.first).all() and np.isfinite(self.second).all()):
            raise InputError(f"{self.name}: some figures are not finite numbers; leave those items out of both lists.")

    def __len__(self) -> int:
        return len(self.first)

    def scores(self, times: Values) -> tuple[Values, Values]:
        count = times.sum(axis=1)
        return times @ self.first / count, times @ self.second / count


def paired_bootstrap(
    tasks: Paired | Sequence[Paired],
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    method: Method = "percentile",
    seed: int = 0,
) -> Comparison:
    """The difference between two models, averaged over the tasks.

    percentile: the interval's ends are quantiles of the resampled differences. bca: the same, corrected for bias and
    for a spread that changes with the value (Efron, 1987). The p-value is 1 − the confidence at which the interval
    would end at 0, so the two never contradict each other by more than a resample.
    """
    parts = [tasks] if not isinstance(tasks, Sequence) else list(tasks)
    if not parts:
        raise InputError("comparison: no tasks given, at least one is needed.")
    if method not in METHODS:
        raise SettingError(f"method: {method!r} is not one of {', '.join(METHODS)}.")
    if not 0 < confidence < 1:
        raise SettingError(f"confidence: {confidence} is not between 0 and 1.")
    if resamples < 100:
        raise SettingError(f"resamples: {resamples} make no interval (100 at least).")
    whole = [part.scores(np.ones((1, len(part)))) for part in parts]
    first, second = (float(np.mean([sides[model][0] for sides in whole])) for model in (0, 1))
    drawn = np.mean([_resampled(part, resamples, seed, number) for number, part in enumerate(parts)], axis=0)
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < LEAST_DEFINED * resamples:
        raise InputError(
            f"comparison: in {resamples - len(defined):,} of {resamples:,} resamples a score is undefined; "
            "the tasks have too few different scores."
        )
    shift = _Shift.bca(parts, defined, first - second) if method == "bca" else NO_SHIFT
    tails = ((1 - confidence) / 2, (1 + confidence) / 2)
    low, high = np.quantile(defined, [shift.level(tail) for tail in tails])
    return Comparison(
        first=first,
        second=second,
        difference=first - second,
        low=float(low),
        high=float(high),
        p_value=p_value(defined, shift),
        confidence=confidence,
        resamples=resamples,
        undefined=resamples - len(defined),
        method=method,
        seed=seed,
    )


def _resampled(part: Paired, resamples: int, seed: int, number: int) -> Values:
    """Differences (resamples,), which follow from the seed and the task's number."""
    found = []
    for times in draw_items(len(part), resamples, seed=seed, number=number):
        first, second = part.scores(times)
        found.append(first - second)
    return np.concatenate(found)


def draw_items(items: int, resamples: int, *, seed: int, number: int) -> Iterator[Values]:
    """How often each item is drawn (resamples, items), in blocks of resamples. number: of the task."""
    random = np.random.default_rng([seed, number])
    for rows in _blocks(resamples, items):
        size = rows.stop - rows.start
        drawn = random.integers(0, items, (size, items))
        flat = (drawn + items * np.arange(size)[:, None]).ravel()
        yield np.bincount(flat, minlength=size * items).reshape(size, items).astype(np.float64)


def _without_one(part: Paired) -> Values:
    """Differences (items,) where each item in turn is left out."""
    found = []
    for rows in _blocks(len(part), len(part)):
        left_out = np.arange(rows.start, rows.stop)
        times = np.ones((len(left_out), len(part)))
        times[np.arange(len(left_out)), left_out] = 0
        first, second = part.scores(times)
        found.append(first - second)
    return np.concatenate(found)


def _blocks(rows: int, items: int) -> Iterator[slice]:
    size = max(1, ENTRIES_AT_ONCE // items)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


@dataclass(frozen=True)
class _Shift:
    """Which quantile of the resampled differences stands at a tail: with neither bias nor acceleration, that tail."""

    bias: float = 0.0
    acceleration: float = 0.0

    @classmethod
    def bca(cls, parts: Sequence[Paired], drawn: Values, difference: float) -> _Shift:
        from scipy.special import ndtri

        if drawn.min() == drawn.max():
            return cls()
        below = (np.sum(drawn < difference) + np.sum(drawn == difference) / 2) / len(drawn)
        bias = float(ndtri(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn))))
        # over several samples (Davison and Hinkley, 1997, Section 5.3): each influence divided by its sample's size
        cubes = squares = 0.0
        for part in parts:
            without = _without_one(part)
            influence = (without[np.isfinite(without)].mean() - without) * (len(part) - 1) / len(part)
            influence = influence[np.isfinite(influence)]
            cubes, squares = cubes + float((influence**3).sum()), squares + float((influence**2).sum())
        return cls(bias, cubes / (6 * squares**1.5) if squares else 0.0)

    def level(self, tail: float) -> float:
        from scipy.special import ndtr, ndtri

        away = self.bias + ndtri(tail)
        return float(ndtr(self.bias + away / (1 - self.acceleration * away)))

    def tail(self, level: float) -> float:
        """The inverse of `level`."""
        from scipy.special import ndtr, ndtri

        away = ndtri(level) - self.bias
        return float(ndtr(away / (1 + self.acceleration * away) - self.bias))


NO_SHIFT = _Shift()


def p_value(drawn: Values, shift: _Shift = NO_SHIFT) -> float:
    """Two-sided: twice the smaller tail that 0 cuts off; never 0, since one more resample might lie beyond it."""
    below, above = np.sum(drawn <= 0) + 1, np.sum(drawn >= 0) + 1
    count = len(drawn) + 1
    if below >= count and above >= count:  # all differences are 0
        return 1.0
    tails = shift.tail(min(below / count, 1 - 1e-12)), 1 - shift.tail(max(1 - above / count, 1e-12))
    return float(min(1.0, 2 * min(tails)))


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
