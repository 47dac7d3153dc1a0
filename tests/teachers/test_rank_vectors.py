"""Rank vectors against scipy's Spearman correlation of the similarity lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from torch import Tensor

from nearer.errors import InputError
from nearer.teachers import CorpusCovariance, CorpusRanks, rank_vectors
from nearer.teachers.rank_vectors import average_ranks


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit(vectors: Tensor) -> np.ndarray:
    return torch.nn.functional.normalize(vectors, dim=-1).numpy()


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=80, deadline=None)
def test_ranks_are_scipy_s_with_ties(rows: int, size: int, seed: int, values: int) -> None:
    lists = torch.randint(values, (rows, size), generator=torch.Generator().manual_seed(seed)).float()
    np.testing.assert_array_equal(average_ranks(lists).numpy(), rankdata(lists.numpy(), axis=1) - 1)


@pytest.mark.parametrize("repeated", [False, True])
def test_products_are_spearman_s_correlations(repeated: bool) -> None:
    sentences, others, corpus = drawn(6, 8, seed=1), drawn(4, 8, seed=2), drawn(200, 8, seed=3)
    if repeated:  # whole groups of corpus sentences with equal cosines
        corpus = corpus[:40].repeat(5, 1)
    found = CorpusRanks(corpus).similarities(sentences, others)
    lists, more = unit(sentences) @ unit(corpus).T, unit(others) @ unit(corpus).T
    if repeated:  # equal rows of a matrix product can differ in the last bit
        lists, more = (np.tile(each[:, :40], (1, 5)) for each in (lists, more))
    wanted = [[spearmanr(a, b).statistic for b in more] for a in lists]
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-3 if repeated else 1e-5)


def test_lengths_do_not_matter_and_vectors_are_unit_and_centred() -> None:
    sentences, corpus = drawn(5, 8, seed=1), drawn(50, 8, seed=2)
    vectors = CorpusRanks(corpus).rank_vectors(sentences)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(5))
    torch.testing.assert_close(vectors.sum(dim=-1), torch.zeros(5), atol=1e-5, rtol=0)
    scaled = CorpusRanks(corpus * torch.rand(50, 1).add(0.5)).rank_vectors(sentences * 7)
    torch.testing.assert_close(scaled, vectors)


def test_a_sentence_without_an_order_is_zero() -> None:
    assert not CorpusRanks(drawn(9, 4, seed=1)).rank_vectors(torch.zeros(1, 4)).any()


def test_the_approximation_is_near_for_normal_lists() -> None:
    """Gaussian corpora of high dimension have normal lists: there it must be all but exact."""
    corpus = drawn(5000, 64, seed=1) @ drawn(64, 64, seed=2) + 2 * drawn(1, 64, seed=3)
    sentences = drawn(12, 64, seed=4)
    near = CorpusCovariance(corpus).similarities(sentences, sentences)
    exact = CorpusRanks(corpus).similarities(sentences, sentences)
    assert float((near - exact).abs().max()) < 0.03
    torch.testing.assert_close(near.diagonal(), torch.ones(12), atol=1e-3, rtol=0)


def test_a_corpus_of_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"corpus: .* at least 2"):
        CorpusRanks(drawn(1, 4, seed=2))
    with pytest.raises(InputError, match=r"corpus: .* at least 2"):
        CorpusCovariance(drawn(1, 4, seed=2))


CHUNKS = [(1, 2**24), (3, 2**24), (64, 2**24), (64, 1), (64, 100), (64, 250)]


class TestAgainstScipy:
    """In pieces of all sizes, since corpora are too large to be ranked for all sentences at once."""

    FIRST, SECOND, CORPUS = drawn(7, 6, seed=1), drawn(7, 6, seed=2), drawn(50, 6, seed=3)

    @pytest.fixture(params=CHUNKS, ids=[f"{rows} rows, {entries} entries" for rows, entries in CHUNKS], autouse=True)
    def _pieces(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rank_vectors, "ROWS_AT_ONCE", request.param[0])
        monkeypatch.setattr(rank_vectors, "ENTRIES_AT_ONCE", request.param[1])

    @staticmethod
    def by_scipy(first: Tensor, second: Tensor, corpus: Tensor) -> np.ndarray:
        lists, more = (unit(each.double()) @ unit(corpus.double()).T for each in (first, second))
        return np.array([[spearmanr(a, b).statistic for b in more] for a in lists])

    def test_all_pairs(self) -> None:
        found = CorpusRanks(self.CORPUS).similarities(self.FIRST, self.SECOND[:4])
        wanted = self.by_scipy(self.FIRST, self.SECOND[:4], self.CORPUS)
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)

    def test_all_pairs_of_the_same(self) -> None:
        found = CorpusRanks(self.CORPUS).similarities(self.FIRST, self.FIRST)
        np.testing.assert_allclose(found.numpy(), self.by_scipy(self.FIRST, self.FIRST, self.CORPUS), atol=1e-5)

    def test_paired_rows(self) -> None:
        found = CorpusRanks(self.CORPUS).pairs(self.FIRST, self.SECOND)
        wanted = self.by_scipy(self.FIRST, self.SECOND, self.CORPUS).diagonal()
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)

    def test_paired_rows_with_ties(self) -> None:
        """Corpus sentences that are axes: their cosines are equal to the last bit where they should be."""
        axes = torch.cat([torch.eye(6), -torch.eye(6), torch.eye(6)[:3], torch.eye(6)[:3]])
        first = torch.randint(-2, 3, (7, 6), generator=torch.Generator().manual_seed(4)).float()
        second = torch.randint(-2, 3, (7, 6), generator=torch.Generator().manual_seed(5)).float()
        wanted = self.by_scipy(first, second, axes)
        assert np.isfinite(wanted).all()
        ranks = CorpusRanks(axes)
        np.testing.assert_allclose(ranks.pairs(first, second).numpy(), wanted.diagonal(), atol=1e-5)
        np.testing.assert_allclose(ranks.similarities(first, second).numpy(), wanted, atol=1e-5)

    def test_half_precision_is_ranked_as_it_is(self) -> None:
        first, second, corpus = (each.half() for each in (self.FIRST, self.SECOND, self.CORPUS))
        found = CorpusRanks(corpus).pairs(first, second)
        assert found.dtype == torch.float32
        wanted = self.by_scipy(first.float(), second.float(), corpus.float()).diagonal()
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)

    def test_no_sentences(self) -> None:
        ranks = CorpusRanks(self.CORPUS)
        assert ranks.pairs(self.FIRST[:0], self.SECOND[:0]).shape == (0,)
        assert ranks.similarities(self.FIRST[:0], self.SECOND).shape == (0, 7)

    def test_more_than_so_many_are_never_sorted_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes = []

        def seen(lists: Tensor) -> Tensor:
            sizes.append(lists.shape)
            return average_ranks(lists)

        monkeypatch.setattr(rank_vectors, "average_ranks", seen)
        CorpusRanks(self.CORPUS).similarities(self.FIRST, self.SECOND)
        rows = max(1, min(rank_vectors.ROWS_AT_ONCE, rank_vectors.ENTRIES_AT_ONCE // 50))
        assert {size[1] for size in sizes} == {50}
        assert max(size[0] for size in sizes) == min(7, rows)
        assert sum(size[0] for size in sizes) == 14


def test_rank_vectors_of_many_candidates_are_not_held_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of 10,000 takes 40 KB a sentence."""
    monkeypatch.setattr(rank_vectors, "ROWS_AT_ONCE", 8)
    held = []
    whole = CorpusRanks.rank_vectors

    def seen(self: CorpusRanks, vectors: Tensor) -> Tensor:
        held.append(len(vectors))
        return whole(self, vectors)

    monkeypatch.setattr(CorpusRanks, "rank_vectors", seen)
    assert CorpusRanks(drawn(30, 6, seed=1)).similarities(drawn(1, 6, seed=2), drawn(100, 6, seed=3)).shape == (1, 100)
    assert max(held) <= 8


