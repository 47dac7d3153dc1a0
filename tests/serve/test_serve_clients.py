"""The packages that people use, against a running service: LangChain's, Cohere's, the hub's client of TEI."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest

from nearer.serve.app import create_app
from nearer.serve.limits import Limits
from nearer.serve.server import new_server, open_port
from nearer.serve.service import TokenDecoder
from patience import HANG

TEXTS = ["A man is eating lunch.", "rain", "Someone has a meal."]
LONG = " ".join(["rain"] * 100)


@pytest.fixture(scope="module")
def app(served) -> Any:
    return create_app(served, limits=Limits(items=20), api_keys="secret", hosts={"127.0.0.1"})


@pytest.fixture(scope="module")
def live(app) -> Iterator[str]:
    """The address of a service in a thread, which asks for a key."""
    bound = open_port("127.0.0.1", 0)
    started = threading.Event()
    server = new_server(app, bound, tell=lambda message: started.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    assert started.wait(HANG)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(HANG)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def vectors(encoder) -> np.ndarray:
    return encoder.encode(TEXTS)


class TestLangChain:
    @pytest.fixture
    def embeddings(self, live: str) -> Any:
        langchain_openai = pytest.importorskip("langchain_openai")

        def make(**options) -> Any:
            return langchain_openai.OpenAIEmbeddings(
                model="tiny", base_url=f"{live}/v1", api_key="secret", max_retries=0, **options
            )

        return make

    @pytest.fixture
    def encoding(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """What the client finds as cl100k_base, whose file is not on every machine: a token for each byte."""
        tiktoken = pytest.importorskip("tiktoken")
        registry = pytest.importorskip("tiktoken.registry")
        ranks = {bytes([value]): value for value in range(256)}
        tiny = tiktoken.Encoding("cl100k_base", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens={})
        monkeypatch.setattr(registry, "ENCODINGS", {"cl100k_base": tiny})
        return tiny

    @pytest.fixture
    def decoder_of(self, app, monkeypatch: pytest.MonkeyPatch) -> Any:
        def use(load) -> None:
            monkeypatch.setattr(app.state.service, "token_decoder", TokenDecoder(load))

        return use

    def test_as_it_comes(self, embeddings, encoding, decoder_of, vectors) -> None:
        decoder_of(lambda: encoding)
        np.testing.assert_allclose(embeddings().embed_documents(TEXTS), vectors, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(embeddings().embed_query(TEXTS[0]), vectors[0], rtol=1e-4, atol=1e-5)

    def test_where_ids_cannot_be_read_it_is_told_the_switch(self, embeddings, encoding, decoder_of) -> None:
        def fail() -> Any:
            raise ImportError("tiktoken")

        decoder_of(fail)
        with pytest.raises(openai.UnprocessableEntityError, match="check_embedding_ctx_length=False"):
            embeddings().embed_documents(TEXTS)

    def test_with_the_switch(self, embeddings, vectors) -> None:
        switched = embeddings(check_embedding_ctx_length=False)
        np.testing.assert_allclose(switched.embed_documents(TEXTS), vectors, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(switched.embed_query(TEXTS[0]), vectors[0], rtol=1e-4, atol=1e-5)
        shorter = embeddings(check_embedding_ctx_length=False, dimensions=8)
        np.testing.assert_allclose(shorter.embed_documents(TEXTS), vectors[:, :8], rtol=1e-4, atol=1e-5)
        with pytest.raises(openai.UnprocessableEntityError, match="this model's vectors have 32"):
            embeddings(check_embedding_ctx_length=False, dimensions=33).embed_query("rain")


class TestCohere:
    @pytest.fixture
    def cohere(self) -> Any:
        return pytest.importorskip("cohere")

    @pytest.fixture
    def client(self, cohere, live: str) -> Any:
        return cohere.ClientV2(api_key="secret", base_url=live)

    def test_rerank(self, client, encoder) -> None:
        answer = client.rerank(model="tiny", query="a meal", documents=TEXTS, top_n=2)
        wanted = encoder.rank("a meal", TEXTS)[:2]
        assert [result.index for result in answer.results] == [ranked.number for ranked in wanted]
        scores = [result.relevance_score for result in answer.results]
        assert scores == pytest.approx([ranked.score for ranked in wanted], abs=1e-5)
        assert answer.meta.tokens.input_tokens == encoder.tokenised(["a meal", *TEXTS]).lengths.sum()
        assert answer.meta.warnings == []

    def test_rerank_of_the_first_client(self, cohere, live: str, encoder) -> None:
        answer = cohere.Client(api_key="secret", base_url=live).rerank(model="tiny", query="a meal", documents=TEXTS)
        assert [result.index for result in answer.results] == [found.number for found in encoder.rank("a meal", TEXTS)]

    def test_embed(self, client, vectors) -> None:
        answer = client.embed(
            model="tiny", texts=TEXTS, input_type="search_document", embedding_types=["float", "base64"]
        )
        np.testing.assert_allclose(answer.embeddings.float_, vectors, rtol=1e-4, atol=1e-5)
        assert (len(answer.embeddings.base64), answer.texts) == (3, TEXTS)
        shorter = client.embed(model="tiny", texts=TEXTS, input_type="search_query", output_dimension=8)
        np.testing.assert_allclose(shorter.embeddings.float_, vectors[:, :8], rtol=1e-4, atol=1e-5)

    def test_cut_texts(self, cohere, client) -> None:
        answer = client.embed(model="tiny", texts=["rain", LONG], input_type="search_document")
        assert answer.meta.warnings == ["1 of the texts were cut at 64 tokens"]
        with pytest.raises(cohere.UnprocessableEntityError) as refused:
            client.embed(model="tiny", texts=["rain", LONG], input_type="search_document", truncate="NONE")
        assert refused.value.body == {"message": "texts: 1 text is longer than the 64 tokens that the model reads."}

    def test_errors_are_its_own(self, cohere, client, live: str) -> None:
        with pytest.raises(cohere.NotFoundError) as refused:
            client.rerank(model="rerank-v3.5", query="a", documents=["b"])
        assert refused.value.body == {"message": "model: 'rerank-v3.5' is not served here; served is 'tiny'."}
        with pytest.raises(cohere.UnprocessableEntityError) as refused:
            client.rerank(model="tiny", query="a", documents=["b"] * 21)
        assert refused.value.body["message"].startswith("documents: 21 items in one request; at most 20 are taken.")
        with pytest.raises(cohere.UnauthorizedError) as refused:
            cohere.ClientV2(api_key="wrong", base_url=live).rerank(model="tiny", query="a", documents=["b"])
        assert set(refused.value.body) == {"message"}


class TestTei:
    """The hub's client speaks to text-embeddings-inference, as LangChain's HuggingFaceEndpointEmbeddings does."""

    @pytest.fixture
    def client(self, live: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        hub = pytest.importorskip("huggingface_hub")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # the tests' setting bars loopback too
        return hub.InferenceClient(model=f"{live}/embed", token="secret")

    def test_embed(self, client, vectors) -> None:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose(client.feature_extraction(TEXTS), unit, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(client.feature_extraction(TEXTS[0])[0], unit[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(client.feature_extraction(TEXTS, normalize=False), vectors, rtol=1e-4, atol=1e-5)

    def test_errors_are_its_own(self, client) -> None:
        from huggingface_hub.errors import HfHubHTTPError

        assert client.feature_extraction(LONG).shape == (1, 32)
        with pytest.raises(HfHubHTTPError, match="1 text is longer than the 64 tokens that the model reads"):
            client.feature_extraction(LONG, truncate=False)


class TestShapes:
    """What has no client package that is tried here."""

    def test_tei_rerank(self, client_of, served, encoder) -> None:
        client = client_of(served)
        ranks = client.post("/rerank", json={"query": "a meal", "texts": TEXTS, "return_text": True}).json()
        wanted = encoder.rank("a meal", TEXTS)
        assert [(rank["index"], rank["text"]) for rank in ranks] == [(one.number, one.sentence) for one in wanted]
        assert [rank["score"] for rank in ranks] == pytest.approx([one.score for one in wanted], abs=1e-5)
        assert set(client.post("/rerank", json={"query": "a", "texts": ["b"]}).json()[0]) == {"index", "score"}

    def test_jinas_rerank(self, client_of, served) -> None:
        asked = {"model": "tiny", "query": "a meal", "documents": TEXTS, "top_n": 1, "return_documents": True}
        answer = client_of(served).post("/v1/rerank", json=asked).json()
        assert set(answer) == {"model", "results", "usage"}
        assert set(answer["results"][0]) == {"index", "relevance_score", "document"}

    def test_lengths_that_cannot_be_undone(self, client_of, encoder) -> None:
        from nearer.serve.model import ServedModel

        client = client_of(ServedModel(encoder, "tiny", normalize=True))
        refused = client.post("/embed", json={"inputs": "rain", "normalize": False})
        said = "normalize: this model's vectors have length 1; leave the field out."
        assert (refused.status_code, refused.json()) == (422, {"error": said, "error_type": "Validation"})

    @pytest.mark.parametrize(
        ("path", "fields"),
        [
            ("/v2/embed", {"message"}),
            ("/v2/rerank", {"message"}),
            ("/embed", {"error", "error_type"}),
            ("/rerank", {"error", "error_type"}),
        ],
    )
    def test_every_refusal_has_its_clients_shape(self, client_of, served, path: str, fields: set[str]) -> None:
        client = client_of(served, api_keys="secret", limits={"body": 300, "held": 3600})
        key = {"authorization": "Bearer secret"}
        answers = [
            client.post(path, json={}),
            client.post(path, json={}, headers=key),
            client.post(path, content=b"{", headers={**key, "content-type": "application/json"}),
            client.post(path, data={"a": "b"}, headers=key),
            client.post(path, json={"a": "x" * 400}, headers=key),
            client.get(path, headers=key),
        ]
        assert [answer.status_code for answer in answers] == [401, 422, 400, 415, 413, 405]
        for answer in answers:
            assert set(answer.json()) == fields
