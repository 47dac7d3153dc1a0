"""The space of rank vectors against Spearman's correlations of similarity lists."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from nearer.analysis import RankSpace, compare_spaces, rank_space
from nearer.errors import InputError


def lists(count: int = 25) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    vectors, corpus = draw.normal(size=(count, 6)) + 0.5, draw.normal(size=(40, 6))
    first, second = draw.integers(0, count, 30), draw.integers(0, count, 30)
    return vectors, first, second, draw.integers(0, 51, 30) / 10, corpus


def found(**options: object) -> RankSpace:
    vectors, first, second, gold, corpus = lists()
    return compare_spaces(vectors, first, second, gold, corpus, threshold=3.5, **options)


def test_both_spaces_by_hand() -> None:
    vectors, first, second, gold, corpus = lists()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    seen = unit @ (corpus / np.linalg.norm(corpus, axis=1, keepdims=True)).T
    ranks = np.array([rankdata(row) for row in seen])
    ranks -= ranks.mean(axis=1, keepdims=True)
    ranks /= np.linalg.norm(ranks, axis=1, keepdims=True)
    compared = found()
    rhos = [spearmanr(seen[one], seen[two]).statistic for one, two in zip(first, second, strict=True)]
    np.testing.assert_allclose(compared.correlations, rhos, atol=1e-5)
    np.testing.assert_allclose(compared.cosines, (unit[first] * unit[second]).sum(axis=1), atol=1e-6)
    above = gold > 3.5
    for space, points in ((compared.base, unit), (compared.ranks, ranks)):
        similarities = (points[first] * points[second]).sum(axis=1)
        assert space.score == pytest.approx(100 * spearmanr(similarities, gold).statistic, abs=1e-6)
        away = points[first[above]] - points[second[above]]
        assert space.alignment == pytest.approx((away**2).sum(axis=1).mean(), abs=1e-5)
        pairs = [(one, two) for one in range(25) for two in range(one)]
        terms = [math.exp(-2 * float(((points[one] - points[two]) ** 2).sum())) for one, two in pairs]
        assert space.uniformity == pytest.approx(math.log(sum(terms) / len(terms)), abs=1e-5)
    assert compared.agreement == pytest.approx(spearmanr(rhos, compared.cosines).statistic, abs=1e-6)
    assert (compared.corpus, compared.approximate) == (40, False)


def test_uniformity_does_not_hang_on_how_many_are_ranked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found().ranks.uniformity
    monkeypatch.setattr(rank_space, "RANKED_AT_ONCE", 4)
    assert found().ranks.uniformity == pytest.approx(whole, abs=1e-6)


def test_from_the_covariance_it_comes_close() -> None:
    exact, near = found(), found(approximate=True)
    assert near.approximate
    assert near.ranks.uniformity == pytest.approx(exact.ranks.uniformity, abs=0.3)
    assert np.corrcoef(near.correlations, exact.correlations)[0, 1] > 0.95


def test_without_positives_there_is_no_alignment() -> None:
    vectors, first, second, gold, corpus = lists()
    compared = compare_spaces(vectors, first, second, gold, corpus, threshold=5)
    assert (compared.base.alignment, compared.ranks.alignment) == (None, None)


def test_a_corpus_of_one() -> None:
    vectors, first, second, gold, corpus = lists()
    with pytest.raises(InputError, match="corpus: 1 given, at least 2 are needed"):
        compare_spaces(vectors, first, second, gold, corpus[:1], threshold=3)
