"""The probabilities against the equations written out in loops, and sampling against the probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from debiased_parts import equations
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from nearer.construct import propensity

ENOUGH = 1e-3  # a fixed seed: below it, the sampling is wrong
TRIALS = 40_000


pools = st.lists(st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1)), max_size=7), min_size=1, max_size=5)


@given(pools, st.floats(0, 1), st.sampled_from([1.0, 0.0, 30.0]), st.booleans())
def test_probabilities_are_the_equations(
    rows: list[list[tuple[float, float]]], weight: float, sharpness: float, positive: bool
) -> None:
    width = max(map(len, rows))
    distances, cosines = np.full((2, len(rows), width), 0.5)  # what lies behind a short pool must not count
    mask = np.zeros((len(rows), width), dtype=bool)
    for place, row in enumerate(rows):
        mask[place, : len(row)] = True
        for column, (edit, cosine) in enumerate(row):
            distances[place, column], cosines[place, column] = edit, cosine
    function = propensity.positive_probabilities if positive else propensity.negative_probabilities
    found = function(distances, cosines, mask, semantic_weight=weight, sharpness=sharpness)
    assert not found[~mask].any()
    for place, row in enumerate(rows):
        if row:
            wanted = equations([edit for edit, _ in row], [cos for _, cos in row], weight, sharpness, positive)
            np.testing.assert_allclose(found[place, : len(row)], wanted, atol=1e-12)


def test_what_is_preferred() -> None:
    """Negatives that look alike and mean something else; positives the other way round."""
    distances, cosines = np.array([[0.1, 0.9]]), np.array([[0.4, 0.4]])
    mask = np.ones((1, 2), dtype=bool)
    negative = propensity.negative_probabilities(distances, cosines, mask)[0]
    positive = propensity.positive_probabilities(distances, cosines, mask)[0]
    assert negative[0] > negative[1]
    assert positive[0] < positive[1]
    distances, cosines = cosines, distances
    assert np.diff(propensity.negative_probabilities(distances, cosines, mask)[0]) < 0
    assert np.diff(propensity.positive_probabilities(distances, cosines, mask)[0]) > 0


CHANCES = np.array([0.5, 0.3, 0.15, 0.05, 0.0])


def drawn(count: int, seed: int = 5) -> np.ndarray:
    numbers = propensity.seeds_of(seed, 1, np.arange(TRIALS))
    chances = np.tile(CHANCES, (TRIALS, 1))
    return propensity.sample_without_replacement(chances, count, propensity.uniform_numbers(numbers, len(CHANCES)))


def test_draws_without_replacement_have_the_probabilities_of_one_after_the_other() -> None:
    """All ordered pairs: p_i · p_j / (1 − p_i)."""
    found = drawn(2)
    pairs = list(itertools.permutations(range(4), 2))
    wanted = [TRIALS * CHANCES[i] * CHANCES[j] / (1 - CHANCES[i]) for i, j in pairs]
    counts = [int(((found[:, 0] == i) & (found[:, 1] == j)).sum()) for i, j in pairs]
    assert sum(counts) == TRIALS
    assert chisquare(counts, wanted).pvalue > ENOUGH


def test_more_than_the_pool_has() -> None:
    found = drawn(7)
    assert (np.sort(found[:, :4], axis=1) == np.arange(4)).all()
    assert (found[:, 4:] == -1).all()


def test_draws_with_replacement_have_the_probabilities() -> None:
    numbers = propensity.seeds_of(1, 2, np.arange(TRIALS))
    found = propensity.sample_with_replacement(np.tile(CHANCES, (TRIALS, 1)), propensity.uniform_numbers(numbers, 2))
    for first, second in itertools.product(range(4), repeat=2):
        share = ((found[:, 0] == first) & (found[:, 1] == second)).mean()
        assert share == pytest.approx(CHANCES[first] * CHANCES[second], abs=0.01)
    assert chisquare(np.bincount(found.ravel(), minlength=5)[:4], 2 * TRIALS * CHANCES[:4]).pvalue > ENOUGH


@pytest.mark.parametrize("width", [0, 3])
def test_an_empty_pool_gives_nothing(width: int) -> None:
    nothing = np.zeros((2, width))
    assert (propensity.sample_without_replacement(nothing, 2, np.full((2, width), 0.5)) == -1).all()
    assert (propensity.sample_with_replacement(nothing, np.full((2, 2), 0.5)) == -1).all()


class TestNumbers:
    def test_they_depend_on_seed_stream_and_number_alone(self) -> None:
        whole = propensity.seeds_of(3, 1, np.arange(100))
        assert (propensity.seeds_of(3, 1, np.array([40, 7])) == whole[[40, 7]]).all()
        different = [whole, propensity.seeds_of(4, 1, np.arange(100)), propensity.seeds_of(3, 2, np.arange(100))]
        assert len(np.unique(np.concatenate(different))) == 300

    def test_the_first_ones_do_not_depend_on_how_many(self) -> None:
        seeds = propensity.seeds_of(3, 1, np.arange(5))
        assert (propensity.uniform_numbers(seeds, 9)[:, :4] == propensity.uniform_numbers(seeds, 4)).all()

    def test_they_are_uniform_and_unrelated(self) -> None:
        found = propensity.uniform_numbers(propensity.seeds_of(0, 1, np.arange(2_000)), 20)
        assert ((found > 0) & (found < 1)).all()
        assert kstest(found.ravel(), "uniform").pvalue > ENOUGH
        for axis in (0, 1):
            moved = np.roll(found, 1, axis=axis)
            assert abs(np.corrcoef(found.ravel(), moved.ravel())[0, 1]) < 0.02
