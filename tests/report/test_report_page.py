"""The page in a real browser: nothing goes wrong, nothing sticks out, everything is drawn, in light and dark.

Needs Chromium (`apt-get install chromium`) and playwright; $NEARER_SCREENSHOTS names a folder to keep the pictures in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import Runs

from browser import CONTRASTS, SIZES, STICKING_OUT, picture_folder, started_browser
from nearer.report import write_report

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

WITH_TEXT = "body, p, td, th, small, a, summary, code, button, dt, figcaption, svg text, .note, .rank"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as started:
        yield started


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
    folder = picture_folder(tmp_path)
    page.screenshot(path=folder / f"report-{name}-{size}-{scheme}.png", full_page=True)
    page.locator("section[aria-labelledby='curves']").screenshot(
        path=folder / f"report-{name}-curves-{size}-{scheme}.png"
    )
    assert wrong == []
    assert page.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate("document.querySelectorAll('svg').length") >= 12
    assert page.evaluate(NOT_DRAWN) == []
    assert page.evaluate("window.harmed") is None
    contrasts = page.evaluate(CONTRASTS, WITH_TEXT)
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
