"""Measures of a ranking against slow versions, scipy and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import kendalltau

from nearer.errors import InputError
from nearer.evaluation.measures import (
    average_precision,
    by_score,
    kendall,
    mean_percent,
    ndcg,
    recall_at_k,
    reciprocal_rank,
    tied_average_precision,
)

metrics = pytest.importorskip("sklearn.metrics")
Values = NDArray[np.float64]

GAINS = st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.5]), min_size=1, max_size=12).filter(any)


def array(*values: float) -> Values:
    return np.array(values, dtype=np.float64)


@st.composite
def scored(draw: st.DrawFn, *, ties: bool) -> tuple[Values, Values]:
    """Gains with at least one above 0, and a score for each."""
    gains = draw(GAINS)
    values = st.sampled_from([0.1, 0.2, 0.3]) if ties else st.integers(-50, 50).map(lambda n: n / 64)
    scores = draw(st.lists(values, min_size=len(gains), max_size=len(gains), unique=not ties))
    return np.array(gains), np.array(scores)


def precision_by_hand(gains: Values, relevant: int) -> float:
    total = 0.0
    for place, gain in enumerate(gains, start=1):
        if gain > 0:
            total += sum(1 for earlier in gains[:place] if earlier > 0) / place
    return total / relevant


def tau_by_hand(first: Values, second: Values) -> float | None:
    same = opposite = first_only = second_only = 0
    for i in range(len(first)):
        for j in range(i):
            a, b = first[i] - first[j], second[i] - second[j]
            same += a * b > 0
            opposite += a * b < 0
            first_only += a == 0 and b != 0
            second_only += b == 0 and a != 0
    below = (same + opposite + first_only) * (same + opposite + second_only)
    return (same - opposite) / math.sqrt(below) if below else None


class TestOrder:
    def test_falls_with_the_score(self) -> None:
        assert by_score(array(1, 2, 3), array(0.1, 0.3, 0.2)).tolist() == [2, 3, 1]

    def test_equal_scores_keep_their_order_or_turn_it_round(self) -> None:
        gains, scores = array(1, 2, 3, 4), np.array([0.5, 0.9, 0.5, 0.5], dtype=np.float32)
        assert by_score(gains, scores).tolist() == [2, 1, 3, 4]
        assert by_score(gains, scores, "last").tolist() == [2, 4, 3, 1]

    @given(scored(ties=False))
    def test_without_equal_scores_there_is_one_order(self, case: tuple[Values, Values]) -> None:
        assert by_score(*case).tolist() == by_score(*case, "last").tolist()


class TestAveragePrecision:
    @given(scored(ties=True))
    def test_as_by_hand(self, case: tuple[Values, Values]) -> None:
        gains = by_score(*case)
        assert average_precision(gains) == pytest.approx(precision_by_hand(gains, (gains > 0).sum()))

    @given(scored(ties=True))
    def test_tied_as_in_scikit_learn(self, case: tuple[Values, Values]) -> None:
        gains, scores = case
        wanted = metrics.average_precision_score(gains > 0, scores)
        assert tied_average_precision(gains, scores) == pytest.approx(wanted)

    @given(scored(ties=False))
    def test_both_are_one_without_ties(self, case: tuple[Values, Values]) -> None:
        assert average_precision(by_score(*case)) == pytest.approx(tied_average_precision(*case))

    def test_what_is_outside_the_list_counts_as_not_found(self) -> None:
        assert average_precision(array(0, 1), relevant=4) == pytest.approx(0.5 / 4)
        assert average_precision(array(0, 0), relevant=4) == 0


class TestFirstHitAndRecall:
    @given(scored(ties=True), st.integers(1, 15))
    def test_as_by_hand(self, case: tuple[Values, Values], cut: int) -> None:
        gains = by_score(*case)
        relevant = sum(gain > 0 for gain in gains)
        places = [place for place, gain in enumerate(gains, start=1) if gain > 0]
        assert reciprocal_rank(gains[:cut], relevant=relevant) == (1 / places[0] if places[0] <= cut else 0)
        assert recall_at_k(gains, cut) == sum(place <= cut for place in places) / relevant

    def test_recall_is_of_all_that_is_relevant(self) -> None:
        assert recall_at_k(array(1, 0, 1), 3, relevant=8) == 0.25


class TestNdcg:
    @given(scored(ties=False), st.sampled_from([None, 1, 3, 10]))
    def test_as_in_scikit_learn(self, case: tuple[Values, Values], cut: int | None) -> None:
        gains, scores = case
        assume(len(gains) > 1)  # scikit-learn refuses a single candidate
        assert ndcg(by_score(gains, scores), cut=cut) == pytest.approx(metrics.ndcg_score([gains], [scores], k=cut))
        wanted = metrics.ndcg_score([2**gains - 1], [scores], k=cut)
        assert ndcg(by_score(gains, scores), cut=cut, exponential=True) == pytest.approx(wanted)

    def test_by_hand(self) -> None:
        found = 1 / math.log2(3) + 3 / math.log2(4)
        best = 3 / math.log2(2) + 1 / math.log2(3)
        assert ndcg(array(0, 1, 3)) == pytest.approx(found / best)

    def test_the_best_order_is_of_all_that_is_relevant(self) -> None:
        every = array(3, 2, 1)
        best = 3 + 2 / math.log2(3)
        assert ndcg(array(0, 1), ideal=every, cut=2) == pytest.approx(1 / math.log2(3) / best)

    def test_gains_below_zero_are_none(self) -> None:
        with pytest.raises(InputError, match="gains are below 0"):
            ndcg(array(1, -1))
        with pytest.raises(InputError, match="gains are below 0"):
            ndcg(array(1), ideal=array(1, -1))


class TestKendall:
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12))
    def test_as_in_scipy_and_by_hand(self, pairs: list[tuple[int, int]]) -> None:
        first, second = np.array(pairs, dtype=np.float64).T
        found = kendall(first, second)
        assert found == pytest.approx(tau_by_hand(first, second))
        if found is not None:
            assert found == pytest.approx(kendalltau(first, second).statistic)

    @pytest.mark.parametrize(("predicted", "gold"), [((1, 2, 3), (2, 2, 2)), ((0, 0), (1, 2)), ((1,), (2,)), ((), ())])
    def test_undefined(self, predicted: tuple[float, ...], gold: tuple[float, ...]) -> None:
        assert kendall(array(*predicted), array(*gold)) is None

    @given(st.permutations(range(6)))
    def test_only_the_order_counts(self, order: list[int]) -> None:
        predicted, gold = np.array(order, dtype=np.float64), np.arange(6.0)
        assert kendall(np.exp(predicted), gold) == kendall(predicted, gold)
        assert kendall(-predicted, gold) == pytest.approx(-kendall(predicted, gold))  # type: ignore[operator]


@given(scored(ties=False))
def test_the_best_order_is_worth_one_and_none_is_worth_more(case: tuple[Values, Values]) -> None:
    gains, scores = case
    for measure in (average_precision, reciprocal_rank, ndcg):
        assert measure(np.sort(gains)[::-1]) == pytest.approx(1)
        assert 0 < measure(by_score(gains, scores)) <= 1 + 1e-12


@pytest.mark.parametrize(
    "measure",
    [average_precision, reciprocal_rank, ndcg, lambda g: recall_at_k(g, 1), lambda g: tied_average_precision(g, g)],
)
def test_nothing_relevant_is_an_error(measure) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="no candidate is relevant"):
        measure(array(0, 0))


def test_a_mean_with_an_undefined_part_is_undefined() -> None:
    assert mean_percent(array(0.5, 1)) == 75
    assert mean_percent(array(0.5, np.nan)) is None
