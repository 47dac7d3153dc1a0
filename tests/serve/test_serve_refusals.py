"""Requests that are refused: with which status, in which words; and that nothing a client sends is a 5xx."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from nearer.errors import SettingError
from nearer.search import SearchIndex
from nearer.serve import schemas
from nearer.serve.app import NOT_BLANK, create_app
from nearer.serve.limits import Limits
from patience import HANG

ASK = "/v1/embeddings"
JSON = {"content-type": "application/json"}


def told(answer) -> tuple[int, str]:
    """Status and message, of an answer that is an error in OpenAI's shape."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return answer.status_code, error["message"]


class TestLimits:
    def test_body(self, client_of, served) -> None:
        client = client_of(served, limits={"body": 200, "held": 4000})
        fits = {"input": "x" * 100, "model": "tiny"}
        assert client.post(ASK, json=fits).status_code == 200
        too_large = (413, "The body has more than 200 bytes.")
        assert told(client.post(ASK, json={**fits, "input": "x" * 200})) == too_large
        pieces = (b" " * 60 for _ in range(9))  # nobody says beforehand how many there will be
        assert told(client.post(ASK, content=pieces, headers=JSON)) == too_large

    def test_bytes_of_all_bodies(self, client_of, watched) -> None:
        client = client_of(watched, limits={"body": 200, "held": 2400})
        watched.gate.clear()
        asked = {"input": "x" * 120, "model": "tiny"}
        with ThreadPoolExecutor(1) as other:
            first = other.submit(client.post, ASK, json=asked)
            assert watched.entered.acquire(timeout=HANG)
            refused = client.post(ASK, json=asked)
            watched.gate.set()
            assert first.result(HANG).status_code == 200
        assert told(refused)[0] == 503
        assert client.post(ASK, json=asked).status_code == 200

    def test_items(self, client_of, served) -> None:
        client = client_of(served, limits={"items": 2})
        for path, body, param in (
            (ASK, {"input": ["a"] * 3, "model": "tiny"}, "input"),
            ("/v1/rerank", {"query": "a", "documents": ["a"] * 3}, "documents"),
            ("/similarity", {"pairs": [["a", "b"]] * 3}, "pairs"),
            ("/similarity", {"first": "a", "second": ["a"] * 3}, "second"),
        ):
            wanted = f"{param}: 3 items in one request; at most 2 are taken. Send several requests."
            assert told(client.post(path, json=body)) == (422, wanted)

    def test_characters(self, client_of, served) -> None:
        client = client_of(served, limits={"characters": 10})
        answer = client.post("/v1/rerank", json={"query": "a", "documents": ["a" * 10, "a" * 11]})
        assert told(answer) == (422, "documents: item 1 has 11 characters; at most 10 are taken.")
        assert client.post("/v1/rerank", json={"query": "a" * 11, "documents": ["a"]}).status_code == 422

    def test_tokens(self, client_of, served) -> None:
        client = client_of(served, limits={"tokens": 10})
        assert client.post(ASK, json={"input": ["rain"] * 3, "model": "tiny"}).status_code == 200
        assert told(client.post(ASK, json={"input": ["rain"] * 4, "model": "tiny"}))[0] == 422

    def test_scores(self, client_of, served) -> None:
        client = client_of(served, limits={"scores": 5})
        answer = client.post("/similarity", json={"first": ["a", "b"], "second": ["a", "b", "c"]})
        assert told(answer) == (422, "second: 6 scores in one answer; at most 5 are given.")

    def test_time(self, client_of, watched, hurried) -> None:
        client = client_of(watched)
        watched.gate.clear()
        with hurried(client, 0.05):
            answer = client.post(ASK, json={"input": "a", "model": "tiny"})
        watched.gate.set()
        assert (told(answer)[0], answer.headers["retry-after"]) == (503, "1")

    def test_requests_at_a_time(self, client_of, watched) -> None:
        client = client_of(watched, limits={"concurrent": 1})
        watched.gate.clear()
        asked = {"input": "a", "model": "tiny"}
        with ThreadPoolExecutor(1) as other:
            first = other.submit(client.post, ASK, json=asked)
            assert watched.entered.acquire(timeout=HANG)
            refused, health = client.post(ASK, json=asked), client.get("/health")
            watched.gate.set()
            assert first.result(HANG).status_code == 200
        assert told(refused) == (503, "1 requests of yours and 1 in all are being answered; try again in a moment.")
        assert health.status_code == 200

    def test_a_full_queue(self, client_of, watched) -> None:
        client = client_of(watched, limits={"items": 2, "waiting": 2, "batch_wait": 0.0})
        watched.gate.clear()
        asked = {"input": ["a", "b"], "model": "tiny"}
        with ThreadPoolExecutor(2) as others:
            first = others.submit(client.post, ASK, json=asked)
            assert watched.entered.acquire(timeout=HANG)
            second = others.submit(client.post, ASK, json=asked)
            while client.get("/health").json()["waiting_texts"] < 2:
                assert not second.done()
            refused = client.post(ASK, json=asked)
            watched.gate.set()
            assert (first.result(HANG).status_code, second.result(HANG).status_code) == (200, 200)
        assert (told(refused)[0], refused.headers["retry-after"]) == (503, "1")

    @pytest.mark.parametrize("wrong", [{"items": 0}, {"batch_wait": -1.0}, {"items": 9, "waiting": 8}, {"held": 1}])
    def test_that_make_no_sense(self, wrong: dict[str, float]) -> None:
        with pytest.raises(SettingError, match=next(iter(wrong)) if len(wrong) == 1 else "waiting"):
            Limits(**wrong)


