"""Engines over HTTP: a real server on loopback that answers, misbehaves, stays away."""

from __future__ import annotations

import json
import socket
from collections import deque
from typing import Any

import pytest

from misbehaving_server import completion, echo, serving, wait_for
from nearer.construct.engines import is_server, load_engine
from nearer.construct.engines.chat_server import ChatServerEngine
from nearer.construct.engines.decoding import TokenSampling
from nearer.construct.engines.server_address import Server
from nearer.construct.requests import TURN, Generated, Request
from nearer.errors import ModelError, SettingError
from patience import HANG

SHORT = 1.0  # seconds: for a server that never answers


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEARER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def engine(url: str, *, temperature: float = 0.0, seed: int = 0, batch: int = 4, **more: Any) -> ChatServerEngine:
    choosing = TokenSampling(temperature, 0.9, seed)
    return ChatServerEngine(Server.at(url), choosing, batch, 50, **{"first_wait": 0.001, "timeout": HANG, **more})


def asked(count: int, **more: Any) -> deque[Request]:
    return deque(Request(number, 1, f"prompt {number}", **more) for number in range(count))


def answers(made: ChatServerEngine, requests: deque[Request]) -> dict[int, Generated]:
    return {one.request.number: one for one in made.answer(requests)}


def test_many_requests_are_in_flight_and_all_are_answered() -> None:
    def rule(body: dict[str, Any], times: int) -> Any:
        if int(body["messages"][0]["content"].split()[1]) < 4:  # the first four wait for each other
            wait_for(lambda: server.most >= 4)
        return echo(body)

    with serving(rule) as server:
        found = answers(engine(server.url, batch=4), asked(30))
        assert {number: one.text for number, one in found.items()} == {n: f"prompt {n} (greedy)" for n in range(30)}
        assert server.most == 4
        assert {(one.ended, one.tokens) for one in found.values()} == {("model", 3)}
        assert set(server.paths) == {"/v1/models", "/v1/chat/completions"}
        assert server.seen[0]["max_tokens"] == 50
        assert server.seen[0]["temperature"] == 0


def test_requests_may_be_added_while_answers_come() -> None:
    with serving() as server:
        queue, texts = asked(2), []
        for answer in engine(server.url).answer(queue):
            texts.append(answer.text)
            if answer.request.step == 1:
                queue.appendleft(Request(answer.request.number, 2, "more"))
        assert len(texts) == 4


def test_turns_become_messages_and_seeds_follow_from_seed_number_and_step() -> None:
    with serving() as server:
        turns = Request(0, 1, TURN.join(["do it", "done", "again"]))
        first = answers(engine(server.url, temperature=0.8, seed=3), deque([turns, *asked(3)]))
        [conversation] = [body["messages"] for body in server.seen if len(body["messages"]) > 1]
        assert [(m["role"], m["content"]) for m in conversation] == [
            ("user", "do it"),
            ("assistant", "done"),
            ("user", "again"),
        ]
        again = answers(engine(server.url, temperature=0.8, seed=3, batch=1), asked(3))
        assert [again[n].text for n in (1, 2)] == [first[n].text for n in (1, 2)]
        other = answers(engine(server.url, temperature=0.8, seed=4), asked(3))
        assert other[1].text != first[1].text
        assert len({body["seed"] for body in server.seen}) == 6


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        ((429, '{"error": {"message": "slow down"}}', {"Retry-After": "0.01"}), "429"),
        ((500, "<html>oh no</html>"), "500"),
        ((503, '{"error": {"message": "Loading model"}}'), "503"),
        ('{"choices": [{"mess', "broken answer"),
        ((200, '{"choices": [', {"Content-Length": "400"}), "connection lost"),
        ({"choices": []}, "broken answer"),
        ({"error": "out of memory"}, "broken answer"),
        ([], "broken answer"),
        ("hang up", "connection lost"),
        ("never", "time-out"),
    ],
    ids=str,
)
def test_what_may_pass_is_asked_again_and_counted(trouble: Any, kind: str) -> None:
    def rule(body: dict[str, Any], times: int) -> Any:
        return trouble if times < 2 and body["messages"][0]["content"] != "prompt 1" else echo(body)

    with serving(rule) as server:
        made = engine(server.url, timeout=SHORT if trouble == "never" else HANG)
        found = answers(made, asked(3))
        assert [found[n].text for n in range(3)] == [f"prompt {n} (greedy)" for n in range(3)]
        assert set(made.troubles) == {kind}
        # a loaded machine may be too slow for the short limit once more
        assert made.troubles[kind] >= 4 if trouble == "never" else made.troubles[kind] == 4


def test_a_server_that_stays_ill_ends_the_work_in_one_line() -> None:
    with serving(lambda body, _: (500, '{"error": {"message": "CUDA\\nout of memory"}}')) as server:
        made = engine(server.url, attempts=3)
        with pytest.raises(
            ModelError, match=r"no answer after 3 attempts, the last failed by: 500 \(CUDA out of memory"
        ):
            answers(made, asked(1))
        assert made.troubles == {"500": 3}


