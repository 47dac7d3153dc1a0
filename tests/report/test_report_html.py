"""The page without a browser: whole, escaped, complete, asking for nothing; whatever state its runs are in."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import re
import shutil
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from tiny_runs import HOSTILE, Runs

import nearer.report
from nearer.report import write_report
from nearer.report.markup import CONTROLS
from parsed_page import Page


@pytest.fixture(scope="module")
def written(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page about everything: a finished run, a stopped one, seeds, a model."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    write_report([runs.finished, runs.stopped, runs.seeds, runs.model], out, device="cpu")
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(written: str) -> Page:
    return Page(written)


def test_text_stays_text(page: Page) -> None:
    """Sentences and names of files are all there, as they are, and none of them became an element."""
    words = "\n".join(page.text)
    for sentence in HOSTILE:
        assert CONTROLS.sub("\ufffd", sentence) in words
    assert "first <i>run" in words
    assert not page.all("img")
    assert not page.all("i")
    assert len(page.all("script")) == 1
    assert len(page.all("h1")) == 1


def test_nothing_is_asked_for(written: str, page: Page) -> None:
    loading = [
        value for _, held in page.elements for name, value in held.items() if name in ("src", "href", "action", "data")
    ]
    assert all(value is not None and value.startswith(("#", "data:")) for value in loading)
    style = written[written.index("<style>") : written.index("</style>")]
    assert not re.search(r"url\(|@import|https?:", style)
    policy = next(held["content"] for held in page.all("meta") if held.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        own = re.search(f"<{tag}>(.*?)</{tag}>", written, flags=re.DOTALL)
        assert own is not None
        assert base64.b64encode(hashlib.sha256(own.group(1).encode()).digest()).decode() in policy
    assert not any("style" in held or any(name.startswith("on") for name in held) for _, held in page.elements)


def test_it_can_be_read_by_everyone(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert len(page.all("figure")) == len(page.all("figcaption")) == len(page.all("svg"))
    assert all(held.get("role") == "img" and held.get("aria-label") for held in page.all("svg"))
    assert all(held.get("scope") in ("row", "col") for held in page.all("th"))
    assert len(page.all("table")) == len(page.all("caption"))
    scrolling = [held for held in page.all("div") if held.get("class") == "scroll"]
    assert len(scrolling) == len(page.all("table"))
    assert all(held.get("tabindex") == "0" and held.get("aria-label") for held in scrolling)
    assert page.all("html") == [{"lang": "en"}]
    ids = [held["id"] for _, held in page.elements if "id" in held]
    assert len(set(ids)) == len(ids)
    links = [held["href"] for held in page.all("a")]
    assert {f"#{name}" for name in ids} == set(links)


def test_every_subject_has_its_column_and_its_state_is_told(page: Page) -> None:
    words = "".join(page.text)
    for label in ("first <i>run", "stopped", "seeds/seed-0", "seeds/seed-10", "model & more", "mean ± sd"):
        assert label in words
    assert "stopped: the run is not finished; the last step noted is 10." in words


def test_equal_pages_from_equal_runs(runs: Runs, tmp_path: Path) -> None:
    pages = [write_report(runs.finished, tmp_path / "page.html", device="cpu", force=True).read_bytes() for _ in "ab"]
    assert pages[0] == pages[1]


class TestRunsInAnyState:
    def words(self, folder: Path, tmp_path: Path) -> str:
        out = write_report(folder, tmp_path / "page.html", device="cpu")
        return "".join(Page(out.read_text(encoding="utf-8")).text)

    def test_bad_lines_are_counted_and_shown(self, copied: Path, tmp_path: Path) -> None:
        with open(copied / "metrics.jsonl", "a") as file:
            file.write("<b>\n" * 6 + '{"step": 1')
        lines = len((copied / "metrics.jsonl").read_text().splitlines())
        words = self.words(copied, tmp_path)
        assert f"7 lines of metrics.jsonl could not be read and are not drawn (line {lines - 6}: not JSON" in words
        assert "and 2 more)" in words

    def test_one_that_has_only_begun(self, copied: Path, tmp_path: Path) -> None:
        for name in ("model", "checkpoints"):
            shutil.rmtree(copied / name)
        for name in ("metrics.jsonl", "scores.json"):
            (copied / name).unlink()
        words = self.words(copied, tmp_path)
        assert "No steps are recorded yet." in words
        assert "No test scores" in words
        assert "no model is in its folder" in words

    def test_one_without_scores(self, copied: Path, tmp_path: Path) -> None:
        (copied / "scores.json").unlink()
        words = self.words(copied, tmp_path)
        assert "dev pairs" in words  # scored for the page
        assert "Behind the scores" in words

    def test_one_whose_dev_pairs_are_gone(self, copied: Path, tmp_path: Path) -> None:
        config = (copied / "config.yaml").read_text()
        (copied / "config.yaml").write_text(config.replace("dev pairs.jsonl", "moved.jsonl"))
        words = self.words(copied, tmp_path)
        assert "The bundled everyday pairs (STS) are used instead of the dev tasks" in words
        assert "moved.jsonl" in words

    def test_one_that_notes_its_time_and_machine(self, copied: Path, tmp_path: Path) -> None:
        own = json.loads((copied / "model" / "nearer.json").read_text())
        own["provenance"] |= {"seconds": 306.4, "machine": {"cpu": "<two> cores", "gpu": None}}
        (copied / "model" / "nearer.json").write_text(json.dumps(own))
        words = self.words(copied, tmp_path)
        assert "19 steps in 5 min 6 s." in words
        assert "cpu <two> cores" in words

    def test_one_with_an_undefined_score(self, copied: Path, tmp_path: Path) -> None:
        content = json.loads((copied / "scores.json").read_text())
        content["scores"][0]["figures"]["spearman"] = None
        content["scores"][0]["remark"] = "undefined: all similarities are <equal>"
        (copied / "scores.json").write_text(json.dumps(content))
        assert "undefined: all similarities are <equal>." in self.words(copied, tmp_path)


def test_template_style_and_script_are_installed_with_the_package() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    patterns = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-data"]["nearer"]
    for name in ("page.html.jinja", "page.css", "page.js"):
        assert (Path(nearer.report.__file__).parent / name).is_file()
        assert any(fnmatch.fnmatch(f"report/{name}", pattern) for pattern in patterns), (
            f"pyproject.toml: package-data of nearer lacks report/{name}"
        )
    assert "look.css" in patterns  # of this page and the service's
