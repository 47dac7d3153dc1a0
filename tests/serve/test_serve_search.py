"""Search over HTTP, beside the index asked directly."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
import pytest

from nearer.encoder import Encoder
from nearer.search import SearchIndex
from nearer.serve.model import ServedModel
from nearer.serve.scoring import step_matrix_rows, step_pair_scores, step_relevance
from nearer.teachers import RankEncoder
from patience import HANG


@pytest.fixture
def index(encoder, tmp_path) -> SearchIndex:
    text = tmp_path / "corpus.txt"
    text.write_text("A man is eating lunch.\nrain\nSomeone has a meal.\nthe lazy dog\n", encoding="utf-8")
    return SearchIndex.build(encoder, text, tmp_path / "index")


@pytest.fixture
def client(client_of, index, served: ServedModel):
    return client_of(served, index=index)


def told(hits) -> list[dict]:
    """As the service shows them: of files it gives away the name alone."""
    return [
        {**asdict(hit), "score": pytest.approx(hit.score), "cosine": pytest.approx(hit.cosine), "source": "corpus.txt"}
        for hit in hits
    ]


def test_one_query(client, index) -> None:
    body = client.post("/v1/search", json={"query": "a meal", "k": 2}).json()
    assert body == {"results": told(index.search("a meal", 2)), "model": "tiny"}


def test_several_queries(client, index) -> None:
    results = client.post("/v1/search", json={"query": ["rain", "dog"], "k": 1, "exact": True}).json()["results"]
    assert results == [told(hits) for hits in index.search(["rain", "dog"], 1)]
    assert results[0][0]["text"] == "rain"


def test_reranked(client, index) -> None:
    results = client.post("/v1/search", json={"query": "a meal", "k": 2, "rerank": 4}).json()["results"]
    assert results == told(index.search("a meal", 2, rerank=4))


@pytest.mark.parametrize(
    "body",
    [{"query": "a", "k": 0}, {"query": "a", "k": 10**9}, {"query": " "}, {"query": "a", "k": 5, "rerank": 2}, {}],
)
def test_refused(client, body) -> None:
    answer = client.post("/v1/search", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"]


class TestLimits:
    """Queries wait in the queue of all texts, and have its limits."""

    QUERIES: ClassVar = [f"rain {n}" for n in range(6)]

    @pytest.fixture
    def gated(self, client_of, served, index, watched):
        def make(**limits):
            client = client_of(served, index=index, limits={"batch_wait": 0.0, **limits})
            client.app.state.service.models[0].queries = watched
            return client

        return make

    def test_tokens(self, client_of, served, index) -> None:
        client = client_of(served, index=index, limits={"tokens": 10})
        refused = client.post("/v1/search", json={"query": self.QUERIES})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "too_many_tokens")

    def test_in_pieces(self, gated, watched) -> None:
        answer = gated(batch_texts=2).post("/v1/search", json={"query": self.QUERIES, "k": 1})
        assert (answer.status_code, len(answer.json()["results"])) == (200, 6)
        assert [len(batch) for batch in watched.batches] == [2, 2, 2]

    def test_between_the_pieces_others_are_answered(self, gated, watched) -> None:
        client = gated(batch_texts=2)
        watched.gate.clear()
        with ThreadPoolExecutor(2) as others:
            long = others.submit(client.post, "/v1/search", json={"query": self.QUERIES})
            assert watched.entered.acquire(timeout=HANG)
            short = others.submit(client.post, "/v1/search", json={"query": "short"})
            while client.get("/health").json()["waiting_texts"] < 5:
                assert not short.done()
            watched.gate.set()
            assert (short.result(HANG).status_code, long.result(HANG).status_code) == (200, 200)
        assert "short" in watched.batches[1] + watched.batches[2]

    def test_what_nobody_waits_for_is_not_computed(self, gated, watched, hurried) -> None:
        client = gated(batch_texts=2)
        watched.gate.clear()
        with hurried(client, 0.05):
            refused = client.post("/v1/search", json={"query": self.QUERIES})
        watched.gate.set()
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert client.post("/v1/search", json={"query": "next"}).status_code == 200
        assert watched.batches[1:] == [["next"]]

    def test_an_answer_that_is_too_large(self, client_of, served, index) -> None:
        client = client_of(served, index=index, limits={"answer": 500})
        assert client.post("/v1/search", json={"query": "rain", "k": 1}).status_code == 200
        refused = client.post("/v1/search", json={"query": ["rain", "dog"], "k": 3})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "answer_too_large")
        assert client.app.state.service.memory.held == 0

    def test_as_the_index_itself_asks(self, client_of, tiny_model, tmp_path) -> None:
        """With the prompt of its queries."""
        model = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        model.settings = replace(model.settings, prompts={"query": "the lazy dog "})
        (tmp_path / "text.txt").write_text("rain\nthe lazy dog\na meal\n", encoding="utf-8")
        index = SearchIndex.build(model, tmp_path / "text.txt", tmp_path / "prompted", query_prompt="query")
        client = client_of(ServedModel(model, "prompted"), index=index)
        found = client.post("/v1/search", json={"query": "rain", "k": 3}).json()["results"]
        assert [hit["cosine"] for hit in found] == pytest.approx([hit.cosine for hit in index.search("rain", 3)])


class TestScoring:
    """That of a RankEncoder takes long: it is done in steps, and as at once."""

    @pytest.fixture(scope="class")
    def ranks(self, encoder) -> ServedModel:
        corpus = [f"rain {n} man" for n in range(40)]
        return ServedModel(RankEncoder.build(encoder, corpus, inference_weight=0.7), "ranks")

    @pytest.fixture(scope="class")
    def vectors(self, encoder):
        return encoder.encode([f"a {n} dog" for n in range(100)])

    def taken(self, steps):
        count = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return count, end.value
            count += 1

    def test_relevance(self, ranks, vectors) -> None:
        steps, scores = self.taken(step_relevance(ranks, vectors[:1], vectors[1:]))
        assert steps == 4
        assert scores == pytest.approx(ranks.score_matrix(vectors[:1], vectors[1:])[0], abs=1e-6)

    def test_pairs(self, ranks, vectors) -> None:
        steps, scores = self.taken(step_pair_scores(ranks, vectors[:50], vectors[50:]))
        assert steps == 2
        assert scores == pytest.approx(ranks.pair_scores(vectors[:50], vectors[50:]).tolist(), abs=1e-6)

    @pytest.mark.parametrize("first", [5, 50, 95])
    def test_matrix(self, ranks, vectors, first: int) -> None:
        steps, rows = self.taken(step_matrix_rows(ranks, vectors[:first], vectors[first:]))
        assert steps >= 2
        found = np.array([json.loads(row) for row in rows])
        assert found == pytest.approx(ranks.score_matrix(vectors[:first], vectors[first:]), abs=1e-5)


def test_an_index_of_another_model(nearer, index, tiny_model) -> None:
    outcome = nearer("serve", tiny_model("bert"), "--pooling", "cls", "--port", 0, "--index", index.folder)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "two models' vectors cannot be compared" in outcome.err