class TestKey:
    @pytest.fixture
    def locked(self, client_of, served):
        return client_of(served, api_keys="secret")

    @pytest.mark.parametrize("header", [None, "secret", "Bearer", "Bearer wrong", "Basic secret", "Bearer \xff"])
    @pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/openapi.json", "/nowhere"])
    def test_missing_or_wrong(self, locked, path: str, header: str | None) -> None:
        headers = {} if header is None else {"authorization": header.encode("latin-1")}
        answer = locked.get(path, headers=headers)
        assert (told(answer)[0], answer.headers["www-authenticate"]) == (401, "Bearer")

    @pytest.mark.parametrize("header", ["Bearer secret", "bearer  secret"])
    def test_right(self, locked, header: str) -> None:
        answer = locked.post(ASK, json={"input": "a", "model": "tiny"}, headers={"authorization": header})
        assert answer.status_code == 200

    def test_health_is_open(self, locked) -> None:
        assert locked.get("/health").status_code == 200


class TestHost:
    @pytest.mark.parametrize(
        ("host", "status"), [("localhost:80", 200), ("[::1]", 200), ("evil.example:80", 421), ("", 421)]
    )
    def test_names(self, client_of, served, host: str, status: int) -> None:
        client = client_of(served, hosts={"localhost", "[::1]"})
        assert client.get("/health", headers={"host": host}).status_code == status


class TestShape:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"input": "a"}, "model: Field required."),
            ({"input": "", "model": "tiny"}, "input: String should have at least 1 character."),
            ({"input": ["a", ""], "model": "tiny"}, "input.1: String should have at least 1 character."),
            ({"input": [], "model": "tiny"}, "input: List should have at least 1 item"),
            ({"input": ["a", [1]], "model": "tiny"}, "input.1: Input should be a valid string."),
            ({"input": [[1], "a"], "model": "tiny"}, "input.1: Input should be a valid list."),
            ({"input": [[1], []], "model": "tiny"}, "input.1: List should have at least 1 item"),
            ({"input": [1, "a"], "model": "tiny"}, "input.1: Input should be a valid integer."),
            ({"input": [True], "model": "tiny"}, "input.0: Input should be a valid integer."),
            ({"input": [100277], "model": "tiny"}, "input.0: Input should be less than or equal to 100276."),
            ({"input": "a", "model": "tiny", "dimension": 3}, "dimension: Extra inputs are not permitted."),
            ({"input": "a", "model": "tiny", "encoding_format": "int8"}, "encoding_format: Input should be 'float'"),
            ({"input": "a", "model": 3}, "model: Input should be a valid string."),
            ("rain", "body: "),
            ([], "body: "),
        ],
    )
    def test_told(self, client, body, message: str) -> None:
        status, said = told(client.post(ASK, json=body))
        assert status == 422
        assert said.startswith(message)

    def test_token_ids_elsewhere(self, client) -> None:
        status, said = told(client.post("/v1/rerank", json={"query": "a", "documents": [[1, 2]]}))
        assert (status, "Token ids are taken by /v1/embeddings alone" in said) == (422, True)

    def test_another_model(self, client) -> None:
        for name in ("gpt", "../tiny", "/etc/passwd", "wiki-mini", "\U0001f600" * 1000, ""):
            status, said = told(client.post(ASK, json={"input": "a", "model": name}))
            assert status == 404
            assert said.endswith("is not served here; served is 'tiny'.")
        assert client.post("/v1/rerank", json={"query": "a", "documents": ["a"], "model": "gpt"}).status_code == 404

    def test_path_and_method(self, client) -> None:
        assert told(client.get("/v1/nothing")) == (404, "GET /v1/nothing: there is nothing at this path.")
        answer = client.get(ASK)
        assert (told(answer)[0], answer.headers["allow"]) == (405, "POST")
        assert told(client.post("/v1/search", json={"query": "a"}))[0] == 404  # no index was given

    def test_type_of_body(self, client) -> None:
        assert told(client.post(ASK, data={"input": "a"})) == (
            415,
            "Content-Type: a body of application/json is needed.",
        )


