"""The page of adapt: whole, escaped, true to the outcome, and fit to be looked at."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import html
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_outcome import BASE, FIGURES, HOSTILE, TESTS, TRAINED, UNCERTAIN, WHOLE, WORDS, make_outcome
from typer.testing import CliRunner

from browser import CONTRASTS, SIZES, STICKING_OUT, picture_folder, started_browser
from nearer.adaptation.documents import Document
from nearer.adaptation.outcome import Outcome, write_documents
from nearer.adaptation.page import PAGE, RESULTS, render_page, write_outcome
from nearer.adaptation.tournament import Rung
from nearer.report.markup import CONTROLS
from nearer.storage.sealed import read_sealed_json
from parsed_page import Page

WITH_TEXT = "body, p, td, th, small, a, summary, code, dt, dd, li, figcaption, svg text, .mark, .ranks"


def words_of(outcome: Outcome) -> str:
    return "".join(Page(render_page(outcome)).text)


def rows_of(page: str, caption: str) -> list[list[str]]:
    """The cells of the rows of a table, as text."""
    table = next(found for found in re.findall(r"<table>.*?</table>", page, re.DOTALL) if caption in found)
    body = table[table.index("<tbody>") :]
    return [
        [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]


def sign(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212") if value else "0.00"


def test_a_student_that_was_dropped_on_its_way_is_told() -> None:
    words = words_of(make_outcome(rungs=[Rung(1250, {"lists": 47.31, "lists-faster": 46.88}, ["lists"])]))
    assert "After 1,250 steps of training" in words
    assert "lists 47.31, lists-faster 46.88. Training went on with lists and was ended for lists-faster" in words
    assert "at twice the learning rate" in words  # what its name means
    assert "were put to the tests" not in words_of(make_outcome())


def test_text_stays_text() -> None:
    page = Page(render_page(make_outcome()))
    words = "".join(page.text)
    for text in HOSTILE:
        assert CONTROLS.sub("\ufffd", text) in words
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "script", "i", "b"})
    assert len(page.all("h1")) == 1
    assert "ما هو وقت المطر؟" in words
    assert all(held.get("dir") == "auto" for held in page.all("bdi"))


def test_hostile_names_of_models_and_tests_stay_text() -> None:
    test, model = HOSTILE[1], HOSTILE[0]
    standings = [
        replace(each, contender=replace(each.contender), by_test={test: each.by_test["title"]})
        for each in (WHOLE, BASE)
    ]
    outcome = make_outcome(
        base=model, tests={test: TESTS["title"]}, standings=standings, chosen=standings[0], encoder_alone=standings[1]
    )
    outcome.asked.update(documents=[HOSTILE[1]], judge=HOSTILE[2], teachers=[HOSTILE[0]], model=model)
    page = Page(render_page(outcome))
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "script", "i", "b"})
    assert "".join(page.text).count("window.harmed") >= 4


def test_nothing_is_asked_for() -> None:
    written = render_page(make_outcome())
    page = Page(written)
    loading = [value for _, held in page.elements for name, value in held.items() if name in ("src", "href", "action")]
    assert all(value is not None and value.startswith(("#", "data:")) for value in loading)
    policy = next(held["content"] for held in page.all("meta") if held.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    style = re.search("<style>(.*?)</style>", written, flags=re.DOTALL)
    assert style is not None
    assert not re.search(r"url\(|@import|https?:", style.group(1))
    assert base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode() in policy
    assert not any("style" in held or any(name.startswith("on") for name in held) for _, held in page.elements)


def test_it_can_be_read_by_everyone() -> None:
    page = Page(render_page(make_outcome()))
    assert all(held.get("role") == "img" and held.get("aria-label") for held in page.all("svg"))
    assert len(page.all("table")) == len(page.all("caption"))
    ids = [held["id"] for _, held in page.elements if "id" in held]
    assert len(set(ids)) == len(ids)
    assert [f"#{name}" for name in ids] == [held["href"] for held in page.all("a")]


def test_the_verdict() -> None:
    words = words_of(make_outcome())
    assert "lists + 0.3 × BM25 + 1 × reranker is better on this text than all-MiniLM-L6-v2 as it is: " in words
    assert "+5.19 points of NDCG@10 (95 % interval +3.93 to +6.41)" in words
    assert "kept as it is" not in words


def test_the_verdict_where_nothing_is_better() -> None:
    words = words_of(make_outcome(BASE, changes=[]))
    assert "all-MiniLM-L6-v2 is kept as it is" in words
    assert "The best that was tried, base + 0.3 × reranker, gained +0.37 points of NDCG@10" in words
    assert "(95 % interval \u22120.75 to +1.52)" in words
    assert "Queries that changed" not in words


def test_the_verdict_where_nothing_else_was_tried() -> None:
    words = words_of(make_outcome(BASE, standings=[BASE], changes=[]))
    assert "all-MiniLM-L6-v2 is kept as it is" in words
    assert "The best that was tried" not in words


@pytest.mark.parametrize("chosen", [WHOLE, BASE])
def test_figures_of_tests(chosen: Any) -> None:
    compared = WHOLE if chosen is WHOLE else UNCERTAIN
    rows = rows_of(render_page(make_outcome(chosen)), "Tests made of the text")
    assert rows == [
        [
            name,
            str(test["queries"]),
            f"{100 * test['overlap']:.0f} %",
            f"{100 * test['weight']:.0f} %",
            f"{test['base']:.2f}",
            f"{compared.by_test[name]:.2f}",
            sign(compared.by_test[name] - test["base"]),
        ]
        for name, test in TESTS.items()
    ]


def test_figures_of_set_ups() -> None:
    written = render_page(make_outcome())
    facts = [
        (WHOLE, " chosen", 7.43 + 1.22 + 188.5, "56.07M"),
        (TRAINED, " best encoder alone", 7.43, "22.71M"),
        (BASE, " as it is", 7.31, "22.71M"),
        (WORDS, "", 7.31 + 1.22, "22.71M"),
    ]
    assert rows_of(written, "All set-ups") == [
        [
            f"{each.contender.name}{mark}",
            sign(each.gain),
            f"{sign(each.low)} to {sign(each.high)}",
            f"{latency:.1f}",
            weights,
        ]
        for each, mark, latency, weights in facts
    ]
    assert rows_of(written, "NDCG@10 × 100 by test") == [
        [f"{each.contender.name}{mark}", *(f"{value:.2f}" for value in each.by_test.values())]
        for each, mark, _, _ in facts
    ]


def test_a_drawn_interval_lies_where_its_figures_say() -> None:
    written = render_page(make_outcome())
    drawn = re.findall(r'<svg class="interval series-(\d)".*?x1="(.*?)".*?x1="(.*?)" x2="(.*?)".*?cx="(.*?)"', written)
    places = [tuple(map(float, each[1:])) for each in drawn]
    zero = places[0][0]
    unit = (places[0][3] - zero) / WHOLE.gain
    for (_, low, high, gain), standing in zip(places, (WHOLE, TRAINED, BASE, WORDS), strict=True):
        expected = [zero + unit * value for value in (standing.low, standing.high, standing.gain)]
        assert [low, high, gain] == pytest.approx(expected, abs=0.2)
    assert [each[0] for each in drawn] == ["3", "3", "1", "5"]  # better, better, uncertain, worse


def test_bars_of_gains_by_test() -> None:
    written = render_page(make_outcome())
    bars = [
        tuple(map(float, bar))
        for bar in re.findall(r'<rect class="bar [^"]*" x="(.*?)" y="(.*?)" width="(.*?)"', written)
    ]
    gains = [WHOLE.by_test[name] - test["base"] for name, test in TESTS.items()]
    assert [y for _, y, _ in bars] == sorted(y for _, y, _ in bars)  # in the order of the tests, from the top
    assert [width / bars[0][2] for _, _, width in bars] == pytest.approx([gain / gains[0] for gain in gains], abs=0.02)


def test_what_was_found() -> None:
    words = words_of(make_outcome(all_passages=2500))
    for told in (
        "1,398 kept of 1,461 read",
        "1 read, 2 unreadable",
        "1,600 searched of 2,500 found",
        "46 left out",
        "23 kept",
        "17 left out",
        "9,044 words cut out of 812 documents",
        "31 pictures",
        "docs/c.csv: 17 empty; ",
        "is encrypted",
    ):
        assert told in words


def test_unreadable_files_beyond_those_shown_are_counted() -> None:
    outcome = make_outcome()
    outcome.account["unreadable"] = {f"{number}.pdf": "is encrypted" for number in range(73)}
    words = words_of(outcome)
    assert "49.pdf" in words
    assert "50.pdf" not in words
    assert "23 more files: results.json names them." in words


def test_judges_and_their_weights() -> None:
    outcome = make_outcome()
    assert rows_of(render_page(outcome), "How much each judge counts") == [
        ["all-MiniLM-L6-v2 (the base)", "0"],
        ["all-mpnet-base-v2 (teacher)", "1"],
        ["BM25 (words in common)", "0"],
        ["models/judge (cross-encoder)", "0.3"],
    ]
    assert "+6.28 points of NDCG@10 above the base" in words_of(outcome)


def test_why_no_student_was_trained() -> None:
    assert "Students were trained" in words_of(make_outcome())
    outcome = make_outcome(trained=False)
    assert "No student was trained: the judges do not know enough" in words_of(outcome)
    outcome.plan["steps"] = 0
    assert "No student was trained: there was too little time" in words_of(outcome)
    outcome.plan["most_steps"] = 0
    assert "No student was trained, as was asked (--most-steps)" in words_of(outcome)


@pytest.mark.parametrize(
    ("asked_in", "told"),
    [
        (None, "Tests “in other words” have the queries"),
        ("documents", "people ask in the documents' words, so queries are taken as they come"),
        ("own", "people ask in their own words, so only queries that share the fewest words"),
    ],
)
def test_whose_words_were_asked_in(asked_in: str | None, told: str) -> None:
    outcome = make_outcome()
    outcome.asked["asked_in"] = asked_in
    assert told in words_of(outcome)


def test_queries_that_rose_and_fell() -> None:
    words = words_of(make_outcome())
    rose, fell = words[words.index("For better") :].split("For worse")
    assert rose.count("9 → 1") == len(HOSTILE)
    assert "not found → 4 was not there" in rose
    assert "2 → not found fell out" in fell
    assert f"{'a' * 200} …" in rose


def commands_of(outcome: Outcome) -> list[list[str]]:
    blocks = re.findall(r"<code class=\"language-sh\">(.*?)</code>", render_page(outcome), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in html.unescape(block).splitlines()]


def test_commands() -> None:
    build, query, serve, repeated = commands_of(make_outcome())
    documents, index = "my adapted/documents.jsonl", "my adapted/documents.index"
    assert build[:7] == ["nearer", "search", "build", "my adapted/model", documents, "--out", index]
    assert query[:4] == ["nearer", "search", "query", index]
    assert serve == ["nearer", "serve", "my adapted/model", "--index", index]
    assert repeated == shlex.split(
        'nearer adapt docs "it\'s more.csv" --model all-MiniLM-L6-v2 --teacher all-mpnet-base-v2 --judge models/judge '
        "--queries log.txt --budget 20min --seed 3 --columns text=body --out 'my adapted-again'"
    )


def test_options_of_the_commands_exist() -> None:
    from nearer.cli.main import app

    outcome = make_outcome()
    outcome.asked.update(most_steps=8000, most_queries=500, asked_in="own")
    assert "--asked-in own --budget 20min --most-steps 8000 --most-queries 500" in shlex.join(commands_of(outcome)[-1])
    for command in commands_of(outcome):
        names = command[1:3] if command[1] == "search" else command[1:2]
        shown = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
        assert all(option in shown for option in command if option.startswith("--"))


def test_documents_for_the_next_step(tmp_path: Path) -> None:
    texts = ["Größe\nзима 雨", "half \ud83d of a character"]
    write_documents(tmp_path, [Document(f"{number}", "a title", text, "") for number, text in enumerate(texts)])
    lines = (tmp_path / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"_id": f"{number}", "title": "a title", "text": text} for number, text in enumerate(texts)
    ]


def test_a_log_that_was_handed_over_in_memory() -> None:
    outcome = make_outcome()
    outcome.asked["queries"] = None
    assert "The 6,000 queries of the log were handed over in Python" in words_of(outcome)


def test_it_is_written_beside_the_figures(tmp_path: Path) -> None:
    outcome = make_outcome(folder=tmp_path)
    write_outcome(outcome)
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == render_page(outcome)
    assert read_sealed_json(tmp_path / RESULTS, "")["chosen"]["gain"] == 5.19


def test_template_and_style_are_installed_with_the_package() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    patterns = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-data"]["nearer"]
    for name in ("page.html.jinja", "page.css"):
        assert any(fnmatch.fnmatch(f"adaptation/{name}", pattern) for pattern in patterns)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chosen", [WHOLE, BASE], ids=["better", "kept"])
def test_looked_at(browser: Any, tmp_path: Path, chosen: Any, size: str, scheme: str) -> None:
    path = tmp_path / "page.html"
    labels = FIGURES if chosen is WHOLE else None
    path.write_text(render_page(make_outcome(chosen, labels=labels)), encoding="utf-8")
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("request", lambda asked: wrong.append(asked.url) if asked.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((folded) => (folded.open = true))")
    kind = "better" if chosen is WHOLE else "kept"
    page.screenshot(path=picture_folder(tmp_path) / f"adapt-{kind}-{size}-{scheme}.png", full_page=True)
    assert wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate("window.harmed") is None
    contrasts = page.evaluate(CONTRASTS, WITH_TEXT)
    assert {kind: contrast for kind, contrast in contrasts.items() if contrast < 4.5} == {}
    context.close()
