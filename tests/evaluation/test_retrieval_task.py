"""Retrieval over a corpus against a full sort of all documents."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_scorer import TableScorer

from nearer.evaluation import retrieval_task
from nearer.evaluation.retrieval_task import FIGURES, RetrievalTask, nearest
from nearer.evaluation.task import SentenceVectors, TaskScore


def task_of(corpus: list[str], queries: list[str], judgements: list[dict[int, float]]) -> RetrievalTask:
    return RetrievalTask("mine", "test", "beir", corpus, queries, judgements)


def line_of(similarities: list[float]) -> tuple[list[str], TableScorer]:
    """Documents with these similarities to the query q."""
    corpus = [f"d{place}" for place in range(len(similarities))]
    table = {"q": [1.0], **{text: [value] for text, value in zip(corpus, similarities, strict=True)}}
    return corpus, TableScorer(table)


def score(task: RetrievalTask, model: TableScorer) -> TaskScore:
    return task.score(model, model.vectors(task))


def by_hand(similarities: list[float], judged: dict[int, float]) -> dict[str, float]:
    """All documents sorted, those of equal similarity in the corpus' order; then the definitions."""
    order = sorted(range(len(similarities)), key=lambda place: (-similarities[place], place))
    relevant = {place for place, gain in judged.items() if gain > 0}
    hits = [place in relevant for place in order]
    found = sum(judged.get(place, 0) / math.log2(rank + 2) for rank, place in enumerate(order[:10]))
    best = sum(g / math.log2(rank + 2) for rank, g in enumerate(sorted(judged.values(), reverse=True)[:10]))
    precisions = [sum(hits[: rank + 1]) / (rank + 1) for rank in range(min(100, len(hits))) if hits[rank]]
    return {
        "ndcg@10": 100 * found / best,
        "mrr@10": 100 / (hits.index(True) + 1) if True in hits[:10] else 0.0,
        "map@100": 100 * sum(precisions) / len(relevant),
        **{f"recall@{k}": 100 * sum(hits[:k]) / len(relevant) for k in (1, 10, 100)},
    }


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], dict[int, float]]:
    similarities = draw(st.lists(st.integers(-20, 20).map(lambda n: n / 32), min_size=1, max_size=150))
    places = draw(st.lists(st.integers(0, len(similarities) - 1), min_size=1, max_size=15, unique=True))
    gains = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=len(places), max_size=len(places)).filter(any))
    return similarities, dict(zip(places, gains, strict=True))


class TestFigures:
    @given(cases(), st.sampled_from([3, 40, 16_000_000]))
    def test_by_hand_whatever_is_held_at_once(self, case: tuple[list[float], dict[int, float]], at_once: int) -> None:
        similarities, judged = case
        corpus, model = line_of(similarities)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(retrieval_task.nearest.__kwdefaults__, "at_once", at_once)
            found = score(task_of(corpus, ["q"], [judged]), model).figures
        assert found == pytest.approx(by_hand(similarities, judged))
        assert tuple(found) == FIGURES

    @pytest.mark.parametrize("seed", range(5))
    def test_by_hand_in_a_long_list(self, seed: int) -> None:
        """Relevant documents before and behind places 10 and 100."""
        draws = np.random.default_rng(seed)
        corpus, model = line_of((draws.integers(-200, 200, size=300) / 256).tolist())
        judged = {int(place): float(draws.integers(0, 4)) for place in draws.choice(300, size=40, replace=False)}
        found = score(task_of(corpus, ["q"], [judged]), model).figures
        assert found == pytest.approx(by_hand([model.table[text][0] for text in corpus], judged))
        assert found["recall@10"] < found["recall@100"] < 100  # type: ignore[operator]

    def test_several_queries_in_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retrieval_task, "QUERIES_AT_ONCE", 2)
        model = TableScorer({"one": [1, 0], "two": [0, 1], "three": [-1, 0], "x": [3, 1], "y": [2, 2], "z": [1, 3]})
        task = task_of(["x", "y", "z"], ["one", "two", "three"], [{0: 1.0}, {0: 1.0}, {0: 1.0}])
        values = task.per_query(model, model.vectors(task))
        np.testing.assert_allclose(values["mrr@10"], [1, 1 / 3, 1 / 3])
        assert model.shapes == [(2, 3), (1, 3)]
        assert score(task, model).figures["mrr@10"] == pytest.approx(100 * (1 + 2 / 3) / 3)

    def test_a_score_says_what_it_is(self) -> None:
        corpus, model = line_of([0.5, 0.25])
        found = score(RetrievalTask("mine", "test", "beir", corpus, ["q"], [{0: 2.0, 1: 0.0}], unjudged=2), model)
        assert (found.kind, found.unit, found.count, found.measure) == ("retrieval", "queries", 1, "ndcg@10")
        assert found.details == {"documents": 2, "judgements": 2}
        assert (found.dropped, found.remark) == (2, "2 of 3 queries left out: no judgement")
        assert found.score == 100

    def test_figures_of_no_numbers_are_undefined(self) -> None:
        corpus, model = line_of([0.5, math.nan])
        found = score(task_of(corpus, ["q"], [{0: 1.0}]), model)
        assert found.figures == dict.fromkeys(FIGURES)
        assert found.remark == "undefined: some similarities are not finite numbers"

    def test_equal_data_has_equal_hashes(self) -> None:
        tasks = [
            task_of(["a", "b"], ["q"], [{0: 1.0}]),
            task_of(["a", "b"], ["q"], [{1: 1.0}]),
            task_of(["a"], ["b"], [{0: 1.0}]),
            task_of(["a", "b"], ["r"], [{0: 1.0}]),
        ]
        assert len({task.data_hash() for task in tasks}) == 4
        assert tasks[0].data_hash() == task_of(["a", "b"], ["q"], [{0: 1.0}]).data_hash()


