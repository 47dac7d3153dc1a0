"""The service as a process: real clients, and its end."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openai
import pytest

from nearer.extras import install_command
from nearer.search import SearchIndex
from nearer.serve.app import create_app
from nearer.serve.limits import Limits
from nearer.serve.server import new_server, open_port
from patience import HANG

COMMAND = [sys.executable, "-m", "nearer.cli.main", "serve"]


@pytest.fixture(scope="module")
def live(served) -> Iterator[str]:
    """The address of a service in a thread, which asks for a key."""
    bound = open_port("127.0.0.1", 0)
    app = create_app(served, limits=Limits(body=50_000), api_keys="secret", hosts={"127.0.0.1"})
    started = threading.Event()
    server = new_server(app, bound, tell=lambda message: started.set())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    assert started.wait(HANG)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(HANG)
    assert not thread.is_alive()


class TestOpenAI:
    @pytest.fixture
    def client(self, live: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{live}/v1", api_key="secret", max_retries=0)

    @pytest.mark.parametrize("encoding", [openai.omit, "float", "base64"])
    def test_embeddings(self, client, encoder, encoding) -> None:
        """By default the client asks for base64 and unpacks it."""
        answer = client.embeddings.create(model="tiny", input=["rain", "a man"], encoding_format=encoding)
        vectors = [item.embedding for item in answer.data]
        if encoding == "base64":
            vectors = [np.frombuffer(base64.b64decode(vector), "<f4") for vector in vectors]
        np.testing.assert_allclose(vectors, encoder.encode(["rain", "a man"]), rtol=1e-4, atol=1e-5)
        assert (answer.model, [item.index for item in answer.data]) == ("tiny", [0, 1])
        assert (
            answer.usage.total_tokens
            == answer.usage.prompt_tokens
            == encoder.tokenised(["rain", "a man"]).lengths.sum()
        )

    def test_models(self, client) -> None:
        assert [model.id for model in client.models.list()] == ["tiny"]

    def test_errors_are_its_own(self, client, live: str) -> None:
        with pytest.raises(openai.NotFoundError, match="served is 'tiny'"):
            client.embeddings.create(model="text-embedding-3-small", input="rain")
        with pytest.raises(openai.UnprocessableEntityError, match="at least 1 character"):
            client.embeddings.create(model="tiny", input="")
        with pytest.raises(openai.AuthenticationError, match="Bearer KEY"):
            openai.OpenAI(base_url=f"{live}/v1", api_key="wrong", max_retries=0).models.list()

    def test_a_large_body(self, client) -> None:
        with pytest.raises(openai.APIStatusError, match="more than 50,000 bytes") as refused:
            client.embeddings.create(model="tiny", input="x" * 60_000)
        assert refused.value.status_code == 413

    def test_many_at_once(self, client, encoder) -> None:
        texts = [f"rain {n}" for n in range(40)]

        def ask(text: str) -> list[float]:
            return client.embeddings.create(model="tiny", input=text).data[0].embedding

        with ThreadPoolExecutor(8) as clients:
            found = list(clients.map(ask, texts))
        np.testing.assert_allclose(found, encoder.encode(texts), rtol=1e-4, atol=1e-5)


def start(*arguments: object, called: str = "bert") -> tuple[subprocess.Popen[str], str]:
    """A service of its own, ready, and its address."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments), "--pooling", "mean", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background jobs, of which this test may be one, ignore the signal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.fullmatch(rf"serving {re.escape(called)} at (http://127\.0\.0\.1:\d+) \(Ctrl-C ends\)\n", line)
    assert found is not None, line + process.stderr.read()
    return process, found[1]


def post(url: str, body: dict, path: str = "embeddings") -> dict:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=HANG) as answer:
        return json.load(answer)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_answers_what_it_began(tiny_model, number: signal.Signals) -> None:
    process, url = start(tiny_model("bert"), "--batch-texts", 8, "--max-items", 1500)
    texts = [f"rain {n}" for n in range(1500)]
    try:
        with ThreadPoolExecutor(1) as client:
            running = client.submit(post, url, {"input": texts, "model": "bert", "encoding_format": "base64"})
            while json.load(urllib.request.urlopen(f"{url}/health"))["waiting_texts"] == 0:
                assert not running.done()
                threading.Event().wait(0.01)  # so as not to take the time from it
            process.send_signal(number)
            answer = running.result(HANG)
        said = process.communicate(timeout=HANG)[1]
    finally:
        process.kill()
    assert len(answer["data"]) == 1500
    assert (process.returncode, said) == (0, "ended: all requests were answered\n")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/health", timeout=HANG)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_told_to_end_it_refuses_what_takes_longer_than_its_time(tiny_model, encoder, tmp_path) -> None:
    """In JSON, and the last line counts it."""
    (tmp_path / "text.txt").write_text("rain\na man\n", encoding="utf-8")
    SearchIndex.build(encoder, tmp_path / "text.txt", tmp_path / "index")
    process, url = start(
        tiny_model("bert"), "--index", tmp_path / "index", "--batch-texts", 1, "--grace", 0.05, "--max-items", 4000
    )
    texts = [f"rain {n}" for n in range(4000)]
    try:
        with ThreadPoolExecutor(2) as clients:
            running = [
                clients.submit(post, url, {"input": texts, "model": "bert"}),
                clients.submit(post, url, {"query": texts}, "search"),
            ]
            while json.load(urllib.request.urlopen(f"{url}/health"))["waiting_texts"] <= 4000:
                assert not any(one.done() for one in running)
                threading.Event().wait(0.01)
            process.send_signal(signal.SIGTERM)
            refused = [one.exception(HANG) for one in running]
        said = process.communicate(timeout=HANG)[1]
    finally:
        process.kill()
    for error in refused:
        assert isinstance(error, urllib.error.HTTPError)
        assert (error.code, json.load(error)["error"]["code"]) == (503, "ending")
    counted = "0 answered, 2 refused, 0 cut off (0.05 s were over)"
    assert (process.returncode, said) == (0, f"ended: of the requests that were running, {counted}\n")


