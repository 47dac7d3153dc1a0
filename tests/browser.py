"""A real browser for pages, Chromium by playwright, and what is looked at on every page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patience import PAGE

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"phone": (360, 740), "desktop": (1280, 900)}

# what sticks out of the page: wider than the window, and not inside a box that scrolls
STICKING_OUT = """() => [...document.querySelectorAll("body *")]
  .filter((element) => !element.closest(".scroll, pre, svg") && element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName} ${element.className}: ${element.textContent.slice(0, 60)}`)"""

# the contrast (WCAG 2) of text with what it stands on, where it is lowest, for elements of a selector
CONTRASTS = """(all) => {
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
  for (const element of document.querySelectorAll(all)) {
    const style = getComputedStyle(element);
    const ink = light(element.closest("svg") ? style.fill : style.color);
    const [high, low] = [ink, light(paper(element))].sort((a, b) => b - a);
    const kind = `${element.tagName.toLowerCase()} ${element.getAttribute("class") || ""}`;
    found[kind] = Math.min(found[kind] ?? 99, (high + 0.05) / (low + 0.05));
  }
  return found;
}"""


@contextmanager
def started_browser() -> Iterator[Any]:
    """Skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (it is in nearer[dev])")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    playwright.expect.set_options(timeout=PAGE)
    with playwright.sync_playwright() as running:
        # as root, and in containers, Chromium has no sandbox to use
        started = running.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield started
        started.close()


def picture_folder(otherwise: Path) -> Path:
    """Where pictures are kept: the folder that $NEARER_SCREENSHOTS names."""
    return Path(os.environ.get("NEARER_SCREENSHOTS", otherwise))
