"""Documents scored by a cross-encoder or a set-up over HTTP, and an index that is searched by its set-up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from nearer import CrossEncoder, Encoder, SearchIndex, SearchSetup
from nearer.search.hybrid import rank_texts
from nearer.search.setup import RerankerSetup, write_setup
from nearer.serve.model import PairTexts, Relevance, ServedModel

pytest.importorskip("bm25s")
DOCUMENTS = ["Someone has a meal.", "rain", "A man is eating lunch.", "rain", "the lazy dog " * 40]
QUERY = "a man has lunch"


@pytest.fixture(scope="module")
def judge(tiny_cross_encoder: Callable[..., Path]) -> CrossEncoder:
    return CrossEncoder.load(tiny_cross_encoder(), device="cpu")


@pytest.fixture
def client(client_of: Callable[..., TestClient], encoder: Encoder, judge: CrossEncoder) -> TestClient:
    return client_of(ServedModel(encoder, "tiny", relevance=Relevance({"reranker": 1.0}, judge)))


def by_judge(judge: CrossEncoder) -> list[float]:
    return judge.score([QUERY], DOCUMENTS, [(0, number) for number in range(len(DOCUMENTS))]).tolist()


class TestCrossEncoder:
    def test_documents_have_its_scores(self, client: TestClient, judge: CrossEncoder) -> None:
        body = client.post("/v1/rerank", json={"query": QUERY, "documents": DOCUMENTS}).json()
        expected = by_judge(judge)
        assert len(body["results"]) == len(DOCUMENTS)
        for result in body["results"]:
            assert result["relevance_score"] == pytest.approx(expected[result["index"]], abs=1e-4)
        scores = [result["relevance_score"] for result in body["results"]]
        assert scores == sorted(scores, reverse=True)
        indices = [result["index"] for result in body["results"]]
        assert indices.index(1) + 1 == indices.index(3)  # equal texts, in their order
        assert body["usage"]["cut_texts"] == 1
        pairs = [(0, number) for number in (0, 1, 2, 4)]
        tokens = judge.score_and_count([QUERY], DOCUMENTS, pairs).tokens.sum()
        assert body["usage"]["total_tokens"] == tokens  # those of the four different pairs

    @pytest.mark.parametrize(
        ("path", "body", "score"),
        [
            ("/v2/rerank", {"model": "tiny", "query": QUERY, "documents": DOCUMENTS}, "relevance_score"),
            ("/rerank", {"query": QUERY, "texts": DOCUMENTS}, "score"),
        ],
    )
    def test_other_shapes_have_them_too(
        self, path: str, body: dict[str, Any], score: str, client: TestClient, judge: CrossEncoder
    ) -> None:
        answer = client.post(path, json=body).json()
        found = {one["index"]: one[score] for one in (answer["results"] if path == "/v2/rerank" else answer)}
        assert [found[number] for number in range(len(DOCUMENTS))] == pytest.approx(by_judge(judge), abs=1e-4)

    def test_vectors_are_the_models(self, client: TestClient, encoder: Encoder) -> None:
        body = client.post("/v1/embeddings", json={"model": "tiny", "input": ["rain"]}).json()
        assert body["data"][0]["embedding"] == pytest.approx(encoder.encode("rain").tolist(), abs=1e-5)

    def test_what_must_not_be_cut_is_refused(self, client: TestClient) -> None:
        answer = client.post("/rerank", json={"query": QUERY, "texts": DOCUMENTS, "truncate": False})
        assert answer.status_code == 422

    def test_its_tokens_have_the_limit_of_all(
        self, client_of: Callable[..., TestClient], encoder: Encoder, judge: CrossEncoder
    ) -> None:
        model = ServedModel(encoder, "tiny", relevance=Relevance({"reranker": 1.0}, judge))
        client = client_of(model, limits={"tokens": 50, "batch_tokens": 16})
        answer = client.post("/v1/rerank", json={"query": QUERY, "documents": [f"rain {n}" for n in range(40)]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "too_many_tokens")

    def test_pairs_are_counted_among_the_texts(self, client: TestClient) -> None:
        client.post("/v1/rerank", json={"query": QUERY, "documents": DOCUMENTS})
        assert "nearer_texts_total 4.0" in client.get("/metrics").text

    def test_a_pair_costs_about_its_tokens(self, judge: CrossEncoder) -> None:
        pairs = PairTexts(judge, "a" * 40)
        assert pairs.cost("b" * 20) == 3 + 15
        assert pairs.cost("b" * 10_000) == judge.max_length


class TestSetUp:
    SETUP = SearchSetup(lexical_weight=0.5, reranker=RerankerSetup(model="a", weight=2, candidates=6), candidates=8)

    def test_documents_are_scored_by_it(
        self, client_of: Callable[..., TestClient], encoder: Encoder, judge: CrossEncoder
    ) -> None:
        client = client_of(ServedModel(encoder, "tiny", relevance=Relevance(self.SETUP.weights, judge)))
        body = client.post("/v1/rerank", json={"query": QUERY, "documents": DOCUMENTS}).json()
        expected = {one.number: one.score for one in rank_texts(encoder, QUERY, DOCUMENTS, self.SETUP, reranker=judge)}
        found = {one["index"]: one["relevance_score"] for one in body["results"]}
        assert found == pytest.approx(expected, abs=1e-3)

    @pytest.fixture
    def index(self, encoder: Encoder, judge: CrossEncoder, tmp_path: Path) -> SearchIndex:
        folder = tmp_path / "model"
        encoder.save(folder)
        shutil.copytree(judge.name, folder / "reranker")
        given = self.SETUP.changed(reranker="reranker/")
        write_setup(folder, given)
        texts = [*DOCUMENTS, "Naïve café", "the quick fox", "it rains again and again", "far away", "evening comes"]
        return SearchIndex.build(folder, texts, tmp_path / "index", device="cpu")

    def test_an_index_is_searched_by_it(
        self, client_of: Callable[..., TestClient], served: ServedModel, index: SearchIndex
    ) -> None:
        client = client_of(served, index=index)
        queries = [QUERY, "rain"]
        results = client.post("/v1/search", json={"query": queries, "k": 4}).json()["results"]
        for found, hits in zip(results, index.search(queries, 4), strict=True):
            assert [hit["row"] for hit in found] == [hit.row for hit in hits]
            assert [hit["score"] for hit in found] == pytest.approx([hit.score for hit in hits], abs=1e-3)
        [one] = client.post("/v1/search", json={"query": QUERY, "k": 1}).json()["results"]
        assert one["row"] == index.search(QUERY, 1)[0].row

    def test_a_rank_encoders_order_is_by_vectors_alone(
        self, client_of: Callable[..., TestClient], served: ServedModel, index: SearchIndex
    ) -> None:
        client = client_of(served, index=index)
        results = client.post("/v1/search", json={"query": QUERY, "k": 3, "rerank": 5}).json()["results"]
        hits = index.search(QUERY, 3, rerank=5, lexical_weight=0, reranker=False)
        assert [hit["row"] for hit in results] == [hit.row for hit in hits]

    def test_pairs_of_a_request_are_limited(
        self, client_of: Callable[..., TestClient], served: ServedModel, index: SearchIndex
    ) -> None:
        client = client_of(served, index=index, limits={"items": 10})
        answer = client.post("/v1/search", json={"query": ["rain", "dog"], "k": 1})
        assert answer.status_code == 422
        assert "12 items" in answer.json()["error"]["message"]

    def test_the_map_knows_vectors_alone(
        self, client_of: Callable[..., TestClient], served: ServedModel, index: SearchIndex
    ) -> None:
        client = client_of(served, index=index)
        placed = client.post("/map/place", json={"query": "rain", "k": 2}).json()["results"]
        hits = index.search("rain", 2, lexical_weight=0, reranker=False)
        assert [one["score"] for one in placed] == pytest.approx([hit.score for hit in hits], abs=1e-5)


class TestCommand:
    @pytest.fixture
    def served_as(self, monkeypatch: pytest.MonkeyPatch) -> list[ServedModel]:
        """What the command would serve."""
        seen: list[ServedModel] = []
        import nearer.serve.server as server

        def run(app: Any, *_: object, **__: object) -> None:
            seen.append(app.state.service.models[0].model)

        monkeypatch.setattr(server, "run_server", run)
        return seen

    def test_a_cross_encoder_by_option(
        self, nearer: Any, encoder: Encoder, judge: CrossEncoder, tmp_path: Path, served_as: list[ServedModel]
    ) -> None:
        encoder.save(tmp_path / "model")
        write_setup(tmp_path / "model", SearchSetup(lexical_weight=0.5))
        asked = ("serve", tmp_path / "model", "--port", 0, "--device", "cpu")
        for more in ((), ("--rerank", judge.name), ("--rerank", "none")):
            assert nearer(*asked, *more).code == 0
        plain, reranked, none = (model.relevance for model in served_as)
        assert plain is not None
        assert (plain.weights, plain.judge) == ({"vectors": 1, "lexical": 0.5}, None)
        assert reranked is not None
        assert reranked.judge is not None
        assert reranked.weights == {"reranker": 1}
        assert none is None

    def test_what_is_no_cross_encoder(self, nearer: Any, encoder: Encoder, tmp_path: Path) -> None:
        encoder.save(tmp_path / "model")
        asked = nearer("serve", tmp_path / "model", "--port", 0, "--device", "cpu", "--rerank", tmp_path / "model")
        assert "is no cross-encoder" in asked.err


def test_scores_are_finite_json(client: TestClient) -> None:
    answer = client.post("/v1/rerank", json={"query": QUERY, "documents": ["rain"]})
    [result] = json.loads(answer.text)["results"]
    assert np.isfinite(result["relevance_score"])
