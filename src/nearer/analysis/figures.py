"""Figures as files, by matplotlib: read on light and dark pages, and written so that equal figures are equal files.

There are two ways to draw. matplotlib draws what goes into papers and slides (`analysis.plots`, `--figures`, heat
maps). The pages draw their own SVG (`report.chart`, the service's scripts): it follows the page's light or dark
colours, is read under the pointer, and needs no matplotlib. Both have the colours of `look.css`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.errors import InputError, SettingError
from nearer.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#777777"  # text and lines: as far from white as from a dark page
LOOK = Path(__file__).parents[1] / "look.css"
HEAT_COLOURS = "cividis"  # of heat maps: perceptually uniform, and the same to colour-blind eyes
FORMATS = ("svg", "png")
SALT = "nearer"  # ids in an SVG file are drawn by it


def _series_colours(count: int = 6) -> tuple[str, ...]:
    """The first of the pages for light: told apart by colour-blind eyes, at least 3:1 against white and #121212."""
    light = LOOK.read_text(encoding="utf-8").partition("@media")[0]
    found = dict(re.findall(r"--series-(\d+): (#\w{6});", light))
    return tuple(found[str(number)] for number in range(1, count + 1))


COLOURS = _series_colours()


def figure_of(
    draw: Callable[[Axes], object], *, width: float = 6.4, height: float = 4.0, ink: str = INK, title: str = ""
) -> Figure:
    """A figure with one panel, which `draw` fills: transparent, its text and frame in `ink`."""
    return panels([draw], width=width, height=height, ink=ink, title=title)


def panels(
    draws: Sequence[Callable[[Axes], object]],
    *,
    across: int = 1,
    width: float = 6.4,
    height: float = 4.0,
    ink: str = INK,
    title: str = "",
) -> Figure:
    """A figure with a panel for each drawing, `across` of them in a row; width and height (inches) are one panel's."""
    require("matplotlib", "plots", "drawing figures")
    from matplotlib import colors, rc_context
    from matplotlib.figure import Figure

    if not colors.is_color_like(ink):
        raise SettingError(f"ink: {ink!r} is not a colour; '#777777' and 'black' are such.")
    across = min(across, len(draws))
    down = -(-len(draws) // across)
    with rc_context(_style(ink)):
        figure = Figure(figsize=(width * across, height * down), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False).ravel()
        for axes in panels[len(draws) :]:
            axes.set_axis_off()
        for axes, draw in zip(panels, draws, strict=False):
            draw(axes)
        if title:
            figure.suptitle(title, fontsize="medium")
    return figure


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write an SVG or PNG file, as its suffix says."""
    from matplotlib import rc_context

    file = Path(path)
    kind = file.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise SettingError(f"{path}: a figure is written as .svg or .png.")
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    try:
        with rc_context(_writing(SALT)):
            figure.savefig(file, format=kind, dpi=150, transparent=True, metadata=metadata)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None
    return file


def figure_svg(figure: Figure, name: str, *, ink: str = INK, label: str = "") -> str:
    """The `<svg>` element for a page of HTML: as wide as its column, in the colour of the page's text.

    name: put before all ids, so that several figures can stand on a page. ink: the colour that the figure was made
    with, which becomes `currentColor`. label: what it shows, for those who do not see it.
    """
    from matplotlib import rc_context
    from matplotlib.colors import to_hex

    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise SettingError(f"name: {name!r} cannot stand before ids; letters, digits and '-' can.")
    written = io.StringIO()
    with rc_context(_writing(name)):
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<style.*?</style>", "", text, flags=re.DOTALL)  # which would hold for the whole page
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(re.escape(to_hex(ink)), "currentColor", text, flags=re.IGNORECASE)
    width = figure.get_figwidth() * 96  # an inch has 96 pixels in CSS
    opening = (
        f'<svg role="img" aria-label="{_escaped(label or name)}" viewBox="{_view_box(text)}" '
        f'style="width:100%;max-width:{width:.0f}px;height:auto;stroke-linejoin:round;stroke-linecap:butt" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return opening + text[text.index(">") + 1 :]


def _view_box(text: str) -> str:
    found = re.search(r'viewBox="([^"]*)"', text)
    assert found is not None  # matplotlib always writes one
    return found.group(1)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _style(ink: str) -> Any:
    from matplotlib.rcsetup import cycler

    coloured = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(coloured, ink),
        "grid.color": ink,
        "grid.alpha": 0.25,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.framealpha": 0.0,
        "legend.edgecolor": "none",
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 10.0,
    }


def _writing(salt: str) -> Any:
    """Text stays text, to be found and read aloud; ids do not change from one time to the next."""
    return {"svg.fonttype": "none", "svg.hashsalt": salt}