class TestHoles:
    def test_an_empty_document_is_never_found(self) -> None:
        """Although a model's vector of the empty text may be the nearest of all."""
        model = TableScorer({"q": [1.0], "": [9.0], " \t": [9.0], "text": [0.5]})
        task = task_of(["", "text", " \t"], ["q"], [{1: 1.0}])
        assert list(task.sentences()) == ["q", "text"]
        assert score(task, model).figures == dict.fromkeys(FIGURES, 100.0)

    @pytest.mark.parametrize("place", [0, 2, 7])
    def test_a_judged_document_that_is_empty_or_missing_is_not_found(self, place: int) -> None:
        model = TableScorer({"q": [1.0], "": [9.0], "text": [0.5]})
        found = score(task_of(["", "text"], ["q"], [{1: 1.0, place: 1.0}]), model).figures
        assert (found["recall@100"], found["map@100"], found["mrr@10"]) == (50, 50, 100)
        assert found["ndcg@10"] == pytest.approx(100 / (1 + 1 / math.log2(3)))

    def test_an_only_relevant_document_that_is_missing_counts_as_nothing(self) -> None:
        model = TableScorer({"q": [1.0], "text": [0.5]})
        assert score(task_of(["text"], ["q"], [{1: 1.0}]), model).figures == dict.fromkeys(FIGURES, 0.0)

    def test_holes_are_told(self) -> None:
        model = TableScorer({"q": [1.0], "text": [0.5]})
        oddities = {"empty_queries": 1, "queries_without_relevant_documents": 2}
        task = RetrievalTask("mine", "test", "beir", ["", "text"], ["q"], [{0: 1.0, 2: 1.0}], 3, oddities)
        found = score(task, model)
        assert (found.count, found.dropped) == (1, 6)
        assert found.remark == (
            "3 of 7 queries left out: no judgement; 1 of 7 queries left out: empty; 2 of 7 queries left out: "
            "no relevant document (trec_eval and mteb count them as 0); empty documents: 1 (never found); judgements "
            "of empty documents: 1 (count as not found); judgements of missing documents: 1 (count as not found)"
        )

    def test_holes_are_part_of_the_hash(self) -> None:
        tasks = [
            task_of(["a"], ["q"], [{0: 1.0}]),
            task_of(["a", ""], ["q"], [{0: 1.0}]),
            task_of(["a"], ["q"], [{0: 1.0, 1: 1.0}]),
            task_of(["a"], ["q"], [{0: 1.0, 1: 2.0}]),
        ]
        assert len({task.data_hash() for task in tasks}) == 4


class TestEqualTexts:
    def test_are_compared_once_and_stand_in_the_corpus_order(self) -> None:
        """Places 0 and 2 hold one text, which ties with the other: 0, 1, 2."""
        model = TableScorer({"q": [1.0], "same": [0.5], "other": [0.5]})
        task = task_of(["same", "other", "same"], ["q"], [{2: 1.0}])
        assert score(task, model).figures["mrr@10"] == pytest.approx(100 / 3)
        assert model.shapes == [(1, 2)]

    def test_more_copies_than_are_looked_at(self) -> None:
        model = TableScorer({"q": [1.0], "same": [0.5], "next": [0.25]})
        task = task_of([*["same"] * 99, "next", "same"], ["q"], [{99: 1.0, 100: 1.0}])
        figures = score(task, model).figures
        assert (figures["recall@100"], figures["map@100"]) == (50, pytest.approx(100 / 100 / 2))


class TestNearest:
    def test_memory_is_bounded(self) -> None:
        corpus, model = line_of([n / 64 for n in range(50)])
        vectors = SentenceVectors({text: place for place, text in enumerate(corpus)}, np.eye(50, dtype=np.float32))
        nearest(model, np.ones((4, 50), dtype=np.float32), corpus, vectors, depth=3, at_once=28)
        assert model.shapes == [(4, 7)] * 7 + [(4, 1)]

    def test_ties_at_the_depth_are_broken_by_place(self) -> None:
        corpus, model = line_of([0.5, 0.75, 0.5, 0.5, 0.5])
        vectors = model.vectors(task_of(corpus, ["q"], [{0: 1.0}]))
        for at_once in (1, 2, 3, 100):
            [best] = nearest(model, vectors.of(["q"]), corpus, vectors, depth=3, at_once=at_once)
            assert best is not None
            assert best[0].tolist() == [1, 0, 2]
            assert best[1].tolist() == [0.75, 0.5, 0.5]
