"""The map and the geometry over HTTP, beside the index asked directly."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import numpy as np
import pytest

from nearer.analysis.geometry import alignment, anisotropy, uniformity
from nearer.baselines import StaticWords
from nearer.encoder import Encoder
from nearer.search import SearchIndex
from nearer.serve import index_overview
from nearer.serve.background import ComputedOnce
from nearer.serve.index_overview import drop_a_word, make_map
from nearer.serve.limits import Refusal
from nearer.serve.model import ServedModel
from nearer.teachers import RankEncoder
from patience import HANG

NOUNS = ["man", "dog", "fox", "meal", "lunch", "rain", "evening", "café"]
LINES = [f"{a} and {b}" for a in NOUNS for b in NOUNS if a != b] + ["rain", "x" * 300, "man and dog"]


@pytest.fixture(scope="module")
def index(encoder, tmp_path_factory) -> SearchIndex:
    folder = tmp_path_factory.mktemp("map")
    (folder / "corpus.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return SearchIndex.build(encoder, folder / "corpus.txt", folder / "index")


@pytest.fixture
def client(client_of, served, index):
    return client_of(served, index=index)


@pytest.fixture
def slow_map(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Maps wait until it is set."""
    gate, made = threading.Event(), make_map

    def waiting(sample, check_ending):
        while not gate.wait(0.01):
            check_ending()
        return made(sample, check_ending)

    monkeypatch.setattr("nearer.serve.service.make_map", waiting)
    return gate


class TestMap:
    def test_all_sentences_once(self, client) -> None:
        answer = client.get("/map")
        assert answer.status_code == 200
        body = answer.json()
        assert {name: body[name] for name in ("model", "method", "explained", "sampled", "of")} == {
            "model": "tiny",
            "method": "t-SNE",
            "explained": None,
            "sampled": len(LINES) - 1,
            "of": len(LINES),
        }
        distinct = list(dict.fromkeys(LINES))
        assert [point["text"] for point in body["points"]] == [line[:200] for line in distinct]
        assert [point["line"] for point in body["points"]] == [LINES.index(line) + 1 for line in distinct]
        assert {point["source"] for point in body["points"]} == {"corpus.txt"}
        assert {point["group"] for point in body["points"]} == set(range(len(body["groups"])))
        assert all(group["label"] for group in body["groups"])
        sides = np.array([[point["x"], point["y"]] for point in body["points"]])
        assert sides.min() == 0
        assert sides.max() == 1

    def test_made_once(self, client, monkeypatch: pytest.MonkeyPatch) -> None:
        first = client.get("/map").content
        monkeypatch.setattr(index_overview, "tsne", lambda *_, **__: pytest.fail("made again"))
        assert client.get("/map", params={"model": "tiny"}).content == first

    def test_other_requests_go_on_and_who_waited_too_long_comes_again(
        self, client_of, served, index, slow_map, hurried
    ) -> None:
        client = client_of(served, index=index)
        with hurried(client, 0.2):
            refused = client.get("/map")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert client.post("/v1/embeddings", json={"input": "rain", "model": "tiny"}).status_code == 200
        service = client.app.state.service
        begun = service.models[0].map.ask()
        slow_map.set()
        begun.result(HANG)  # the work of the first call, which nobody has waited for
        assert client.get("/map").status_code == 200

    def test_an_end_does_not_wait_for_it(self, client_of, served, index, slow_map, hurried) -> None:
        client = client_of(served, index=index)
        with hurried(client, 0.1):
            assert client.get("/map").status_code == 503
        client.app.state.service.close()
        with pytest.raises(Refusal, match="ending"):
            client.app.state.service.models[0].map._found.result(0)


