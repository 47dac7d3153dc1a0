"""Queries of a language model in adapt: written once, gone on with, learnt from, and a test where that was asked."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_made_tests import passage, words_of

import nearer
from nearer.adaptation import adapt as arguments
from nearer.adaptation import writing
from nearer.adaptation.adapt import adapt
from nearer.adaptation.made_tests import make_written_test
from nearer.adaptation.material import draw_queries
from nearer.adaptation.outcome import Outcome
from nearer.adaptation.plan import Plan
from nearer.adaptation.views import View
from nearer.adaptation.writing import Writer, Written, told_styles
from nearer.construct.queries import QueryPassage, QuerySettings
from nearer.construct.query_rules import STYLES
from nearer.construct.requests import Generated, Request
from nearer.errors import InputError, SettingError

PASSAGES = [passage(number) for number in range(40)]


class RuleEngine:
    """Answers by rule, and is interrupted after so many answers."""

    def __init__(self, most: int = 10**6, rule: Callable[[str], str] | None = None) -> None:
        self.most, self.rule = most, rule or (lambda house: f"who looks after house {house} by the sea?")

    def identity(self) -> dict[str, str]:
        return {"model": "by rule"}

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        while requests:
            if self.most == 0:
                raise KeyboardInterrupt
            self.most -= 1
            request = requests.popleft()
            house = re.findall(r"keeper(\d+) ", request.prompt)[-1]
            yield Generated(request, f"{self.rule(house)}", 8, "model")


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[RuleEngine | None], None]:
    def use(engine: RuleEngine | None) -> None:
        def load(*given: Any, **more: Any) -> RuleEngine:
            assert engine is not None, "the language model was loaded"
            return engine

        monkeypatch.setattr(writing, "load_engine", load)
        monkeypatch.setattr(writing, "ON_CPU", 1)  # a window of eight, so that an interruption loses little

    return use


def write(folder: Path, unlike: set[str] | None = None) -> list[Written]:
    writer = Writer("writer", seed=3, device="cpu")
    return writer.write(PASSAGES, range(10, 40), folder, limit=20, unlike=unlike or set(), progress=False)


def test_queries_are_written_once(use: Callable[[RuleEngine | None], None], tmp_path: Path) -> None:
    use(RuleEngine())
    straight = write(tmp_path / "straight")
    assert len(straight) == 20
    assert all(one.query == f"who looks after house {one.passage} by the sea?" for one in straight)
    assert {one.passage for one in straight} <= set(range(10, 40))
    assert len(told_styles(straight).split(", ")) == 4

    use(RuleEngine(11))
    with pytest.raises(KeyboardInterrupt, match="goes on there"):
        write(tmp_path / "out")
    use(RuleEngine(12))  # eight were kept
    assert write(tmp_path / "out") == straight
    use(None)
    first = straight[0]
    assert write(tmp_path / "out", {first.query.rstrip("?")}) == straight[1:]
    (tmp_path / "out" / "data.jsonl").write_text("{")
    with pytest.raises(InputError, match=r"data\.jsonl: is damaged; remove"):
        write(tmp_path / "out")


def test_a_model_that_writes_no_queries_is_told_before_anything_is_done(
    use: Callable[[RuleEngine | None], None],
) -> None:
    use(RuleEngine())
    assert Writer("writer", seed=0, device="cpu").measure(PASSAGES) > 0
    use(RuleEngine(rule=lambda house: ""))
    with pytest.raises(InputError, match="writer: none of 8 answers is a query"):
        Writer("writer", seed=0, device="cpu").measure(PASSAGES)


def test_the_speed_on_a_gpu_is_that_of_a_whole_batch_of_one_style(
    use: Callable[[RuleEngine | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, tuple[str, ...]]] = []
    construct = writing.construct_queries

    def watched(passages: Sequence[QueryPassage], engine: Any, settings: QuerySettings, out: str, **named: Any) -> Any:
        asked.append((len(passages), settings.styles))
        return construct(passages, engine, settings, out, **named)

    monkeypatch.setattr(writing, "construct_queries", watched)
    use(RuleEngine())
    assert Writer("writer", seed=0, device="cuda").measure(PASSAGES) > 0
    assert asked == [(writing.TRIED, STYLES), (len(PASSAGES), STYLES[:1])]


def test_written_queries_keep_their_own_passage_in_their_lists() -> None:
    views = [View("title", f"title {number}", number, "the rest", 0.5) for number in range(30)]
    written = [Written(f"query {number}", "question", number) for number in range(4)]
    drawn = draw_queries(views, ["logged"], 10, np.random.default_rng(0), written)
    assert drawn.kinds == ["log", *["written question"] * 4, *["title"] * 5]
    assert drawn.sources.tolist() == [-1, -1, -1, -1, -1, 0, 1, 2, 3, 4]


def test_a_written_test_has_one_query_of_a_passage() -> None:
    written = [Written(f"who keeps{number} the keeper{number % 35}?", "question", number % 35) for number in range(38)]
    (test,) = make_written_test(PASSAGES, written, words_of(PASSAGES))
    assert sorted(test.passages.tolist()) == list(range(35))
    assert test.rests == [PASSAGES[number].titled for number in test.passages]
    assert 0.3 < test.overlap < 0.7
    assert make_written_test(PASSAGES, written[:29], words_of(PASSAGES)) == []


def test_documents_and_a_language_model(
    use: Callable[[RuleEngine | None], None],
    tiny_model: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Plan(150, 30, 3, False, 40, 20, 4, 2, 32, {"tests": 1.0}, written=40, written_tests=35)
    monkeypatch.setattr(arguments, "make_plan", lambda *given, **more: plan)
    use(RuleEngine())
    rows = ({"_id": one.document, "title": one.title, "text": one.text} for one in map(passage, range(150)))
    documents, out, base = tmp_path / "documents.jsonl", tmp_path / "out", tmp_path / "base"
    documents.write_text("".join(json.dumps(row) + "\n" for row in rows))
    nearer.Encoder.load(tiny_model("bert"), pooling="mean", device="cpu").save(base)
    told: list[str] = []
    found = adapt(documents, out, model=base, device="cpu", llm="writer", llm_test=True, say=told.append)
    assert isinstance(found, Outcome)
    assert found.tests["written"]["queries"] == 35
    assert sum(found.written.values()) == 40
    assert any(line.startswith("40 queries written to learn from: ") for line in told)
    pairs = [json.loads(line) for line in (out / "pairs.jsonl").read_text().splitlines()]
    asked = [pair["sentence1"] for pair in pairs if pair["sentence1"].startswith("who looks after")]
    assert len(asked) == 40
    assert "students learnt from" in (out / "report.html").read_text()
    use(None)  # what is written is there
    again = adapt(documents, out, model=base, device="cpu", llm="writer", llm_test=True)
    assert isinstance(again, Outcome)
    assert again.standings == found.standings


def test_a_test_needs_a_language_model(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="llm_test"):
        adapt(tmp_path, tmp_path / "out", llm_test=True)
