"""Pools against a look at everything: who is in, who may be, and that nobody is preferred."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from nearer.construct import negative_pools
from nearer.construct.negative_pools import NegativePools, PoolSettings, first_in_order
from nearer.errors import SettingError

CPU = torch.device("cpu")
LOW, HIGH = -0.2, 0.3


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several groups and windows in a corpus of some hundreds."""
    monkeypatch.setattr(negative_pools, "GROUP", 16)
    monkeypatch.setattr(negative_pools, "WIDTH", 50)


def unit_vectors(count: int, seed: int = 0, dimension: int = 6) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def make(vectors: np.ndarray, rows: np.ndarray | None = None, **settings: float) -> NegativePools:
    wanted = PoolSettings(**{"low": LOW, "high": HIGH, "size": 8, "scan": 0, **settings})  # type: ignore[arg-type]
    return NegativePools(vectors, np.arange(len(vectors)) if rows is None else rows, wanted, CPU)


def all_cosines(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide @ wide.T


def in_range(cosines: np.ndarray, number: int) -> set[int]:
    return {int(j) for j in np.flatnonzero((cosines[number] >= LOW) & (cosines[number] <= HIGH)) if j != number}


def test_large_enough_pools_are_all_that_lies_in_the_range() -> None:
    vectors = unit_vectors(230)
    cosines = all_cosines(vectors)
    found = make(vectors, size=230).of(np.arange(230))
    for number in range(230):
        count = found.counts[number]
        members = found.members[number]
        assert set(members[:count].tolist()) == in_range(cosines, number)
        assert (members[count:] == -1).all()
        np.testing.assert_allclose(found.cosines[number, :count], cosines[number, members[:count]], atol=1e-5)


def test_an_anchor_is_never_in_its_own_pool_even_where_a_cosine_of_one_is() -> None:
    found = make(unit_vectors(60), low=0.0, high=1.0, size=60).of(np.arange(60))
    assert found.counts.min() > 10
    assert (found.members != np.arange(60)[:, None]).all()


def test_small_pools_are_full_of_such_without_repetition() -> None:
    vectors = unit_vectors(230)
    cosines = all_cosines(vectors)
    found = make(vectors, size=8).of(np.arange(230))
    for number, members in enumerate(found.members.tolist()):
        possible = in_range(cosines, number)
        assert len(set(members) & possible) == min(8, len(possible))


def test_each_member_of_the_whole_pool_is_as_likely() -> None:
    """Over seeds, for anchors at different places of their group. Of k of M, variances shrink by (M − k)/(M − 1)."""
    vectors = unit_vectors(120)
    cosines = all_cosines(vectors)
    anchors, trials, size = [3, 15, 100], 800, 5
    counts = np.zeros((len(anchors), 120))
    for seed in range(trials):
        members = make(vectors, size=size, seed=seed).of(np.array(anchors)).members
        for place, row in enumerate(members):
            counts[place, row] += 1
    for place, anchor in enumerate(anchors):
        pool = sorted(in_range(cosines, anchor))
        assert counts[place].sum() == counts[place, pool].sum() == trials * size
        expected = trials * size / len(pool)
        statistic = ((counts[place, pool] - expected) ** 2).sum() / expected * (len(pool) - 1) / (len(pool) - size)
        assert chi2.sf(statistic, len(pool) - 1) > 1e-3


def test_sentences_are_used_about_alike() -> None:
    """Anchors begin at different places: not all draw from the same few."""
    vectors = unit_vectors(400)
    members = make(vectors, size=4).of(np.arange(400)).members
    assert len(np.unique(members[:16])) > 25  # of the 50 that a group looks at first
    used = np.bincount(members.ravel(), minlength=400)
    assert used.mean() == 4
    assert (used == 0).mean() < 0.15
    assert used.max() < 40


@pytest.mark.parametrize("scan", [30, 70, 0])
def test_only_so_many_sentences_are_looked_at(scan: int) -> None:
    vectors = unit_vectors(200)
    cosines = all_cosines(vectors)
    pools = make(vectors, size=200, scan=scan)
    counts = pools.of(np.arange(16)).counts
    seen = pools._order[: scan or 200]  # the first group begins at the first place
    for number in range(16):
        assert counts[number] == len(in_range(cosines, number) & set(seen.tolist()))


def test_pools_do_not_depend_on_who_else_is_asked_for() -> None:
    vectors = unit_vectors(100)
    whole = make(vectors).of(np.arange(100))
    some = np.array([70, 3, 99, 17, 16, 71])
    part = make(vectors).of(some)
    assert (part.members == whole.members[some]).all()
    assert (part.cosines == whole.cosines[some]).all()
    one_by_one = np.concatenate([make(vectors).of(np.array([number])).members for number in some])
    assert (one_by_one == part.members).all()


def test_the_seed_decides() -> None:
    vectors = unit_vectors(100)
    first, same, other = (make(vectors, seed=seed).of(np.arange(100)).members for seed in (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()


def test_rows_say_where_a_sentence_s_vector_is() -> None:
    vectors = unit_vectors(80)
    rows = np.random.default_rng(1).permutation(80)
    assert (make(vectors, rows).of(np.arange(80)).members == make(vectors[rows]).of(np.arange(80)).members).all()


def test_short_pools_have_spare_sentences_from_below_the_range() -> None:
    angles = np.radians([0, 60, *[100 + number for number in range(20)]])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float16)
    found = make(vectors, low=0.4, high=0.6, spare=3).probe(np.arange(1))
    assert found.members[0].tolist() == [1] + [-1] * 7
    assert len(set(found.spare[0].tolist())) == 3
    assert set(found.spare[0].tolist()) <= set(range(2, 22))
    np.testing.assert_allclose(found.spare_cosines[0], np.cos(angles[found.spare[0]]), atol=1e-3)
    assert found.seen is None
    nothing = make(vectors, low=-0.99, high=-0.98, spare=2).probe(np.arange(1))
    assert nothing.counts.tolist() == [0]
    assert (nothing.spare == -1).all()
    assert nothing.seen == (pytest.approx(np.cos(angles).min(), abs=1e-3), pytest.approx(0.5, abs=1e-3))


def test_places_in_a_turned_order_by_hand() -> None:
    draw = np.random.default_rng(0)
    wanted, turned = draw.random((40, 9)) < 0.5, draw.integers(0, 9, 40)
    found = first_in_order(torch.from_numpy(wanted), torch.from_numpy(turned))
    for row in range(40):
        order = [(turned[row] + step) % 9 for step in range(9)]
        for place, column in enumerate((column for column in order if wanted[row, column]), start=1):
            assert found[row, column] == place


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"low": 0.5, "high": 0.2}, "0.5,0.2 is not two cosines, the lower one first"),
        ({"low": float("nan")}, "range"),
        ({"high": 1.5}, "range"),
        ({"size": 0}, "pool size"),
        ({"scan": -1}, "scan"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, float], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        PoolSettings(**settings)  # type: ignore[arg-type]
