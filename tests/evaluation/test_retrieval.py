"""Retrieval against a slow, obvious version of itself, and its rule for ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearer.errors import InputError, ModelError
from nearer.evaluation.retrieval_task import retrieve, right_ranks


class Table:
    """An encoder that looks its vectors up, and remembers what it was asked."""

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.asked: list[str] = []

    def encode(self, sentences: Sequence[str], *, batch_size: int, progress: bool) -> NDArray[np.float32]:
        self.asked += sentences
        return np.array([self.vectors[sentence] for sentence in sentences], dtype=np.float32)


def ranks_by_hand(queries: NDArray, candidates: NDArray, right: Sequence[int]) -> list[float]:
    ranks = []
    for query, place in zip(queries, right, strict=True):
        cosines = [float(query @ c) / float(np.linalg.norm(query) * np.linalg.norm(c)) for c in candidates]
        others = [cosine for other, cosine in enumerate(cosines) if other != place]
        better = sum(cosine > cosines[place] for cosine in others)
        equal = sum(cosine == cosines[place] for cosine in others)
        ranks.append(1 + better + equal / 2)
    return ranks


@pytest.mark.parametrize(("queries", "candidates"), [(1, 1), (1, 30), (40, 25), (7, 200)])
def test_figures_are_those_of_the_slow_version(queries: int, candidates: int) -> None:
    random = np.random.default_rng(queries)
    query_vectors, candidate_vectors = random.normal(size=(queries, 8)), random.normal(size=(candidates, 8))
    right = random.integers(0, candidates, queries).tolist()
    vectors = {f"q{i}": v for i, v in enumerate(query_vectors)} | {f"c{i}": v for i, v in enumerate(candidate_vectors)}
    score = retrieve(Table(vectors), [f"q{i}" for i in range(queries)], [f"c{i}" for i in range(candidates)], right)
    ranks = np.array(ranks_by_hand(query_vectors, candidate_vectors, right))
    assert score.mrr == pytest.approx((1 / ranks).mean())
    assert score.recall_at_1 == pytest.approx((ranks <= 1).mean())
    assert score.recall_at_10 == pytest.approx((ranks <= 10).mean())
    assert (score.queries, score.candidates) == (queries, candidates)


@given(st.data())
def test_equal_candidates_share_their_ranks(data: st.DataObject) -> None:
    # unit vectors along the axes: cosines are exactly 0, 1 or -1, so that ties abound
    axis = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)])
    queries = np.array(data.draw(st.lists(axis, min_size=1, max_size=6)), dtype=np.float32)
    candidates = np.array(data.draw(st.lists(axis, min_size=1, max_size=9)), dtype=np.float32)
    size = len(queries)
    right = data.draw(st.lists(st.integers(0, len(candidates) - 1), min_size=size, max_size=size))
    at_once = data.draw(st.integers(1, 60))
    ranks = right_ranks(queries, candidates, np.arange(len(candidates)), right, at_once=at_once)
    assert ranks.tolist() == ranks_by_hand(queries, candidates, right)


def test_an_encoder_that_says_the_same_of_all_is_in_the_middle() -> None:
    texts = [f"c{i}" for i in range(21)]
    score = retrieve(Table(dict.fromkeys([*texts, "q"], (1.0, 2.0))), ["q"], texts, [20])
    assert score.mrr == pytest.approx(1 / 11)
    assert (score.recall_at_1, score.recall_at_10) == (0, 0)


def test_a_text_that_is_a_candidate_twice_ties_with_itself_at_any_width() -> None:
    random = np.random.default_rng(0)
    vectors = {f"t{i}": random.normal(size=100) for i in range(18)}
    candidates = ["t0", *[f"t{i}" for i in range(1, 17)], "t0"]
    score = retrieve(Table({**vectors, "q": vectors["t0"]}), ["q"], candidates, [0])
    assert score.mrr == pytest.approx(1 / 1.5)


@pytest.mark.parametrize(("place", "found"), [(9, 1), (10, 0)])
def test_the_tenth_counts_for_recall_at_10_and_the_eleventh_does_not(place: int, found: int) -> None:
    texts = {f"c{i}": (1.0, i / 10) for i in range(12)}
    score = retrieve(Table({**texts, "q": (1, 0)}), ["q"], list(texts), [place])
    assert (score.mrr, score.recall_at_10) == (pytest.approx(1 / (place + 1)), found)


def test_each_text_is_encoded_once() -> None:
    table = Table({"a": (1, 0), "b": (0, 1)})
    retrieve(table, ["a", "a", "b"], ["b", "a", "a"], [1, 2, 0])
    assert sorted(table.asked) == ["a", "b"]


@pytest.mark.parametrize("at_once", [1, 7, 13, 10_000])
def test_blocks_do_not_change_the_ranks(at_once: int) -> None:
    random = np.random.default_rng(3)
    queries, texts = random.normal(size=(11, 4)).astype("f"), random.normal(size=(13, 4)).astype("f")
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    right = random.integers(0, 13, 11).tolist()
    assert right_ranks(queries, texts, np.arange(13), right, at_once=at_once).tolist() == pytest.approx(
        ranks_by_hand(queries, texts, right)
    )


@pytest.mark.parametrize(
    ("queries", "candidates", "right", "message"),
    [
        ([], ["a"], [], "queries: there are none"),
        (["a"], [], [0], "candidates: there are none"),
        (["a", "a"], ["a"], [0], "right: 1 indices for 2 queries"),
        (["a"], ["a"], [1], "query 0 has index 1"),
        (["a", "a"], ["a"], [0, -1], "query 1 has index -1"),
        ("a", ["a"], [0], "queries: one string"),
    ],
)
def test_input_that_cannot_be_measured_is_refused(
    queries: list[str], candidates: list[str], right: list[int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        retrieve(Table({"a": (1, 0)}), queries, candidates, right)


def test_vectors_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ModelError, match="not finite"):
        retrieve(Table({"a": (1, 0), "b": (float("nan"), 0)}), ["a"], ["a", "b"], [0])
