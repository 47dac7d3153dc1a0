"""Charts as SVG in a page: as wide as their column, in the page's own colours, legible on a phone.

A chart is 340 units wide, about what a phone shows, so that its text is never scaled down by much; wide pages put
several beside each other. Colours are classes (`series-1` …), which the page's style gives for light and dark; they are
those of the figures that matplotlib writes as files (`analysis.figures` says which draws what).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nearer.analysis.figures import COLOURS
from nearer.report.markup import MINUS, Html, element, join, short, text

TICKS = 5


@dataclass(frozen=True)
class Axis:
    """low, high: its ends; ticks: (value, label). logarithmic: equal factors are equal lengths."""

    name: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value lies between the ends, 0 to 1."""
        low, high, at = (math.log10(end) if self.logarithmic else end for end in (self.low, self.high, value))
        return (at - low) / (high - low)


def linear(name: str, values: Iterable[float], *, whole: bool = False, least: float = 0.0, room: float = 0.0) -> Axis:
    """An axis over values. whole: it ends with ticks, else with the values.

    least: how much of the axis is shown at least, so that next to nothing looks like it; room: free share at both ends.
    """
    known = list(values)
    low, high = min(known, default=0.0), max(known, default=1.0)
    size = max(abs(low), abs(high))
    least = max(least, 1e-6 * size) or 1.0
    if high - low <= 1e-6 * size:  # all alike, but for rounding: they are shown too
        least = max(least, 0.2 * size)
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    low, high = low - room * (high - low), high + room * (high - low)
    step = _step((high - low) / TICKS)
    if whole:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [number * step for number in range(first, last + 1)]
    return Axis(name, low, high, tuple(zip(ticks, _labels(ticks, step), strict=True)))


def logarithmic(name: str, values: Sequence[float]) -> Axis:
    """Powers of ten around positive values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    every = -(-(high - low) // TICKS)
    exponents = range(low, high + 1, every)
    ticks = tuple((10.0**exponent, short(10.0**exponent)) for exponent in exponents)
    return Axis(name, 10.0**low, 10.0**high, ticks, logarithmic=True)


def named(name: str, labels: Sequence[str]) -> Axis:
    """A tick for each label: 0, 1, 2 …, with half a step before the first and behind the last."""
    return Axis(name, -0.5, len(labels) - 0.5, tuple((float(number), label) for number, label in enumerate(labels)))


def _labels(ticks: Sequence[float], step: float) -> list[str]:
    """`0.30`, `0.35`; `12k`; `2e−5`: in one unit, and as many decimals as tell them apart."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    exponent = math.floor(math.log10(largest) + 1e-9) if largest > 0 else 0
    unit, name = 1.0, ""
    if largest >= 1e6:
        unit, name = 1e6, "M"
    elif largest >= 1e4:
        unit, name = 1e3, "k"
    elif exponent < -3:
        unit, name = 10.0**exponent, f"e{exponent}"
    decimals = max(0, math.ceil(-math.log10(step / unit) - 1e-9))
    shown = [f"{tick / unit:.{decimals}f}{name}".replace("-", MINUS) for tick in ticks]
    return ["0" if abs(tick) < step / 2 else label for tick, label in zip(ticks, shown, strict=True)]


