"""The page of a league: true to the outcome, escaped, asking for nothing; sorted, filtered and looked at in a browser.

The browser needs Chromium and playwright; $NEARER_SCREENSHOTS names a folder to keep the pictures in.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_league import Ground

from browser import CONTRASTS, SIZES, STICKING_OUT, picture_folder, started_browser
from nearer.evaluation.published import Published
from nearer.leagues.conclusion import find_published
from nearer.leagues.outcome import LeagueOutcome
from nearer.leagues.page import PAGE, render_page
from nearer.leagues.statistics import Difference
from parsed_page import Page

HOSTILE = "<script>window.harmed = true</script><img src=x onerror='window.harmed = true'> {{7*7}}"
WITH_TEXT = "body, p, td, th, small, a, summary, code, button, dt, dd, li, figcaption, svg text, select, input, .mark"
PUBLISHED = Published(
    "sts", "spearman", "SimCSE", "BERT-base", "SimCSE, Table 5", "SentEval, all", {"STS-B": 76.85}, 76.25
)


def crowded(outcome: LeagueOutcome, count: int = 9) -> LeagueOutcome:
    """The outcome with more methods than colours, each a tenth of a point below the one before."""
    [division] = outcome.divisions
    first = division.standings[0]
    made = []
    for number in range(count):
        runs = [
            replace(
                run,
                figures={name: (value or 0) - number / 10 for name, value in run.figures.items()},
                averages={kind: (value or 0) - number / 10 for kind, value in run.averages.items()},
            )
            for run in first.seeds
        ]
        certain = Difference(-number / 10, -number / 10 - 0.05, -number / 10 + 0.05, 0.002, items=True)
        made.append(
            replace(
                first,
                method=f"method-{number}",
                seeds=runs,
                against_best={"sts": certain} if number else {},
                published=[PUBLISHED] if number == 3 else [],
            )
        )
    names = [standing.method for standing in made]
    flips = {"sts": {one: {other: 0.25 for other in names if other != one} for one in names}, "transfer": {}}
    return replace(outcome, divisions=[replace(division, standings=made, flips=flips)])


def rows_of(page: str, caption: str) -> list[list[str]]:
    """The cells of the rows of a table, as text."""
    table = next(found for found in re.findall(r"<table>.*?</table>", page, re.DOTALL) if caption in found)
    body = table[table.index("<tbody>") :]
    return [
        [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]


def test_tables_say_what_the_outcome_says(whole: tuple[Ground, LeagueOutcome]) -> None:
    _, outcome = whole
    [division] = outcome.divisions
    written = render_page(outcome)
    for row, standing in zip(rows_of(written, "STS: spearman"), division.standings, strict=True):
        spreads = [*(standing.spread_of(name) for name in ("first", "second")), standing.average_of("sts")]
        assert row == [
            standing.method,
            *(f"{each.mean:.2f} ± {each.half:.2f}".replace("-", "\u2212") for each in spreads),
        ]
    trials = rows_of(written, "All trials")
    assert [row[0] for row in trials] == [each.method for each in division.standings for _ in each.trials]
    assert sum("chosen" in row[1] for row in trials) == 2
    assert [row[2] for row in trials] == [
        f"{trial.dev:.2f}".replace("-", "\u2212") for each in division.standings for trial in each.trials
    ]
    flips = rows_of(written, "flips")
    one, other = (each.method for each in division.standings)
    assert flips[0] == [one, "\u2013", f"{100 * division.flips['sts'][one][other]:.0f} %"]
    words = "".join(Page(written).text)
    assert f"{one} stands first on STS with" in words
    assert "how often the order of two single runs flips" in words


def test_text_stays_text_and_nothing_is_asked_for(whole: tuple[Ground, LeagueOutcome]) -> None:
    _, outcome = whole
    [division] = outcome.divisions
    standings = [replace(each, method=HOSTILE, needs=HOSTILE, teachers=[HOSTILE]) for each in division.standings]
    failing = replace(division.standings[0], method=HOSTILE, failures=[HOSTILE], seeds=[])
    plan = outcome.file.plan.model_copy(update={"title": HOSTILE, "corpus": HOSTILE})
    file = replace(outcome.file, plan=plan, text=HOSTILE)
    changed = replace(
        division, backbone=HOSTILE, standings=standings, unplaced=[failing], flips={"sts": {}, "transfer": {}}
    )
    written = render_page(replace(outcome, file=file, divisions=[changed, changed]))
    page = Page(written)
    assert HOSTILE in "".join(page.text)
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "i", "b"})
    assert len(page.all("script")) == len(page.all("h1")) == 1
    assert len({held["id"] for _, held in page.elements if "id" in held}) == sum(
        "id" in held for _, held in page.elements
    )
    loading = [value for _, held in page.elements for name, value in held.items() if name in ("src", "href", "action")]
    assert all(value == "data:," or value.startswith("#") for value in loading)
    targets = {held.get("id") for _, held in page.elements}
    assert {value[1:] for value in loading if value.startswith("#")} <= targets


def test_nothing_scored_yet(whole: tuple[Ground, LeagueOutcome]) -> None:
    _, outcome = whole
    [division] = outcome.divisions
    bare = replace(division, kinds={}, standings=[], unplaced=[replace(division.standings[0], seeds=[])], agreement=[])
    words = "".join(Page(render_page(replace(outcome, divisions=[bare]))).text)
    assert "No method has been scored on tiny yet." in words
    assert f"{division.standings[0].method}: not scored yet" in words


def test_published_figures_are_found_by_name_and_backbone() -> None:
    [sts] = [row for row in find_published("SimCSE", "roberta-base") if row.kind == "sts"]
    assert (sts.model, sts.backbone, sts.source) == ("SimCSE", "RoBERTa-base", "SimCSE, Table 5")
    [sts] = [row for row in find_published("RankCSE, ListMLE", "mobilebert-uncased") if row.kind == "sts"]
    assert (sts.model, sts.backbone) == ("RankCSE, ListMLE", "BERT-base")
    assert find_published("Nobody", "bert-base") == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


@pytest.fixture
def opened(browser: Any, whole: tuple[Ground, LeagueOutcome], tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`opened("phone", "dark")`: the page of many methods, all unfolded; what goes wrong fails the test."""
    path = tmp_path / PAGE
    path.write_text(render_page(crowded(whole[1])), encoding="utf-8")
    contexts, wrong = [], []

    def open_page(size: str, scheme: str) -> Any:
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: wrong.append(asked.url) if asked.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((folded) => (folded.open = true))")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("desktop", "light")])
def test_it_can_be_read(opened: Callable[..., Any], size: str, scheme: str, tmp_path: Path) -> None:
    page = opened(size, scheme)
    assert page.evaluate(STICKING_OUT) == []
    low = {kind: ratio for kind, ratio in page.evaluate(CONTRASTS, WITH_TEXT).items() if ratio < 4.5}
    assert low == {}
    page.screenshot(path=picture_folder(tmp_path) / f"league-{size}-{scheme}.png", full_page=True)


