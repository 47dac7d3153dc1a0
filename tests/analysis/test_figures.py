"""Drawings: what stands on the axes is what was found; files are equal for equal figures and readable on any page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from nearer.analysis import plots
from nearer.analysis.bias import Bin, FrequencyBias, PairBias
from nearer.analysis.bootstrap import Comparison
from nearer.analysis.figures import COLOURS, INK, figure_of, figure_svg, panels, save_figure
from nearer.analysis.geometry import PathPoint
from nearer.analysis.rank_space import Gain, GainGroup, RankSpace, Space
from nearer.analysis.ratings import GroupScores, rating_distributions
from nearer.errors import InputError, MissingExtraError, SettingError

POINTS = [
    PathPoint("start", 0.2, -1.0, 50.0, 0),
    PathPoint("middle", 0.25, -2.0, 60.0, 10),
    PathPoint("end", 0.3, -3.0),
]
BINS = (Bin(0, 2, 10, 0.4), Bin(3, 9, 12, 0.35))
BIAS = PairBias("length difference (words)", -0.004, BINS, None, BINS, 22)


def simple(**options: object) -> Figure:
    return figure_of(lambda axes: plots.draw_spectra(axes, {"a": [1, 0.5], "b": [1, 0.2]}), **options)  # type: ignore[arg-type]


class TestWriting:
    @pytest.mark.parametrize("kind", ["svg", "png"])
    def test_equal_figures_are_equal_files(self, kind: str, tmp_path: Path) -> None:
        first, second = (save_figure(simple(), tmp_path / f"{name}.{kind}") for name in "ab")
        assert first.read_bytes() == second.read_bytes()
        assert b"matplotlib.org" not in first.read_bytes().replace(b"https://matplotlib.org/svg", b"")

    def test_the_background_is_transparent(self, tmp_path: Path) -> None:
        from PIL import Image

        with Image.open(save_figure(simple(), tmp_path / "a.png")) as image:
            assert image.convert("RGBA").getpixel((0, 0))[3] == 0

    def test_ink_is_the_colour_of_text_and_frame(self) -> None:
        [axes] = simple(ink="#123456", title="what").axes
        assert matplotlib.colors.to_hex(axes.xaxis.label.get_color()) == "#123456"
        assert matplotlib.colors.to_hex(axes.spines["left"].get_edgecolor()) == "#123456"
        assert {text.get_color() for text in axes.get_legend().get_texts()} == {"#123456"}

    def test_the_users_own_style_is_left_alone(self) -> None:
        before = dict(matplotlib.rcParams)
        simple(ink="red")
        assert dict(matplotlib.rcParams) == before

    @pytest.mark.parametrize("page", ["#ffffff", "#121212"])
    def test_colours_stand_out_on_light_and_dark_pages(self, page: str) -> None:
        assert min(contrast(colour, page) for colour in COLOURS) >= 3
        assert contrast(INK, page) >= 4

    def test_unknown_suffix_colour_and_folder(self, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"a\.pdf: a figure is written as \.svg or \.png"):
            save_figure(simple(), tmp_path / "a.pdf")
        with pytest.raises(SettingError, match="ink: 'inky' is not a colour"):
            simple(ink="inky")
        with pytest.raises(InputError, match="cannot be written"):
            save_figure(simple(), tmp_path / "none" / "a.svg")


def contrast(one: str, two: str) -> float:
    """As the Web Content Accessibility Guidelines have it."""

    def luminance(colour: str) -> float:
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


class TestForAPage:
    def test_it_is_one_element_in_the_pages_colour(self) -> None:
        text = figure_svg(simple(), "spectrum", label='values "a" & b')
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg")
        assert root.get("aria-label") == 'values "a" & b'
        assert (root.get("width"), root.get("height")) == (None, None)
        assert "width:100%" in root.get("style", "")
        assert root.get("viewBox")
        assert "currentColor" in text
        assert INK not in text
        assert "<style" not in text  # it would hold for the whole page
        assert "<?xml" not in text
        assert "<metadata" not in text

    def test_ids_are_its_own_and_all_references_resolve(self) -> None:
        one, two = figure_svg(simple(), "one"), figure_svg(simple(), "two")
        ids = [set(re.findall(r'\bid="([^"]*)"', text)) for text in (one, two)]
        assert not ids[0] & ids[1]
        assert all(name.startswith("one-") for name in ids[0])
        used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', one))
        assert used
        assert used <= ids[0]

    def test_text_stays_text(self) -> None:
        assert "singular value, by size" in figure_svg(simple(), "one")

    def test_equal_figures_give_equal_text(self) -> None:
        assert figure_svg(simple(), "one") == figure_svg(simple(), "one")

    @pytest.mark.parametrize("name", ["", "1st", 'a"b', "a b"])
    def test_a_name_must_fit_before_ids(self, name: str) -> None:
        with pytest.raises(SettingError, match="cannot stand before ids"):
            figure_svg(simple(), name)


class TestDrawings:
    def test_path(self) -> None:
        [axes] = figure_of(lambda axes: plots.draw_path(axes, POINTS)).axes
        assert [tuple(float(v[0]) for v in line.get_data()) for line in axes.lines] == [
            (-1.0, 0.2),
            (-2.0, 0.25),
            (-3.0, 0.3),
        ]
        texts = [text.get_text() for text in axes.texts]
        assert texts.count("") == 2  # arrows
        assert [text for text in texts if text] == ["start (50.0)", "middle (60.0)", "end"]
        [without] = figure_of(lambda axes: plots.draw_path(axes, POINTS, arrows=False)).axes
        assert "" not in [text.get_text() for text in without.texts]

    def test_a_long_path_is_named_at_its_ends(self) -> None:
        points = [PathPoint(f"step {n}", 0.2 + n / 100, -n / 10, None, n) for n in range(30)]
        [axes] = figure_of(lambda axes: plots.draw_path(axes, points)).axes
        assert [text.get_text() for text in axes.texts if text.get_text()] == ["step 0", "step 29"]

    def test_uniformity_over_steps(self) -> None:
        [axes] = figure_of(lambda axes: plots.draw_uniformity(axes, POINTS)).axes
        assert axes.lines[0].get_xydata().tolist() == [[0, -1], [10, -2]]

    def test_points_that_have_no_place(self) -> None:
        with pytest.raises(InputError, match="no point has an alignment"):
            figure_of(lambda axes: plots.draw_path(axes, [PathPoint("a", None, -1.0)]))
        with pytest.raises(InputError, match="no point has a step"):
            figure_of(lambda axes: plots.draw_uniformity(axes, [PathPoint("a", None, -1.0)]))

    def test_distributions(self) -> None:
        found = rating_distributions(np.array([0.1, 0.2, 0.5, 0.9]), np.array([0.5, 0.6, 2.5, 5]))
        [axes] = figure_of(lambda axes: plots.draw_distributions(axes, found)).axes
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == ["0–1\n(2)", "1–2\n(0)", "2–3\n(1)", "3–4\n(0)", "4–5\n(1)"]
        assert len(axes.collections) == 3  # an empty group has no shape
        medians = [line.get_xydata().tolist()[0] for line in axes.lines if line.get_marker() == "o"]
        assert medians == [[pytest.approx(0.15), 0], [0.5, 2], [0.9, 4]]

    def test_biases(self) -> None:
        frequency = FrequencyBias(0.5, None, BINS, 22, 0)
        drawn = panels(
            [
                lambda axes: plots.draw_pair_bias(axes, BIAS),
                lambda axes: plots.draw_excess(axes, BIAS),
                lambda axes: plots.draw_frequency_bias(axes, frequency),
            ],
            across=2,
        )
        first, second, third, empty = drawn.axes
        assert first.lines[0].get_xydata().tolist() == [[1, 0.4], [6, 0.35]]
        assert first.get_title() == "Spearman 0.00, with gold held fixed undefined"
        low, high = first.get_ylim()
        assert high - low == pytest.approx(0.1)  # next to nothing looks like it
        assert second.get_xlabel() == "length difference (words)"
        assert third.get_title() == "Spearman 0.50"
        assert not empty.axison

    def test_scores_by_rating(self) -> None:
        groups = (GroupScores(0, 2.5, 3, {"a": 10.0, "b": None}), GroupScores(2.5, 5, 4, {"a": 20.0, "b": 30.0}))
        [axes] = figure_of(lambda axes: plots.draw_rating_scores(axes, groups)).axes
        assert [bar.get_height() for bar in axes.patches] == [10, 20, 30]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0–2.5\n(3)", "2.5–5\n(4)"]

    def test_gain(self) -> None:
        groups = (GainGroup(0.1, 0.5, 9, 40.0, 45.0, 5.0, 12.5), GainGroup(0.5, 0.9, 9, None, 45.0, None, 30.0))
        bars, line = figure_of(lambda axes: plots.draw_gain(axes, Gain(groups, None, 100, 1000))).axes
        assert [bar.get_height() for bar in bars.patches] == [12.5, 30]
        assert line.lines[0].get_xydata().tolist() == [[0, 5]]

    def test_rank_space(self) -> None:
        space = Space(50.0, 0.2, -2.0)
        found = RankSpace(space, space, 0.9, 1000, False, np.array([0.1, 0.5]), np.array([0.2, 0.6]))
        [axes] = figure_of(lambda axes: plots.draw_rank_space(axes, found)).axes
        assert axes.collections[0].get_offsets().tolist() == [[0.1, 0.2], [0.5, 0.6]]

    def test_comparisons(self) -> None:
        def compared(low: float, high: float) -> Comparison:
            return Comparison(70, 69, (low + high) / 2, low, high, 0.04, 0.95, 1000, 0, "percentile", 0)

        found = {"STS-B": compared(0.2, 1.8), "SICK-R": compared(-1.0, 2.0)}
        [axes] = figure_of(lambda axes: plots.draw_comparisons(axes, found)).axes
        points = [line for line in axes.lines if line.get_marker() == "o"]
        assert [point.get_xdata()[0] for point in points] == [1.0, 0.5]
        assert [point.get_markerfacecolor() for point in points] == [COLOURS[0], "none"]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["STS-B", "SICK-R"]


def test_matplotlib_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"drawing figures needs the package 'matplotlib': pip install .*\["):
        simple()


def test_numbers_need_no_matplotlib() -> None:
    code = "import sys; import nearer.analysis; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(autouse=True)
def _no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
