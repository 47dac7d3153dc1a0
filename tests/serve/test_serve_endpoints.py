"""What each endpoint answers, beside the model asked directly."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest

from nearer.baselines import StaticWords
from nearer.serve.model import ServedModel, public_name
from nearer.teachers import RankEncoder

TEXTS = ["A man is eating lunch.", "rain", "Someone has a meal."]


class TestEmbeddings:
    def test_one_text(self, client, encoder) -> None:
        answer = client.post("/v1/embeddings", json={"input": "rain", "model": "tiny"})
        assert answer.status_code == 200
        body = answer.json()
        assert (body["object"], body["model"], len(body["data"])) == ("list", "tiny", 1)
        assert (body["data"][0]["object"], body["data"][0]["index"]) == ("embedding", 0)
        np.testing.assert_allclose(body["data"][0]["embedding"], encoder.encode("rain"), rtol=1e-5, atol=1e-6)

    def test_several_texts_in_their_order(self, client, encoder) -> None:
        body = client.post("/v1/embeddings", json={"input": [*TEXTS, TEXTS[0]], "model": "tiny"}).json()
        found = np.array([item["embedding"] for item in body["data"]])
        np.testing.assert_allclose(found, encoder.encode([*TEXTS, TEXTS[0]]), rtol=1e-4, atol=1e-5)
        assert [item["index"] for item in body["data"]] == [0, 1, 2, 3]
        assert (found[0] == found[3]).all()

    def test_base64_is_float32(self, client) -> None:
        asked = {"input": TEXTS, "model": "tiny"}
        plain = client.post("/v1/embeddings", json=asked).json()["data"]
        packed = client.post("/v1/embeddings", json={**asked, "encoding_format": "base64"}).json()["data"]
        for one, other in zip(plain, packed, strict=True):
            unpacked = np.frombuffer(base64.b64decode(other["embedding"]), dtype="<f4")
            assert unpacked.tolist() == one["embedding"]

    def test_usage_counts_tokens_and_cut_texts(self, client, encoder) -> None:
        fits, too_long = " ".join(["rain"] * 62), " ".join(["rain"] * 63)  # and two special tokens: 64 and 65
        assert encoder.settings.max_length == 64
        usage = client.post("/v1/embeddings", json={"input": ["rain", fits, too_long], "model": "tiny"}).json()["usage"]
        assert usage == {"prompt_tokens": 3 + 64 + 64, "total_tokens": 131, "cut_texts": 1}

    def test_dimensions_are_the_leading_ones(self, client, encoder) -> None:
        asked = {"input": "rain", "model": "tiny"}
        whole = encoder.encode("rain")
        for dimensions in (1, 16, 32):
            answer = client.post("/v1/embeddings", json={**asked, "dimensions": dimensions}).json()
            np.testing.assert_allclose(answer["data"][0]["embedding"], whole[:dimensions], rtol=1e-5, atol=1e-6)

    def test_leading_dimensions_have_length_one_where_all_have(self, client_of, encoder) -> None:
        client = client_of(ServedModel(encoder, "tiny", normalize=True))
        asked = {"input": "rain", "model": "tiny", "dimensions": 16}
        vector = client.post("/v1/embeddings", json=asked).json()["data"][0]["embedding"]
        leading = encoder.encode("rain")[:16]
        np.testing.assert_allclose(vector, leading / np.linalg.norm(leading), rtol=1e-5, atol=1e-6)

    def test_more_dimensions_than_there_are(self, client) -> None:
        refused = client.post("/v1/embeddings", json={"input": "rain", "model": "tiny", "dimensions": 33})
        assert (refused.status_code, refused.json()["error"]["param"]) == (422, "dimensions")
        assert "33 was asked for; this model's vectors have 32" in refused.json()["error"]["message"]

    def test_length_one_where_asked(self, client_of, encoder) -> None:
        client = client_of(ServedModel(encoder, "tiny", normalize=True))
        vector = client.post("/v1/embeddings", json={"input": "rain", "model": "tiny"}).json()["data"][0]["embedding"]
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)

    def test_many_texts_are_encoded_in_pieces(self, client_of, watched, encoder) -> None:
        texts = [f"rain {n}" for n in range(150)]
        client = client_of(watched, limits={"batch_texts": 16})
        body = client.post("/v1/embeddings", json={"input": texts, "model": "tiny"}).json()
        assert [len(batch) for batch in watched.batches] == [16] * 9 + [6]
        found = [item["embedding"] for item in body["data"]]
        np.testing.assert_allclose(found, encoder.encode(texts), rtol=1e-4, atol=1e-5)


class TestRerank:
    def test_order_and_scores(self, client, encoder) -> None:
        answer = client.post(
            "/v1/rerank", json={"query": "a meal", "documents": [TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]]}
        )
        results = answer.json()["results"]
        wanted = encoder.rank("a meal", TEXTS)
        assert [result["index"] for result in results] == [ranked.number for ranked in wanted]
        assert [result["relevance_score"] for result in results] == pytest.approx([r.score for r in wanted], abs=1e-5)
        assert all("document" not in result for result in results)

    def test_the_best_few_with_their_documents(self, client, encoder) -> None:
        asked = {"query": "a meal", "documents": TEXTS, "top_n": 1, "return_documents": True}
        (result,) = client.post("/v1/rerank", json=asked).json()["results"]
        assert result["document"] == {"text": encoder.rank("a meal", TEXTS)[0].sentence}

    def test_equal_documents_keep_their_order(self, client) -> None:
        documents = ["rain", "A man is eating lunch.", "rain", "rain"]
        results = client.post("/v1/rerank", json={"query": "x", "documents": documents}).json()["results"]
        assert [r["index"] for r in results if documents[r["index"]] == "rain"] == [0, 2, 3]
        assert len({r["relevance_score"] for r in results}) == 2

    def test_a_rank_encoder_scores_in_its_own_way(self, client_of, encoder) -> None:
        corpus = [f"rain {n} man" for n in range(12)] + TEXTS
        model = RankEncoder.build(encoder, corpus, inference_weight=0.7)
        client = client_of(ServedModel(model, "ranks"))
        results = client.post("/v1/rerank", json={"query": "a meal", "documents": TEXTS}).json()["results"]
        wanted = {ranked.number: ranked.score for ranked in model.rank("a meal", TEXTS)}
        assert {r["index"]: r["relevance_score"] for r in results} == pytest.approx(wanted, abs=1e-4)
        scores = client.post("/similarity", json={"pairs": [["a meal", TEXTS[0]]]}).json()["scores"]
        assert scores == pytest.approx([wanted[0]], abs=1e-4)
        assert encoder.similarity("a meal", TEXTS[0]) != pytest.approx(wanted[0], abs=1e-3)


class TestSimilarity:
    def test_pairs(self, client, encoder) -> None:
        pairs = [["rain", "A man is eating lunch."], ["rain", "rain"]]
        scores = client.post("/similarity", json={"pairs": pairs}).json()["scores"]
        assert scores == pytest.approx([encoder.similarity(*pairs[0]), 1.0], abs=1e-5)

    def test_two_lists_make_a_matrix(self, client, encoder) -> None:
        scores = client.post("/similarity", json={"first": TEXTS, "second": ["rain", "man"]}).json()["scores"]
        np.testing.assert_allclose(scores, encoder.similarity(TEXTS, ["rain", "man"]), atol=1e-5)

    def test_two_texts_make_a_number(self, client, encoder) -> None:
        score = client.post("/similarity", json={"first": "rain", "second": "man"}).json()["scores"]
        assert score == pytest.approx(encoder.similarity("rain", "man"), abs=1e-5)

    @pytest.mark.parametrize("body", [{"first": "a"}, {"pairs": [["a"]]}, {"pairs": [["a", "b"]], "first": "a"}, {}])
    def test_half_of_a_question(self, client, body) -> None:
        assert client.post("/similarity", json=body).status_code == 422


class TestOthers:
    def test_models(self, client) -> None:
        (card,) = client.get("/v1/models").json()["data"]
        assert (card["id"], card["dimensions"], card["max_tokens"], card["scoring"]) == ("tiny", 32, 64, "cosine")

    def test_health(self, client) -> None:
        assert client.get("/health").json() == {"status": "ok", "model": "tiny", "waiting_texts": 0}

    def test_metrics(self, client_of, served) -> None:
        client = client_of(served)
        client.post("/v1/embeddings", json={"input": ["rain", "man"], "model": "tiny"})
        client.post("/v1/embeddings", json={"input": "", "model": "tiny"})
        client.get("/somewhere/else")
        answer = client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = answer.text.splitlines()
        for line in (
            'nearer_requests_total{path="/v1/embeddings",status="200"} 1.0',
            'nearer_requests_total{path="/v1/embeddings",status="422"} 1.0',
            'nearer_requests_total{path="other",status="404"} 1.0',
            "nearer_texts_total 2.0",
            "nearer_tokens_total 6.0",
            'nearer_batch_texts_bucket{le="1.0"} 0.0',
            'nearer_batch_texts_bucket{le="2.0"} 1.0',
            'nearer_batch_texts_bucket{le="+Inf"} 1.0',
            "nearer_waiting_texts 0.0",
            "nearer_open_requests 1.0",
        ):
            assert line in lines
        sample = re.compile(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.]+(e[+-][0-9]+)?')
        assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)
        assert not any("_created" in line for line in lines)

    def test_the_description_names_the_limits(self, client_of, served) -> None:
        client = client_of(served, limits={"items": 7, "characters": 99, "tokens": 500})
        bodies = client.get("/openapi.json").json()["components"]["schemas"]
        one, several, ids, lists = bodies["EmbeddingsBody"]["properties"]["input"]["oneOf"]
        assert (one["maxLength"], several["maxItems"], several["items"]["maxLength"]) == (99, 7, 99)
        assert (ids["maxItems"], lists["maxItems"], lists["items"]["maxItems"]) == (500, 7, 500)
        assert bodies["RerankBody"]["properties"]["documents"]["maxItems"] == 7
        for body, field in (
            ("Embeddings", "dimensions"),
            ("CohereEmbed", "output_dimension"),
            ("TeiEmbed", "dimensions"),
        ):
            asked = bodies[f"{body}Body"]["properties"][field]["anyOf"][0]
            assert (asked["minimum"], asked["maximum"]) == (1, 32)
        assert "maxItems" not in bodies["Embeddings"]["properties"]["data"]

    def test_nothing_from_elsewhere_is_served(self, client) -> None:
        assert client.get("/docs").status_code == 404

    def test_static_words(self, client_of) -> None:
        words = StaticWords({"rain": 0, "sun": 1}, np.eye(2, dtype=np.float32), "words")
        client = client_of(ServedModel(words))
        body = client.post("/v1/embeddings", json={"input": "rain rain", "model": "words"}).json()
        assert (body["data"][0]["embedding"], body["usage"]["total_tokens"]) == ([1.0, 0.0], 2)

    def test_a_model_that_gives_no_numbers_is_a_failure_told_without_details(self, client_of, caplog) -> None:
        words = StaticWords({"rain": 0}, np.full((1, 2), np.nan, dtype=np.float32), "words")
        answer = client_of(ServedModel(words)).post("/v1/embeddings", json={"input": "rain", "model": "words"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")


class TestNames:
    def test_of_a_run(self, tmp_path) -> None:
        (tmp_path / "my-run" / "model").mkdir(parents=True)
        assert public_name(str(tmp_path / "my-run" / "model")) == "my-run"
        assert public_name(str(tmp_path / "my-run")) == "my-run"
        assert public_name("org/name") == "org/name"
