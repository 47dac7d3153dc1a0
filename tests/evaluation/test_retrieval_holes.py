"""Retrieval data with holes: figures of random folders against loops over the ids, and against pytrec_eval."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_scorer import TableScorer

from nearer.evaluation.retrieval_data import load_retrieval
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.evaluation.task import TaskScore

Judged = dict[str, dict[str, int]]


@dataclass
class Folder:
    """documents: similarity to every query by id, None of an empty one; queries: whether one has text, by id."""

    documents: dict[str, float | None]
    queries: dict[str, bool]
    judged: Judged

    def write(self, root: Path) -> None:
        corpus = [{"_id": id, "text": "" if near is None else f"text of {id}"} for id, near in self.documents.items()]
        queries = [{"_id": id, "text": f"query {id}" if filled else " "} for id, filled in self.queries.items()]
        qrels = [f"{query}\t{id}\t{gain}" for query, gains in self.judged.items() for id, gain in gains.items()]
        for name, lines in (
            ("corpus.jsonl", map(json.dumps, corpus)),
            ("queries.jsonl", map(json.dumps, queries)),
            ("qrels.tsv", qrels),
        ):
            (root / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    @contextmanager
    def task(self) -> Iterator[RetrievalTask]:
        with tempfile.TemporaryDirectory() as root:
            self.write(Path(root))
            yield load_retrieval(root)

    def asked(self) -> dict[str, dict[str, int]]:
        """The queries that count, with their judgements."""
        return {
            query: self.judged[query]
            for query, filled in self.queries.items()
            if filled and any(gain > 0 for gain in self.judged.get(query, {}).values())
        }

    def found(self) -> list[str]:
        """All documents that have text, the nearest first."""
        near = [(id, similarity) for id, similarity in self.documents.items() if similarity is not None]
        return [id for id, _ in sorted(near, key=lambda each: -each[1])]

    def score(self) -> TaskScore:
        model = TableScorer(
            {
                **{f"query {id}": [1.0] for id in self.queries},
                **{f"text of {id}": [near] for id, near in self.documents.items() if near is not None},
                "": [100.0],  # the nearest of all, if ever it were asked for
            }
        )
        with self.task() as task:
            return task.score(model, model.vectors(task))


@st.composite
def folders(draw: st.DrawFn) -> Folder:
    """Documents that are empty, or judged and missing; queries that are empty, missing, or have nothing relevant."""
    count = draw(st.integers(1, 30))
    places = draw(st.permutations(range(count)))
    empty = draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
    documents = {str(n): None if n in empty else places[n] / 64 for n in range(count)}
    queries = {f"q{n}": draw(st.integers(0, 3)) > 0 for n in range(4)} | {"q4": True}
    gains = st.dictionaries(st.integers(0, count + 4).map(str), st.integers(-1, 3), max_size=15)
    judged = {f"q{n}": draw(gains) for n in (0, 1, 2, 5)} | {"q4": {**draw(gains), "0": 1}}
    return Folder(documents, queries, judged)


def by_loops(folder: Folder) -> dict[str, float]:
    """The definitions, query by query, over ids."""
    sums: dict[str, float] = {}
    asked = folder.asked()
    for gains in asked.values():
        relevant = [id for id, gain in gains.items() if gain > 0]
        found = folder.found()
        figures = dict.fromkeys(("ndcg@10", "mrr@10", "map@100", "recall@1", "recall@10", "recall@100"), 0.0)
        hits = 0
        for rank, id in enumerate(found[:100], start=1):
            if id not in relevant:
                continue
            hits += 1
            figures["map@100"] += hits / rank / len(relevant)
            for k in (1, 10, 100):
                figures[f"recall@{k}"] += (rank <= k) / len(relevant)
            if rank <= 10:
                figures["ndcg@10"] += gains[id] / math.log2(rank + 1)
                figures["mrr@10"] = figures["mrr@10"] or 1 / rank
        best = sorted((gains[id] for id in relevant), reverse=True)[:10]
        figures["ndcg@10"] /= sum(gain / math.log2(rank + 1) for rank, gain in enumerate(best, start=1))
        for name, figure in figures.items():
            sums[name] = sums.get(name, 0) + 100 * figure / len(asked)
    return sums


@given(folders())
def test_figures_are_those_of_the_definitions(folder: Folder) -> None:
    assert folder.score().figures == pytest.approx(by_loops(folder))


@given(folders())
def test_all_that_does_not_count_is_counted(folder: Folder) -> None:
    asked, found = folder.asked(), folder.score()
    judgements = [(query, id) for query, gains in asked.items() for id in gains]
    empty = [id for id, near in folder.documents.items() if near is None]
    wanted = {
        "documents": len(folder.documents),
        "judgements": len(judgements),
        "empty_queries": sum(not filled for filled in folder.queries.values()),
        "queries_without_relevant_documents": sum(
            folder.queries.get(query, False) and bool(gains) and max(gains.values()) <= 0
            for query, gains in folder.judged.items()
        ),
        "empty_documents": len(empty),
        "judgements_of_empty_documents": sum(id in empty for _, id in judgements),
        "judgements_of_missing_documents": sum(id not in folder.documents for _, id in judgements),
        "judgements_of_missing_queries": len(folder.judged["q5"]),
    }
    assert found.details == {kind: count for kind, count in wanted.items() if count}
    assert (found.count, found.count + found.dropped) == (len(asked), len(folder.queries))


@given(folders())
def test_figures_are_pytrec_evals(folder: Folder) -> None:
    """The run holds every document with text: what is judged and not in it is missing or empty."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    measures = {"ndcg_cut.10", "map_cut.100", "recall.1,10,100"}
    run = {query: {id: near for id, near in folder.documents.items() if near is not None} for query in folder.asked()}
    each = pytrec_eval.RelevanceEvaluator(folder.asked(), measures).evaluate(run).values()
    names = {"ndcg_cut_10": "ndcg@10", "map_cut_100": "map@100"} | {f"recall_{k}": f"recall@{k}" for k in (1, 10, 100)}
    figures = folder.score().figures
    for theirs, ours in names.items():
        assert figures[ours] == pytest.approx(100 * sum(figures[theirs] for figures in each) / len(each))
