"""Rating groups: scales, bounds, distributions and scores within them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from nearer.analysis.ratings import (
    even_edges,
    group_indices,
    positive_threshold,
    rating_distributions,
    rating_scale,
    scores_by_rating,
)
from nearer.errors import InputError, SettingError


@pytest.mark.parametrize(
    ("gold", "scale", "threshold"),
    [
        ([0.0, 2.5, 5.0], (0, 5), 4),
        ([1.0, 4.9], (0, 5), 4),  # SICK-R
        ([0.0, 0.2, 1.0], (0, 1), 0.8),
        ([-1.0, 1.0], (-1, 1), 0.6),
        ([10.0, 20.0], (10, 20), 18),
    ],
)
def test_scale_and_threshold(gold: list[float], scale: tuple[float, float], threshold: float) -> None:
    assert rating_scale(np.array(gold)) == scale
    assert positive_threshold(np.array(gold)) == pytest.approx(threshold)


def test_groups_of_sts_and_thirds_of_the_paper() -> None:
    gold = np.array([0.0, 5.0])
    assert even_edges(gold, 5) == (0, 1, 2, 3, 4, 5)
    assert even_edges(gold, 3) == pytest.approx((0, 5 / 3, 10 / 3, 5))


@given(st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_each_value_is_in_one_group_and_the_highest_in_the_last(values: list[float]) -> None:
    edges = (0.0, 1.0, 2.5, 5.0)
    groups = group_indices(np.array(values), edges)
    assert sorted(place for group in groups for place in group) == list(range(len(values)))
    for group, low, high in zip(groups, edges, edges[1:], strict=False):
        assert all(low <= values[place] < high or values[place] == high == 5.0 for place in group)


def test_bounds_that_cannot_be() -> None:
    with pytest.raises(SettingError, match="edges: 0, 2, 2 do not rise"):
        group_indices(np.array([1.0]), (0, 2, 2))
    with pytest.raises(SettingError, match="2 of 3 values lie outside 1 to 4"):
        group_indices(np.array([0.5, 2.0, 4.5]), (1, 4))
    with pytest.raises(InputError, match="all are 7; they make no groups"):
        even_edges(np.array([7.0, 7.0]), 5)
    with pytest.raises(InputError, match="0 given"):
        rating_scale(np.array([]))


class TestDistributions:
    GOLD = np.array([0.2, 0.9, 1.0, 4.0, 5.0, 4.4, 4.9])
    SIMILARITIES = np.array([-0.5, 0.1, 0.3, 0.5, 0.9, 0.7, 0.8])

    def test_counts_means_and_quantiles(self) -> None:
        found = rating_distributions(self.SIMILARITIES, self.GOLD, bins=4)
        assert found.bins == (-1, -0.5, 0, 0.5, 1)
        assert [(group.low, group.high, group.count) for group in found.groups] == [
            (0, 1, 2),
            (1, 2, 1),
            (2, 3, 0),
            (3, 4, 0),
            (4, 5, 4),
        ]
        assert [group.histogram for group in found.groups[:2]] == [(0, 1, 1, 0), (0, 0, 1, 0)]
        assert found.groups[4].histogram == (0, 0, 0, 4)
        assert found.groups[4].mean == pytest.approx(0.725)
        assert found.groups[4].quantiles == pytest.approx((0.53, 0.65, 0.75, 0.825, 0.885))
        assert (found.groups[2].mean, found.groups[2].quantiles) == (None, None)

    def test_similarities_beyond_cosines_have_bins_too(self) -> None:
        found = rating_distributions(self.SIMILARITIES * 10, self.GOLD)
        assert (found.bins[0], found.bins[-1]) == (-5, 9)
        assert sum(sum(group.histogram) for group in found.groups) == len(self.GOLD)

    def test_what_cannot_be_drawn(self) -> None:
        with pytest.raises(InputError, match="6 for 7 gold scores"):
            rating_distributions(self.SIMILARITIES[:6], self.GOLD)
        with pytest.raises(InputError, match="not finite"):
            rating_distributions(self.SIMILARITIES * np.nan, self.GOLD)
        with pytest.raises(SettingError, match="bins: 0 is below 1"):
            rating_distributions(self.SIMILARITIES, self.GOLD, bins=0)


class TestScores:
    def test_against_scipy_in_each_third(self) -> None:
        draw = np.random.default_rng(0)
        gold = draw.integers(0, 51, 90) / 10
        models = {"one": gold + draw.normal(size=90), "two": draw.normal(size=90)}
        for group in scores_by_rating(models, gold):
            inside = (gold >= group.low) & ((gold < group.high) | (group.high == 5))
            assert group.count == inside.sum()
            for name, values in models.items():
                expected = 100 * spearmanr(values[inside], gold[inside]).statistic
                assert group.scores[name] == pytest.approx(expected)

    def test_a_group_without_an_order_has_no_score(self) -> None:
        gold = np.array([0.0, 0.5, 5.0, 5.0])
        low, middle, high = scores_by_rating({"one": np.array([0.1, 0.2, 0.3, 0.4])}, gold)
        assert low.scores == {"one": pytest.approx(100)}
        assert (middle.count, middle.scores) == (0, {"one": None})
        assert (high.count, high.scores) == (2, {"one": None})  # both rated 5

    def test_lists_of_unequal_length_are_refused(self) -> None:
        with pytest.raises(InputError, match="one: 1 similarities for 2 gold scores"):
            scores_by_rating({"one": np.array([0.1])}, np.array([1.0, 2.0]))
