"""Shared neighbours by sets, and the gain against them by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from nearer.analysis import gain_by_neighbours, shared_neighbours
from nearer.analysis import rank_space as neighbours
from nearer.errors import InputError, SettingError


def nearest(vector: np.ndarray, corpus: np.ndarray, count: int) -> set[int]:
    cosines = corpus @ vector / np.linalg.norm(corpus, axis=1)
    return set(np.argsort(-cosines)[:count].tolist())


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_shared_neighbours_are_the_intersection(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "ENTRIES_AT_ONCE", rows * 60)
    draw = np.random.default_rng(0)
    vectors, corpus = draw.normal(size=(20, 5)), 3 * draw.normal(size=(60, 5)) + 0.5
    first, second = draw.integers(0, 20, 30), draw.integers(0, 20, 30)
    found = shared_neighbours(vectors, first, second, corpus, neighbours=8)
    expected = [
        len(nearest(vectors[one], corpus, 8) & nearest(vectors[two], corpus, 8))
        for one, two in zip(first, second, strict=True)
    ]
    assert found.tolist() == expected
    assert len(set(expected)) > 3


@pytest.mark.parametrize("count", [0, 61])
def test_more_neighbours_than_there_are(count: int) -> None:
    with pytest.raises(SettingError, match=f"neighbours: {count} is not between 1 and the corpus' 60"):
        shared_neighbours(np.eye(3), np.array([0]), np.array([1]), np.ones((60, 3)), neighbours=count)


class TestGain:
    def lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        draw = np.random.default_rng(5)
        gold = draw.integers(0, 51, 100) / 10
        base, other = gold / 5 + draw.normal(size=100), gold / 5 + 0.3 * draw.normal(size=100)
        return base, other, gold, draw.integers(0, 100, 100)

    def test_groups_of_equal_size_by_hand(self) -> None:
        base, other, gold, shared = self.lists()
        found = gain_by_neighbours(base, other, gold, shared, corpus=1000, groups=4)
        order = np.argsort(base)
        for place, group in enumerate(found.groups):
            inside = order[25 * place : 25 * place + 25]
            assert group.count == 25
            before, after = (100 * spearmanr(side[inside], gold[inside]).statistic for side in (base, other))
            assert (group.base, group.other) == (pytest.approx(before), pytest.approx(after))
            assert group.gain == pytest.approx(after - before)
            assert group.shared == pytest.approx(shared[inside].mean())
        gains, means = [group.gain for group in found.groups], [group.shared for group in found.groups]
        assert found.agreement == pytest.approx(spearmanr(gains, means).statistic)
        assert (found.neighbours, found.corpus) == (100, 1000)

    def test_bounds_of_ones_own_and_groups_without_an_order(self) -> None:
        base = np.array([0.1, 0.2, 0.6, 0.7, 0.8])
        found = gain_by_neighbours(
            base, base[::-1], np.array([1.0, 1, 2, 3, 4]), np.arange(5), corpus=9, edges=(0, 0.5, 0.55, 1)
        )
        first, second = found.groups  # the empty one is left out
        assert (first.count, first.base, first.gain) == (2, None, None)
        assert (second.base, second.other, second.gain) == (
            pytest.approx(100),
            pytest.approx(-100),
            pytest.approx(-200),
        )
        assert found.agreement is None

    def test_what_makes_no_groups(self) -> None:
        base, other, gold, shared = self.lists()
        with pytest.raises(InputError, match="99, 100 of them in the lists"):
            gain_by_neighbours(base, other[:99], gold, shared, corpus=9)
        with pytest.raises(InputError, match="all are equal"):
            gain_by_neighbours(np.ones(100), other, gold, shared, corpus=9)
