"""Pictures of a sweep: heat maps over two settings and more, curves over one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nearer.sweeps.heat_map import draw, figure
from nearer.sweeps.results import SweepPoint, SweepResult, SweepRun


def made(grid: dict[str, list[Any]], folder: Path, score: Callable[..., float | None], seeds: Sequence[int]) -> Any:
    points = []
    for combination in itertools.product(*grid.values()):
        settings, runs = dict(zip(grid, combination, strict=True)), []
        for seed in seeds:
            dev = score(*combination, seed)
            runs.append(
                SweepRun(settings, seed, folder, "failed" if dev is None else "finished", dev=dev, reason="NaN")
            )
        points.append(SweepPoint(settings, runs))
    return SweepResult(folder, "own", grid, list(seeds), points)


class TestPictures:
    TWO = {"b": [0.1, 0.0125, 0.05], "a": [2, 1]}  # noqa: RUF012

    def test_a_heat_map_is_written(self, tmp_path: Path) -> None:
        from matplotlib.image import imread

        assert draw(made(self.TWO, tmp_path, lambda b, a, seed: 70 + b + a, [0])) == tmp_path / "heat-map.png"
        pixels = imread(tmp_path / "heat-map.png")
        assert min(pixels.shape[:2]) > 400
        middle = pixels[len(pixels) // 4 : -len(pixels) // 4, : pixels.shape[1] // 2, :3]
        assert len({tuple(pixel) for pixel in middle.reshape(-1, 3).round(2)}) > 20

    def test_a_curve_replaces_the_heat_map_when_one_setting_is_left(self, tmp_path: Path) -> None:
        two = made(self.TWO, tmp_path, lambda b, a, seed: 70 + b, [0])
        assert draw(two) == tmp_path / "heat-map.png"
        one = made({"a": [1, 2], "b": [1]}, tmp_path, lambda a, b, seed: 70 + a, [0])
        assert draw(one) == tmp_path / "curve.png"
        assert [path.name for path in tmp_path.glob("*.png")] == ["curve.png"]
        assert draw(made({"a": [1]}, tmp_path, lambda a, seed: 70, [0])) is None

    def test_axes_are_in_numeric_order_with_every_figure_in_its_cell(self, tmp_path: Path) -> None:
        result = made(self.TWO, tmp_path, lambda b, a, seed: 70 + 100 * b + a + seed, [0, 1])
        axes = figure(result).axes[0]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0.0125", "0.05", "0.1"]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("b", "a")
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        expected = {(x, y): 70.5 + 100 * b + a for x, b in enumerate((0.0125, 0.05, 0.1)) for y, a in enumerate((1, 2))}
        assert texts == {place: f"{mean:.2f}\n± 0.71" for place, mean in expected.items()}
        shown = axes.images[0].get_array()
        assert {(x, y): shown[y][x] for x, y in expected} == pytest.approx(expected)
        [outline] = axes.patches
        assert outline.get_xy() == pytest.approx((2 - 0.47, 1 - 0.47))
        assert "own: dev score, seeds 0, 1" in figure(result).get_suptitle()

    def test_failed_and_collapsed_points(self, tmp_path: Path) -> None:
        scores = {(0.1, 2): None, (0.1, 1): -100.0}
        result = made(self.TWO, tmp_path, lambda b, a, seed: scores.get((b, a), 70 + 10 * b + a), [0])
        axes = figure(result).axes[0]
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        assert (texts[2, 1], texts[2, 0]) == ("failed", "-100.00")
        assert axes.images[0].norm.vmin > 60  # one collapsed point does not take all colours

    def test_three_settings_make_three_panels_with_means_over_the_others(self, tmp_path: Path) -> None:
        grid = {**self.TWO, "c": ["x", "w"], "d": [5]}
        result = made(grid, tmp_path, lambda b, a, c, d, seed: 70 + a + (c == "w"), [0])
        drawn = figure(result)
        panels = [axes for axes in drawn.axes if axes.images]
        assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in panels] == [("b", "a"), ("b", "c"), ("a", "c")]
        assert panels[0].texts[0].get_text() == "71.50"
        assert [label.get_text() for label in panels[1].get_yticklabels()] == ["x", "w"]
        assert "at d=5; each panel: mean over the other settings" in drawn.get_suptitle()

    def test_a_curve_has_error_bars_and_a_place_for_what_failed(self, tmp_path: Path) -> None:
        result = made({"a": [1e-3, 1e-5, 1e-4]}, tmp_path, lambda a, seed: None if a > 5e-4 else 70 + seed, [0, 2])
        [axes] = figure(result).axes
        [bars] = axes.containers
        assert [segment[:, 1].tolist() for segment in bars.lines[2][0].get_segments()] == [
            pytest.approx([71 - 2**0.5, 71 + 2**0.5])
        ] * 2
        assert axes.get_xscale() == "log"
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1e-05", "0.0001", "0.001"]
        low, high = axes.get_xlim()
        assert low < 1e-5 < 1e-3 < high
        assert "failed" in [text.get_text() for text in axes.texts]
