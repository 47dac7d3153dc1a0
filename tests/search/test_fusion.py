"""Judges are fused by z-scores within a query's candidates, beside a version in plain loops."""

from __future__ import annotations

import statistics

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from numpy.typing import NDArray

from nearer.errors import SettingError
from nearer.search.fusion import fuse, order_candidates, standardise, unite_candidates

numbers = st.integers(-50, 50).map(lambda number: number / 8)


@st.composite
def judged(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 5))

    def grid(values: st.SearchStrategy[object]) -> NDArray[np.float64]:
        size = rows * columns
        return np.array(draw(st.lists(values, min_size=size, max_size=size))).reshape(rows, columns)

    return grid(numbers), grid(numbers), grid(st.booleans()).astype(bool)


@hypothesis.given(judged(), st.floats(0.1, 3))
def test_as_by_hand(given: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]], weight: float) -> None:
    one, two, valid = given
    found = fuse({"vectors": one, "lexical": two}, {"vectors": 1, "lexical": weight}, valid)
    for row in range(len(one)):
        there = [column for column in range(one.shape[1]) if valid[row, column]]
        for column in range(one.shape[1]):
            if column not in there:
                assert found[row, column] == -np.inf
                continue
            expected = 0.0
            for scores, factor in ((one, 1.0), (two, weight)):
                values = [float(scores[row, other]) for other in there]
                spread = statistics.pstdev(values)
                if spread > 1e-6:
                    expected += factor * (float(scores[row, column]) - statistics.fmean(values)) / spread
            assert found[row, column] == pytest.approx(expected, abs=1e-9)


def test_scale_and_level_of_a_judge_do_not_count() -> None:
    scores = np.random.default_rng(0).normal(size=(4, 9))
    valid = np.ones_like(scores, dtype=bool)
    np.testing.assert_allclose(standardise(scores * 70 - 11, valid), standardise(scores, valid))


def test_what_is_not_valid_may_be_anything() -> None:
    valid = np.array([[True, True, False]])
    scores = {"vectors": np.array([[0.1, 0.2, np.nan]])}
    np.testing.assert_allclose(fuse(scores, {"vectors": 1}, valid), [[-1, 1, -np.inf]])


def test_a_judge_without_weight_does_not_count() -> None:
    one = np.array([[1.0, 2.0]])
    np.testing.assert_array_equal(fuse({"vectors": one, "lexical": -one}, {"vectors": 1, "lexical": 0}), [[-1, 1]])


def test_weights_that_cannot_be_used() -> None:
    with pytest.raises(SettingError, match="'reranker' has the weight 2, and there are no scores of it"):
        fuse({"vectors": np.ones((1, 2))}, {"vectors": 1, "reranker": 2})
    with pytest.raises(SettingError, match="all are 0"):
        fuse({"vectors": np.ones((1, 2))}, {"vectors": 0})


def test_candidates_of_both_sides_each_once() -> None:
    united = unite_candidates(np.array([[3, 1], [2, -1]]), np.array([[1, 5, -1], [2, 2, -1]]))
    assert united.tolist() == [[3, 1, 5], [2, -1, -1]]
    assert unite_candidates(np.empty((0, 2)), np.empty((0, 3))).shape == (0, 0)


def test_order_is_by_score_then_by_number() -> None:
    candidates = np.array([[7, 2, 5, -1]])
    fused = np.array([[1.0, 1.0, 3.0, -np.inf]])
    numbers, scores = order_candidates(candidates, fused)
    assert numbers.tolist() == [[5, 2, 7, -1]]
    assert scores.tolist() == [[3.0, 1.0, 1.0, -np.inf]]
    assert order_candidates(candidates, fused, top=1)[0].tolist() == [[5]]
