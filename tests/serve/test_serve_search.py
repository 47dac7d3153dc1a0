"""Search over HTTP, beside the index asked directly."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from nearer.search import SearchIndex
from nearer.serve.served import ServedModel


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


def test_an_index_of_another_model(nearer, index, tiny_model) -> None:
    outcome = nearer("serve", tiny_model("bert"), "--pooling", "cls", "--port", 0, "--index", index.folder)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "two models' vectors cannot be compared" in outcome.err
