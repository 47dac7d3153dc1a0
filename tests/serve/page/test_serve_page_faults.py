"""What the page says when something is missing, refused or gone, in a real browser over a real service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from page_service import Held, Visit, serving, visiting

from nearer.encoder import Encoder
from nearer.search import SearchIndex
from nearer.serve.model import ServedModel

expect = pytest.importorskip("playwright.sync_api", reason="playwright is in nearer[dev]").expect


@pytest.fixture(scope="module")
def wiki_mini(indexes: dict[str, SearchIndex]) -> Encoder:
    return indexes["mean"].model.encoder


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[[str], Visit]]:
    """Refusals are told by the browser too; beside these nothing may be wrong."""
    with ExitStack() as stack:
        visits = []

        def go(address: str) -> Visit:
            visits.append(stack.enter_context(visiting(browser, address)))
            return visits[-1]

        yield go
        assert [one.unexpected for one in visits] == [[] for _ in visits]


@pytest.fixture(scope="module")
def few(wiki_mini: Encoder, tmp_path_factory: pytest.TempPathFactory) -> SearchIndex:
    root = tmp_path_factory.mktemp("few")
    (root / "few.txt").write_text("".join(f"It rained on day {n}.\n" for n in range(12)), encoding="utf-8")
    return SearchIndex.build(wiki_mini, root / "few.txt", root / "index")


@pytest.fixture
def bare(wiki_mini: Encoder) -> Iterator[str]:
    """One model, no index, and short texts."""
    with serving(ServedModel(wiki_mini, "wiki-mini"), limits={"characters": 200, "items": 20}) as address:
        yield address


def test_without_index_and_second_model(visit: Callable[[str], Visit], bare: str) -> None:
    one = visit(bare)
    page = one.go()
    expect(page.get_by_role("tab", name="Rank")).to_have_attribute("aria-selected", "true")
    for tab, words in {
        "Search": "nearer search build wiki-mini sentences.txt --out sentences.index",
        "Compare": "nearer serve wiki-mini --beside MODEL",
        "Map": "nearer serve wiki-mini --index sentences.index",
        "Geometry": "nearer search build wiki-mini",
    }.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.locator("[role=tabpanel]:visible")).to_contain_text(words)
    assert one.wrong == []  # what cannot be had was not asked for
    expect(page.locator("#model-field")).to_be_hidden()


def test_second_model_without_index(visit: Callable[[str], Visit], wiki_mini: Encoder, few: SearchIndex) -> None:
    models = [ServedModel(wiki_mini, name) for name in ("one", "two")]
    with serving(models[0], index=few, beside=models[1]) as address:
        one = visit(address)
        page = one.go(view="search", q="rain", model="two")
        expect(page.locator("#panel-search")).to_contain_text("nearer serve one --beside two --beside-index")
        page.get_by_label("Model").select_option("one")
        expect(page.locator("#panel-search li")).to_have_count(10)
        page.get_by_role("tab", name="Geometry").click()
        expect(page.locator("#panel-geometry .said")).to_contain_text("two has no index and is left out.")
        expect(page.locator("#panel-geometry tbody td")).to_have_count(3)
        page.get_by_role("tab", name="Compare").click()
        expect(page.locator("#over")).to_be_hidden()
        page.locator("#list").fill("a\nb")
        expect(page.locator(".side")).to_have_count(2)
        assert one.wrong == []


def test_nothing_typed_asks_nothing(visit: Callable[[str], Visit], bare: str) -> None:
    one = visit(bare)
    page = one.go(view="rank", q=" ", list="a cat\n \n")
    expect(page.locator("#panel-rank .said")).to_contain_text("Type the sentence to compare")
    page.locator("#query").fill("a dog")
    expect(page.locator("#panel-rank .text")).to_have_text("a cat")
    page.locator("#list").fill("\n  \n")
    expect(page.locator("#panel-rank .said")).to_contain_text("Paste the sentences")
    expect(page.locator("#panel-rank li")).to_have_count(0)
    assert sum(url.endswith("/v1/rerank") for url in one.asked) == 1


@pytest.mark.parametrize(
    ("query", "lines", "said"),
    [
        ("x" * 201, ["a"], "The sentence: it has 201 characters; at most 200 are taken."),
        ("x", ["a", "b" * 300], "The list: number 2 has 300 characters; at most 200 are taken."),
        ("x", ["a"] * 21, "The list: 21 items in one request; at most 20 are taken."),
    ],
)
def test_too_much(visit: Callable[[str], Visit], bare: str, query: str, lines: list[str], said: str) -> None:
    page = visit(bare).go(view="rank", q="a", list="b")
    expect(page.locator("#panel-rank .text")).to_have_text("b")
    page.locator("#query").fill(query)
    page.locator("#list").fill("\n".join(lines))
    expect(page.locator("#panel-rank .fault")).to_contain_text(said)
    expect(page.locator("#panel-rank li")).to_have_count(0)  # the older answer is no answer to this
    expect(page.locator("#panel-rank .fault button")).to_have_count(0)  # the same again would be refused again
    page.locator("#query").fill("a")
    page.locator("#list").fill("c")
    expect(page.locator("#panel-rank .text")).to_have_text("c")
    expect(page.locator("#panel-rank .fault")).to_be_hidden()


def test_texts_longer_than_the_model_reads_are_told(visit: Callable[[str], Visit], wiki_mini: Encoder) -> None:
    with serving(ServedModel(wiki_mini, "wiki-mini")) as address:
        page = visit(address).go(view="rank", q="a", list="word " * 600 + "\nb")
        expect(page.locator("#panel-rank .said")).to_contain_text("1 text is longer than wiki-mini reads")


def test_service_gone_and_back(visit: Callable[[str], Visit], wiki_mini: Encoder) -> None:
    model = ServedModel(wiki_mini, "wiki-mini")
    with serving(model) as address:
        page = visit(address).go(view="rank", q="a cat", list="a dog")
        expect(page.locator("#panel-rank .text")).to_have_text("a dog")
    page.locator("#list").fill("a mouse")
    fault = page.locator("#panel-rank .fault")
    expect(fault).to_contain_text("The service does not answer. Is nearer serve still running?")
    with serving(model, port=int(address.rpartition(":")[2])):
        fault.get_by_role("button", name="Try again").click()
        expect(page.locator("#panel-rank .text")).to_have_text("a mouse")
        expect(fault).to_be_hidden()


def test_busy(visit: Callable[[str], Visit], wiki_mini: Encoder) -> None:
    model = Held(wiki_mini)
    with serving(model, busy_after=0.3) as address:
        page = visit(address).go(view="rank", q="a cat", list="a dog")
        fault = page.locator("#panel-rank .fault")
        expect(fault).to_contain_text("The service is busy. No answer within 0.3 seconds")
        model.gate.set()
        answered = page.locator("#panel-rank .text")
        while not answered.is_visible():  # beside other work even an open gate may not be passed in 0.3 seconds
            fault.get_by_role("button", name="Try again").click()
            expect(page.locator("#panel-rank")).not_to_have_attribute("aria-busy", "true")
            answered.or_(fault).filter(visible=True).first.wait_for()
        expect(answered).to_have_text("a dog")


def test_newer_typing_supersedes(visit: Callable[[str], Visit], wiki_mini: Encoder) -> None:
    model = Held(wiki_mini)
    with serving(model) as address:
        page = visit(address).go(view="rank", q="a cat")
        given_up = []
        page.on(
            "requestfailed", lambda request: given_up.append((request.post_data_json["documents"], request.failure))
        )
        for words in ("first", "second"):
            with page.expect_request("**/v1/rerank"):
                page.locator("#list").fill(words)
        expect(page.locator("#panel-rank")).to_have_attribute("aria-busy", "true")
        model.gate.set()
        expect(page.locator("#panel-rank .text")).to_have_text("second")
        assert given_up == [(["first"], "net::ERR_ABORTED")]
        expect(page.locator("#panel-rank .fault")).to_be_hidden()


def test_a_fault_of_the_query_leaves_the_map(
    visit: Callable[[str], Visit], wiki_mini: Encoder, few: SearchIndex
) -> None:
    with serving(ServedModel(wiki_mini, "wiki-mini"), index=few, limits={"characters": 200}) as address:
        page = visit(address).go(view="map", q="rain")
        expect(page.locator(".nearest li")).to_have_count(10)
        page.locator("#query").fill("x" * 201)
        expect(page.locator("#panel-map .fault")).to_contain_text("at most 200 are taken")
        expect(page.locator(".nearest li")).to_have_count(0)
        expect(page.locator("canvas")).to_be_visible()


class TestKey:
    @pytest.fixture
    def keyed(self, wiki_mini: Encoder) -> Iterator[str]:
        with serving(ServedModel(wiki_mini, "wiki-mini"), api_keys="secret") as address:
            yield address

    def test_asked_for_until_it_is_right(self, visit: Callable[[str], Visit], keyed: str) -> None:
        page = visit(keyed).go(view="rank", q="a cat", list="a dog")
        dialog = page.get_by_role("dialog", name="This service asks for a key")
        expect(dialog).to_be_visible()
        expect(page.locator("#key")).to_be_focused()
        for wrong, said in (("wrong", "That key is wrong"), ("clé secrète", "letters, digits and signs")):
            page.locator("#key").fill(wrong)
            page.keyboard.press("Enter")
            expect(dialog).to_contain_text(said)
        page.locator("#key").fill("secret")
        page.keyboard.press("Enter")
        expect(page.locator("#panel-rank .text")).to_have_text("a dog")
        expect(dialog).to_be_hidden()
        page.reload()
        expect(page.locator("#panel-rank .text")).to_have_text("a dog")
        assert page.evaluate("[localStorage.length, document.cookie, location.href.includes('secret')]") == [
            0,
            "",
            False,
        ]

    def test_put_off(self, visit: Callable[[str], Visit], keyed: str) -> None:
        page = visit(keyed).go(view="rank", q="a cat", list="a dog")
        page.get_by_role("button", name="Not now").click()
        expect(page.locator("#unreached")).to_contain_text("The service asks for a key.")
        page.get_by_role("button", name="Enter the key").click()
        page.locator("#key").fill("secret")
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("#panel-rank .text")).to_have_text("a dog")
        expect(page.locator("#unreached")).to_be_hidden()