class TestPlace:
    def test_query_and_hits(self, client, index) -> None:
        body = client.post("/map/place", json={"query": "dog and rain", "k": 5}).json()
        points = {point["text"]: (point["x"], point["y"]) for point in client.get("/map").json()["points"]}
        hits = index.search("dog and rain", 5)
        assert [found["text"] for found in body["results"]] == [hit.text for hit in hits]
        assert [found["score"] for found in body["results"]] == pytest.approx([hit.score for hit in hits])
        assert [(found["line"], found["source"]) for found in body["results"]] == [
            (hit.line, "corpus.txt") for hit in hits
        ]
        for found in body["results"]:
            assert (found["x"], found["y"]) == points[found["text"]]
        assert (body["x"], body["y"]) == pytest.approx(points["dog and rain"], abs=1e-3)

    def test_a_hit_that_is_not_on_the_map(self, client_of, served, index, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nearer.serve.service.sample_index", lambda index: _half(index))
        client = client_of(served, index=index)
        shown = {point["text"]: (point["x"], point["y"]) for point in client.get("/map").json()["points"]}
        results = client.post("/map/place", json={"query": "fox and meal", "k": 30}).json()["results"]
        assert {found["text"] in shown for found in results} == {True, False}
        for found in results:
            assert 0 <= found["x"] <= 1
            if found["text"] in shown:
                assert (found["x"], found["y"]) == shown[found["text"]]

    @pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": " "}, {"query": "a", "k": 0}, {"query": ["a"]}])
    def test_refused(self, client, body) -> None:
        assert client.post("/map/place", json=body).status_code == 422


def _half(index: SearchIndex):
    from nearer.serve.index_overview import sample_index

    return sample_index(index, most=len(index) // 2)


class TestGeometry:
    def test_beside_the_formulas(self, client, index, encoder) -> None:
        body = client.get("/geometry").json()
        texts = list(dict.fromkeys(LINES))
        vectors = encoder.encode(texts, normalize=True)
        shortened = drop_a_word(texts)
        paired = [place for place, text in enumerate(shortened) if text is not None]
        positives = encoder.encode([shortened[place] for place in paired], normalize=True)
        assert body.pop("positives").startswith("each sentence and itself with one word left out")
        assert body == {
            "model": "tiny",
            "alignment": pytest.approx(alignment(vectors[paired], positives), abs=1e-5),
            "uniformity": pytest.approx(uniformity(vectors), abs=1e-5),
            "mean_cosine": pytest.approx(anisotropy(vectors), abs=1e-5),
            "pairs": len(texts) - 2,
            "sentences": len(texts),
        }

    def test_encoded_as_the_index_was(self, client_of, tiny_model, tmp_path) -> None:
        """With the prompt of its sentences, not that of queries: alike but for a word, not for a prompt."""
        model = Encoder.load(tiny_model("bert"), pooling="mean", device="cpu")
        prompts = {"sentence": "Why would anybody ", "query": "the lazy dog "}
        model.settings = replace(model.settings, prompts=prompts)
        (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES[:9]), encoding="utf-8")
        index = SearchIndex.build(
            model, tmp_path / "text.txt", tmp_path / "index", prompt="sentence", query_prompt="query"
        )
        found = client_of(ServedModel(model, "prompted"), index=index).get("/geometry").json()
        shortened = [text for text in drop_a_word(LINES[:9]) if text is not None]
        positives = model.encode(shortened, normalize=True, prompt_name="sentence")
        assert found["alignment"] == pytest.approx(alignment(np.array(index.vectors), positives), abs=1e-5)

    def test_of_one_sentence(self, client_of, served, encoder, tmp_path) -> None:
        (tmp_path / "one.txt").write_text("rain\nrain\n", encoding="utf-8")
        client = client_of(served, index=SearchIndex.build(encoder, tmp_path / "one.txt", tmp_path / "index"))
        refused = client.get("/geometry")
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            422,
            "vectors: 1 given, at least 2 are needed.",
        )
        assert client.get("/map").json()["points"][0]["x"] == 0.5


class TestRefused:
    def test_without_an_index(self, client_of, served) -> None:
        client = client_of(served)
        for answer in (
            client.get("/map"),
            client.get("/geometry"),
            client.post("/map/place", json={"query": "a"}),
            client.post("/v1/search", json={"query": "a"}),
        ):
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["param"]) == (404, "no_index", "model")
            assert "'tiny' is served without an index" in error["message"]
        assert client.get("/v1/models").json()["data"][0]["index"] is None

    def test_static_words(self, client_of) -> None:
        words = StaticWords({"rain": 0, "sun": 1}, np.eye(2, dtype=np.float32), "words")
        client = client_of(ServedModel(words))
        for path in ("/map", "/geometry"):
            assert client.get(path).json()["error"]["code"] == "no_index"

    def test_figures_of_cosines_for_a_rank_encoder(self, client_of, encoder, index) -> None:
        model = RankEncoder.build(encoder, LINES[:20], inference_weight=0.7)
        client = client_of(ServedModel(model, "ranks"), index=index)
        refused = client.get("/geometry")
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "not_applicable")
        assert "'ranks' compares by" in refused.json()["error"]["message"]
        assert client.get("/map").status_code == 200  # of the index, which is searched by cosines

    @pytest.mark.parametrize("path", ["/map", "/geometry"])
    def test_a_parameter_that_is_not_known(self, client, path: str) -> None:
        refused = client.get(path, params={"modle": "tiny"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (422, "modle")


class TestOnce:
    def test_asked_by_many_worked_out_once(self) -> None:
        calls, gate = [], threading.Event()

        def work(check_ending) -> int:
            calls.append(1)
            assert gate.wait(HANG)
            return 7

        once = ComputedOnce(work, "test")
        asked = [once.ask() for _ in range(5)]
        gate.set()
        assert [one.result(HANG) for one in asked] == [7] * 5
        assert once.ask().result(HANG) == 7
        assert len(calls) == 1

    def test_what_failed_is_tried_anew(self) -> None:
        outcomes = [ValueError("first"), 3]

        def work(check_ending) -> int:
            outcome = outcomes.pop(0)
            if isinstance(outcome, ValueError):
                raise outcome
            return outcome

        once = ComputedOnce(work, "test")
        with pytest.raises(ValueError, match="first"):
            once.ask().result(HANG)
        assert once.ask().result(HANG) == 3

    def test_who_leaves_cancels_nothing(self) -> None:
        gate = threading.Event()
        once = ComputedOnce(lambda check_ending: gate.wait(HANG), "test")

        async def leave() -> None:
            waiting = asyncio.wrap_future(once.ask())
            waiting.cancel()
            await asyncio.sleep(0)

        asyncio.run(leave())
        gate.set()
        assert once.ask().result(HANG) is True

    def test_closed_and_opened_again(self) -> None:
        entered = threading.Event()

        def work(check_ending) -> None:
            entered.set()
            while not ended.is_set():
                check_ending()

        ended, once = threading.Event(), ComputedOnce(work, "test")
        found = once.ask()
        assert entered.wait(HANG)
        once.close()
        with pytest.raises(Refusal, match="ending"):
            found.result(0)
        once.open()
        ended.set()
        assert once.ask().result(HANG) is None
