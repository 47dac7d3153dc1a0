"""The dev task that is made of held-out records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("records", [[], ["a b"], [Pair("a", "b")], ["short", "also short"]])
def test_too_little_is_no_task(records: list[Any]) -> None:
    assert held_out_task(records) is None


def test_what_is_written_is_read_as_the_same_task(tmp_path: Path) -> None:
    task = held_out_task([Pair("a\tb", "line\nbreak"), Pair("ä", "d"), Pair("Ä", "e")])
    assert task is not None
    write_task(task, tmp_path / "held-out")
    [read] = load_tasks([f"retrieval:{tmp_path / 'held-out'}"], None)
    assert read.data_hash() == task.data_hash()
