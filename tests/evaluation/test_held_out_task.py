"""The dev task that is made of held-out records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from table_scorer import TableScorer

from nearer.evaluation import load_tasks
from nearer.evaluation.held_out_task import held_out_task, write_task
from nearer.text.records import DebiasedSample, Pair, RankingList, Triplet


def asked(records: list[Any]) -> list[tuple[str, list[str]]]:
    """Queries with their answers."""
    task = held_out_task(records)
    assert task is not None
    return [
        (query, [task.corpus[place] for place in judged])
        for query, judged in zip(task.queries, task.judgements, strict=True)
    ]


@pytest.mark.parametrize(
    ("records", "corpus"),
    [
        ([Pair("a", "b"), Pair("c", "d")], ["b", "d"]),
        ([Triplet("a", "b", "x"), Triplet("c", "d", "y")], ["b", "x", "d", "y"]),
        ([RankingList(("a", "b", "x", "z")), RankingList(("c", "d", "y", "z"))], ["b", "x", "z", "d", "y"]),
    ],
)
def test_records_ask_for_their_second_text(records: list[Any], corpus: list[str]) -> None:
    assert asked(records) == [("a", ["b"]), ("c", ["d"])]
    task = held_out_task(records)
    assert task is not None
    assert list(task.corpus) == corpus


def test_debiased_samples_ask_for_all_positives() -> None:
    samples = [DebiasedSample("a", ("b", "c"), ("x",)), DebiasedSample("d", ("e", "f"), ("y",))]
    assert asked(samples) == [("a", ["b", "c"]), ("d", ["e", "f"])]


def test_equal_queries_are_one() -> None:
    assert asked([Pair("Why?", "b"), Pair("why", "c"), Pair("how", "b")]) == [("Why?", ["b", "c"]), ("how", ["b"])]


def test_documents_ask_for_the_rest_of_the_text() -> None:
    texts = [
        "Heat flows in wings. It was measured twice. See the table.",
        "Rain falls here often. Nobody minds it.",
    ]
    assert asked(texts) == [
        ("Heat flows in wings.", ["It was measured twice. See the table."]),
        ("Rain falls here often.", ["Nobody minds it."]),
    ]


def test_sentences_ask_for_their_other_words() -> None:
    texts = ["one two three four five six seven", "eight nine ten eleven twelve thirteen", "too short for it"]
    found = asked(texts)
    assert len(found) == 2
    for text, (query, [answer]) in zip(texts[:2], found, strict=True):
        assert sorted([*query.split(), *answer.split()]) == sorted(text.split())
        assert len(query.split()) == len(text.split()) // 2
    assert asked(texts) == found  # not by chance


SENTENCES = tuple(f"sentence number {number}" for number in range(47))


def on_sphere(seed: int) -> NDArray[np.float32]:
    """A vector of each sentence."""
    vectors = np.random.default_rng(seed).normal(size=(len(SENTENCES), 5))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class TestTeachersOrder:
    """Single sentences, where the method follows teachers."""

    def nearness(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = on_sphere(0)[[SENTENCES.index(text) for text in texts]]
        return vectors @ vectors.T

    def test_every_other_sentence_asks_for_the_nearest_of_the_rest(self) -> None:
        task = held_out_task(SENTENCES, self.nearness)
        assert task is not None
        assert (tuple(task.queries), tuple(task.corpus)) == (SENTENCES[::2], SENTENCES[1::2])
        vectors = on_sphere(0)
        for number, judged in zip(range(0, 47, 2), task.judgements, strict=True):
            by_hand = sorted(range(1, 47, 2), key=lambda other: -float(vectors[number] @ vectors[other]))
            assert [SENTENCES.index(task.corpus[row]) for row in judged] == by_hand[:10]
            assert list(judged.values()) == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]

    def test_who_has_the_same_order_finds_all_and_others_do_not(self) -> None:
        task = held_out_task(SENTENCES, self.nearness)
        assert task is not None
        same, other = (TableScorer(dict(zip(SENTENCES, on_sphere(seed), strict=True))) for seed in (0, 1))
        assert task.score(same, same.vectors(task)).score == pytest.approx(100)
        assert task.score(other, other.vectors(task)).score < 70

    def test_half_of_a_few_sentences_count_as_near(self) -> None:
        task = held_out_task(SENTENCES[:9], self.nearness)
        assert task is not None
        assert [len(judged) for judged in task.judgements] == [2] * 5

    @pytest.mark.parametrize("count", [0, 1, 2, 3])
    def test_too_few_are_no_task(self, count: int) -> None:
        assert held_out_task(SENTENCES[:count], self.nearness) is None

    @pytest.mark.parametrize(
        "records",
        [
            ["Heat flows in wings. It was measured twice.", "Rain falls here often. Nobody minds it."],
            [Pair("a", "b"), Pair("c", "d")],
        ],
    )
    def test_teachers_are_not_asked_about_texts_that_say_what_belongs_together(self, records: list[Any]) -> None:
        task, plain = held_out_task(records, self.nearness), held_out_task(records)
        assert task is not None
        assert plain is not None
        assert task.data_hash() == plain.data_hash()


@pytest.mark.parametrize("records", [[], ["a b"], [Pair("a", "b")], ["short", "also short"]])
def test_too_little_is_no_task(records: list[Any]) -> None:
    assert held_out_task(records) is None


def test_what_is_written_is_read_as_the_same_task(tmp_path: Path) -> None:
    task = held_out_task([Pair("a\tb", "line\nbreak"), Pair("ä", "d"), Pair("Ä", "e")])
    assert task is not None
    write_task(task, tmp_path / "held-out")
    [read] = load_tasks([f"retrieval:{tmp_path / 'held-out'}"], None)
    assert read.data_hash() == task.data_hash()