def test_a_server_that_goes_away_in_the_middle() -> None:
    with serving() as server:
        made = engine(server.url, attempts=3)
    with pytest.raises(ModelError, match=r"after 3 attempts, the last failed by: connection refused"):
        answers(made, asked(1))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((400, '{"error": {"message": "temperature is wrong"}}'), r"answers 400 \(temperature is wrong\)"),
        ((401, "no"), r"answers 401 \(no\); its key belongs into \$NEARER_API_KEY"),
        ((404, "nothing here"), "answers 404.*is the path right"),
        ((301, "", {"Location": "http://elsewhere"}), "answers 301"),
    ],
)
def test_what_will_not_pass_is_not_asked_again(reply: Any, said: str) -> None:
    with serving(lambda body, _: reply) as server:
        with pytest.raises(ModelError, match=said):
            answers(engine(server.url), asked(1))
        assert len(server.seen) == 1


def test_a_prompt_without_room_is_an_answer() -> None:
    words = json.dumps({"error": {"message": "This model's maximum context length is 4096 tokens."}})
    with serving(lambda body, _: (400, words)) as server:
        assert answers(engine(server.url), asked(1))[0].ended == "no room"


@pytest.mark.parametrize(
    ("reply", "one_line", "text", "ended"),
    [
        (completion(" A cat.\n\nI hope it helps", "length"), True, "A cat.", "model"),
        (completion("A cat.\nA dog.", "stop"), False, "A cat.\nA dog.", "model"),
        (completion("A cat that", "length"), True, "A cat that", "limit"),
        (completion("<think>a cat?\nyes</think>\n\nA cat."), True, "A cat.", "model"),
        (completion("<think>a cat?\nor", "length"), True, "", "limit"),
        (completion(None), True, "", "model"),
    ],
)
def test_what_an_answer_is(reply: Any, one_line: bool, text: str, ended: str) -> None:
    with serving(lambda body, _: reply) as server:
        found = answers(engine(server.url), asked(1, one_line=one_line))[0]
        assert (found.text, found.ended) == (text, ended)


def test_a_direction_is_not_to_be_had_from_a_server() -> None:
    with (
        serving() as server,
        pytest.raises(SettingError, match="directional decoding needs the scores of all tokens"),
    ):
        answers(engine(server.url), deque([Request(0, 2, "near", "far", 0.5)]))


def test_an_abandoned_queue_ends_at_once() -> None:
    with serving(lambda body, _: echo(body) if body["messages"][0]["content"] == "prompt 0" else "never") as server:
        found = engine(server.url).answer(asked(4))
        assert next(found).request.number == 0
        found.close()  # type: ignore[attr-defined]  # or this test would hang


def test_the_key_is_sent_and_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARER_API_KEY", "sk-secret")
    with serving(lambda body, _: (401, '{"error": {"message": "wrong key: sk-secret"}}')) as server:
        made = engine(server.url)
        with pytest.raises(ModelError) as caught:
            answers(made, asked(1))
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer sk-secret"}
        assert "sk-secret" not in f"{caught.value} {made.identity()}"
    monkeypatch.setenv("NEARER_API_KEY", "two words")
    with pytest.raises(SettingError, match="is no API key") as caught_early:
        Server.at("http://localhost")
    assert "two words" not in str(caught_early.value)


def test_openais_key_goes_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    assert Server.at("https://api.openai.com/v1").key == "sk-theirs"
    for other in ("http://127.0.0.1:8000", "http://api.openai.com/v1", "https://notopenai.com/v1"):
        assert Server.at(other).key is None


@pytest.mark.parametrize(
    ("models", "fragment", "found"),
    [
        (["tiny"], "", "tiny"),
        (["a", "b"], "#b", "b"),
        (["qwen2.5:7b", "b"], "#qwen2.5%3A7b", "qwen2.5:7b"),
        ((404, "no list"), "#mine", "mine"),
    ],
)
def test_which_model(models: Any, fragment: str, found: str) -> None:
    with serving(models=models) as server:
        assert engine(server.url + fragment).identity()["model"] == found


@pytest.mark.parametrize(
    ("models", "fragment", "said"),
    [
        (["a", "b"], "", "serves a, b; name one behind a #"),
        (["a", "b"], "#c", "has no model 'c'; it has a, b"),
        ((404, "no list"), "", "does not say which models it has"),
        ((200, "hello"), "", "not as OpenAI's API does"),
        ((401, "no"), "", "answers 401"),
    ],
)
def test_a_model_that_is_not_to_be_had(models: Any, fragment: str, said: str) -> None:
    with serving(models=models) as server, pytest.raises(ModelError, match=said):
        engine(server.url + fragment)


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("https://a.b/openai/v2/chat/completions", "https://a.b/openai/v2"),
        ("HTTP://[::1]:80/v1#m", "http://[::1]:80/v1"),
    ],
)
def test_addresses(address: str, base: str) -> None:
    assert is_server(address)
    assert Server.at(address).base == base


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://", "names no host"),
        ("http://a:99999", "no address"),
        ("http://me:secret@a/v1", r"\$NEARER_API_KEY"),
        ("http://a/v1?key=secret", r"\$NEARER_API_KEY"),
    ],
)
def test_addresses_that_cannot_be_used(address: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        Server.at(address)
    assert "secret" not in str(caught.value)


def test_nobody_there() -> None:
    with socket.socket() as bound:  # bound and not listening: refused
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ModelError, match=r"cannot be reached .*is the server running"):
            load_engine(f"http://127.0.0.1:{bound.getsockname()[1]}")


@pytest.mark.parametrize("given", [{"kind": "llama.cpp"}, {"device": "cpu"}, {"precision": "bf16"}], ids=str)
def test_what_the_server_decides_is_not_asked_for(given: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="the server at http://localhost decides it"):
        load_engine("http://localhost", **given)
