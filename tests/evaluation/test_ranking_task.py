"""Ranking tasks from pairs: which sentences are queries, and their figures."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau
from table_scorer import TableScorer

from nearer.errors import InputError
from nearer.evaluation.pair_task import PairTask
from nearer.evaluation.ranking_task import RankingQuery, RankingTask, ranking_of
from nearer.evaluation.sts_data import load_sts
from nearer.text import Pair

GOLD = {"b": 1.0, "c": 4.0, "d": 2.5, "e": 0.0}
PAIRS = [Pair("a", "b", 1.0), Pair("c", "a", 4.0), Pair("a", "d", 2.5), Pair("e", "a", 0.0), Pair("b", "c", 3.0)]


def pairs_task(pairs: list[Pair], **subsets: list[Pair]) -> PairTask:
    return PairTask("mine", "dev", "file", {"mine": pairs, **subsets})


def table(**similarities: float) -> TableScorer:
    return TableScorer({"a": [1.0], **{text: [similarity] for text, similarity in similarities.items()}})


class TestQueries:
    def test_a_sentence_with_more_than_three_partners_in_either_column(self) -> None:
        task = ranking_of(pairs_task(PAIRS))
        assert task.queries == [RankingQuery("a", tuple(GOLD), tuple(GOLD.values()))]
        assert (task.name, task.split, task.layout) == ("mine ranking", "dev", "file")

    def test_three_partners_are_too_few(self) -> None:
        with pytest.raises(InputError, match="mine ranking: no sentence has more than 3 partners"):
            ranking_of(pairs_task(PAIRS[1:]))

    def test_subsets_are_joined(self) -> None:
        assert ranking_of(pairs_task(PAIRS[:2], more=PAIRS[2:])) == ranking_of(pairs_task(PAIRS))

    def test_a_partner_twice_is_one_with_the_mean_of_its_scores(self) -> None:
        task = ranking_of(pairs_task([*PAIRS, Pair("b", "a", 2.0)]))
        assert task.queries == [RankingQuery("a", ("b", "c", "d", "e"), (1.5, 4.0, 2.5, 0.0))]
        with pytest.raises(InputError, match="no sentence has more than 3 partners"):
            ranking_of(pairs_task([*PAIRS[1:4], Pair("a", "c", 1.0)]))

    def test_a_sentence_can_be_its_own_partner_once(self) -> None:
        [query] = ranking_of(pairs_task([*PAIRS[:3], Pair("a", "a", 5.0)])).queries
        assert query == RankingQuery("a", ("b", "c", "d", "a"), (1.0, 4.0, 2.5, 5.0))

    def test_equal_gold_scores_leave_nothing_to_rank(self) -> None:
        flat = [Pair("x", partner, 2.0) for partner in "stuv"]
        task = ranking_of(pairs_task([*PAIRS, *flat]))
        assert ([query.sentence for query in task.queries], task.equal) == (["a"], 1)
        found = task.score(model := table(b=0, c=1, d=2, e=3), model.vectors(task))
        assert (found.count, found.dropped) == (1, 1)
        assert found.remark == "1 of 2 queries left out: all gold scores equal"
        with pytest.raises(InputError, match=r"different gold scores; 1 have, but all their gold scores are equal"):
            ranking_of(pairs_task(flat))


class TestFigures:
    def test_against_scipy_and_by_hand(self) -> None:
        task = ranking_of(pairs_task(PAIRS))
        model = table(b=0.5, c=0.25, d=0.75, e=0.125)
        found = task.score(model, model.vectors(task))
        discounted = (2.5, 1.0, 4.0, 0.0), (4.0, 2.5, 1.0, 0.0)
        ranked, best = (sum(gain / math.log2(place + 2) for place, gain in enumerate(gains)) for gains in discounted)
        assert found.figures == {
            "kendall": pytest.approx(100 * kendalltau([0.5, 0.25, 0.75, 0.125], list(GOLD.values())).statistic),
            "ndcg": pytest.approx(100 * ranked / best),
        }
        assert (found.kind, found.unit, found.measure, found.remark) == ("ranking", "queries", "kendall", "")
        assert found.protocol == {"partners": "more than 3", "kendall": "tau-b", "gains": "linear"}

    def test_means_over_the_queries(self) -> None:
        """The second query, x, has its partners the wrong way round."""
        others = [Pair("x", partner, score) for partner, score in zip("bcde", (4.0, 1.0, 2.5, 5.0), strict=True)]
        task = ranking_of(pairs_task([*PAIRS[:4], *others]))
        model = TableScorer({"a": [1.0], "x": [1.0], **{text: [score] for text, score in GOLD.items()}})
        per_query = task.per_query(model, model.vectors(task))
        np.testing.assert_allclose(per_query["kendall"], [1, -1])
        assert task.score(model, model.vectors(task)).figures["kendall"] == pytest.approx(0)
        assert task.score(model, model.vectors(task)).figures["ndcg"] == pytest.approx(50 * (1 + per_query["ndcg"][1]))

    @pytest.mark.parametrize("similarity", [0.5, math.nan])
    def test_a_model_that_does_not_tell_them_apart(self, similarity: float) -> None:
        task = ranking_of(pairs_task(PAIRS))
        model = table(**dict.fromkeys("bcde", similarity))
        found = task.score(model, model.vectors(task))
        assert found.figures["kendall"] is None
        assert found.remark == "undefined: in 1 queries all similarities are equal or some are not finite numbers"

    def test_gold_scores_below_zero_are_no_gains(self) -> None:
        task = ranking_of(pairs_task([pair._replace(score=pair.score - 2) for pair in PAIRS if pair.score is not None]))
        found = task.score(model := table(b=1, c=4, d=2, e=0), model.vectors(task))
        assert found.figures == {"kendall": pytest.approx(100), "ndcg": None}
        assert found.remark == "ndcg undefined: 1 queries have gold scores below 0, which are no gains"

    def test_equal_data_has_equal_hashes(self) -> None:
        other = [PAIRS[0]._replace(score=3.0), *PAIRS[1:]]
        hashes = [ranking_of(pairs_task(pairs)).data_hash() for pairs in (PAIRS, PAIRS, other)]
        assert hashes[0] == hashes[1] != hashes[2]


def test_the_real_sets(shared_data: Path) -> None:
    tasks: list[RankingTask] = [
        ranking_of(task) for task in load_sts(["sts12", "sts16", "stsb", "sick-r"], shared_data / "sts_raw")
    ]
    assert [(len(task.queries), task.equal) for task in tasks] == [(95, 0), (46, 9), (18, 1), (558, 0)]
