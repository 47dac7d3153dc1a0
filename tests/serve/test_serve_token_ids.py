"""Token ids of cl100k_base, which LangChain's client sends unless it is told not to."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from nearer.serve.service import TokenDecoder, load_encoding
from patience import HANG

tiktoken = pytest.importorskip("tiktoken")

ASK = "/v1/embeddings"
SWITCH = "Send text instead; in LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)."


@pytest.fixture
def client(client_of, served) -> Any:
    """Of a service for one test, which sets how it decodes."""
    return client_of(served)


@pytest.fixture
def bytes_encoding() -> Any:
    """An encoding with a token for each byte, and one for "rain"."""
    ranks = {bytes([value]): value for value in range(256)} | {b"ra": 256, b"in": 257, b"rain": 258}
    return tiktoken.Encoding("cl100k_base", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 260})


def embedded(client, given: object) -> list[list[float]]:
    answer = client.post(ASK, json={"input": given, "model": "tiny"})
    assert answer.status_code == 200, answer.text
    return [item["embedding"] for item in answer.json()["data"]]


def message(client, given: object) -> str:
    answer = client.post(ASK, json={"input": given, "model": "tiny"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "input")
    said: str = answer.json()["error"]["message"]
    assert "\n" not in said
    return said


def use(client, load, **options) -> None:
    client.app.state.service.token_decoder = TokenDecoder(load, **options)


class TestDecoded:
    @pytest.mark.parametrize("text", ["rain", "a man in the rain", "Naïve café: 東京 🙂"])
    def test_as_the_text_itself(self, client, bytes_encoding, text: str) -> None:
        use(client, lambda: bytes_encoding)
        ids = bytes_encoding.encode(text)
        assert embedded(client, ids) == embedded(client, text)
        assert embedded(client, [ids, bytes_encoding.encode("rain")]) == embedded(client, [text, "rain"])

    def test_a_character_cut_in_half(self, client, bytes_encoding) -> None:
        use(client, lambda: bytes_encoding)
        assert embedded(client, list("né".encode())[:-1]) == embedded(client, "n\ufffd")

    def test_whole_numbers_in_another_spelling(self, client, bytes_encoding) -> None:
        use(client, lambda: bytes_encoding)
        assert embedded(client, [258.0, 32]) == embedded(client, "rain ")

    def test_loaded_once(self, client, bytes_encoding) -> None:
        loads = []
        use(client, lambda: loads.append(1) or bytes_encoding)
        for _ in range(3):
            embedded(client, [258])
        assert loads == [1]

    def test_ids_that_are_none(self, client, bytes_encoding) -> None:
        use(client, lambda: bytes_encoding)
        said = f"input: item 1 has a token id that cl100k_base does not have. {SWITCH}"
        assert message(client, [[258], [259]]) == said

    def test_limits_hold(self, client_of, served, bytes_encoding) -> None:
        client = client_of(served, limits={"tokens": 10, "items": 2, "characters": 5})
        use(client, lambda: bytes_encoding)
        assert message(client, [1] * 11) == "input: 11 token ids; at most 10 are taken."
        assert message(client, [[1]] * 3).startswith("input: 3 items in one request; at most 2 are taken.")
        assert message(client, [65] * 6) == "input: item 0 has 6 characters; at most 5 are taken."


class TestNotDecoded:
    def test_without_tiktoken(self, client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "tiktoken", None)
        use(client, load_encoding)
        needed = "input: token ids need the package tiktoken where the service runs (pip install tiktoken). "
        assert message(client, [[1, 2]]) == needed + SWITCH

    def test_without_a_network_and_with_it_again(self, client, bytes_encoding) -> None:
        found = [ConnectionError("no such host"), bytes_encoding]

        def load() -> Any:
            if isinstance(one := found.pop(0), Exception):
                raise one
            return one

        use(client, load)
        assert message(client, [258]) == (
            "input: token ids need tiktoken's file of cl100k_base, which could not be had (ConnectionError); "
            f"$TIKTOKEN_CACHE_DIR may name a folder that has it. {SWITCH}"
        )
        assert embedded(client, [258]) == embedded(client, "rain")

    def test_a_download_that_hangs(self, client, bytes_encoding) -> None:
        """No request waits for it, the service included at its end; once it has come, ids are read."""
        arrived = threading.Event()

        def load() -> Any:
            assert arrived.wait(HANG)
            return bytes_encoding

        use(client, load, patience=0.05)
        for _ in range(2):
            assert "which did not come within 0.05 seconds" in message(client, [258])
        arrived.set()
        use_again = client.app.state.service.token_decoder
        use_again._patience = HANG
        assert embedded(client, [258]) == embedded(client, "rain")

    def test_tiktokens_own_file(self, client, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
        """From a cache without it, with a network that is not there: what tiktoken raises is told in a line."""
        import tiktoken.load
        import tiktoken.registry

        def refuse(_: str) -> bytes:
            raise ConnectionError("no network in tests")

        monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
        monkeypatch.setattr(tiktoken.load, "read_file", refuse)
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        assert "could not be had (ConnectionError)" in message(client, [258])
