"""The picture of a sweep: dev scores over two settings as in RankCSE's Figure 2, or over one as a curve."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearer.analysis.figures import HEAT_COLOURS
from nearer.extras import require
from nearer.sweeps.grid import shown
from nearer.sweeps.results import SweepPoint, SweepResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

HEAT_MAP = "heat-map.png"
CURVE = "curve.png"
LONGEST_LABEL = 24
# Colours reach down from the best score to so many times the median's distance: a collapsed run must not take them all
REACH = 3.0


def draw(result: SweepResult) -> Path | None:
    """`heat-map.png` or `curve.png` in the sweep's folder; None where no setting has two values, or no run a score."""
    for name in (HEAT_MAP, CURVE):
        (result.folder / name).unlink(missing_ok=True)
    settings = _varied(result)
    if not settings or result.best is None:
        return None
    require("matplotlib", "plots", "the picture of a sweep")
    path = result.folder / (CURVE if len(settings) == 1 else HEAT_MAP)
    figure(result).savefig(path, dpi=150)
    return path


def figure(result: SweepResult) -> Figure:
    """A curve over the one setting with several values, or a panel for each pair of them."""
    from matplotlib.figure import Figure

    settings = _varied(result)
    pairs = list(itertools.combinations(settings, 2))
    across = min(3, max(1, len(pairs)))
    down = -(-len(pairs) // across) or 1
    width = max(6.0, 2.4 + 1.1 * max(len(result.grid[key]) for key in settings))
    made = Figure(figsize=(width * across, width * 0.75 * down), layout="constrained")
    panels = made.subplots(down, across, squeeze=False).ravel()
    for panel in panels[max(1, len(pairs)) :]:
        panel.set_axis_off()
    if not pairs:
        _curve(panels[0], result, settings[0])
    for panel, (first, second) in zip(panels, pairs, strict=False):
        _heat_map(panel, result, first, second)
    made.suptitle(_title(result, settings), fontsize="medium")
    return made


def _heat_map(axes: Axes, result: SweepResult, first: str, second: str) -> None:
    """The mean over seeds, and over what other settings there are; failed runs leave the mean to the others."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    columns, rows = _ordered(result.grid[first]), _ordered(result.grid[second])
    cells = [[_at(result, {first: x, second: y}) for x in columns] for y in rows]  # (rows, columns) of points
    means = [[_mean(points) for points in row] for row in cells]
    scale = _scale([mean for row in means for mean in row if mean is not None])
    filled = [[float("nan") if mean is None else mean for mean in row] for row in means]
    image = axes.imshow(filled, cmap=HEAT_COLOURS, norm=scale, origin="lower", aspect="auto")
    for row, column in itertools.product(range(len(rows)), range(len(columns))):
        mean, points = means[row][column], cells[row][column]
        dark = mean is not None and sum(colormaps[HEAT_COLOURS](scale(mean))[:3]) < 1.5
        axes.text(column, row, _figures(points), ha="center", va="center", color="white" if dark else "black")
        if any(point is result.best for point in points):
            corner = (column - 0.47, row - 0.47)
            axes.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, edgecolor="red", linewidth=2.5))
    axes.set_xticks(range(len(columns)), [_label(value) for value in columns], **_slant(columns))
    axes.set_yticks(range(len(rows)), [_label(value) for value in rows])
    axes.set_xlabel(first)
    axes.set_ylabel(second)
    lowest = min(mean for row in means for mean in row if mean is not None)
    extend = "min" if scale.vmin is not None and lowest < scale.vmin else "neither"
    axes.figure.colorbar(image, ax=axes, label="dev score", extend=extend)


def _curve(axes: Axes, result: SweepResult, setting: str) -> None:
    values = _ordered(result.grid[setting])
    numeric = _numeric(values)
    ticks = [float(value) if numeric else float(tick) for tick, value in enumerate(values)]
    points = [_at(result, {setting: value}) for value in values]
    drawn = [(tick, some) for tick, some in zip(ticks, points, strict=True) if _scores(some)]
    means = [statistics.mean(_scores(some)) for _, some in drawn]
    errors = [_deviation(_scores(some)) for _, some in drawn] if len(result.seeds) > 1 else None
    line = "-" if numeric else ""  # between names there is nothing
    axes.errorbar([tick for tick, _ in drawn], means, yerr=errors, fmt=f"o{line}", color="black", capsize=5)
    axes.plot(ticks, means[:1] * len(ticks), linestyle="none")  # failed ones have their tick too
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
    for (tick, some), mean in zip(drawn, means, strict=True):
        axes.annotate(_figures(some), (tick, mean), xytext=(7, 7), textcoords="offset points", bbox=box)
    for tick, some in zip(ticks, points, strict=True):
        if not _scores(some):
            foot = axes.get_xaxis_transform()
            axes.text(tick, 0.03, "failed", transform=foot, rotation=90, ha="center", va="bottom")
    if numeric and ticks[0] > 0 and ticks[-1] / ticks[0] >= 8:
        axes.set_xscale("log")
    axes.set_xticks(ticks, [_label(value) for value in values], **_slant(values))
    axes.set_xticks([], minor=True)
    axes.margins(0.12, 0.15)
    axes.grid(axis="y", alpha=0.3)
    axes.set_xlabel(setting)
    axes.set_ylabel("dev score")


def _title(result: SweepResult, settings: Sequence[str]) -> str:
    seeds = f"seed{'s' * (len(result.seeds) > 1)} {', '.join(map(str, result.seeds))}"
    parts = [f"{result.recipe}: dev score, {seeds}"]
    single = [f"{key}={_label(values[0])}" for key, values in result.grid.items() if len(values) == 1]
    if single:
        parts.append(f"at {', '.join(single)}")
    if len(settings) > 2:
        parts.append("each panel: mean over the other settings")
    if len(settings) > 1:
        parts.append("outlined: the best point")
    return "\n".join([parts[0], "; ".join(parts[1:])]).strip()


def _figures(points: Sequence[SweepPoint]) -> str:
    """The mean; of a single point its deviation too, and what failed."""
    scores = _scores(points)
    failed, runs = sum(len(point.failed) for point in points), sum(len(point.runs) for point in points)
    lines = [f"{statistics.mean(scores):.2f}"] if scores else []
    if len(points) == 1 and len(scores) > 1:
        lines.append(f"± {_deviation(scores):.2f}")
    if failed:
        lines.append(f"{failed} of {runs} failed" if scores else "failed")
    return "\n".join(lines)


def _scale(means: Sequence[float]) -> Normalize:
    from matplotlib.colors import Normalize

    highest, lowest = max(means), min(means)
    floor = highest - REACH * (highest - statistics.median(means))
    lowest = max(lowest, floor) if floor < highest else lowest
    return Normalize(lowest, highest if highest > lowest else lowest + 1.0, clip=True)


def _varied(result: SweepResult) -> list[str]:
    return [key for key, values in result.grid.items() if len(values) > 1]


def _at(result: SweepResult, settings: dict[str, Any]) -> list[SweepPoint]:
    return [p for p in result.points if all(p.settings[key] == value for key, value in settings.items())]


def _scores(points: Sequence[SweepPoint]) -> list[float]:
    return [score for point in points for score in point.dev]


def _mean(points: Sequence[SweepPoint]) -> float | None:
    scores = _scores(points)
    return statistics.mean(scores) if scores else None


def _deviation(scores: Sequence[float]) -> float:
    return statistics.stdev(scores) if len(scores) > 1 else 0.0


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Numbers by size, everything else as given."""
    return sorted(values) if _numeric(values) else list(values)


def _label(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= LONGEST_LABEL else f"…{text[1 - LONGEST_LABEL :]}"


def _slant(values: Sequence[Any]) -> dict[str, Any]:
    """How tick labels stand that would run into each other."""
    long = max(len(_label(value)) for value in values) > 8
    return {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if long else {}
