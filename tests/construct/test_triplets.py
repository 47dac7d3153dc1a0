"""Triplets by a scripted model and by a server: draws, attempts, curation, interruption, the command."""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from scripted_engine import ScriptedEngine, said

from misbehaving_server import completion, serving
from nearer.cli.construct_lists import inspect
from nearer.cli.construct_triplets import triplets
from nearer.cli.main import Commands
from nearer.construct.anchors import CALLS, SCRATCH_STEP, CorpusAnchors, ScratchAnchors
from nearer.construct.answer_log import ANSWERS
from nearer.construct.engines.chat_server import ChatServerEngine
from nearer.construct.few_shot import read_pool
from nearer.construct.requests import TURN, Generated, Request
from nearer.construct.triplet_rules import COPIED, REFUSED, REPEATED, UNSCORED, WEAK_NEGATIVE, Curation
from nearer.construct.triplets import SCORE_STEPS, TripletSettings, construct_triplets
from nearer.errors import InputError, SettingError
from nearer.text import read_sentences, read_triplets

COLOURS = ("red", "blue", "white", "grey", "green")
CORPUS = [f"The {COLOURS[n % 5]} house stands near the {COLOURS[n % 3]} tree of number {n}." for n in range(40)]


def anchor(request: Request) -> str:
    last = request.prompt.rpartition(TURN)[2].rpartition("\n\n")[2]
    return last.splitlines()[0].partition(": ")[2]


def number(request: Request) -> int:
    return int(anchor(request).rstrip(".").split()[-1])


def marks(request: Request) -> str:
    return " and ".join(re.findall(r"\d+", anchor(request)))


def sound(request: Request) -> Generated:
    """Answers that follow from the request alone."""
    if request.step == SCRATCH_STEP:
        lines = [f"{n}. In call {request.number} there is a sentence with mark {n}." for n in range(1, 4)]
        return said(request, "\n".join(lines))
    if request.step >= SCORE_STEPS["positive"]:
        return said(request, "4.5" if request.step == SCORE_STEPS["positive"] else "1.0")
    if request.step >= 100:
        return said(request, f"Changed: No house stands close to any tree, says {marks(request)}.")
    return said(request, f"“Near tree and house it says {marks(request)}.”")


def settings(**changed: Any) -> TripletSettings:
    return TripletSettings.usual(**changed)


def partial(corpus: list[str] = CORPUS) -> CorpusAnchors:
    return CorpusAnchors(read_sentences(corpus))


def build(
    out: Path, rule: Callable[[Request], Generated] = sound, source: Any = None, *, engine_seed: int = 0, **more: Any
) -> Any:
    made = more.pop("settings", None) or settings()
    engine = ScriptedEngine(rule, seed=engine_seed)
    return construct_triplets(source or partial(), engine, made, out, **more), engine


def test_each_sentence_becomes_a_triplet_that_training_reads(tmp_path: Path) -> None:
    result, engine = build(tmp_path / "t")
    found = list(read_triplets(result.data))
    assert result.triplets == len(found) == len(CORPUS)
    assert {one.anchor for one in found} == set(CORPUS)
    assert [one.anchor for one in found] != CORPUS  # in the order of the seed
    assert all(one.positive.startswith("Near tree") for one in found)
    assert all(one.hard_negative.startswith("No house") for one in found)
    assert len(engine.asked) == 2 * len(CORPUS)
    records = [json.loads(line) for line in result.data.read_text().splitlines()]
    assert all(CORPUS[record["index"]] == record["anchor"] for record in records)
    assert not (tmp_path / "t" / ANSWERS).exists()


def test_instructions_and_examples_are_drawn(tmp_path: Path) -> None:
    drawn = set()
    for seed in range(12):
        _, engine = build(tmp_path / f"t{seed}", seed=seed, limit=2, settings=settings(shots=3))
        prompts = [request.prompt.split(TURN) for request in engine.asked]
        assert {len(turns) for turns in prompts} == {7}
        drawn |= {turns[0] for turns in prompts}
    assert len(drawn) > 8
    first = {prompt.rpartition("\n\n")[0] for prompt in drawn}
    assert len(first) == 8  # 4 instructions for each role


def test_the_opposite_instruction_is_what_to_move_away_from(tmp_path: Path) -> None:
    _, engine = build(tmp_path / "t", settings=settings(guidance=0.5), limit=3)
    by_number = {(request.number, request.step): request for request in engine.asked}
    for n in range(3):
        positive, negative = by_number[n, 0], by_number[n, 100]
        assert positive.away_from == negative.prompt
        assert negative.away_from == positive.prompt
        assert positive.guidance == 0.5


