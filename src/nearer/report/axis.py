"""One axis of a chart: its range, its ticks, and where a value lies on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nearer.report.numbers import MINUS, short

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
    if high - low <= 1e-6 * size:  # all alike, but for rounding: they have a place too
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
    """A place for each label: 0, 1, 2 …, with half a place before the first and behind the last."""
    return Axis(name, -0.5, len(labels) - 0.5, tuple((float(place), label) for place, label in enumerate(labels)))


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
