"""The page in a real browser: nothing goes wrong, nothing sticks out, everything is drawn, in light and dark.

Needs Chromium (`apt-get install chromium`) and playwright; $NEARER_SCREENSHOTS names a folder to keep the pictures in.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import Runs

from nearer.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (it is in nearer[dev])")

SIZES = {"phone": (360, 740), "desktop": (1280, 900)}
NAMES = ("chromium", "chromium-browser", "google-chrome")

# what sticks out of the page: wider than the window, and not inside a box that scrolls
STICKING_OUT = """() => [...document.querySelectorAll("body *")]
  .filter((element) => !element.closest(".scroll, pre, svg") && element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName} ${element.className}: ${element.textContent.slice(0, 60)}`)"""

# charts without a size, without a mark, or with text that is cut off or too small to read
NOT_DRAWN = """() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const { width, height, left, right } = svg.getBoundingClientRect();
  const marks = svg.querySelectorAll(":scope > path, :scope > rect, :scope > circle, :scope > line");
  const size = (mark) => mark.getBoundingClientRect().width + mark.getBoundingClientRect().height;
  const drawn = [...marks].filter((mark) => size(mark) > 0);
  const outside = [...svg.querySelectorAll("*")].filter((part) => {
    const box = part.getBoundingClientRect();
    return box.width && (box.left < left - 2 || box.right > right + 2);
  });
  const scale = width / svg.viewBox.baseVal.width;
  const faults = [];
  if (width < 200 || height < 100) faults.push(`${width} × ${height}`);
  if (!drawn.length) faults.push("nothing drawn");
  if (outside.length) faults.push(`sticks out: ${outside[0].outerHTML.slice(0, 120)}`);
  if (11 * scale < 9.5) faults.push(`text of ${11 * scale} px`);
  return faults.map((fault) => `${svg.getAttribute("aria-label").slice(0, 40)}: ${fault}`);
})"""

# the contrast (WCAG 2) of text with what it stands on, where it is lowest
CONTRASTS = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = {};
  const all = "body, p, td, th, small, a, summary, code, button, dt, figcaption, svg text, .note, .place";
  for (const element of document.querySelectorAll(all)) {
    const style = getComputedStyle(element);
    const ink = light(element.closest("svg") ? style.fill : style.color);
    const [high, low] = [ink, light(paper(element))].sort((a, b) => b - a);
    const kind = `${element.tagName.toLowerCase()} ${element.getAttribute("class") || ""}`;
    found[kind] = Math.min(found[kind] ?? 99, (high + 0.05) / (low + 0.05));
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    with playwright.sync_playwright() as running:
        # as root, and in containers, Chromium has no sandbox to use
        started = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pages")
    targets = {"one": [runs.finished], "several": [runs.finished, runs.stopped, runs.seeds, runs.model]}
    tasks = {"one": None, "several": [str(runs.finished.parent / "dev pairs.jsonl"), "everyday"]}
    return {
        name: write_report(named, root / f"{name}.html", tasks=tasks[name], device="cpu")
        for name, named in targets.items()
    }


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path]) -> Iterator[Callable[..., tuple[Any, list[str]]]]:
    """`opened("one", "phone", "dark")`: the page with all that is folded unfolded, and what went wrong so far."""
    contexts = []

    def open_page(name: str, size: str, scheme: str) -> tuple[Any, list[str]]:
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page, wrong = context.new_page(), []
        page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: wrong.append(asked.url) if asked.url != pages[name].as_uri() else None)
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.goto(pages[name].as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((folded) => (folded.open = true))")
        return page, wrong

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["one", "several"])
def test_looked_at(
    opened: Callable[..., tuple[Any, list[str]]], tmp_path: Path, name: str, size: str, scheme: str
) -> None:
    page, wrong = opened(name, size, scheme)
    folder = Path(os.environ.get("NEARER_SCREENSHOTS", tmp_path))
    page.screenshot(path=folder / f"report-{name}-{size}-{scheme}.png", full_page=True)
    assert wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate("document.querySelectorAll('svg').length") >= 12
    assert page.evaluate(NOT_DRAWN) == []
    assert page.evaluate("window.harmed") is None
    contrasts = page.evaluate(CONTRASTS)
    assert contrasts["body "] > 10
    assert {kind: contrast for kind, contrast in contrasts.items() if contrast < 4.5} == {}


def test_dark_is_dark_and_light_is_light(opened: Callable[..., tuple[Any, list[str]]]) -> None:
    papers = [
        opened("one", "desktop", scheme)[0].evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert papers == ["rgb(253, 253, 252)", "rgb(21, 23, 26)"]


def test_lines_are_read_out_by_pointer_and_by_keyboard(opened: Callable[..., tuple[Any, list[str]]]) -> None:
    page, wrong = opened("several", "desktop", "light")
    chart = page.locator("figure", has_text="Dev score").locator("svg")
    readout = page.locator("figure", has_text="Dev score").locator("output")
    assert not readout.is_visible()
    chart.hover()
    assert readout.is_visible()
    assert "first <i>run" in readout.inner_text()
    page.mouse.move(0, 0)
    assert not readout.is_visible()
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith("step 0\n")
    page.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith("step 4\n")
    assert "stopped" in readout.inner_text()
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith("step 19\nfirst <i>run")
    assert "stopped" not in readout.inner_text()  # it did not get there
    page.keyboard.press("Escape")
    assert not readout.is_visible()
    assert wrong == []


def test_commands_are_copied_whole(opened: Callable[..., tuple[Any, list[str]]]) -> None:
    page, _ = opened("one", "desktop", "light")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(".code").first
    block.get_by_role("button").click()
    block.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == block.locator("code").text_content()
    assert copied.startswith("cat > ")


def test_wide_tables_scroll_in_their_box_and_keep_their_names(opened: Callable[..., tuple[Any, list[str]]]) -> None:
    page, _ = opened("several", "phone", "light")
    box = page.locator(".scroll", has=page.locator("caption", has_text="Geometry and biases")).first
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    first = box.locator("tbody th").first
    before = first.bounding_box()["x"]
    box.evaluate("(box) => (box.scrollLeft = 200)")
    assert first.bounding_box()["x"] == pytest.approx(before, abs=1)
