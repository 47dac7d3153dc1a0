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
from nearer.teachers import CorpusCovariance, CorpusRanks
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
