"""Small tasks of mteb's, with their data in memory, and the same data for tasks of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from mteb._evaluators.retrieval_metrics import max_over_subqueries
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.text.reranking import AbsTaskReranking

from nearer.evaluation.reranking_task import RerankingQuery
from nearer.evaluation.retrieval_task import RetrievalTask
from nearer.text import Pair

WORDS = ["a", "man", "someone", "is", "has", "eating", "lunch", "meal", "rain", "quick", "brown", "fox", "dog", "far"]


def sentences(count: int, seed: int) -> list[str]:
    """Different sentences of the tiny models' words."""
    draws = np.random.default_rng(seed)
    return [" ".join(draws.choice(WORDS, size=draws.integers(3, 9))) + f" {number}" for number in range(count)]


PAIRS = [
    Pair(first, second, score)
    for first, second, score in zip(sentences(60, 1), sentences(60, 2), np.arange(60) * 7 % 26 / 5, strict=True)
]
CANDIDATES = sentences(200, 3)
# the last two queries count for nothing: without a positive, without a negative
RERANKED = [
    RerankingQuery((query,), tuple(CANDIDATES[5 * n : 5 * n + 1 + n % 3]), tuple(CANDIDATES[5 * n + 3 : 5 * n + 15]))
    for n, query in enumerate(sentences(30, 4))
] + [RerankingQuery(("lost",), (), ("found",)), RerankingQuery(("lost",), ("found",), ())]

SEVERAL = [query._replace(texts=tuple(sentences(2 + n % 2, 100 + n))) for n, query in enumerate(RERANKED[:20])]


def metadata(name: str, kind: str, measure: str) -> Any:
    return TaskMetadata(
        name=name,
        description=name,
        dataset={"path": "local/none", "revision": "none"},
        type=kind,
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=measure,
        date=("2024-01-01", "2024-01-02"),
        domains=["Written"],
        task_subtypes=[],
        license="not specified",
        annotations_creators="derived",
        dialect=[],
        sample_creation="created",
        bibtex_citation="",
    )


class LocalSts(AbsTaskSTS):  # type: ignore[misc]
    metadata = metadata("NearerLocalSTS", "STS", "cosine_spearman")

    def load_data(self, **options: Any) -> None:
        rows = [{"sentence1": first, "sentence2": second, "score": score} for first, second, score in PAIRS]
        self.dataset = DatasetDict(test=Dataset.from_list(rows))
        self.data_loaded = True


class LocalReranking(AbsTaskReranking):  # type: ignore[misc]
    """In MTEB v1's shape, which mteb 2 makes retrieval of."""

    metadata = metadata("NearerLocalReranking", "Reranking", "map_at_1000")

    def load_data(self, **options: Any) -> None:
        rows = [{"query": q.texts[0], "positive": [*q.positives], "negative": [*q.negatives]} for q in RERANKED]
        self.transform_old_dataset_format(DatasetDict(test=Dataset.from_list(rows)))
        self.data_loaded = True


class LocalRetrieval(AbsTaskRetrieval):  # type: ignore[misc]
    metadata = metadata("NearerLocalRetrieval", "Retrieval", "ndcg_at_10")

    def load_data(self, **options: Any) -> None:
        task = retrieval_task()
        names = {place: f"d{place:05}" for place in range(len(task.corpus))}
        self.dataset = {
            "default": {
                "test": {
                    "corpus": Dataset.from_list([{"id": names[n], "text": t} for n, t in enumerate(task.corpus)]),
                    "queries": Dataset.from_list([{"id": f"q{n}", "text": t} for n, t in enumerate(task.queries)]),
                    "relevant_docs": {
                        f"q{n}": {names[place]: int(gain) for place, gain in judged.items()}
                        for n, judged in enumerate(task.judgements)
                    },
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


class LocalSubqueries(AbsTaskRetrieval):  # type: ignore[misc]
    """As MindSmallReranking is in mteb 2: each text of a query is a query, merged by the greatest similarity."""

    metadata = metadata("NearerLocalSubqueries", "Reranking", "max_over_subqueries_map_at_1000")

    def load_data(self, **options: Any) -> None:
        queries, corpus, judged, ranked = [], [], {}, {}
        for n, query in enumerate(SEVERAL):
            texts = {f"a{n:03}_{k:03}": text for k, text in enumerate(query.positives)}
            texts |= {f"n{n:03}_{k:03}": text for k, text in enumerate(query.negatives)}
            corpus += [{"id": id, "text": text} for id, text in texts.items()]
            for k, text in enumerate(query.texts):
                queries.append({"id": f"q{n}_{k}", "text": text})
                judged[f"q{n}_{k}"] = {id: int(id.startswith("a")) for id in texts}
                ranked[f"q{n}_{k}"] = list(texts)
        split = {"corpus": Dataset.from_list(corpus), "queries": Dataset.from_list(queries)}
        self.dataset = {"default": {"test": {**split, "relevant_docs": judged, "top_ranked": ranked}}}
        self.data_loaded = True

    def task_specific_scores(self, scores: Any, qrels: Any, results: Any, **options: Any) -> dict[str, float]:
        return dict(max_over_subqueries(qrels, results, self.k_values))


def retrieval_task() -> RetrievalTask:
    judgements = [{(17 * n + k) % 200: float(1 + k % 3) for k in range(1 + n % 4)} for n in range(20)]
    return RetrievalTask("local", "test", "beir", CANDIDATES, sentences(20, 5), judgements)
