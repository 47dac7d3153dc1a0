"""The page in a real browser over a real service with two models: typing, ranking, comparison, geometry.

Needs Chromium (`apt-get install chromium`) and playwright; $NEARER_SCREENSHOTS names a folder to keep the pictures in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from page_service import HOSTILE, Visit, settled, shown

from browser import CONTRASTS, SIZES, STICKING_OUT, picture_folder
from nearer.search import SearchIndex

expect = pytest.importorskip("playwright.sync_api", reason="playwright is in nearer[dev]").expect

EGGS = "How long do eggs have to boil?"
BITING = "An animal is biting a person's finger."
LIST = [
    "The stock market fell sharply on Tuesday.",
    "A man is holding a small dog in his arms.",
    "A hamster nips a girl's thumb.",
    "Someone has cut a finger with a knife.",
    "A creature sinks its teeth into somebody's finger.",
    "An animal is licking a person's hand.",
]
WITH_TEXT = (
    "body, h1, h2 span, h3, p, label, legend, textarea, select, button, .text, .score, .place, .moved, small, code,"
    "td, tbody th, th span, summary, figcaption, strong, svg text, .readout, #serving span"
)
VIEWS = {
    "search": {"view": "search", "q": EGGS},
    "rank": {"view": "rank", "q": BITING, "list": "\n".join(LIST)},
    "compare": {"view": "compare", "q": BITING, "list": "\n".join(LIST)},
    "compare-index": {"view": "compare", "q": EGGS, "over": "index"},
    "map": {"view": "map", "q": EGGS},
    "geometry": {"view": "geometry"},
}


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark"), ("phone", "light")])
def test_looked_at(visit: Callable[..., Visit], tmp_path: Path, size: str, scheme: str) -> None:
    one = visit(size, scheme)
    for name, state in VIEWS.items():
        page = one.go(**state)
        settled(page)
        page.screenshot(path=picture_folder(tmp_path) / f"page-{name}-{size}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0], name
        assert page.evaluate(STICKING_OUT) == [], name
        contrasts = page.evaluate(CONTRASTS, WITH_TEXT)
        assert contrasts["body "] > 10
        assert {kind: contrast for kind, contrast in contrasts.items() if contrast < 4.5} == {}, name
        assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)") == (
            scheme == "dark"
        )


class TestSearch:
    def test_typing(self, visit: Callable[..., Visit], indexes: dict[str, SearchIndex]) -> None:
        one = visit()
        page = one.go()
        expect(page.locator("#panel-search .said")).to_contain_text("which of 120 sentences are nearest")
        page.locator("#query").press_sequentially(EGGS)
        expect(page).to_have_title(f"{EGGS[:60]} · nearer")  # the last letters are asked after a pause as well
        settled(page)
        assert one.rows("#panel-search") == [(hit.text, shown(hit.score)) for hit in indexes["mean"].search(EGGS, 10)]
        widths = page.locator("#panel-search .fill").evaluate_all(
            "(bars) => bars.map((bar) => parseFloat(bar.style.width))"
        )
        assert widths == pytest.approx([100 * hit.score for hit in indexes["mean"].search(EGGS, 10)], abs=0.01)
        # a request for every few letters, not for each
        assert sum(url.endswith("/v1/search") for url in one.asked) < len(EGGS) / 3

    def test_more_and_another_model(self, visit: Callable[..., Visit], indexes: dict[str, SearchIndex]) -> None:
        one = visit()
        page = one.go(q=EGGS)
        page.get_by_role("button", name="More").click()
        expect(page.locator("#panel-search li")).to_have_count(40)
        page.get_by_label("Model").select_option("cls")
        expect(page.locator("#panel-search .said")).to_contain_text("by cls")
        assert one.rows("#panel-search") == [(hit.text, shown(hit.score)) for hit in indexes["cls"].search(EGGS, 10)]
        assert "model=cls" in page.url

    def test_what_looks_like_markup_is_text(self, visit: Callable[..., Visit]) -> None:
        one = visit()
        page = one.go(q=HOSTILE)
        settled(page)
        assert one.rows("#panel-search")[0] == (HOSTILE, "1.000")
        for view, state in {"rank": {"list": HOSTILE}, "compare": {"over": "index"}, "map": {}}.items():
            page = one.go(view=view, q=HOSTILE, **state)
            settled(page)
            assert one.rows(f"#panel-{view}")[0] == (HOSTILE, "1.000")
            assert page.locator("main img, main script").count() == 0


class TestRank:
    def test_example(self, visit: Callable[..., Visit], indexes: dict[str, SearchIndex]) -> None:
        one = visit()
        page = one.go(view="rank")
        expect(page.locator("#panel-rank .said")).to_contain_text("Type a sentence, and paste a list")
        page.get_by_role("button", name="Try an example").click()
        settled(page)
        expect(page.locator("#list-count")).to_have_text("6 sentences")
        query, lines = page.locator("#query").input_value(), page.locator("#list").input_value().split("\n")
        encoder = indexes["mean"].model.encoder
        scores = encoder.score_matrix(encoder.encode([query]), encoder.encode(lines))[0]
        order = (-scores).argsort()
        assert one.rows("#panel-rank") == [(lines[place], shown(scores[place])) for place in order]

    def test_which_of_two_is_nearer(self, visit: Callable[..., Visit]) -> None:
        one = visit()
        page = one.go(view="rank", q="A cat sleeps.", list="The bank raised its rates.\n\n  A cat is asleep.  ")
        settled(page)
        rows = one.rows("#panel-rank")
        assert [text for text, _ in rows] == ["A cat is asleep.", "The bank raised its rates."]
        gap = float(rows[0][1]) - float(rows[1][1])
        said = page.locator("#panel-rank .said").inner_text()
        assert said.startswith("The first is nearer, by ")
        assert float(said.split()[5]) == pytest.approx(gap, abs=0.002)
        page.locator("#list").fill("A cat is asleep.\nA cat is asleep.")
        expect(page.locator("#panel-rank .said")).to_contain_text("Both are equally near")

    def test_long_lists_are_shown_in_parts(self, visit: Callable[..., Visit]) -> None:
        page = visit().go(view="rank", q="rain")
        page.locator("#list").fill("\n".join(f"It rained on day {n}." for n in range(130)))
        expect(page.locator("#panel-rank li")).to_have_count(100)
        page.get_by_role("button", name="Show all 130").click()
        expect(page.locator("#panel-rank li")).to_have_count(130)


class TestCompare:
    def test_what_moved(self, visit: Callable[..., Visit], indexes: dict[str, SearchIndex]) -> None:
        one = visit()
        page = one.go(**VIEWS["compare"])
        settled(page)
        orders = []
        for index in indexes.values():
            encoder = index.model.encoder
            scores = encoder.score_matrix(encoder.encode([BITING]), encoder.encode(LIST))[0]
            orders.append([LIST[place] for place in (-scores).argsort()])
        assert [text for text, _ in one.rows(".side:first-child")] == orders[0]
        assert [text for text, _ in one.rows(".side:last-child")] == orders[1]
        marks = [orders[0].index(text) - place for place, text in enumerate(orders[1])]
        assert {by > 0 for by in marks} == {True, False}  # something moved
        wanted = [f"{'▲' if by > 0 else '▼'} {abs(by)}" if by else "=" for by in marks]
        told = page.locator(".side:last-child .moved").evaluate_all("(all) => all.map((mark) => mark.firstChild.data)")
        assert told == wanted
        assert page.locator(".lines path").count() == len(LIST)
        pairs = [(a, b) for place, a in enumerate(orders[0]) for b in orders[0][place + 1 :]]
        same = sum(orders[1].index(a) < orders[1].index(b) for a, b in pairs)
        expect(page.locator("#panel-compare .said")).to_contain_text(f"nearer in {same} of {len(pairs)} pairs")

    def test_over_the_indexes(self, visit: Callable[..., Visit], indexes: dict[str, SearchIndex]) -> None:
        one = visit("phone")
        page = one.go(view="compare", q=EGGS, list="something")
        page.get_by_label("the indexed sentences").check()
        expect(page.locator("#panel-compare .said")).to_contain_text("are the same sentences")
        found = [[hit.text for hit in index.search(EGGS, 10)] for index in indexes.values()]
        assert [[text for text, _ in one.rows(f".side:{side}-child")] for side in ("first", "last")] == found
        missing = set(found[0]) - set(found[1])
        expect(page.locator(".side:first-child .away")).to_have_count(len(missing))
        assert "over=index" in page.url


def test_geometry(visit: Callable[..., Visit]) -> None:
    page = visit().go(view="geometry")
    settled(page)
    told = [page.request.get(f"{page.url.split('#')[0]}geometry?model={name}").json() for name in ("mean", "cls")]
    rows = page.locator("tbody tr").all()
    assert [row.locator("td").all_inner_texts() for row in rows] == [
        [shown(figures[field]) for figures in told] for field in ("alignment", "uniformity", "mean_cosine")
    ]
    assert page.locator("#panel-geometry svg circle").count() == 2
    expect(page.locator("#panel-geometry")).to_contain_text("one word left out")


class TestKeyboard:
    def test_tabs(self, visit: Callable[..., Visit]) -> None:
        page = visit().go()
        page.keyboard.press("Tab")
        selected = page.locator("[role=tab][aria-selected=true]")
        seen = [selected.inner_text()]
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "ArrowLeft", "Home"):
            page.keyboard.press(key)
            expect(selected).to_be_focused()
            seen.append(selected.inner_text())
            assert page.locator("[role=tabpanel]:visible").get_attribute("aria-labelledby") == selected.get_attribute(
                "id"
            )
        assert seen == ["Search", "Rank", "Compare", "Rank", "Geometry", "Search", "Geometry", "Search"]
        assert selected.evaluate("(tab) => getComputedStyle(tab).outlineStyle") == "solid"

    def test_without_a_pointer(self, visit: Callable[..., Visit]) -> None:
        page = visit().go(view="rank")
        page.keyboard.press("/")
        expect(page.locator("#query")).to_be_focused()
        page.keyboard.type("either/or")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        expect(page.locator("#list")).to_be_focused()
        page.keyboard.type("this or that")
        page.keyboard.press("Enter")
        page.keyboard.type("a cat")
        expect(page.locator("#panel-rank .text")).to_have_text(["this or that", "a cat"])
        assert page.locator("#query").input_value() == "either/or"


@pytest.mark.parametrize("pause", [0, 600], ids=["before typing is answered", "after it"])
def test_links_and_going_back(visit: Callable[..., Visit], pause: int) -> None:
    page = visit().go(**VIEWS["rank"])
    settled(page)
    page.locator("#query").press_sequentially(" Ouch!", delay=0)
    page.wait_for_timeout(pause)
    page.get_by_role("tab", name="Map").click()
    settled(page)
    assert "view=map" in page.url
    assert page.locator("#query").input_value() == f"{BITING} Ouch!"
    page.go_back()
    expect(page.get_by_role("tab", name="Rank")).to_have_attribute("aria-selected", "true")
    assert page.locator("#list").input_value().split("\n") == LIST
    expect(page).to_have_title(f"{BITING} Ouch! · nearer")


def test_motion_is_left_out_where_it_is_not_wanted(visit: Callable[..., Visit]) -> None:
    page = visit(reduced_motion="reduce").go()
    page.locator("#panel-search").evaluate("(panel) => panel.setAttribute('aria-busy', 'true')")
    lasting = "(all) => all.map((each) => getComputedStyle(each).transitionDuration).filter((time) => time !== '0s')"
    assert page.locator("*").evaluate_all(lasting) == []