def test_two_models_and_their_page(tiny_model) -> None:
    beside = ("--beside", tiny_model("bert"), "--beside-pooling", "cls")
    process, url = start(tiny_model("bert"), *beside, called="bert and bert (2)")
    try:
        answers = [post(url, {"input": "rain", "model": name})["data"][0] for name in ("bert", "bert (2)")]
        with urllib.request.urlopen(f"{url}/", timeout=HANG) as page:
            assert b"<html" in page.read()
    finally:
        process.terminate()
        process.communicate(timeout=HANG)
    assert answers[0] != answers[1]


class TestCommand:
    def test_port_in_use(self, nearer, tiny_model) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            outcome = nearer("serve", tiny_model("bert"), "--pooling", "mean", "--port", port)
        said = f"error: --port: {port} is in use on 127.0.0.1; choose another, or 0 for any free one.\n"
        assert outcome == (1, "", said)

    def test_no_such_host(self, nearer, tiny_model) -> None:
        outcome = nearer("serve", tiny_model("bert"), "--host", "256.0.0.1")
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert "--host" in outcome.err

    def test_no_such_model(self, nearer, tmp_path) -> None:
        outcome = nearer("serve", tmp_path / "none", "--port", 0)
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert outcome.err.startswith("error: ")

    def test_missing_extra(self, nearer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "fastapi", None)
        said = f"error: the service needs the package 'fastapi': {install_command('serve')}\n"
        assert nearer("serve", "wiki-mini") == (1, "", said)

    @pytest.mark.parametrize(
        ("content", "said"), [("", "holds no key"), ("two words", "no header can carry"), (None, "cannot be read")]
    )
    def test_key_file(self, nearer, tmp_path, content: str | None, said: str) -> None:
        file = tmp_path / "key"
        if content is not None:
            file.write_text(content, encoding="utf-8")
        outcome = nearer("serve", "wiki-mini", "--api-key-file", file)
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert f"--api-key-file: {file} " in outcome.err
        assert said in outcome.err

    def test_key_variable(self, nearer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NEARER_TEST_KEY", raising=False)
        outcome = nearer("serve", "wiki-mini", "--api-key-env", "NEARER_TEST_KEY")
        assert outcome == (1, "", "error: --api-key-env: the variable NEARER_TEST_KEY holds no key.\n")
