"""Queries that models order differently: chosen by Kendall's correlation, shown as in RankCSE's Table 1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from nearer.analysis import ranking_examples
from nearer.errors import InputError
from nearer.evaluation import PairTask
from nearer.text import Pair

TABLE_1 = [(3.8, 0.86, 0.90), (3.2, 0.64, 0.84), (2.6, 0.65, 0.78), (2.6, 0.55, 0.78), (2.2, 0.62, 0.69)]


def task(*queries: tuple[str, list[float]]) -> PairTask:
    rows = [Pair(name, f"{name} {place}", score) for name, golds in queries for place, score in enumerate(golds)]
    return PairTask("own", "file", "file", {"own": rows})


def test_the_papers_table() -> None:
    models = {"SimCSE": np.array([row[1] for row in TABLE_1]), "RankCSE": np.array([row[2] for row in TABLE_1])}
    [example] = ranking_examples(task(("measuring voltage", [row[0] for row in TABLE_1])), models)
    assert example.query == "measuring voltage"
    assert [partner.gold_rank for partner in example.partners] == [1, 2, 3, 3, 5]
    assert [partner.ranks["SimCSE"] for partner in example.partners] == [1, 3, 2, 5, 4]
    assert [partner.ranks["RankCSE"] for partner in example.partners] == [1, 2, 3, 3, 5]
    assert example.partners[0].scores == {"SimCSE": 0.86, "RankCSE": 0.90}
    for name, values in models.items():
        assert example.kendall[name] == pytest.approx(kendalltau(values, [row[0] for row in TABLE_1]).statistic)


def test_partners_stand_by_falling_gold() -> None:
    [example] = ranking_examples(task(("q", [1, 4, 2, 3])), {"one": np.array([0.1, 0.2, 0.4, 0.3])})
    assert [partner.sentence for partner in example.partners] == ["q 1", "q 3", "q 2", "q 0"]
    assert [partner.ranks["one"] for partner in example.partners] == [3, 2, 1, 4]


def test_the_models_that_differ_most_come_first_and_then_those_with_more_partners() -> None:
    asked = task(
        ("a", [1, 2, 3, 4]), ("b", [1, 2, 3, 4]), ("c", [1, 2, 3, 4, 5]), ("d", [1, 2, 3, 4]), ("e", [1, 2, 3])
    )
    right = np.concatenate([np.arange(4.0)] * 2 + [np.arange(5.0), np.arange(4.0), np.arange(3.0)])
    other = right.copy()
    other[4:8] = [3, 2, 1, 0]  # b turned round
    found = ranking_examples(asked, {"one": right, "two": other}, count=10)
    assert [example.query for example in found] == ["b", "c", "a", "d"]  # e has too few partners
    assert [example.query for example in ranking_examples(asked, {"one": right, "two": other}, count=2)] == ["b", "c"]


def test_of_one_model_alone_the_worst() -> None:
    asked = task(("a", [1, 2, 3, 4]), ("b", [1, 2, 3, 4]))
    values = np.array([1, 2, 3, 4, 1, 3, 2, 4.0])
    assert [example.query for example in ranking_examples(asked, {"one": values})] == ["b", "a"]


def test_a_sentence_is_a_query_on_either_side_and_a_partner_once() -> None:
    rows = [("p0", "q", 1.0), ("q", "p1", 2.0), ("q", "p2", 3.0), ("p3", "q", 5.0), ("q", "p3", 4.0)]
    asked = PairTask("own", "file", "file", {"own": [Pair(*row) for row in rows]})
    [example] = ranking_examples(asked, {"one": np.array([0.1, 0.2, 0.3, 0.4, 0.4])})
    assert [(partner.sentence, partner.gold) for partner in example.partners] == [
        ("p3", 4.5),
        ("p2", 3),
        ("p1", 2),
        ("p0", 1),
    ]


def test_a_model_without_an_order_passes_a_query_over() -> None:
    asked = task(("a", [1, 2, 3, 4]), ("b", [1, 2, 3, 4]))
    values = np.array([5.0, 5, 5, 5, 1, 2, 3, 4])
    assert [example.query for example in ranking_examples(asked, {"one": values})] == ["b"]


def test_what_gives_no_examples() -> None:
    with pytest.raises(InputError, match="no model given"):
        ranking_examples(task(("a", [1, 2, 3, 4])), {})
    with pytest.raises(InputError, match="one: 3 similarities for 4 pairs"):
        ranking_examples(task(("a", [1, 2, 3, 4])), {"one": np.arange(3.0)})
    with pytest.raises(InputError, match="no sentence has more than 3 partners"):
        ranking_examples(task(("a", [1, 2, 3])), {"one": np.arange(3.0)})
