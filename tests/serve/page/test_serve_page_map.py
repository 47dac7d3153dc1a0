"""The map in a real browser: a query's place, pointer, finger and keyboard."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from page_service import Visit, corpus, settled

from nearer.search import SearchIndex

expect = pytest.importorskip("playwright.sync_api", reason="playwright is in nearer[dev]").expect

EGGS = "How long do eggs have to boil?"


def test_a_query_is_placed(visit: Callable[..., Visit], indexes: dict[str, SearchIndex]) -> None:
    one = visit()
    page = one.go(view="map")
    expect(page.locator("#panel-map .said")).to_contain_text("120 sentences, laid out by t-SNE")
    page.locator("#query").fill(EGGS)
    expect(page.locator("#panel-map .nearest li")).to_have_count(10)
    assert [text for text, _ in one.rows("#panel-map .nearest")] == [
        hit.text for hit in indexes["mean"].search(EGGS, 10)
    ]
    settled(page)
    placed = page.request.post(f"{page.url.split('#')[0]}map/place", data={"query": EGGS}).json()
    furthest = max(placed["results"], key=lambda hit: math.dist(place_of(hit), place_of(placed)))
    # the query's mark has the ink of text, the rings around its nearest sentences are empty
    assert colours_at(page, placed, furthest) == [[29, 32, 36, 255], [253, 253, 252, 255]]
    page.get_by_text("The map as a list").click()
    assert page.locator("details h3").count() == page.locator(".legend button").count() > 1


def test_by_pointer(visit: Callable[..., Visit]) -> None:
    page = visit().go(view="map")
    settled(page)
    readout = page.locator(".readout")
    page.mouse.move(*on_the_map(page, 5))
    expect(readout).to_be_visible()
    assert readout.inner_text() in corpus()
    page.mouse.move(0, 0)
    expect(readout).to_be_hidden()
    drawn, box = page.locator("canvas").screenshot(), page.locator("canvas").bounding_box()
    for step in (lambda: page.get_by_role("button", name="Nearer").click(), lambda: drag(page, box)):
        step()
        settled(page)
        before, drawn = drawn, page.locator("canvas").screenshot()
        assert before != drawn
    group = page.locator(".legend button").first
    group.click()
    expect(group).to_have_attribute("aria-pressed", "true")


def test_by_finger(visit: Callable[..., Visit]) -> None:
    page = visit("phone", has_touch=True).go(view="map")
    settled(page)
    page.touchscreen.tap(*on_the_map(page, 5))
    expect(page.locator(".readout")).to_be_visible()  # and stays to be read
    assert page.locator("canvas").evaluate("(map) => getComputedStyle(map).touchAction") == "pan-y"
    page.get_by_role("button", name="Nearer").tap()
    assert page.locator("canvas").evaluate("(map) => getComputedStyle(map).touchAction") == "none"


def test_by_keyboard(visit: Callable[..., Visit]) -> None:
    page = visit().go(view="map")
    settled(page)
    readout = page.locator(".readout")
    page.locator("canvas").focus()
    read = []
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "+", "ArrowLeft", "0"):
        page.keyboard.press(key)
        read.append(readout.inner_text())
    assert set(read) <= set(corpus())
    points = {point["text"]: point for point in page.request.get(f"{page.url.split('#')[0]}map").json()["points"]}
    assert points[read[0]]["x"] < points[read[1]]["x"]
    assert points[read[1]]["y"] < points[read[2]]["y"]
    assert points[read[3]]["x"] > points[read[4]]["x"]
    assert read[2] == read[3] != read[4] == read[5]
    page.keyboard.press("Enter")
    expect(page.locator("#query")).to_have_value(read[-1])
    expect(page.locator("#panel-map .nearest .text").first).to_have_text(read[-1])


def place_of(point: dict[str, Any]) -> tuple[float, float]:
    return point["x"], point["y"]


def colours_at(page: Any, *points: dict[str, Any]) -> list[list[int]]:
    """Of the map's pixels, each as red, green, blue and opacity."""
    pixels = """(canvas, places) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return places.map(([x, y]) => {
        const [across, down] = [18 + x * (canvas.width - 36), 18 + (1 - y) * (canvas.height - 36)].map(Math.round);
        return [...data.slice(4 * (down * canvas.width + across)).slice(0, 4)];
      });
    }"""
    return page.locator("canvas").evaluate(pixels, [place_of(point) for point in points])


def on_the_map(page: Any, number: int) -> tuple[float, float]:
    """Where a point is drawn: within a border of 1 and an edge of 18 pixels."""
    point = page.request.get(f"{page.url.split('#')[0]}map").json()["points"][number]
    page.locator("canvas").scroll_into_view_if_needed()
    box = page.locator("canvas").bounding_box()
    return box["x"] + 19 + point["x"] * (box["width"] - 38), box["y"] + 19 + (1 - point["y"]) * (box["height"] - 38)


def drag(page: Any, box: dict[str, float]) -> None:
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 150)
    page.mouse.up()
