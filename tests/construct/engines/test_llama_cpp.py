"""llama.cpp behind the same contract: many at once gives what it gives one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from decoding_by_hand import told

from nearer.construct.engines import load_engine
from nearer.construct.engines.llama_cpp import LlamaCppEngine, Token
from nearer.construct.requests import Generated, Request
from nearer.errors import MissingExtraError, ModelError, SettingError

LIMIT = 16
SENTENCES = [
    "A man is eating lunch.",
    "The rain has not stopped since Monday morning.",
    "Two dogs run over the old bridge.",
]


def prompt(sentence: str) -> str:
    return f"Write the following sentence with other words and answer with it alone: {sentence}"


def lists(engine: LlamaCppEngine, steps: int = 3, guidance: float = 1.5) -> dict[tuple[int, int], Generated]:
    queue = deque(Request(n, 1, prompt(sentence)) for n, sentence in enumerate(SENTENCES))
    given = {}
    for one in engine.answer(queue):
        request = one.request
        given[request.number, request.step] = one
        if request.step < steps:
            queue.appendleft(Request(request.number, request.step + 1, prompt(one.text), request.prompt, guidance))
    return given


def by_hand(engine: LlamaCppEngine, request: Request) -> tuple[str, int, str]:
    """Both contexts whole for each token, one after the other, nothing kept."""
    contexts = [engine.ids(request)[0], engine.ids(request)[-1]]
    new: list[int] = []
    while True:
        scores = []
        for context in contexts:
            engine.file.clear(0)
            whole = [*context, *new]
            tokens = [Token(token, 0, n, n == len(whole) - 1) for n, token in enumerate(whole)]
            scores.append(engine.file.decode(tokens)[0].astype(np.float64))
        new.append(int(((1 + request.guidance) * scores[0] - request.guidance * scores[1]).argmax()))
        if new[-1] in engine.file.ends():
            return engine.text(new[:-1]).strip(), len(new), "model"
        if len(new) == LIMIT:
            return engine.text(new).strip(), len(new), "limit"


@pytest.fixture(scope="module")
def smollm(gguf: Callable[[str], Path]) -> Path:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    return gguf("smollm2-135m-instruct")


@pytest.mark.slow
def test_many_at_once_is_one_by_one_is_by_hand(smollm: Path) -> None:
    together = load_engine(smollm, kind="llama.cpp", batch=3, max_new_tokens=LIMIT)
    given = lists(together)
    alone = lists(load_engine(smollm, kind="llama.cpp", batch=1, max_new_tokens=LIMIT))
    assert {place: told(one) for place, one in given.items()} == {place: told(one) for place, one in alone.items()}
    assert len(given) == 9
    assert all(one.text for one in given.values())
    plain = lists(together, steps=2, guidance=0.0)
    steered = [place for place in plain if told(plain[place]) != told(given[place])]
    assert steered  # by the prompt before: what is compared below shows that it is looked at
    for place in ((0, 1), steered[0]):
        assert told(given[place]) == by_hand(together, given[place].request)


@pytest.mark.slow
def test_contract(smollm: Path) -> None:
    engine = load_engine(smollm, kind="llama.cpp", batch=2, max_new_tokens=4, temperature=0.9, seed=1)
    assert list(engine.answer(deque())) == []
    long = Request(0, 1, "again and " * 3000)
    short = Request(1, 1, prompt(SENTENCES[0]))
    found = {given.request.number: given for given in engine.answer(deque([long, short]))}
    assert told(found[0]) == ("", 0, "no room")
    assert found[1].tokens <= 4
    again = load_engine(smollm, kind="llama.cpp", batch=5, max_new_tokens=4, temperature=0.9, seed=1)
    assert [told(given) for given in again.answer(deque([short]))] == [told(found[1])]
    assert engine.identity() == again.identity()
    assert engine.identity()["engine"] == "llama.cpp"


@pytest.mark.slow
def test_batches_beyond_its_sequences(smollm: Path) -> None:
    with pytest.raises(SettingError, match=r"batch: llama\.cpp keeps at most"):
        load_engine(smollm, kind="llama.cpp", batch=10_000)


def test_folders_are_not_for_it(tiny_llm: Path) -> None:
    with pytest.raises(ModelError, match=r"llama\.cpp reads GGUF files"):
        load_engine(tiny_llm, kind="llama.cpp")
    with pytest.raises(SettingError, match="leave device and precision out"):
        load_engine(tiny_llm, kind="llama.cpp", precision="bf16")


def test_damaged_files(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + bytes(60))
    with pytest.raises((ModelError, MissingExtraError), match=r"broken\.gguf: (llama\.cpp cannot load it|reading it)"):
        load_engine(file, kind="llama.cpp")
