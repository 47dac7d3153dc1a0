"""Two models beside each other: each answers for itself, with its own queue and its own index."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nearer.search import SearchIndex
from nearer.serve.model import ServedModel
from patience import HANG

ASK = "/v1/embeddings"
TEXTS = ["A man is eating lunch.", "rain", "Someone has a meal.", "the lazy dog"]


def vectors(client, model: str) -> np.ndarray:
    data = client.post(ASK, json={"input": TEXTS, "model": model}).json()["data"]
    return np.array([item["embedding"] for item in data])


@pytest.fixture
def indexed(encoder, second, tmp_path) -> tuple[SearchIndex, SearchIndex]:
    """Of unequal texts, so that it shows which was asked."""
    for name, lines in (("one", TEXTS), ("two", TEXTS[2:])):
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    models = {"one": encoder, "two": second.model}
    one, two = (
        SearchIndex.build(model, tmp_path / f"{name}.txt", tmp_path / f"{name}.index") for name, model in models.items()
    )
    return one, two


@pytest.fixture
def both(client_of, served, second):
    return client_of(served, beside=second)


class TestChoosing:
    def test_vectors(self, both, encoder, second) -> None:
        for name, model in (("tiny", encoder), ("second", second.model)):
            np.testing.assert_allclose(vectors(both, name), model.encode(TEXTS), rtol=1e-4, atol=1e-5)
        assert both.post(ASK, json={"input": "rain", "model": "second"}).json()["model"] == "second"

    def test_scores_and_the_first_where_none_is_named(self, both, encoder, second) -> None:
        pair = {"pairs": [["rain", "the lazy dog"]]}
        asked = {"query": "rain", "documents": TEXTS[2:]}
        for named, model, name in (
            ({}, encoder, "tiny"),
            ({"model": "tiny"}, encoder, "tiny"),
            ({"model": "second"}, second.model, "second"),
        ):
            scored = both.post("/similarity", json={**pair, **named}).json()
            assert scored["model"] == name
            assert scored["scores"] == pytest.approx([model.similarity(*pair["pairs"][0])], abs=1e-5)
            ranked = both.post("/v1/rerank", json={**asked, **named}).json()
            assert ranked["model"] == name
            wanted = [found.score for found in model.rank("rain", TEXTS[2:])]
            assert [found["relevance_score"] for found in ranked["results"]] == pytest.approx(wanted, abs=1e-5)

    def test_another_name(self, both) -> None:
        for path, body in (
            (ASK, {"input": "a"}),
            ("/v1/rerank", {"query": "a", "documents": ["a"]}),
            ("/similarity", {"pairs": [["a", "b"]]}),
            ("/v1/search", {"query": "a"}),
            ("/map/place", {"query": "a"}),
        ):
            error = both.post(path, json={**body, "model": "third"}).json()["error"]
            assert (error["code"], error["param"]) == ("model_not_found", "model")
            assert error["message"] == "model: 'third' is not served here; served are 'tiny' and 'second'."
        for path in ("/map", "/geometry"):
            answer = both.get(path, params={"model": "third"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")

    def test_equal_names(self, client_of, served, second) -> None:
        client = client_of(served, beside=ServedModel(second.model, "tiny"))
        assert [card["id"] for card in client.get("/v1/models").json()["data"]] == ["tiny", "tiny (2)"]
        np.testing.assert_allclose(vectors(client, "tiny (2)"), second.model.encode(TEXTS), rtol=1e-4, atol=1e-5)

    def test_each_its_own_index(self, client_of, served, second, indexed) -> None:
        client = client_of(served, index=indexed[0], beside=second, beside_index=indexed[1])
        asked = {"query": "rain", "k": 9}
        assert len(client.post("/v1/search", json=asked).json()["results"]) == 4
        found = client.post("/v1/search", json={**asked, "model": "second"}).json()
        assert [hit["text"] for hit in found["results"]] == [hit.text for hit in indexed[1].search("rain", 9)]
        assert client.get("/map", params={"model": "second"}).json()["of"] == 2
        assert client.get("/map").json()["of"] == 4
        cards = client.get("/v1/models").json()["data"]
        assert [card["index"] for card in cards] == [{"texts": 4, "kind": "exact"}, {"texts": 2, "kind": "exact"}]

    def test_an_index_for_one_alone(self, client_of, served, second, indexed) -> None:
        client = client_of(served, beside=second, beside_index=indexed[1])
        refused = client.post("/v1/search", json={"query": "rain"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_index")
        assert client.post("/v1/search", json={"query": "rain", "model": "second"}).status_code == 200


class TestApart:
    def test_one_answers_while_the_other_is_busy(self, client_of, watched, second) -> None:
        client = client_of(watched, beside=second)
        watched.gate.clear()
        with ThreadPoolExecutor(1) as other:
            first = other.submit(client.post, ASK, json={"input": "rain", "model": "tiny"})
            assert watched.entered.acquire(timeout=HANG)
            assert client.post(ASK, json={"input": "rain", "model": "second"}).status_code == 200
            assert not first.done()
            watched.gate.set()
            assert first.result(HANG).status_code == 200

    def test_many_of_both_at_once(self, both, encoder, second) -> None:
        models = {"tiny": encoder, "second": second.model}
        asked = [(f"rain {n}", name) for n in range(12) for name in models]

        def ask(text: str, name: str) -> list[float]:
            return both.post(ASK, json={"input": text, "model": name}).json()["data"][0]["embedding"]

        with ThreadPoolExecutor(8) as clients:
            found = list(clients.map(lambda both_words: ask(*both_words), asked))
        wanted = [models[name].encode(text) for text, name in asked]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

    def test_no_thread_for_one_that_nobody_asks(self, both) -> None:
        before = threading.active_count()
        both.post(ASK, json={"input": "rain", "model": "tiny"})
        assert threading.active_count() == before + 1
        both.post(ASK, json={"input": "rain", "model": "second"})
        assert threading.active_count() == before + 2

    def test_counts_are_of_both(self, client_of, watched, second) -> None:
        client = client_of(watched, beside=second, limits={"batch_wait": 0.0})
        for name in ("tiny", "second"):
            client.post(ASK, json={"input": ["rain", "man"], "model": name})
        assert "nearer_texts_total 4.0" in client.get("/metrics").text.splitlines()
        watched.entered.acquire(timeout=HANG)
        watched.gate.clear()
        with ThreadPoolExecutor(2) as others:
            asked = [others.submit(client.post, ASK, json={"input": "rain", "model": "tiny"})]
            assert watched.entered.acquire(timeout=HANG)
            asked.append(others.submit(client.post, ASK, json={"input": "rain", "model": "tiny"}))
            while client.get("/health").json()["waiting_texts"] != 1:
                assert not any(one.done() for one in asked)
            watched.gate.set()
            assert [one.result(HANG).status_code for one in asked] == [200, 200]


class TestCommand:
    @pytest.mark.parametrize("option", ["--beside-index", "--beside-name", "--beside-pooling"])
    def test_about_a_model_that_is_not_named(self, nearer, option: str) -> None:
        said = f"error: {option}: is about a second model; name it (--beside MODEL2).\n"
        assert nearer("serve", "wiki-mini", option, "x") == (1, "", said)

    def test_its_index_is_by_it(self, nearer, tiny_model, indexed) -> None:
        outcome = nearer(
            *("serve", tiny_model("bert"), "--pooling", "mean", "--port", 0),
            *("--beside", tiny_model("bert"), "--beside-pooling", "cls", "--beside-index", indexed[0].folder),
        )
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert "two models' vectors cannot be compared" in outcome.err

    def test_a_name_twice(self, nearer, tiny_model) -> None:
        arguments = ("--pooling", "mean", "--port", 0, "--beside", tiny_model("bert"), "--beside-name", "bert")
        said = "error: --beside-name: bert is the first model's name already.\n"
        assert nearer("serve", tiny_model("bert"), *arguments) == (1, "", said)
