"""Biases: planted ones are found, absent ones are not, and each figure equals its definition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from nearer.analysis import EncodedTask, encode_tasks
from nearer.analysis.bias import (
    binned,
    frequency_bias,
    length_bias,
    mean_log_frequencies,
    overlap_bias,
    partial_spearman,
    random_pairs,
    rank_excess,
)
from nearer.analysis.words import lexical_overlap, word_counts, words
from nearer.errors import InputError
from nearer.evaluation import PairTask
from nearer.text import Pair


def test_words_and_overlap() -> None:
    assert words("Don’t stop, 東京! It's 3.5") == ["don’t", "stop", "東京", "it's", "3", "5"]
    assert lexical_overlap(words("a man eats a fish"), words("a man and a dog sit down")) == pytest.approx(
        3 / 7
    )  # a, man, a
    assert lexical_overlap([], []) == 0


def test_random_pairs_are_of_different_sentences_and_follow_the_seed() -> None:
    first, second = random_pairs(50, 300, 1)
    assert len(first) == 300
    assert (first != second).all()
    assert {*first.tolist(), *second.tolist()} == set(range(50))
    assert random_pairs(50, 300, 1)[1].tolist() == second.tolist() != random_pairs(50, 300, 2)[1].tolist()
    all_pairs = set(zip(*(side.tolist() for side in random_pairs(5, 10, 0)), strict=True))
    assert all_pairs == {(one, two) for one in range(5) for two in range(one + 1, 5)}


def test_bins_hold_all_and_equal_features_stay_together() -> None:
    draw = np.random.default_rng(0)
    feature, values = draw.integers(0, 5, 200).astype(float), draw.normal(size=200)
    found = binned(feature, values, 8)
    assert sum(some.count for some in found) == 200
    assert all(one.high < two.low for one, two in pairwise(found))
    for some in found:
        inside = (feature >= some.low) & (feature <= some.high)
        assert some.count == inside.sum()
        assert some.mean == pytest.approx(values[inside].mean())
    assert len(binned(np.arange(80.0), np.zeros(80), 8)) == 8
    assert {some.count for some in binned(np.arange(80.0), np.zeros(80), 8)} == {10}


def test_partial_correlation_is_that_of_what_the_third_leaves_unexplained() -> None:
    draw = np.random.default_rng(1)
    held = draw.normal(size=300)
    feature = held + draw.normal(size=300)
    values = held + 0.4 * feature + draw.normal(size=300)

    def left_over(some: np.ndarray) -> np.ndarray:
        slope, level = np.polyfit(rankdata(held), rankdata(some), 1)
        return rankdata(some) - slope * rankdata(held) - level

    expected = np.corrcoef(left_over(values), left_over(feature))[0, 1]
    assert partial_spearman(values, feature, held) == pytest.approx(expected)
    np.testing.assert_allclose(rank_excess(values, held), left_over(values) / 300, atol=1e-12)


def test_a_partial_correlation_can_be_undefined() -> None:
    values = np.array([1.0, 2, 3, 4])
    assert partial_spearman(values, np.ones(4), values[::-1]) is None
    assert partial_spearman(values, np.array([1.0, 3, 2, 4]), values) is None  # nothing is left of it


def planted(length_weight: float, overlap_weight: float, table_model: type) -> EncodedTask:
    """Vectors that go by meaning, length and words, each with its weight; meaning is what gold knows."""
    draw = np.random.default_rng(3)
    vocabulary = [f"w{number}" for number in range(40)]
    identity = dict(zip(vocabulary, draw.normal(size=(40, 30)), strict=True))
    table, rows = {}, []
    for _ in range(400):
        meaning = draw.normal(size=20)
        pair, closeness = [], draw.uniform(0, 1)
        for noise in (0.0, 1.0):
            chosen = draw.choice(vocabulary, draw.integers(2, 15)).tolist()
            sense = meaning + noise * draw.normal(size=20) * (0.2 + 2 * closeness)
            surface = np.mean([identity[word] for word in chosen], axis=0)
            lengths = 4 * np.cos(np.arange(1, 11) * len(chosen) / 15)
            sentence = " ".join(chosen)
            table[sentence] = np.concatenate([sense, overlap_weight * surface, length_weight * lengths])
            pair.append(sentence)
        cosine = table[pair[0]][:20] @ table[pair[1]][:20]
        cosine /= np.linalg.norm(table[pair[0]][:20]) * np.linalg.norm(table[pair[1]][:20])
        rows.append(Pair(*pair, float(np.clip(2.5 + 2.5 * cosine + 0.3 * draw.normal(), 0, 5))))
    task = PairTask("planted", "test", "file", {"planted": rows})
    return encode_tasks(table_model(table=table), [task])[0]


def test_a_length_bias_is_found_where_there_is_one(table_model: type) -> None:
    biased, free = (length_bias(planted(weight, 0, table_model)) for weight in (1.0, 0.0))
    assert biased.spearman < -0.4
    assert biased.partial < -0.3
    assert biased.bins[0].mean - biased.bins[-1].mean > 0.2
    assert biased.excess[0].mean > 0.05 > -0.05 > biased.excess[-1].mean
    assert abs(free.spearman) < 0.03
    assert abs(free.partial) < 0.15


def test_an_overlap_bias_is_found_where_there_is_one(table_model: type) -> None:
    biased, free = (overlap_bias(planted(0, weight, table_model)) for weight in (6.0, 0.0))
    assert biased.spearman > 0.2
    assert biased.partial > 0.2
    assert abs(free.spearman) < 0.03
    assert abs(free.partial) < 0.15


def test_random_pairs_by_hand(encoded: EncodedTask) -> None:
    count = len(encoded.sentences)
    found = length_bias(encoded)
    assert found.random_pairs == count * (count - 1) // 2  # so few that all are taken
    unit = encoded.vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    lengths = [len(words(sentence)) for sentence in encoded.sentences]
    pairs = [(one, two) for one in range(count) for two in range(one + 1, count)]
    cosines = [unit[one] @ unit[two] for one, two in pairs]
    apart = [abs(lengths[one] - lengths[two]) for one, two in pairs]
    assert found.spearman == pytest.approx(spearmanr(cosines, apart).statistic)
    assert sum(some.count * some.mean for some in found.bins) == pytest.approx(sum(cosines))
    assert length_bias(encoded, pairs=100, seed=1) != length_bias(encoded, pairs=100, seed=2)


class TestFrequency:
    SENTENCES = ("the the the", "the fox", "fox", "dog rain lunch", "!!")

    def test_mean_log_frequencies_by_hand(self) -> None:
        counts = Counter({"the": 4, "fox": 2, "dog": 1})
        found = mean_log_frequencies(self.SENTENCES, counts)
        the, fox, dog, unseen = (math.log(count / (7 + 3)) for count in (5, 3, 2, 1))
        assert found[:4] == pytest.approx([the, (the + fox) / 2, fox, (dog + 2 * unseen) / 3])
        assert np.isnan(found[4])

    def test_against_loops(self) -> None:
        vectors = np.random.default_rng(0).normal(size=(5, 4)) + 0.5
        found = frequency_bias(self.SENTENCES, vectors)
        frequencies = mean_log_frequencies(self.SENTENCES, word_counts(self.SENTENCES))[:4]
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        others = [np.mean([unit[one] @ unit[two] for two in range(5) if two != one]) for one in range(5)]
        assert found.with_cosine == pytest.approx(spearmanr(others[:4], frequencies).statistic)
        assert found.with_norm == pytest.approx(spearmanr(np.linalg.norm(vectors, axis=1)[:4], frequencies).statistic)
        assert (found.sentences, found.without_words) == (5, 1)
        assert sum(some.count * some.mean for some in found.bins) == pytest.approx(sum(others[:4]))

    def test_counts_of_another_text_are_used(self) -> None:
        vectors = np.array([[1, 0], [1, 0.1], [1, 0.5], [0, 1], [0.2, 1]])
        rare_the = Counter({"fox": 90, "dog": 3, "the": 1})
        assert frequency_bias(self.SENTENCES, vectors, rare_the) != frequency_bias(self.SENTENCES, vectors)

    def test_a_model_that_normalises_has_no_norms_to_compare(self) -> None:
        vectors = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        assert frequency_bias(self.SENTENCES, vectors).with_norm is None

    def test_a_text_without_words(self) -> None:
        with pytest.raises(InputError, match="has no words; name another corpus"):
            frequency_bias(["!", "?"], np.eye(2))


def test_a_model_that_sees_no_difference_has_no_bias(table_model: type, make_task: Callable[..., PairTask]) -> None:
    task = make_task()
    table = {sentence: [1.0, 1.0] for pair in task.pairs for sentence in pair[:2]}
    [collapsed] = encode_tasks(table_model(table=table), [task])
    found = length_bias(collapsed)
    assert found.partial is None