def test_what_breaks_a_rule_is_asked_for_again_and_counted(tmp_path: Path) -> None:
    def rule(request: Request) -> Generated:
        if request.step < 500 and number(request) % 4 == 0 and request.step % 100 == 0:
            return said(request, "I'm sorry, I cannot help with that.")
        if request.step in (100, 101) and number(request) % 4 == 1:
            return said(request, anchor(request))
        return sound(request)

    result, _ = build(tmp_path / "t", rule)
    assert result.rejected == {f"negative: {COPIED}": 10}
    assert result.again == {f"positive: {REFUSED}": 10, f"negative: {REFUSED}": 10, f"negative: {COPIED}": 10}
    assert result.triplets == 30
    once, _ = build(tmp_path / "once", rule, settings=settings(attempts=1))
    assert once.rejected == {f"positive: {REFUSED}": 10, f"negative: {COPIED}": 10}


def test_a_model_that_repeats_itself_is_rejected(tmp_path: Path) -> None:
    def rule(request: Request) -> Generated:
        return said(request, "A dog runs.") if request.step < 100 else sound(request)

    result, _ = build(tmp_path / "t", rule)
    assert (result.triplets, result.rejected) == (1, {REPEATED: len(CORPUS) - 1})


def test_a_model_that_is_no_use_ends_the_work(tmp_path: Path) -> None:
    many = [f"{sentence} {n}" for n in range(2) for sentence in CORPUS]
    with pytest.raises(InputError, match=r"all of the first 80 triplets were rejected \(positive: refused 80\).*sorry"):
        build(tmp_path / "t", lambda request: said(request, "I am sorry."), partial(many))


def test_curation_keeps_swaps_and_rejects(tmp_path: Path) -> None:
    def rule(request: Request) -> Generated:
        if request.step >= 500:
            n = number(request)
            high = (request.step == SCORE_STEPS["positive"]) != (n % 4 == 1)  # swapped
            text = "none" if n % 4 == 2 else "4" if n % 4 == 3 else "5" if high else "2"
            assert request.greedy
            return said(request, text)
        return sound(request)

    result, engine = build(tmp_path / "t", rule, settings=settings(curation=Curation()))
    assert (result.triplets, result.swapped) == (20, 10)
    assert result.rejected == {UNSCORED: 10, WEAK_NEGATIVE: 10}
    for record in map(json.loads, result.data.read_text().splitlines()):
        assert record["scores"] == [5.0, 2.0]
        assert record["positive"].startswith("No house" if record["swapped"] else "Near tree")
    unscored = sum(number(request) % 4 == 2 and request.step >= 500 for request in engine.asked)
    assert unscored == 10  # a second score would not help


def test_one_seed_is_one_file_whatever_the_order_of_answers_and_the_limits(tmp_path: Path) -> None:
    whole, _ = build(tmp_path / "whole", engine_seed=1)
    build(tmp_path / "parts", engine_seed=2, limit=7)
    parts, engine = build(tmp_path / "parts", engine_seed=3)
    assert parts.data.read_bytes() == whole.data.read_bytes()
    assert len(engine.asked) == 2 * (len(CORPUS) - 7)
    other, _ = build(tmp_path / "other", seed=1)
    assert other.data.read_bytes() != whole.data.read_bytes()
    with pytest.raises(SettingError, match="was begun with shots 5, 4 asked now"):
        build(tmp_path / "whole", settings=settings(shots=4))


class Killed(BaseException):
    pass


class Mortal(ScriptedEngine):
    """Dies after so many answers."""

    def __init__(self, lives: int) -> None:
        super().__init__(sound)
        self.lives = lives

    def answer(self, requests: deque[Request]) -> Iterator[Generated]:
        for answer in super().answer(requests):
            if len(self.asked) > self.lives:
                raise Killed
            yield answer


@pytest.mark.parametrize("scratch", [False, True])
def test_what_was_answered_is_not_asked_again(tmp_path: Path, scratch: bool) -> None:
    source = (lambda: from_scratch()) if scratch else partial
    made = settings(curation=Curation())
    whole, complete = build(tmp_path / "whole", source=source(), settings=made, limit=30)
    asked = 0
    for lives in (5, 31, 40, 20):
        engine = Mortal(lives)
        with pytest.raises(Killed):
            construct_triplets(source(), engine, made, tmp_path / "t", limit=30)
        asked += len(engine.asked) - 1  # the last was lost
    with open(tmp_path / "t" / ANSWERS, "a") as log:
        log.write('{"number": 3, "st')  # killed while it wrote
    result, engine = build(tmp_path / "t", source=source(), settings=made, limit=30)
    assert asked + len(engine.asked) == len(complete.asked)
    assert result.data.read_bytes() == whole.data.read_bytes()


def from_scratch() -> ScratchAnchors:
    templates = read_pool("triplet_sentences_", ["count", "genre", "topics"])
    return ScratchAnchors(templates, ("letters", "poems"), ("rain", "trade", "love"), a_call=3)