class TestCovariance:
    FIRST, SECOND = drawn(9, 6, seed=1), drawn(9, 6, seed=2)
    CORPUS = drawn(60, 6, seed=3) @ drawn(6, 6, seed=4) + drawn(1, 6, seed=5)

    def test_it_is_pearson_s_correlation_of_the_lists_mapped(self) -> None:
        lists, more = (unit(each.double()) @ unit(self.CORPUS.double()).T for each in (self.FIRST, self.SECOND))
        pearson = np.array([[np.corrcoef(a, b)[0, 1] for b in more] for a in lists])
        wanted = 6 / np.pi * np.arcsin(pearson / 2)
        found = CorpusCovariance(self.CORPUS).similarities(self.FIRST, self.SECOND)
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)

    def test_paired_rows_are_the_diagonal(self) -> None:
        corpus = CorpusCovariance(self.CORPUS)
        found = corpus.pairs(self.FIRST, self.SECOND)
        torch.testing.assert_close(found, corpus.similarities(self.FIRST, self.SECOND).diagonal(), atol=1e-6, rtol=0)

    def test_a_sentence_equals_itself_and_its_opposite_is_minus_one(self) -> None:
        corpus = CorpusCovariance(self.CORPUS)
        torch.testing.assert_close(corpus.pairs(self.FIRST, 3 * self.FIRST), torch.ones(9), atol=1e-3, rtol=0)
        torch.testing.assert_close(corpus.pairs(self.FIRST, -self.FIRST), -torch.ones(9), atol=1e-3, rtol=0)

    def test_a_sentence_without_an_order_is_zero(self) -> None:
        corpus = CorpusCovariance(self.CORPUS)
        assert not corpus.pairs(torch.zeros(1, 6), self.FIRST[:1]).any()
        assert not corpus.similarities(self.FIRST, torch.zeros(2, 6)).any()
