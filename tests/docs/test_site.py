"""The pages that `make docs` builds: all links lead somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from patience import HANG

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}  # tag: where it says what it loads
ELSEWHERE = re.compile(r"(url\(|@import)\s*['\"]?(https?:)?//")  # in a style sheet


def build(folder: Path, settings: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mkdocs", reason="pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(settings), "--site-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG)


class Page(HTMLParser):
    """Where a page leads to, what it loads, and the places in it that can be led to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.places.update(value for name in ("id", "name") if (value := values.get(name)))
        if tag == "a" and (target := values.get("href")):
            self.links.append(target)
        if tag in LOADED and (target := values.get(LOADED[tag])):
            self.loaded.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.glob("*.html") if path.name != "404.html"}  # which knows absolute links


def test_every_page_is_built(pages: dict[Path, Page]) -> None:
    assert {path.stem for path in pages} == {path.stem for path in (ROOT / "docs").glob("*.md")}


def test_every_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    lost = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            target = path.parent / unquote(parts.path) if parts.path else path
            known = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].places
            if not parts.scheme and not (target.exists() and (known or link == "#")):
                lost.append((path.name, link))
    assert lost == []


def test_nothing_comes_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    assert [link for page in pages.values() for link in page.loaded if urlsplit(link).netloc] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert not any(ELSEWHERE.search(text) for text in styles)


@pytest.mark.parametrize("link", ["nowhere.md", "index.md#no-such-place"])
def test_a_broken_link_ends_the_build(link: str, tmp_path: Path) -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")
    validation = settings[2].partition("\nvalidation:")
    (tmp_path / "mkdocs.yml").write_text("".join([settings[0], *validation[1:]]), encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Title\n\n[here]({link})\n", encoding="utf-8")
    done = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode == 1
    assert f"contains a link '{link}'" in done.stderr
    assert "in strict mode" in done.stdout + done.stderr