def test_sentences_from_scratch(tmp_path: Path) -> None:
    result, engine = build(tmp_path / "t", source=from_scratch(), limit=20)
    assert result.triplets == 20
    calls = [request for request in engine.asked if request.step == SCRATCH_STEP]
    assert len(calls) == CALLS
    assert {("letters" in call.prompt.rpartition(TURN)[2]) for call in calls} == {True, False}
    assert all("rain" in call.prompt.rpartition(TURN)[2] for call in calls)
    assert not calls[0].one_line
    records = [json.loads(line) for line in result.data.read_text().splitlines()]
    assert {record["genre"] for record in records} == {"letters", "poems"}
    more, second = build(tmp_path / "t", source=from_scratch(), limit=120)
    assert more.triplets == 120
    assert sum(request.step == SCRATCH_STEP for request in second.asked) == CALLS  # the second window
    assert more.data.read_text().startswith(result.data.read_text())


def test_a_model_without_new_sentences(tmp_path: Path) -> None:
    def rule(request: Request) -> Generated:
        return said(request, "1. It rains a lot here.\n2. No.\n3. Rain again, so the match is off.")

    with pytest.raises(InputError, match=r"writes no new sentences after 160 calls \(1 of 9; not used: "):
        build(tmp_path / "t", rule, from_scratch(), limit=9)
    with pytest.raises(SettingError, match="sentences from scratch have no end"):
        build(tmp_path / "u", source=from_scratch())


@pytest.mark.parametrize("changed", [{"shots": -1}, {"attempts": 0}, {"longest": 1}, {"guidance": -1.0}], ids=str)
def test_settings_that_cannot_be_meant(changed: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(changed))):
        settings(**changed)


def test_anchors_that_cannot_be_used(tmp_path: Path) -> None:
    result, _ = build(tmp_path / "t", source=partial([*CORPUS, "word " * 70, "?!", CORPUS[0]]))
    assert result.rejected == {"anchor: too long": 1, "anchor: too short": 1}
    assert result.triplets == len(CORPUS)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS[:6]) + "\n")
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command()(triplets)
    app.command()(inspect)  # a group, as in the program: it turns errors into a line

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["nearer", "triplets", *map(str, ("--out", "t", *arguments))])
        with pytest.raises(SystemExit) as caught:
            app()
        told = capsys.readouterr()
        return int(caught.value.code or 0), told.out + told.err

    return run


def test_the_command_over_a_server_that_fails_now_and_then(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ChatServerEngine.__init__.__kwdefaults__ or {}, "first_wait", 0.001)
    monkeypatch.setenv("NEARER_API_KEY", "sk-secret")

    def rule(body: dict[str, Any], times: int) -> Any:
        text = body["messages"][-1]["content"]
        request = Request(0, 500 if "Score:" in text else 100 if _is_negative(body) else 0, text)
        trouble = [(429, "slow"), (500, "oh"), '{"half', completion(sound(request).text)]
        return trouble[min(times, 3)]

    with serving(rule) as server:
        options = ("--corpus", "corpus.txt", "--llm", server.url, "--batch", 3, "--show", 2)
        code, told = command(*options, "--nli", _nli(tmp_path))
    assert code == 0, told
    assert "data.jsonl: 6 triplets of 6 sentences" in told
    assert "the server's failures, all asked again: 429 12, 500 12, broken answer 12" in told
    assert "generated" in told
    assert "supervised (NLI)" in told
    assert "    + Near tree" in told
    assert "sk-secret" not in told + (tmp_path / "t" / "about.json").read_text()


def _is_negative(body: dict[str, Any]) -> bool:
    negatives = read_pool("triplet_negative_", ["sentence"])
    return any(body["messages"][0]["content"].startswith(one.ask.split("\n")[0]) for one in negatives)


def _nli(folder: Path) -> Path:
    (folder / "nli.tsv").write_text("It rains.\tIt is raining.\tIt is dry.\nA cat.\tAn animal.\tA dog.\n")
    return folder / "nli.tsv"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "one is needed"),
        (("--scratch", "--corpus", "corpus.txt"), "one is needed"),
        (("--scratch",), "--limit: sentences from scratch have no end"),
        (("--corpus", "none.txt"), "none.txt"),
        (("--corpus", "corpus.txt", "--alpha", 2), "--alpha: is for curation; add --curate"),
        (("--corpus", "corpus.txt", "--curate", "--beta", 7), "beta: 7.0 is not within 0 and 5"),
        (("--corpus", "corpus.txt", "--topics", "t.txt"), "--topics: is for sentences from scratch"),
        (("--corpus", "corpus.txt", "--positive-template", "none.txt"), "the template cannot be read"),
        (("--corpus", "corpus.txt", "--guidance", 1), "which a chat server does not give"),
        (("--corpus", "corpus.txt", "--nli", "none.csv"), "none.csv"),
    ],
)
def test_mistakes(command: Any, options: tuple[object, ...], said: str) -> None:
    code, told = command("--llm", "http://localhost:1", *options)
    assert (code, "Traceback" in told) == (1, False)
    assert told.splitlines()[-1].startswith("error: ")
    assert said in told.splitlines()[-1]
