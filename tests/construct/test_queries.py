"""Queries by a scripted model and by a tiny random one: styles, rules, interruption, the command."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from scripted_engine import ScriptedEngine, said
from tiny_language_model import make_language_model

from nearer.cli.construct_queries import queries
from nearer.cli.main import Commands
from nearer.construct.engines.prompts import rendered, without_turns
from nearer.construct.queries import (
    QueryPassage,
    QuerySettings,
    construct_queries,
    read_answers,
    read_query_template,
)
from nearer.construct.query_rules import (
    ABOUT_PASSAGE,
    ANSWERED,
    COPIED,
    CUT_OFF,
    EMPTY,
    FROM_PROMPT,
    NO_ROOM,
    OTHER_LANGUAGE,
    REPEATED,
    SAME_WORDS,
    STYLES,
    TOO_LONG,
    Style,
    find_fault,
    read_query,
)
from nearer.construct.requests import TURN, Generated, Request
from nearer.errors import InputError, SettingError

PASSAGES = [
    QueryPassage(f"d{n}#0", f"The animal of number {n} lives in the wood and sleeps all day long.") for n in range(40)
]
PASSAGE = PASSAGES[0].text


def animal(request: Request) -> str:
    return request.prompt.rpartition("number ")[2].split()[0]


def asking(request: Request) -> Generated:
    """A query that follows from the request alone."""
    return said(request, f"Question: “where is beast {animal(request)}?”")


@pytest.mark.parametrize(
    ("answer", "style", "query"),
    [
        ("Question: why?", "question", "why?"),
        ('**Search words:** "a b."', "keywords", "a b"),
        ("1. how so?", "question", "how so?"),
        ("what does `f` do?", "question", "what does f do?"),
        ("Statement: It rains.", "claim", "It rains."),
        (" \n", "claim", ""),
    ],
)
def test_queries_in_answers(answer: str, style: Style, query: str) -> None:
    assert read_query(answer, style) == query


@pytest.mark.parametrize(
    ("query", "style", "fault"),
    [
        ("where does the animal sleep?", "question", None),
        ("animal wood", "keywords", None),
        ("sleeps all day long", "keywords", COPIED),
        ("all day long", "keywords", None),
        ("Beasts of the forest rest by day.", "claim", None),
        ("", "claim", EMPTY),
        ("?!", "claim", EMPTY),
        ("word " * 41, "claim", TOO_LONG),
        ("one two three four five six seven eight nine ten eleven", "keywords", TOO_LONG),
        ("I know that the animal of number 0 lives in the wood.", "claim", COPIED),
        ("The animal sleeps.", "question", ANSWERED),
        ("Sure, here is one: animals", "plain_words", ANSWERED),
        ("Here are the words:", "keywords", ANSWERED),
        ("what does the passage say on animals?", "question", ABOUT_PASSAGE),
        ("what does this function do?", "question", ABOUT_PASSAGE),
        ("how does the method of Euler work?", "question", None),
        ("which animal sleeps long in the wood", "plain_words", SAME_WORDS),
        ("which animal sleeps long in the wood", "claim", None),
        ("what beast is tired among the trees", "plain_words", None),
        ("wie lange schläft das Tier und wo ist es?", "question", OTHER_LANGUAGE),
        ("動物はどこですか？", "question", OTHER_LANGUAGE),
        ("An example of that", "claim", FROM_PROMPT),
        ("my animal sleeps, do I get my money back", "plain_words", FROM_PROMPT),
    ],
)
def test_rules(query: str, style: Style, fault: str | None) -> None:
    assert find_fault(query, PASSAGE, style, ["an example of it", "no trip, do I get my money back"]) == fault


def test_other_languages_are_asked_in_their_own() -> None:
    german = "Das Tier lebt im Wald und schläft den ganzen Tag, wie die anderen auch."
    assert find_fault("wo schläft das Tier und wie lange ist es dort?", german, "question") is None
    assert find_fault("where does the animal sleep and for how long is it there?", german, "question") == OTHER_LANGUAGE
    assert find_fault("動物はどこにいますか？", "動物は森に住んでいて、昼は寝ています。", "question") is None


def test_the_data_follow_from_the_seed_alone(tmp_path: Path) -> None:
    settings = QuerySettings(per_passage=2)

    def build(name: str, limit: int | None, seed: int, batch: int) -> bytes:
        engine = ScriptedEngine(asking, batch=batch, seed=seed)
        return construct_queries(
            PASSAGES, engine, settings, tmp_path / name, limit=limit, batch=batch
        ).data.read_bytes()

    whole = build("whole", None, 1, 4)
    build("parts", 7, 2, 1)
    build("parts", 33, 3, 2)
    assert build("parts", None, 4, 3) == whole
    records = [json.loads(line) for line in whole.splitlines()]
    assert {record["kind"] for record in records} == set(STYLES)
    assert all(record["query"].endswith(f"beast {record['passage'][1:-2]}?") for record in records)


def test_each_passage_gets_each_style_once(tmp_path: Path) -> None:
    engine = ScriptedEngine(lambda request: said(request, f"what of {request.number}?"))
    settings = QuerySettings(per_passage=len(STYLES))
    result = construct_queries(PASSAGES, engine, settings, tmp_path / "q")
    records = [json.loads(line) for line in result.data.read_text().splitlines()]
    assert Counter((record["passage"], record["kind"]) for record in records) == Counter(
        {(passage.id, style): 1 for passage in PASSAGES for style in STYLES}
    )
    assert (result.queries, result.wanted, result.built) == (160, 160, 160)
    header = json.loads((tmp_path / "q/about.json").read_text())
    assert header["result"]["kinds"] == dict(result.kinds)
    assert set(header["about"]["templates"]) == set(STYLES)


def test_prompts_of_a_style_come_together_from_short_to_long(tmp_path: Path) -> None:
    engine = ScriptedEngine(asking, batch=1)
    passages = [QueryPassage(f"p{n}", f"number {n} " + "x " * (n * 7 % 5)) for n in range(20)]
    construct_queries(passages, engine, QuerySettings(("claim", "question")), tmp_path / "q", batch=20)
    labels = [request.prompt.rpartition("\n")[2] for request in engine.asked]
    assert labels == sorted(labels, reverse=True)  # "One short statement …" before "One question …"
    for label in set(labels):
        lengths = [len(r.prompt) for r in engine.asked if r.prompt.endswith(label)]
        assert lengths == sorted(lengths)


def test_what_is_rejected_is_counted_and_kept_in_the_journal(tmp_path: Path) -> None:
    def rule(request: Request) -> Generated:
        number = int(animal(request))
        if number == 1:
            return Generated(request, "", 0, "no room")
        if number == 2:
            return said(request, "what is one more of", "limit")
        return said(request, "where are all of them?" if number < 10 else f"which is number {number}?")

    result = construct_queries(PASSAGES, ScriptedEngine(rule), QuerySettings(), tmp_path / "q")
    assert result.rejected == {NO_ROOM: 1, CUT_OFF: 1, REPEATED: 7}
    kept, rejected = read_answers(tmp_path / "q")
    assert len(kept) == 31
    assert ("where are all of them?", REPEATED) in [(one["answer"], reason) for reason, one in rejected]


def test_a_model_that_gives_nothing_of_use_is_given_up(tmp_path: Path) -> None:
    engine = ScriptedEngine(lambda request: said(request, "Sure, here is the passage!"))
    many = [QueryPassage(f"p{n}", f"number {n}") for n in range(1000)]
    with pytest.raises(InputError, match="all of the first 128 answers were rejected"):
        construct_queries(many, engine, QuerySettings(), tmp_path / "q")


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"'questoin' is not one of .* Did you mean 'question'"):
        QuerySettings(("questoin",))  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="each once"):
        QuerySettings(("claim", "claim"))
    with pytest.raises(SettingError, match="per_passage"):
        QuerySettings(per_passage=0)
    with pytest.raises(InputError, match="none to write"):
        construct_queries([], ScriptedEngine(asking), QuerySettings(), tmp_path / "q")


def test_examples_are_turns_of_a_conversation() -> None:
    template = "{% for m in messages %}[{{ m['role'] }}: {{ m['content'] }}]{% endfor %}"
    prompt = f"one{TURN}two{TURN}three"
    assert rendered(template, prompt, "a model", {}) == "[user: one][assistant: two][user: three]"
    assert without_turns(prompt) == "one\ntwo\nthree"


@pytest.mark.parametrize("style", STYLES)
def test_templates_have_examples_and_end_with_the_passage(style: Style, tmp_path: Path) -> None:
    engine = ScriptedEngine(asking)
    construct_queries(PASSAGES[:1], engine, QuerySettings((style,)), tmp_path / "q")
    turns = engine.asked[0].prompt.split(TURN)
    assert len(turns) == 7
    assert f"Text: {PASSAGES[0].text}\n" in turns[-1]
    assert all(find_fault(query, text, style) is None for text, query in zip(turns[::2], turns[1::2], strict=False))


@pytest.mark.parametrize(
    ("text", "said"),
    [("no place", "once"), ("{passage}\n---\nx", "once, in its last turn"), ("a\n---\n{passage}", "the model's")],
)
def test_templates_that_cannot_be(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(text)
    with pytest.raises(InputError, match=said):
        read_query_template(tmp_path / "t.txt")


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)
    app.command()(queries)
    app.command("other")(lambda: None)
    llm = make_language_model(tmp_path / "llm")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("".join(f"the {who} eats lunch.\n" for who in ("fox", "dog", "man")))
    (tmp_path / "own.txt").write_text("away {passage} say\n")

    def run(*arguments: object) -> tuple[int, str]:
        usual = ("--documents", tmp_path / "docs", "--llm", llm, "--out", tmp_path / "q", "--device", "cpu")
        drawn = ("--temperature", 1.0, "--top-p", 1, "--styles", "claim", "--template", f"claim={tmp_path / 'own.txt'}")
        monkeypatch.setattr(sys, "argv", ["nearer", "queries", *map(str, (*usual, *drawn, *arguments))])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            app()
        return int(caught.value.code or 0), capsys.readouterr().err

    return run


def test_the_command(command: Command, tmp_path: Path) -> None:
    code, told = command("--per-passage", 1, "--limit", 2)
    assert code == 0, told
    assert "are left to ask for; without --limit it goes on" in told
    code, told = command("--show", 3)
    assert code == 0, told
    records = [json.loads(line) for line in (tmp_path / "q/data.jsonl").read_text().splitlines()]
    assert {record["passage"] for record in records} <= {f"a.txt:{line}#0" for line in (1, 2, 3)}
    assert "3 documents of 1 file" in told
    assert f"{len(records)} queries ({len(records)} claim)" in told
    assert f"claim: {records[0]['query']}   [" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--documents", "nowhere"), "nowhere: no such file or folder"),
        (("--styles", "poem"), "'poem' is not one of"),
        (("--template", "own.txt"), "not of the form STYLE=FILE"),
        (("--template", "claim=none.txt"), "none.txt: the template cannot be read"),
        (("--columns", "body"), "text=body"),
        (("--llm", "no/such/model"), "no/such/model"),
    ],
)
def test_mistakes(command: Command, arguments: tuple[str, ...], said: str) -> None:
    code, told = command(*arguments)
    assert code == 1
    assert told.splitlines()[-1].startswith("error: ")
    assert said in told