class TestBlank:
    """One rule for all paths: a text needs something to read."""

    @pytest.mark.parametrize("text", [" ", "\n\t", "\u00a0\u2003", "\x1c"])
    @pytest.mark.parametrize(
        ("path", "body", "param"),
        [
            (ASK, {"input": "{}", "model": "tiny"}, "input"),
            (ASK, {"input": ["a", "{}"], "model": "tiny"}, "input"),
            ("/v1/rerank", {"query": "{}", "documents": ["a"]}, "query"),
            ("/v1/rerank", {"query": "a", "documents": [{"text": "{}"}]}, "documents"),
            ("/v2/rerank", {"query": "a", "documents": ["{}"], "model": "tiny"}, "documents"),
            ("/v2/embed", {"texts": ["{}"], "model": "tiny"}, "texts"),
            ("/rerank", {"query": "a", "texts": ["{}"]}, "texts"),
            ("/embed", {"inputs": "{}"}, "inputs"),
            ("/similarity", {"pairs": [["a", "{}"]]}, "pairs"),
            ("/similarity", {"first": "{}", "second": "a"}, "first"),
            ("/v1/search", {"query": "{}"}, "query"),
            ("/map/place", {"query": "{}"}, "query"),
        ],
    )
    def test_refused(self, indexed, path: str, body: dict, param: str, text: str) -> None:
        answer = indexed.post(path, content=json.dumps(body).replace('"{}"', json.dumps(text)), headers=JSON)
        assert answer.status_code == 422
        assert re.search(rf"{param}: item \d is blank; a text needs something to read", answer.text)

    @pytest.fixture(scope="class")
    def indexed(self, served, encoder, tmp_path_factory):
        folder = tmp_path_factory.mktemp("blank")
        (folder / "text.txt").write_text("rain\na man\n", encoding="utf-8")
        index = SearchIndex.build(encoder, folder / "text.txt", folder / "index")
        with TestClient(create_app(served, index=index)) as client:
            yield client

    def test_the_description_says_the_same(self) -> None:
        """Of every character."""
        for number in range(0x110000):
            assert (re.search(NOT_BLANK, chr(number)) is None) == chr(number).isspace()


class TestHead:
    @pytest.mark.parametrize("path", ["/health", "/", "/v1/models", "/metrics"])
    def test_as_get_without_a_body(self, client, path: str) -> None:
        got, answer = client.get(path), client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"] == got.headers["content-type"]

    def test_where_nothing_can_be_got(self, client) -> None:
        assert client.head(ASK).status_code == 405
        assert client.head("/nowhere").status_code == 404


@pytest.mark.parametrize(
    ("body", "given", "first"),
    [
        (schemas.EmbeddingsBody, {"model": "tiny", "input": ["a", *[[]] * 20_000]}, "several-.1"),
        (schemas.EmbeddingsBody, {"model": "tiny", "input": [-1] * 20_000}, "ids-.0"),
        (schemas.PairsBody, {"pairs": [1] * 20_000}, "pairs.0"),
        (schemas.RerankBody, {"query": "a", "documents": [1] * 20_000}, "documents.0"),
        (schemas.RerankBody, {"query": "a", "documents": ["a"], **{f"x{n}": 1 for n in range(20_000)}}, "x0"),
    ],
)
def test_of_many_faults_the_first_is_told(body: type[schemas.Body], given: dict, first: str) -> None:
    """A body can have hundreds of thousands, each with words and memory of its own."""
    with pytest.raises(ValidationError) as refused:
        body.model_validate(given)
    assert refused.value.error_count() == 1
    assert first in ".".join(str(part) for part in refused.value.errors()[0]["loc"])