def _step(rough: float) -> float:
    """The next of 1, 2, 5, 10 … times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


WIDTH, HEIGHT = 340.0, 216.0
RIGHT, BOTTOM = 12.0, 36.0
LINE = 13.0  # of text
CHARACTER = 6.3  # about the width of a digit at 11 units

Points = Sequence[tuple[float, float]]


class Chart:
    """Axes, and what is drawn between them, in the order in which it is asked for."""

    def __init__(self, across: Axis, up: Axis, *, height: float = HEIGHT, grid: bool = True) -> None:
        self.across, self.up, self.grid = across, up, grid
        self.height = height
        self.top = 24.0 if up.name else 8.0
        self.left = 14.0 + CHARACTER * max((len(label) for _, label in up.ticks), default=1)
        rows = max((words.count("\n") for _, words in across.ticks), default=0)
        self.bottom = height - BOTTOM - LINE * rows
        self.marks: list[Html] = []
        self.readings: list[dict[str, object]] = []

    def x(self, value: float) -> float:
        return round(self.left + self.across.share(value) * (WIDTH - RIGHT - self.left), 1)

    def y(self, value: float) -> float:
        return round(self.top + (1 - self.up.share(value)) * (self.bottom - self.top), 1)

    def line(self, points: Points, series: int, *, name: str = "", kind: str = "line") -> None:
        """name: the line is read out under the pointer by it."""
        self._draw("path", series, kind, d=self._path(points), fill="none")
        if name:
            self.readings.append({"name": name, "series": series, "points": [_rounded(point) for point in points]})

    def area(self, points: Points, series: int, *, kind: str = "area") -> None:
        """The inside of a line that goes back to its beginning."""
        self._draw("path", series, kind, d=f"{self._path(points)}Z")

    def dots(self, points: Points, series: int, *, radius: float = 3.0, kind: str = "dot") -> None:
        for across, up in points:
            self._draw("circle", series, kind, cx=self.x(across), cy=self.y(up), r=radius)

    def cloud(self, points: Points, series: int) -> None:
        """Many dots as one path: strokes without length, with round ends."""
        strokes = "".join(f"M{self.x(across):g} {self.y(up):g}h0" for across, up in points)
        self._draw("path", series, "cloud", d=strokes, fill="none")

    def bar(self, begin: float, end: float, low: float, high: float, series: int, *, kind: str = "bar") -> None:
        left, right = sorted((self.x(begin), self.x(end)))
        top, bottom = sorted((self.y(low), self.y(high)))
        width, height = round(right - left, 1), max(1.0, round(bottom - top, 1))  # a bar of nothing is a line
        self._draw("rect", series, kind, x=left, y=top, width=width, height=height)

    def rule(self, value: float) -> None:
        """A level to compare with, such as 0."""
        left, right, level = self.x(self.across.low), self.x(self.across.high), self.y(value)
        self.marks.append(element("line", class_="rule", x1=left, x2=right, y1=level, y2=level))

    def labels(self, words: Mapping[str, tuple[float, float]]) -> None:
        """Words beside points, on the side where there is room, none over another."""
        written: list[tuple[float, float, float]] = []  # left, right, level
        for label, (across, up) in sorted(words.items(), key=lambda item: -item[1][1]):
            leftwards = self.across.share(across) > 0.5
            edge, width = self.x(across) + (-8 if leftwards else 8), CHARACTER * len(label)
            left, right = (edge - width, edge) if leftwards else (edge, edge + width)
            near = [taken for begin, end, taken in written if left < end and begin < right]
            level = self._free(self.y(up) - 5, near)
            written.append((left, right, level))
            anchor = "end" if leftwards else None
            self.marks.append(element("text", label, class_="label", x=edge, y=round(level, 1), text_anchor=anchor))

    def _free(self, wanted: float, taken: Sequence[float]) -> float:
        """The level nearest to the one wanted that is free, within the chart."""
        rows = range(int((self.bottom - self.top) / LINE))
        levels = [wanted, *(self.bottom - 4 - LINE * row for row in rows)]
        free = [level for level in levels if all(abs(level - other) >= LINE - 1 for other in taken)]
        return min(free, key=lambda level: abs(level - wanted), default=wanted)

    def svg(self, label: str) -> Html:
        """label: what the chart shows, for those who do not see it."""
        readings = {
            "across": self.across.name,
            "box": [self.left, self.top, WIDTH - RIGHT, self.bottom],
            "x": [self.across.low, self.across.high],
            "y": [self.up.low, self.up.high],
            "log": self.up.logarithmic,
            "lines": self.readings,
        }
        return element(
            "svg",
            self._frame(),
            *self.marks,
            viewBox=f"0 0 {WIDTH:g} {self.height:g}",
            role="img",
            aria_label=label,
            data_readings=json.dumps(readings, separators=(",", ":")) if self.readings else None,
            tabindex=0 if self.readings else None,
        )

    def _frame(self) -> Html:
        right, ticks = WIDTH - RIGHT, []
        for value, words in self.up.ticks:
            level = self.y(value)
            if self.grid:
                ticks.append(element("line", class_="grid", x1=self.left, x2=right, y1=level, y2=level))
            ticks.append(element("text", words, class_="tick", x=self.left - 6, y=level + 4, text_anchor="end"))
        for value, words in self._apart():
            x = self.x(value)
            for row, part in enumerate(words.split("\n")):
                level = self.bottom + 15 + LINE * row
                ticks.append(element("text", part, class_="tick", x=x, y=level, text_anchor="middle"))
        ticks.append(element("line", class_="axis", x1=self.left, x2=right, y1=self.bottom, y2=self.bottom))
        ticks.append(element("text", self.up.name, class_="name", x=2, y=12))
        ticks.append(element("text", self.across.name, class_="name", x=right, y=self.height - 4, text_anchor="end"))
        return element("g", *ticks)

    def _apart(self) -> list[tuple[float, str]]:
        """Ticks of the horizontal axis, as many as do not touch."""
        ticks = list(self.across.ticks)
        widest = max((len(part) for _, words in ticks for part in words.split("\n")), default=1) * CHARACTER + 8
        room = max(1, int((WIDTH - RIGHT - self.left) / widest))
        every = -(-len(ticks) // room)
        return ticks[::every]

    def _path(self, points: Points) -> str:
        return "M" + "L".join(f"{self.x(across):g} {self.y(up):g}" for across, up in points)

    def _draw(self, name: str, series: int, kind: str, **attributes: str | float) -> None:
        self.marks.append(element(name, class_=f"{kind} {series_class(series)}", **attributes))


def series_class(series: int) -> str:
    """The class that gives a model or run its colour, the same in all charts; from the seventh on also dashes."""
    return f"series-{series % len(COLOURS) + 1}" + (" again" if series >= len(COLOURS) else "")


def figure(chart: Chart, title: str, *explanation: str, label: str) -> Html:
    caption = element("figcaption", element("strong", title), *([" ", *explanation] if explanation else []))
    return element("figure", caption, chart.svg(label))


BETTER, WORSE, UNCERTAIN = 2, 4, 0  # series whose colours say so: green, red, blue
ROW_WIDTH, ROW_HEIGHT, EDGE = 120.0, 12.0, 5.0  # of an interval in a row of a table


def interval(value: float, ends: tuple[float, float], axis: tuple[float, float], *, label: str) -> Html:
    """A difference in a cell: from its low to its high end, a dot at its value, and where 0 is.

    axis: the ends of what all cells of the column show. The colour says whether the interval leaves out 0.
    """

    def at(point: float) -> float:
        share = (point - axis[0]) / (axis[1] - axis[0]) if axis[1] > axis[0] else 0.5
        return round(EDGE + share * (ROW_WIDTH - 2 * EDGE), 1)

    middle = ROW_HEIGHT / 2
    series = BETTER if ends[0] > 0 else WORSE if ends[1] < 0 else UNCERTAIN
    zero = element("line", class_="rule", x1=at(0), x2=at(0), y1=0, y2=ROW_HEIGHT)
    line = element("line", class_="line", x1=at(ends[0]), x2=at(ends[1]), y1=middle, y2=middle)
    dot = element("circle", class_="dot", cx=at(value), cy=middle, r=3.5)
    size = f"0 0 {ROW_WIDTH:g} {ROW_HEIGHT:g}"
    kind = f"interval {series_class(series)}"
    return element("svg", zero, line, dot, class_=kind, viewBox=size, role="img", aria_label=label)


class Coloured(Protocol):
    """What has a name and a colour of its own on the page."""

    @property
    def label(self) -> str: ...

    @property
    def series(self) -> int: ...


def legend(named: Sequence[Coloured]) -> Html:
    """Which colour is whose; nothing where there is one alone."""
    if len(named) < 2:
        return Html()
    entries = [
        element("li", element("span", class_=f"swatch {series_class(one.series)}", aria_hidden="true"), one.label)
        for one in named
    ]
    return element("ul", *entries, class_="legend", aria_label="colours")


def described(name: str, points: Points) -> str:
    """A line in words: `simcse from 48.3 at 0 to 49.2 at 100, highest 49.9 at 20`."""
    (first, begin), (last, end) = points[0], points[-1]
    at, highest = max(points, key=lambda point: point[1])
    words = f"{name} from {short(begin)} at {short(first)} to {short(end)} at {short(last)}"
    return words if at in (first, last) else f"{words}, highest {short(highest)} at {short(at)}"


def figures(*made: Html) -> Html:
    return element("div", join(made), class_="figures") if made else text("")


def _rounded(point: tuple[float, float]) -> list[float]:
    across, up = point
    return [float(f"{across:.6g}"), float(f"{up:.5g}")]
