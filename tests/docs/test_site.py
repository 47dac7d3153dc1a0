"""The pages that `make docs` builds: all links lead somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from site_build import build_site

import nearer
from nearer.methods import METHODS
from nearer.teachers import TeacherSettings
from nearer.training.recipes import recipe_names
from nearer.training.settings import TrainingSettings

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}  # tag: where it says what it loads
MADE_FROM_THE_CODE = {f"reference-{what}" for what in ("settings", "recipes", "commands", "python")}
ELSEWHERE = re.compile(r"(url\(|@import)\s*['\"]?(https?:)?//")  # in a style sheet


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
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.glob("*.html") if path.name != "404.html"}  # which knows absolute links


def test_every_page_is_built(pages: dict[Path, Page]) -> None:
    written = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.stem for path in pages} == written | MADE_FROM_THE_CODE


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
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for ours in ("nav", "hooks", "plugins", "extra_css", "extra_javascript"):  # whose files are elsewhere
        del settings[ours]
    del settings["theme"]["custom_dir"]
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Title\n\n[here]({link})\n", encoding="utf-8")
    done = build_site(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode == 1
    assert f"contains a link '{link}'" in done.stderr
    assert "in strict mode" in done.stdout + done.stderr


class TestReference:
    """What is shown comes from the code: a setting, recipe, command or class that is there has its place."""

    def test_settings(self, pages: dict[Path, Page], site: Path) -> None:
        text = (site / "reference-settings.html").read_text(encoding="utf-8")
        models = [TrainingSettings, TeacherSettings, *(method.Settings for method in METHODS.values())]
        for model in models:
            assert [name for name in model.model_fields if f"<code>{name}</code>" not in text] == []
        assert "how often training goes through the whole corpus" in text

    def test_recipes(self, pages: dict[Path, Page], site: Path) -> None:
        assert set(recipe_names()) <= pages[site / "reference-recipes.html"].places

    def test_commands(self, site: Path) -> None:
        text = (site / "reference-commands.html").read_text(encoding="utf-8")
        for command in ("train", "search build", "export onnx", "data read", "settings"):
            assert re.search(rf'<h2 id="[\w-]+">nearer {command}</h2>', text)
        assert "<code>--max-steps" in text

    def test_classes(self, pages: dict[Path, Page], site: Path) -> None:
        places = pages[site / "reference-python.html"].places
        assert [name for name in nearer.__all__ if f"nearer.{name}" not in places] == []
        assert "nearer.Encoder.rank" in places
        assert "nearer.integrations.sentence_transformers.RankCSELoss" in places
