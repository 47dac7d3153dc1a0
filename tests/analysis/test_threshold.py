"""Where a similarity is cut, beside plain loops over all cuts; intervals; a corpus without labels; what is refused."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from numpy.typing import NDArray

from nearer.analysis import threshold_of_corpus, threshold_of_pairs
from nearer.errors import InputError, SettingError

RANDOM = np.random.default_rng(0)


def figures(scores: list[float], same: list[bool], cut: float) -> tuple[float, float, float]:
    taken = [label for score, label in zip(scores, same, strict=True) if score >= cut]
    precision = sum(taken) / len(taken) if taken else 0.0
    recall = sum(taken) / sum(same)
    return precision, recall, 2 * sum(taken) / (len(taken) + sum(same))


pairs = st.lists(st.tuples(st.integers(-8, 8).map(lambda n: n / 8), st.booleans()), min_size=10, max_size=24).filter(
    lambda given: 0 < sum(label for _, label in given) < len(given)
)


@hypothesis.given(pairs)
def test_the_best_f1_of_all_cuts(given: list[tuple[float, bool]]) -> None:
    scores, same = [score for score, _ in given], [label for _, label in given]
    found = threshold_of_pairs(scores, same, resamples=10)
    best = max(figures(scores, same, cut)[2] for cut in scores)
    assert found.f1.value == pytest.approx(best)
    assert figures(scores, same, found.cut.value) == pytest.approx(
        (found.precision.value, found.recall.value, found.f1.value)
    )
    assert (found.pairs, found.same) == (len(given), sum(same))


@hypothesis.given(pairs, st.sampled_from([0.3, 0.5, 0.8, 1.0]))
def test_the_most_that_is_found_with_a_precision(given: list[tuple[float, bool]], wanted: float) -> None:
    scores, same = [score for score, _ in given], [label for _, label in given]
    possible = [figures(scores, same, cut) for cut in scores]
    reached = [recall for precision, recall, _ in possible if precision >= wanted and recall > 0]
    if not reached:
        with pytest.raises(InputError, match=f"no cut reaches {wanted:g}; the most precise has"):
            threshold_of_pairs(scores, same, precision=wanted, resamples=10)
        return
    found = threshold_of_pairs(scores, same, precision=wanted, resamples=10)
    assert found.recall.value == pytest.approx(max(reached))
    assert found.precision.value >= wanted
    precision, recall, _ = figures(scores, same, found.cut.value)
    assert (precision, recall) == pytest.approx((found.precision.value, found.recall.value))


def test_intervals_narrow_with_more_pairs() -> None:
    def found(count: int) -> tuple[float, float]:
        draw = np.random.default_rng(1)
        same = draw.random(count) < 0.5
        scores = np.where(same, 0.7, 0.5) + 0.1 * draw.standard_normal(count)
        one = threshold_of_pairs(scores, same)
        assert one.f1.low <= one.f1.value <= one.f1.high
        assert one.cut.low <= one.cut.value <= one.cut.high
        assert one.cut.low < 0.6 < one.cut.high  # where the two distributions cross
        return one.f1.high - one.f1.low, one.cut.high - one.cut.low

    few, many = found(40), found(2000)
    assert many[0] < few[0] / 3
    assert many[1] < few[1]


def test_the_same_seed_draws_the_same() -> None:
    scores, same = RANDOM.random(50), RANDOM.random(50) < 0.5
    assert threshold_of_pairs(scores, same) == threshold_of_pairs(scores, same)
    assert threshold_of_pairs(scores, same, seed=1).cut.value == threshold_of_pairs(scores, same).cut.value


class Directions:
    """A model whose vectors a test chooses: the sentence's number is a direction."""

    name, settings = "directions", None

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode(self, sentences: list[str], *, batch_size: int | None, progress: bool) -> NDArray[np.float32]:
        return self._vectors[[int(sentence) for sentence in sentences]]

    def pair_scores(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
        return (first * second).sum(axis=1).astype(np.float64)

    def score_matrix(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
        return first @ second.T


class TestCorpus:
    def test_as_all_pairs_say(self) -> None:
        vectors = np.random.default_rng(2).standard_normal((300, 6)).astype(np.float32)
        vectors[150:160] = vectors[:10] + 0.01  # ten sentences that another is near to
        model = Directions(vectors)
        found = threshold_of_corpus(model, [str(n) for n in range(300)], false_positives=0.01)  # type: ignore[arg-type]
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = (unit @ unit.T)[~np.eye(300, dtype=bool)]
        assert found.chosen.false_positives <= 0.01
        assert found.chosen.cut == pytest.approx(np.quantile(cosines, 0.99), abs=0.01)
        nearest = cosines.reshape(300, 299).max(axis=1)
        assert found.chosen.with_neighbour == pytest.approx((nearest >= found.chosen.cut).mean(), abs=1e-9)
        for level in found.levels:
            assert level.false_positives == pytest.approx((cosines >= level.cut).mean(), abs=0.005)
        rates = [level.false_positives for level in found.levels]
        assert rates == sorted(rates, reverse=True)
        assert found.levels[-1].with_neighbour >= 20 / 300

    def test_equal_sentences_count_once(self) -> None:
        model = Directions(np.eye(12, dtype=np.float32))
        found = threshold_of_corpus(model, [str(n % 12) for n in range(500)])  # type: ignore[arg-type]
        assert found.sentences == 12
        assert found.chosen.with_neighbour == 0

    def test_refused(self) -> None:
        model = Directions(np.eye(12, dtype=np.float32))
        with pytest.raises(InputError, match="corpus: 2 different sentences, at least 10"):
            threshold_of_corpus(model, ["1", "2", "1"])  # type: ignore[arg-type]
        with pytest.raises(SettingError, match="false_positives: 1 is not between"):
            threshold_of_corpus(model, [str(n) for n in range(12)], false_positives=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "labels", "options", "told"),
    [
        ([0.5] * 9, [True] * 9, {}, "9 given, at least 10"),
        ([0.5] * 12, [True] * 12, {}, "all 12 have one label"),
        ([0.5] * 12, [True] * 11, {}, r"\(11,\) given for scores \(12,\)"),
        ([float("nan")] * 12, [True, False] * 6, {}, "not finite"),
        ([0.5] * 12, [True, False] * 6, {"precision": 1.5}, "precision: 1.5 is not"),
        ([0.5] * 12, [True, False] * 6, {"precision": 0.9}, "no cut reaches 0.9; the most precise has 0.500"),
    ],
)
def test_refused(scores: list[float], labels: list[bool], options: dict[str, float], told: str) -> None:
    with pytest.raises((InputError, SettingError), match=told):
        threshold_of_pairs(scores, labels, **options)  # type: ignore[arg-type]
