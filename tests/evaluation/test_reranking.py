"""Reranking: figures of both of MTEB's readings from similarities that are given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_scorer import TableScorer

from nearer.errors import InputError, SettingError
from nearer.evaluation.reranking_task import FIGURES, RerankingQuery, RerankingTask
from nearer.evaluation.task import TaskScore

EIGHTHS = st.integers(-8, 8).map(lambda n: n / 8)  # often equal, and exact in float32


def task_of(*queries: RerankingQuery, reading: str = "mteb-v1") -> RerankingTask:
    return RerankingTask("mine", "file", "file", list(queries), reading)


def scored(
    positives: Sequence[float], negatives: Sequence[float], reading: str = "mteb-v1"
) -> tuple[RerankingTask, TableScorer]:
    """One query whose candidates have these similarities."""
    query = RerankingQuery(
        ("q",), tuple(f"p{n}" for n in range(len(positives))), tuple(f"n{n}" for n in range(len(negatives)))
    )
    table = {
        "q": [1.0],
        **{f"p{n}": [s] for n, s in enumerate(positives)},
        **{f"n{n}": [s] for n, s in enumerate(negatives)},
    }
    return task_of(query, reading=reading), TableScorer(table)


def score(task: RerankingTask, model: TableScorer) -> TaskScore:
    return task.score(model, model.vectors(task))


def figures(positives: Sequence[float], negatives: Sequence[float], reading: str) -> dict[str, float | None]:
    return score(*scored(positives, negatives, reading)).figures


def v1_by_hand(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """For each distinct similarity: what share of the positives it adds, times the precision of all as high."""
    found, total = 0, 0.0
    for bar in sorted({*positives, *negatives}, reverse=True):
        hits, misses = (sum(similarity >= bar for similarity in side) for side in (positives, negatives))
        total += (hits - found) / len(positives) * hits / (hits + misses)
        found = hits
    return total


def v2_by_hand(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """trec_eval: by falling similarity, then by falling id; a positive's id begins with an a, others' with an n."""
    named = [(s, f"apositive_{n:05}") for n, s in enumerate(positives)]
    named += [(s, f"negative_{n:05}") for n, s in enumerate(negatives)]
    hits = [name.startswith("a") for _, name in sorted(named, reverse=True)[:1000]]
    return sum(sum(hits[: place + 1]) / (place + 1) for place in range(len(hits)) if hits[place]) / len(positives)


class TestFigures:
    def test_by_hand(self) -> None:
        """Places 2 and 4 of 5 are relevant."""
        found = figures([0.4, 0.2], [0.5, 0.3, 0.1], "mteb-v1")
        best = 1 + 1 / math.log2(3)
        assert found == {
            "map": pytest.approx(100 * (1 / 2 + 2 / 4) / 2),
            "mrr@10": pytest.approx(50),
            "ndcg@10": pytest.approx(100 * (1 / math.log2(3) + 1 / math.log2(5)) / best),
        }

    @given(st.lists(EIGHTHS, min_size=1, max_size=5), st.lists(EIGHTHS, min_size=1, max_size=8))
    def test_map_of_each_reading(self, positives: list[float], negatives: list[float]) -> None:
        first, second = (figures(positives, negatives, reading)["map"] for reading in ("mteb-v1", "mteb-v2"))
        assert first == pytest.approx(100 * v1_by_hand(positives, negatives))
        assert second == pytest.approx(100 * v2_by_hand(positives, negatives))

    def test_without_ties_the_readings_agree(self) -> None:
        positives, negatives = [0.5, 0.25], [0.75, 0.125, 0.3]
        assert figures(positives, negatives, "mteb-v1") == pytest.approx(figures(positives, negatives, "mteb-v2"))

    def test_ties_tell_the_readings_apart(self) -> None:
        first, second = (figures([0.5, 0.5], [0.5], reading) for reading in ("mteb-v1", "mteb-v2"))
        assert (first["map"], first["mrr@10"]) == pytest.approx((200 / 3, 100))
        assert (second["map"], second["mrr@10"]) == pytest.approx((100 * (1 / 2 + 2 / 3) / 2, 50))

    def test_the_second_reading_looks_at_a_thousand_candidates(self) -> None:
        negatives = [1.0] * 1000
        assert figures([2.0, 0.5], negatives, "mteb-v1")["map"] == pytest.approx(100 * (1 + 2 / 1002) / 2)
        assert figures([2.0, 0.5], negatives, "mteb-v2")["map"] == pytest.approx(50)

    def test_the_first_hit_counts_up_to_place_ten(self) -> None:
        assert figures([0.5], [1.0] * 9, "mteb-v1")["mrr@10"] == pytest.approx(10)
        assert figures([0.5], [1.0] * 10, "mteb-v1")["mrr@10"] == 0

    def test_means_over_the_queries(self) -> None:
        queries = [RerankingQuery(("q1",), ("good",), ("bad",)), RerankingQuery(("q2",), ("good",), ("bad",))]
        model = TableScorer({"q1": [1.0], "q2": [-1.0], "good": [0.5], "bad": [0.25]})
        task = task_of(*queries)
        assert score(task, model).figures["map"] == pytest.approx(75)
        per_query = task.per_query(model, model.vectors(task))
        assert list(per_query) == list(FIGURES)
        np.testing.assert_allclose(per_query["map"], [1, 0.5])


class TestSubqueries:
    def test_a_candidate_has_its_greatest_similarity(self) -> None:
        """By the mean of the two texts the negative would be first."""
        query = RerankingQuery(("one", "two"), ("good",), ("bad",))
        model = TableScorer({"one": [1.0, 0.0], "two": [0.0, 1.0], "good": [0.9, -0.9], "bad": [0.5, 0.5]})
        found = score(task_of(query), model)
        assert found.figures["map"] == 100
        assert found.protocol["subqueries"] == "max"

    def test_single_texts_need_no_such_note(self) -> None:
        assert "subqueries" not in score(*scored([0.5], [0.25])).protocol


class TestCandidates:
    def test_each_text_is_asked_for_and_compared_once(self) -> None:
        query = RerankingQuery(("q",), ("same", "same"), ("other", "other"))
        model = TableScorer({"q": [1.0], "same": [0.5], "other": [0.25]})
        score(task_of(query), model)
        assert model.shapes == [(1, 2)]

    def test_one_that_is_listed_twice_counts_twice(self) -> None:
        query = RerankingQuery(("q",), ("good",), ("bad", "bad"))
        model = TableScorer({"q": [1.0], "good": [0.25], "bad": [0.5]})
        assert score(task_of(query), model).figures["map"] == pytest.approx(100 / 3)


class TestAccount:
    def test_queries_without_both_sides_are_left_out_and_counted(self) -> None:
        queries = [
            RerankingQuery(("q",), ("p",), ("n",)),
            RerankingQuery(("lost",), (), ("lost too",)),
            RerankingQuery(("lost",), ("lost too",), ()),
            RerankingQuery(("lost",), (), ()),
        ]
        model = TableScorer({"q": [1.0], "p": [0.5], "n": [0.25]})  # knows none of the lost texts
        found = score(task_of(*queries), model)
        assert (found.count, found.dropped, found.unit) == (1, 3, "queries")
        assert found.remark == (
            "2 of 4 queries left out: no positive candidate; 1 of 4 queries left out: no negative candidate"
        )

    def test_empty_queries_and_candidates_are_counted(self) -> None:
        model = TableScorer({"q": [1.0], "a": [0.75], "": [0.5], " ": [0.25]})
        found = score(task_of(RerankingQuery(("q",), ("a", ""), (" ",)), RerankingQuery((), ("a",), ("a",))), model)
        assert (found.count, found.dropped, found.details) == (1, 1, {"candidates": 3, "empty_candidates": 2})
        assert found.remark == (
            "1 of 2 queries left out: empty; empty candidates: 2 (ranked by the vector of the empty text, as MTEB does)"
        )

    def test_a_score_says_what_it_is(self) -> None:
        task, model = scored([0.5], [0.25, 0.125], "mteb-v2")
        found = score(replace(task, source="mteb/some@1234567"), model)
        assert (found.kind, found.measure, found.score, found.remark) == ("reranking", "map", 100, "")
        assert found.protocol["reading"] == "mteb-v2"
        assert found.protocol["source"] == "mteb/some@1234567"
        assert found.details == {"candidates": 3}

    def test_figures_of_no_numbers_are_undefined(self) -> None:
        found = score(*scored([math.nan], [0.5]))
        assert found.figures == dict.fromkeys(FIGURES)
        assert found.remark == "undefined: some similarities are not finite numbers"

    def test_equal_data_has_equal_hashes(self) -> None:
        query = RerankingQuery(("q",), ("p",), ("n",))
        others = [query._replace(positives=("n",), negatives=("p",)), query._replace(texts=("q", "p"))]
        assert task_of(query).data_hash() == task_of(query, reading="mteb-v2").data_hash()
        assert len({task_of(one).data_hash() for one in (query, *others)}) == 3

    def test_nothing_to_rank(self) -> None:
        with pytest.raises(InputError, match="mine: none of its 1 queries has both a positive and a negative"):
            task_of(RerankingQuery(("q",), ("p",), ()))

    def test_unknown_reading(self) -> None:
        with pytest.raises(SettingError, match="reading: 'v3' is not one of mteb-v1, mteb-v2"):
            task_of(RerankingQuery(("q",), ("p",), ("n",)), reading="v3")
