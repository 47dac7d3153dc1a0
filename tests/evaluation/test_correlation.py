"""Correlations against scipy, and aggregations against sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from nearer.evaluation.measures import aggregate, pearson, spearman, why_undefined

# few distinct values, so that ties are the rule
TIED = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=30)


def arrays(*sides: list[float]) -> list[np.ndarray]:
    return [np.array(side, dtype=np.float64) for side in sides]


@pytest.mark.parametrize("size", [2, 3, 10, 500])
@pytest.mark.parametrize("levels", [2, 6, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_as_scipy(size: int, levels: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    gold = draw.permutation(np.r_[0, 1, draw.integers(0, levels, size)]).astype(np.float64)
    predicted = np.round(np.tanh(gold + draw.normal(size=len(gold))), 2)
    assert spearman(predicted, gold) == pytest.approx(scipy.stats.spearmanr(predicted, gold).statistic, abs=1e-12)
    assert pearson(predicted, gold) == pytest.approx(scipy.stats.pearsonr(predicted, gold).statistic, abs=1e-12)


@given(TIED)
def test_the_same_as_scipy_with_ties(pairs: list[tuple[int, int]]) -> None:
    predicted, gold = np.array(pairs, dtype=np.float64).T
    if len(set(predicted)) == 1 or len(set(gold)) == 1:
        assert spearman(predicted, gold) is None
        assert pearson(predicted, gold) is None
    else:
        assert spearman(predicted, gold) == pytest.approx(scipy.stats.spearmanr(predicted, gold).statistic, abs=1e-12)
        assert pearson(predicted, gold) == pytest.approx(scipy.stats.pearsonr(predicted, gold).statistic, abs=1e-12)


@given(TIED)
def test_one_with_itself_and_minus_one_with_its_reverse(pairs: list[tuple[int, int]]) -> None:
    values = np.array(pairs, dtype=np.float64)[:, 0]
    if len(set(values)) > 1:
        for measure in (spearman, pearson):
            assert measure(values, values) == pytest.approx(1)
            assert measure(values, -values) == pytest.approx(-1)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 5e-324])
def test_scale_does_not_matter(scale: float) -> None:
    values, gold = arrays([1, 2, 3, 4], [1, 3, 2, 4])
    assert pearson(values * scale, gold) == pytest.approx(0.8)
    assert spearman(values * scale, gold) == pytest.approx(0.8)


def test_rounding_never_leads_beyond_one() -> None:
    values = np.random.default_rng(3).normal(size=1000)
    assert pearson(values, 3 * values + 1) <= 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("predicted", "gold", "why"),
    [
        ([0.3, 0.3, 0.3], [1, 2, 3], "all similarities are equal"),
        ([1, 2, 3], [0.1, 0.1, 0.1], "all gold scores are equal"),
        ([0.3, 0.3], [2, 2], "all gold scores are equal"),
        ([1, math.nan, 3], [1, 2, 3], "some similarities are not finite numbers"),
        ([1, 2, math.inf], [1, 2, 3], "some similarities are not finite numbers"),
        ([1, 2, 3], [1, math.nan, 3], "some gold scores are not finite numbers"),
        ([1], [1], "a correlation needs at least 2 pairs, 1 found"),
        ([], [], "a correlation needs at least 2 pairs, 0 found"),
    ],
)
def test_undefined(predicted: list[float], gold: list[float], why: str) -> None:
    sides = arrays(predicted, gold)
    assert why_undefined(*sides) == why
    assert spearman(*sides) is None
    assert pearson(*sides) is None


def test_defined_has_no_reason() -> None:
    assert why_undefined(*arrays([1, 2], [3, 4])) == ""


@pytest.mark.parametrize("measure", [spearman, pearson])
@pytest.mark.parametrize("seed", range(3))
def test_aggregations_by_hand(measure, seed: int) -> None:
    draw = np.random.default_rng(seed)
    subsets = [(draw.normal(size=size), draw.integers(0, 6, size).astype(np.float64)) for size in (12, 40, 7)]
    theirs = scipy.stats.spearmanr if measure is spearman else scipy.stats.pearsonr
    each = [theirs(predicted, gold).statistic for predicted, gold in subsets]
    every_predicted = [value for predicted, _ in subsets for value in predicted]
    every_gold = [value for _, gold in subsets for value in gold]
    assert aggregate(measure, subsets) == {
        "all": pytest.approx(theirs(every_predicted, every_gold).statistic),
        "mean": pytest.approx(sum(each) / 3),
        "wmean": pytest.approx((12 * each[0] + 40 * each[1] + 7 * each[2]) / 59),
    }


def test_one_undefined_subset_leaves_only_the_joined_figure() -> None:
    first, second = arrays([1, 2, 3], [1, 2, 3]), arrays([0.5, 0.5], [2, 1])
    found = aggregate(spearman, [tuple(first), tuple(second)])  # type: ignore[arg-type]
    assert found["all"] == pytest.approx(scipy.stats.spearmanr([1, 2, 3, 0.5, 0.5], [1, 2, 3, 2, 1]).statistic)
    assert (found["mean"], found["wmean"]) == (None, None)
