"""The map of sentences: its sample, groups and labels, and where another sentence is placed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearer.analysis.words import WITHOUT_WORDS, label_groups
from nearer.search import SearchIndex
from nearer.serve.index_overview import (
    NEIGHBOURS,
    TOGETHER,
    IndexSample,
    drop_a_word,
    fit_into_square,
    group_sentences,
    make_map,
    measure_geometry,
    place_among,
    sample_index,
)


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def sample_of(vectors: np.ndarray, texts: list[str] | None = None) -> IndexSample:
    count = len(vectors)
    texts = texts or [f"sentence {n}" for n in range(count)]
    return IndexSample(np.arange(count), texts, [1] * count, ["a.txt"] * count, unit(vectors), count)


class TestSample:
    @pytest.fixture
    def index(self, encoder, tmp_path) -> SearchIndex:
        for name, lines in (("one.txt", ["rain", "a man", "rain"]), ("two.txt", ["the dog", "", "rain", "lunch"])):
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        index = SearchIndex.build(encoder, tmp_path / "one.txt", tmp_path / "index")
        index.add(tmp_path / "two.txt")
        return index

    def test_distinct_sentences_and_where_they_come_from(self, index) -> None:
        sample = sample_index(index)
        assert sample.texts == ["rain", "a man", "the dog", "lunch"]
        assert sample.lines == [1, 2, 1, 4]
        assert sample.sources == ["one.txt", "one.txt", "two.txt", "two.txt"]
        assert sample.of == 6
        for row, text, vector in zip(sample.rows, sample.texts, sample.vectors, strict=True):
            assert index.texts[row] == text
            assert (index.vectors[row] == vector).all()

    def test_so_many_at_most_and_the_same_ones(self, index) -> None:
        sample = sample_index(index, most=2)
        assert len(sample) <= 2
        assert sample_index(index, most=2).rows.tolist() == sample.rows.tolist()
        assert {tuple(sample_index(index, most=2, seed=seed).rows) for seed in range(20)} != {tuple(sample.rows)}


def placed_by_hand(known: np.ndarray, places: np.ndarray, vector: np.ndarray) -> list[float]:
    """For one vector, in loops."""
    cosines = [sum(float(a) * float(b) for a, b in zip(vector, one, strict=True)) for one in known]
    nearest = sorted(range(len(known)), key=lambda n: -cosines[n])[:NEIGHBOURS]
    weights = {n: max(2 - 2 * min(cosines[n], 1), 1e-6) ** -2 for n in nearest}

    def together(a: int, b: int) -> float:
        return 1 / (1 + sum((places[a][axis] - places[b][axis]) ** 2 for axis in (0, 1)) / TOGETHER**2)

    middle = max(nearest, key=lambda n: sum(together(n, other) * weights[other] for other in nearest))
    weights = {n: weight * together(n, middle) for n, weight in weights.items()}
    return [sum(weights[n] * places[n][axis] for n in nearest) / sum(weights.values()) for axis in (0, 1)]


class TestPlacing:
    @given(
        seed=st.integers(0, 10_000),
        points=st.integers(1, 25),
        copies=st.integers(0, 4),
        queries=st.integers(1, 6),
        dimension=st.integers(2, 8),
    )
    @settings(max_examples=100, deadline=None)
    def test_as_by_hand_and_within_what_is_near(self, seed, points, copies, queries, dimension) -> None:
        random = np.random.default_rng(seed)
        known = unit(random.normal(size=(points, dimension)))
        known = np.concatenate([known, known[:1].repeat(copies, axis=0)])
        places = random.random((len(known), 2))
        vectors = unit(random.normal(size=(queries, dimension)))
        found = place_among(known, places, vectors)
        assert ((found >= 0) & (found <= 1)).all()
        for vector, place in zip(vectors, found, strict=True):
            np.testing.assert_allclose(place, placed_by_hand(known, places, vector), atol=1e-6)
            near = places[np.argsort(-(known @ vector), kind="stable")[:NEIGHBOURS]]
            if copies == 0:
                assert (near.min(axis=0) - 1e-9 <= place).all()
                assert (place <= near.max(axis=0) + 1e-9).all()

    @given(seed=st.integers(0, 10_000), points=st.integers(1, 40))
    @settings(max_examples=50, deadline=None)
    def test_a_sentence_of_the_map_is_at_its_own_point(self, seed, points) -> None:
        random = np.random.default_rng(seed)
        known, places = unit(random.normal(size=(points, 16))), random.random((points, 2))
        np.testing.assert_allclose(place_among(known, places, known), places, atol=1e-4)

    def test_not_between_two_places(self) -> None:
        """Two of the neighbours lie in one corner, one in another: with the two."""
        known = unit(np.array([[1, 0.3, 0], [1, -0.3, 0], [1, 0, 0.3]]))
        places = np.array([[0.1, 0.1], [0.11, 0.1], [0.9, 0.9]])
        (found,) = place_among(known, places, unit(np.array([[1.0, 0, 0]])))
        np.testing.assert_allclose(found, [0.105, 0.1], atol=0.01)

    def test_left_out_sentences_of_a_cluster_lie_in_it(self) -> None:
        random = np.random.default_rng(0)
        centres, labels = random.normal(size=(6, 20)), np.arange(240) % 6
        vectors = unit(centres[labels] + 0.4 * random.normal(size=(240, 20)))
        made = make_map(sample_of(vectors[:180]))
        found = made.place(vectors[180:])
        nearest = [np.linalg.norm(made.coordinates - place, axis=1).argmin() for place in found]
        assert (labels[nearest] == labels[180:]).mean() > 0.95

    def test_rows_of_the_index(self) -> None:
        """Those on the map are at their own points, however near others are."""
        vectors = unit(1 + 1e-4 * np.random.default_rng(4).normal(size=(30, 5)))
        sample = sample_of(vectors[::2])
        made = make_map(replace(sample, rows=np.arange(0, 30, 2)))
        rows = np.random.default_rng(5).permutation(30)
        found = made.place_rows(rows, vectors[rows])
        own = rows % 2 == 0
        assert (found[own] == made.coordinates[rows[own] // 2]).all()
        np.testing.assert_array_equal(found[~own], made.place(vectors[rows[~own]]))


class TestSquare:
    @given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=30))
    def test_inside_and_alike(self, places) -> None:
        given_places = np.array(places)
        found = fit_into_square(given_places)
        assert ((found >= 0) & (found <= 1)).all()
        side = np.ptp(given_places, axis=0).max()
        if side > 1e-3:
            assert np.ptp(found, axis=0).max() == pytest.approx(1)
            np.testing.assert_allclose((found - found[0]) * side, given_places - given_places[0], atol=side * 1e-9)


class TestGroups:
    def test_found_numbered_by_size_and_labelled(self) -> None:
        random = np.random.default_rng(1)
        labels = np.repeat([0, 1, 2], [40, 60, 30])
        vectors = np.eye(3).repeat(4, axis=1)[labels] + 0.1 * random.normal(size=(130, 12)) + 5  # in a narrow cone
        subjects = ["a goal in the match", "a river in the valley", "a song in the album"]
        texts = [f"{subjects[label]} {n}" for n, label in enumerate(labels)]
        sample = sample_of(vectors, texts)
        groups = np.array(group_sentences(sample))
        assert np.array_equal(np.sort(np.bincount(groups))[::-1], np.bincount(groups))
        for one in np.unique(groups):
            assert len(set(labels[groups == one])) == 1
        shown = label_groups(texts, groups.tolist(), int(groups.max()) + 1)
        # the first two words of each are its own subject's
        assert {tuple(label.split(", ")[:2]) for label in shown} == {
            ("goal", "match"),
            ("river", "valley"),
            ("album", "song"),
        }
        assert groups.tolist() == group_sentences(sample)

    def test_words_that_are_everywhere_do_not_count(self) -> None:
        texts = ["the cat sleeps here", "the cat eats here", "the sun shines here", "the sun sets here"]
        assert label_groups(texts, [0, 0, 1, 1], 2) == ["cat, eats, sleeps", "sun, sets, shines"]

    def test_a_word_of_few_sentences_before_one_that_is_only_more_frequent(self) -> None:
        texts = ["they are"] * 5 + ["are school"] * 4 + ["they"] + ["they are"] * 3 + ["they"] * 7
        first = label_groups(texts, [0] * 10 + [1] * 10, 2)[0]
        assert first.split(", ")[:2] == ["school", "are"]

    def test_a_lone_group_has_its_commonest_words(self) -> None:
        assert label_groups(["big cat", "big dog", "big cat 1999"], [0, 0, 0], 1) == ["big, cat, dog"]

    def test_without_words(self) -> None:
        assert label_groups(["!!!", "7 8"], [0, 1], 2) == [WITHOUT_WORDS] * 2


class TestMap:
    @pytest.mark.parametrize("count", [1, 2, 7, 8, 60])
    def test_of_any_size(self, count: int) -> None:
        made = make_map(sample_of(np.random.default_rng(2).normal(size=(count, 12))))
        assert made.coordinates.shape == (count, 2)
        assert ((made.coordinates >= 0) & (made.coordinates <= 1)).all()
        assert (made.method, made.explained is None) == (("PCA", False) if count < 8 else ("t-SNE", True))
        assert set(made.groups) == set(range(len(made.labels)))


class TestGeometry:
    def test_one_word_is_gone(self) -> None:
        texts = ["a b  c", "alone", "x y", "one two three four"]
        shortened = drop_a_word(texts)
        assert shortened == drop_a_word(texts)
        assert shortened[1] is None
        for text, short in zip(texts, shortened, strict=True):
            if short is not None:
                words, left = text.split(), short.split()
                assert any(words[:gone] + words[gone + 1 :] == left for gone in range(len(words)))
        assert len({drop_a_word(["a b c d"], seed)[0] for seed in range(30)}) == 4

    def test_figures_by_hand(self) -> None:
        texts = ["a b", "alone", "c d"]
        vectors = unit(np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 1]]))
        positives = unit(np.array([[1.0, 0.5, 0], [1, 1, 0]]))
        asked = []

        def encode(shortened: list[str]) -> np.ndarray:
            asked.extend(shortened)
            return positives

        found = measure_geometry(sample_of(vectors, texts), encode)
        assert (found.pairs, found.sentences, len(asked)) == (2, 3, 2)
        apart = [float(((a - b) ** 2).sum()) for a, b in zip(vectors[[0, 2]], positives, strict=True)]
        assert found.alignment == pytest.approx(np.mean(apart), abs=1e-6)
        pairs = [(0, 1), (0, 2), (1, 2)]
        nearness = [np.exp(-2 * ((vectors[a] - vectors[b]) ** 2).sum()) for a, b in pairs]
        assert found.uniformity == pytest.approx(np.log(np.mean(nearness)), abs=1e-6)
        assert found.mean_cosine == pytest.approx(np.mean([vectors[a] @ vectors[b] for a, b in pairs]), abs=1e-6)

    def test_no_sentence_with_two_words(self) -> None:
        found = measure_geometry(sample_of(np.eye(2), ["one", "two"]), lambda texts: pytest.fail("nothing to encode"))
        assert (found.alignment, found.pairs) == (None, 0)