def test_columns_sort_and_filter(opened: Callable[..., Any]) -> None:
    page = opened("desktop", "light")
    table = page.locator(".sortable").first
    first_cells = """(box) => [...box.querySelectorAll("tbody tr")]
      .filter((row) => !row.hidden).map((row) => row.cells[0].textContent)"""
    methods = [f"method-{number}" for number in range(9)]
    assert table.evaluate(first_cells) == methods
    head = table.locator("thead th").nth(1)
    head.locator("button").click()  # the STS average, highest first
    assert (head.get_attribute("aria-sort"), table.evaluate(first_cells)) == ("descending", methods)
    head.locator("button").click()
    assert (head.get_attribute("aria-sort"), table.evaluate(first_cells)) == ("ascending", methods[::-1])
    field, column, told = table.locator("input"), table.locator("select"), table.locator("output")
    field.fill("OD-3")
    assert (table.evaluate(first_cells), told.inner_text()) == (["method-3"], "1 of 9 rows")
    column.select_option(label="STS")
    mean = float(
        table.locator("tbody tr", has_text="method-4")
        .locator("td")
        .first.inner_text()
        .split(" ")[0]
        .replace("\u2212", "-")
    )
    field.fill(f">{mean:.2f}")
    assert table.evaluate(first_cells) == methods[3::-1]
    field.fill(f"< {mean:.2f}")
    assert table.evaluate(first_cells) == methods[:4:-1]
    field.fill("")
    assert (len(table.evaluate(first_cells)), told.inner_text()) == (9, "")
