"""The site in a real browser, opened from the disk as a reader without a server does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browser import picture_folder, started_browser

PHONE, DESKTOP = (390, 844), (1280, 900)
PICTURED = ("index", "reference-settings", "results")

# boxes that may be wider than the window scroll by themselves; nothing else may stick out
TOO_WIDE = "document.documentElement.scrollWidth - innerWidth"
CUT_OFF = """() => [...document.querySelectorAll('[role="main"] pre code, [role="main"] table')]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .filter((box) => getComputedStyle(box).overflowX !== "auto" || box.classList.contains("language-sh"))
  .map((box) => box.textContent.slice(0, 60))"""
MENU_LINES = """() => new Set([...document.querySelectorAll(".navbar .navbar-nav > li")]
  .map((item) => Math.round(item.getBoundingClientRect().top))).size"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


@contextmanager
def opened(browser: Any, size: tuple[int, int], colours: str = "light") -> Iterator[Any]:
    """A page on which nothing may go wrong."""
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=colours)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert wrong == []


@pytest.mark.parametrize(("size", "colours"), [(PHONE, "light"), (DESKTOP, "dark")], ids=["phone", "desktop"])
def test_every_page_fits_the_window(
    browser: Any, site: Path, size: tuple[int, int], colours: str, tmp_path: Path
) -> None:
    with opened(browser, size, colours) as page:
        for path in sorted(site.glob("*.html")):
            if path.name == "404.html":  # it knows absolute links only
                continue
            page.goto(path.as_uri())
            assert (path.name, page.evaluate(TOO_WIDE)) == (path.name, 0)
            assert (path.name, page.evaluate(CUT_OFF)) == (path.name, [])
            assert page.evaluate("document.documentElement.dataset.bsTheme") == colours
            if path.stem in PICTURED:
                page.screenshot(path=picture_folder(tmp_path) / f"site-{path.stem}-{size[0]}-{colours}.png")


def test_the_menu_is_one_line(browser: Any, site: Path) -> None:
    with opened(browser, DESKTOP) as page:
        for name in ("index", "how-do-i", "reference-python"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate(MENU_LINES) == 1


def test_the_switch_between_light_and_dark(browser: Any, site: Path) -> None:
    with opened(browser, DESKTOP) as page:
        page.goto((site / "index.html").as_uri())
        page.locator("#theme-menu").click()
        page.locator('[data-bs-theme-value="dark"]').click()
        assert page.evaluate("document.documentElement.dataset.bsTheme") == "dark"


class TestSearch:
    @pytest.fixture
    def ask(self, browser: Any, site: Path) -> Iterator[Any]:
        with opened(browser, DESKTOP) as page:
            page.goto((site / "index.html").as_uri())

            def ask(words: str) -> Any:
                page.keyboard.press("Escape")
                page.locator('[data-bs-target="#mkdocs_search_modal"]').click()
                page.locator("#mkdocs-search-query").fill(words)
                page.locator("#mkdocs-search-results > *, #mkdocs-search-results:not(:empty)").first.wait_for()
                return page

            yield ask

    def test_finds_a_word_and_leads_to_it(self, ask: Any) -> None:
        page = ask("gradient caching")
        first = page.locator("#mkdocs-search-results a").first
        target = first.get_attribute("href")
        assert ".html" in target
        first.click()
        page.wait_for_url(f"**/{target.removeprefix('./')}")

    def test_half_a_word_finds_its_page(self, ask: Any) -> None:
        links = ask("quantis").locator("#mkdocs-search-results a")
        assert any("export.html" in str(link.get_attribute("href")) for link in links.all())

    @pytest.mark.parametrize("words", ["zzyzx", 'text:"[', "<b>zzyzx</b>"])
    def test_what_is_nowhere(self, ask: Any, words: str) -> None:
        page = ask(words)
        results = page.locator("#mkdocs-search-results")
        assert results.locator("b").count() == 0
        assert "No results found" in results.inner_text() or results.locator("article").count()