HOSTILE = {
    "empty": b"",
    "half": b'{"input": "a"',
    "not UTF-8": b'{"input": "\xff\xfe", "model": "tiny"}',
    "UTF-16": '{"input": "a", "model": "gpt"}'.encode("utf-16"),
    "half a pair": b'{"input": "\\ud800", "model": "tiny"}',
    "half a pair as name": b'{"input": "a", "model": "\\udfff"}',
    "half a pair as field": b'{"input": "a", "model": "tiny", "\\ud800": 1}',
    "no number": b'{"input": NaN, "model": "tiny"}',
    "no number in a field": b'{"input": "a", "model": "tiny", "dimensions": NaN}',
    "endless": b'{"input": "a", "model": "tiny", "dimensions": Infinity}',
    "many digits": b'{"input": "a", "model": "tiny", "dimensions": ' + b"9" * 5000 + b"}",
    "large number": b'{"input": "a", "model": "tiny", "dimensions": 1e400}',
    "deep": b"[" * 100_000,
    "deep object": b'{"input": ' * 50_000 + b"1" + b"}" * 50_000,
    "deep input": b'{"model": "tiny", "input": ' + b"[" * 500 + b"]" * 500 + b"}",
}


class TestHostile:
    @pytest.mark.parametrize("path", [ASK, "/v1/rerank", "/similarity"])
    @pytest.mark.parametrize("name", HOSTILE)
    def test_refused_in_words(self, client, path: str, name: str) -> None:
        status, message = told(client.post(path, content=HOSTILE[name], headers=JSON))
        assert 400 <= status < 500
        assert message

    @pytest.mark.parametrize(
        "text",
        ["\0", "a\0b", "\u202e", "\ufffe", "\U0010ffff", "e\u0301" * 500, "x" * 100_000, "[CLS] [SEP]"],
    )
    def test_odd_text_is_text(self, client, text: str) -> None:
        assert client.post(ASK, json={"input": text, "model": "tiny"}).status_code == 200
        assert client.post("/v1/rerank", json={"query": text, "documents": [text]}).status_code == 200

    def test_the_last_of_equal_fields_counts(self, client) -> None:
        answer = client.post(ASK, content=b'{"model": "gpt", "input": "a", "model": "tiny"}', headers=JSON)
        assert answer.status_code == 200

    def test_a_huge_batch(self, client_of, served) -> None:
        client = client_of(served)
        assert client.post(ASK, json={"input": ["a"] * 100_000, "model": "tiny"}).status_code == 422
        body = json.dumps({"input": ["a" * 99] * 100_000, "model": "tiny"}).encode()
        assert client.post(ASK, content=body, headers=JSON).status_code == 413

    def test_a_client_that_goes_away(self, client_of, watched) -> None:
        """Asked as the server asks: the body, and then word that the client has gone."""
        import asyncio

        client = client_of(watched, limits={"batch_wait": 0.0})
        sent: list[dict] = []
        body = json.dumps({"input": "left", "model": "tiny"}).encode()
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": ASK, "headers": headers, "query_string": b""}

        async def leave() -> None:
            messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]

            async def receive() -> dict:
                return messages.pop(0)

            async def send(message: dict) -> None:
                sent.append(message)

            await asyncio.wait_for(client.app(scope, receive, send), 20)

        watched.gate.clear()
        with ThreadPoolExecutor(1) as other:
            first = other.submit(client.post, ASK, json={"input": "stays", "model": "tiny"})
            assert watched.entered.acquire(timeout=HANG)
            leaving = threading.Thread(target=lambda: asyncio.run(leave()))
            leaving.start()
            leaving.join(HANG)
            watched.gate.set()
            assert first.result(HANG).status_code == 200
        assert sent[0]["status"] == 499
        assert client.post(ASK, json={"input": "next", "model": "tiny"}).status_code == 200
        assert watched.batches == [["stays"], ["next"]]
        assert "nearer_abandoned_requests_total 1.0" in client.get("/metrics").text
