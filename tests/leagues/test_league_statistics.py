"""The statistics of a league against slow, obvious versions of themselves."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearer.analysis.bootstrap import MeanPair, SpearmanPair, paired_bootstrap
from nearer.evaluation.measures import spearman
from nearer.evaluation.task import ItemScores
from nearer.leagues.statistics import (
    difference_of_resamples,
    difference_over_seeds,
    find_ranks,
    flip_share,
    kendall,
    rank_values,
    resampled_averages,
    spread,
)

scores = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=5)


def noisy(seed: int, count: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=count)


class TestSpread:
    def test_students_interval(self) -> None:
        scipy = pytest.importorskip("scipy.stats")
        values = [70.1, 71.4, 69.8]
        found = spread(values)
        error = statistics.stdev(values) / math.sqrt(3)
        assert (found.low, found.high) == pytest.approx(scipy.t.interval(0.95, 2, statistics.mean(values), error))

    def test_a_single_seed_has_none(self) -> None:
        found = spread([70.0])
        assert (found.mean, found.low, found.high, found.half) == (70.0, None, None, None)


class TestDifferences:
    def test_welch(self) -> None:
        scipy = pytest.importorskip("scipy.stats")
        first, second = [70.1, 71.4, 69.8], [69.0, 69.3, 69.9, 68.8]
        found = difference_over_seeds(first, second)
        right = scipy.ttest_ind(first, second, equal_var=False)
        interval = right.confidence_interval(0.95)
        assert found.p_value == pytest.approx(right.pvalue)
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high))

    def test_one_seed_has_a_difference_alone(self) -> None:
        found = difference_over_seeds([70.0], [69.0, 69.5])
        assert (found.difference, found.low, found.is_certain) == (0.75, None, False)

    def test_equal_runs(self) -> None:
        assert difference_over_seeds([70.0, 70.0], [69.0, 69.0]).is_certain
        assert not difference_over_seeds([70.0, 70.0], [70.0, 70.0]).is_certain

    def test_of_single_seeds_it_is_the_paired_bootstrap(self) -> None:
        gold = noisy(0)
        first, second = gold + noisy(1), gold + 2 * noisy(2)
        queries = 100 * np.abs(noisy(3)), 100 * np.abs(noisy(4))
        tasks = [
            {"a": [ItemScores(first, gold)], "b": [ItemScores(second, gold)]},
            {"a": [ItemScores(queries[0])], "b": [ItemScores(queries[1])]},
        ]
        drawn = resampled_averages(tasks, resamples=300, seed=4)
        right = paired_bootstrap([SpearmanPair(first, second, gold), MeanPair(*queries)], resamples=300, seed=4)
        found = difference_of_resamples(right.difference, drawn["a"], drawn["b"])
        assert (found.low, found.high) == pytest.approx((right.low, right.high))
        assert found.p_value == pytest.approx(right.p_value)
        assert found.items

    def test_seeds_and_items_are_drawn_anew(self) -> None:
        """Against a loop that draws the same items and seeds and takes each figure from scratch."""
        gold = np.round(noisy(0, 12), 1)
        runs = {"a": [gold + noisy(seed, 12) for seed in (1, 2, 3)], "b": [gold + noisy(seed, 12) for seed in (4, 5)]}
        tasks = [{method: [ItemScores(values, gold) for values in seeds] for method, seeds in runs.items()}]
        drawn = resampled_averages(tasks, resamples=50, seed=9)
        items = np.random.default_rng([9, 0]).integers(0, 12, (50, 12))
        for number, (method, seeds) in enumerate(runs.items()):
            times = np.random.default_rng([9, 2**31 + number]).multinomial(
                len(seeds), [1 / len(seeds)] * len(seeds), size=50
            )
            for resample in range(50):
                rows = items[resample]
                figures = [100 * spearman(values[rows], gold[rows]) for values in seeds]
                chosen = [f for f, often in zip(figures, times[resample], strict=True) for _ in range(often)]
                assert drawn[method][resample] == pytest.approx(statistics.fmean(chosen))

    def test_a_lucky_seed_widens_the_interval(self) -> None:
        gold = noisy(0, 200)
        steady = [ItemScores(gold + noisy(seed, 200), gold) for seed in (1, 2, 3)]
        lucky = [ItemScores(gold + factor * noisy(7, 200), gold) for factor in (0.1, 1.5, 1.5)]
        drawn = resampled_averages([{"steady": steady, "lucky": lucky}], resamples=400)
        assert np.std(drawn["lucky"]) > 2 * np.std(drawn["steady"])

    def test_an_item_without_a_figure_is_left_out_for_all(self) -> None:
        first, second = np.array([1.0, np.nan, 3.0, 5.0]), np.array([2.0, 100.0, 2.0, 2.0])
        drawn = resampled_averages([{"a": [ItemScores(first)], "b": [ItemScores(second)]}], resamples=100)
        assert set(drawn["b"]) == {2.0}
        assert drawn["a"].max() <= 5.0


@given(first=scores, second=scores)
def test_flips_by_counting(first: list[float], second: list[float]) -> None:
    above = statistics.fmean(first) > statistics.fmean(second)
    flipped = [(one < other) if above else (one > other) for one, other in itertools.product(first, second)]
    ties = [one == other for one, other in itertools.product(first, second)]
    found = flip_share(first, second)
    assert found == flip_share(second, first)
    if statistics.fmean(first) == statistics.fmean(second):
        assert found == 0.5
    else:
        assert found == pytest.approx((sum(flipped) + sum(ties) / 2) / len(ties))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=7))
def test_kendall(pairs: list[tuple[int, int]]) -> None:
    scipy = pytest.importorskip("scipy.stats")
    first, second = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    right = float(scipy.kendalltau(first, second).statistic)
    found = kendall(first, second)
    assert (math.isnan(right) and found is None) or found == pytest.approx(right)


@given(scores)
def test_ranks_share_what_ties_take(values: list[float]) -> None:
    scipy = pytest.importorskip("scipy.stats")
    named = {str(number): value for number, value in enumerate(values)}
    assert list(rank_values(named).values()) == scipy.rankdata([-value for value in values]).tolist()


def test_ranks_by_seed() -> None:
    found = find_ranks({"a": {0: 3.0, 1: 1.0, 2: 9.0}, "b": {0: 2.0, 1: 2.0}, "c": {0: 1.0, 1: 0.0}})
    assert [found[name].rank for name in "abc"] == [1, 2, 3]
    assert (found["a"].best, found["a"].worst, found["a"].mean) == (1, 2, 1.5)  # seed 2 is not everybody's
    assert (found["c"].best, found["c"].worst) == (3, 3)
